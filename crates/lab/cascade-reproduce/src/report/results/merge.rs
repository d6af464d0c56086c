//! Shards of an experiment, put together.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::store::{claim, same_experiment, Shard};
use super::{Experiment, Record, Results, RECORDS};
use crate::error::{Error, ErrorKind, Result};
use crate::report::file::write_atomically;

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
        let problem = "already holds results; merge into a new folder";
        return Err(Error::other_results(into, problem));
    }
    write(into, experiment, &lines)?;
    Results::open(into, experiment)
}

fn common_experiment<R>(shards: &[Shard<R>]) -> Result<&Experiment> {
    let first = &shards.first().ok_or_else(Error::no_shards)?.experiment;
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
    let (first_folder, first_index, first_id) = (first.0.folder.display(), first.1, first.2);
    let (second_folder, second_index, second_id) = (second.0.folder.display(), second.1, second.2);
    let message = format!(
        "{first_folder} and {second_folder} both have the record with index {first_index} (`{first_id}`) or index \
         {second_index} (`{second_id}`); give each shard once, and let shards not overlap"
    );
    Error::new(ErrorKind::Shards, message)
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
    let missing: u64 = gaps.iter().map(|(first, last)| last - first + 1).sum();
    let message = format!(
        "the {shards} shards of `{}` lack {missing} of its {} records: index {}; give the folders that have them, or \
         resume the shards that were stopped",
        experiment.key,
        experiment.records,
        ranges(&gaps)
    );
    Err(Error::new(ErrorKind::Shards, message))
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
        .map(|(first, last)| {
            if first == last {
                first.to_string()
            } else {
                format!("{first} to {last}")
            }
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
