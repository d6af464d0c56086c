//! Shards of an experiment, put together.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::store::{claim, same_experiment, Shard};
use super::{Experiment, Record, Results, RECORDS};
use crate::error::{Error, Result};
use crate::file::write_atomically;

/// Puts shards of one experiment together in a new folder, which then holds, byte for byte, what
/// one run in the order of indices would have left, and opens it. The shards are only read.
///
/// # Errors
/// If there are no shards, they are of different experiments, two have the same record, a record is
/// missing, a line cannot be read, the new folder has results already, or the system refuses.
/// Unless the last, nothing is written.
pub fn merge<R: Record>(shards: &[impl AsRef<Path>], into: &Path) -> Result<Results<R>> {
    let shards: Vec<Shard<R>> = shards
        .iter()
        .map(|folder| Shard::read(folder.as_ref()))
        .collect::<Result<_>>()?;
    let experiment = common_experiment(&shards)?;
    let lines = in_order(&shards)?;
    refuse_missing(experiment, shards.len(), &lines)?;
    if into.join(RECORDS).exists() {
        return Err(Error::Occupied {
            folder: into.to_owned(),
        });
    }
    write(into, experiment, &lines)?;
    Results::open(into, experiment)
}

fn common_experiment<R>(shards: &[Shard<R>]) -> Result<&Experiment> {
    let first = &shards.first().ok_or(Error::NoShards)?.experiment;
    for shard in shards {
        same_experiment(&shard.folder, &shard.experiment, first)?;
    }
    Ok(first)
}

/// The lines by index.
fn in_order<R>(shards: &[Shard<R>]) -> Result<BTreeMap<u64, &[u8]>> {
    let mut lines = BTreeMap::new();
    let mut by_index = HashMap::new();
    let mut by_id = HashMap::new();
    for shard in shards {
        for (index, id, line) in &shard.lines {
            let here = (shard, *index, id.as_str());
            let there = by_index.insert(*index, here);
            if let Some(there) = by_id.insert(id.as_str(), here).or(there) {
                return Err(overlap(there, here));
            }
            lines.insert(*index, line.as_slice());
        }
    }
    Ok(lines)
}

fn overlap<R>(first: (&Shard<R>, u64, &str), second: (&Shard<R>, u64, &str)) -> Error {
    Error::Overlap {
        first: first.0.folder.clone(),
        first_index: first.1,
        first_id: first.2.to_owned(),
        second: second.0.folder.clone(),
        second_index: second.1,
        second_id: second.2.to_owned(),
    }
}

fn refuse_missing(
    experiment: &Experiment,
    shards: usize,
    lines: &BTreeMap<u64, &[u8]>,
) -> Result<()> {
    let gaps = gaps(experiment.records, lines.keys().copied());
    if gaps.is_empty() {
        return Ok(());
    }
    Err(Error::Missing {
        experiment: experiment.key.clone(),
        shards,
        missing: gaps.iter().map(|(first, last)| last - first + 1).sum(),
        records: experiment.records,
        ranges: ranges(&gaps),
    })
}

/// First and last number of each gap of ascending `present` in `0..end`.
fn gaps(end: u64, present: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
    let mut gaps = Vec::new();
    let mut next = 0;
    for index in present.chain([end]) {
        if index > next {
            gaps.push((next, index - 1));
        }
        next = index + 1;
    }
    gaps
}

fn ranges(gaps: &[(u64, u64)]) -> String {
    const SHOWN: usize = 8;
    let mut parts: Vec<String> = gaps
        .iter()
        .take(SHOWN)
        .map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first} to {last}"),
        })
        .collect();
    if gaps.len() > SHOWN {
        parts.push(format!("and {} more ranges", gaps.len() - SHOWN));
    }
    parts.join(", ")
}

fn write(into: &Path, experiment: &Experiment, lines: &BTreeMap<u64, &[u8]>) -> Result<()> {
    claim(into, experiment)?;
    let mut bytes = Vec::new();
    for line in lines.values() {
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
    }
    write_atomically(&into.join(RECORDS), &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_named() {
        let gaps = gaps(10, [1, 2, 4, 7].into_iter());
        assert_eq!(gaps, [(0, 0), (3, 3), (5, 6), (8, 9)]);
        assert_eq!(ranges(&gaps), "0, 3, 5 to 6, 8 to 9");
    }

    #[test]
    fn nothing_is_missing_from_nothing() {
        assert!(super::gaps(0, std::iter::empty()).is_empty());
    }
}
