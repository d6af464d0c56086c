//! Folders of results, to which runs append and which they resume.
//!
//! `experiment.json` says of what they are, and `results.jsonl` has one record per line, in the
//! order in which they were appended.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::plan::{LARGEST_OWN, PLAN, Plan};
use crate::record::{Run, Walltime};
use crate::report::{Sha256, is_part};
use crate::samples::{SAMPLES, Samples};
use crate::{Definition, Error, ErrorKind, Result};

/// The file of records.
const RECORDS: &str = "results.jsonl";

/// The file that says what a folder holds results of.
const EXPERIMENT: &str = "experiment.json";

/// The file of times, which are not the same in every run.
const WALLTIME: &str = "walltime.jsonl";

/// The file of what forwards cost on this machine.
pub(crate) const COSTS: &str = "costs.json";

/// The files of a run, without its records and its report.
const OURS: [&str; 4] = [PLAN, WALLTIME, COSTS, SAMPLES];

/// The largest description of an experiment that is read.
const LARGEST_EXPERIMENT: u64 = 1 << 20;

/// What a folder holds results of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Contents {
    /// Everything that the results depend on, so that equal keys mean equal results: a fingerprint
    /// of the plan.
    pub(crate) key: String,
    /// How many records the whole experiment has, whatever part of it goes to one folder. Their
    /// indices are `0..records`.
    pub(crate) records: u64,
}

/// Replaces a file; a reader sees its old bytes or its new ones, see [`cascade_core::fs::write`].
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    cascade_core::fs::write(path, bytes).map_err(Error::io("write", path))
}

/// The bytes of a file; `None` if it is not there.
pub(crate) fn read(path: &Path, largest: u64) -> Result<Option<Vec<u8>>> {
    match cascade_core::fs::read(path, largest) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some).map_err(Error::io("read", path)),
    }
}

/// A file of JSON lines that is open for appending, and locked against other processes.
#[derive(Debug)]
pub(crate) struct Lines {
    path: PathBuf,
    file: File,
    length: u64,
}

impl Lines {
    /// Opens the file, which is made if it is not there, and reads its lines. A last one without
    /// its end, as a killed process leaves it, is cut off.
    fn open(path: PathBuf) -> Result<(Self, Vec<u8>)> {
        cascade_core::fs::check_file(&path).map_err(Error::io("open", &path))?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(Error::io("open", &path))?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                let problem =
                    "is being written by another process; wait for it, or write to another folder";
                Error::new(ErrorKind::Busy, format!("{} {problem}", path.display()))
            }
            TryLockError::Error(source) => Error::io("lock", &path)(source),
        })?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)
            .map_err(Error::io("read", &path))?;
        bytes.truncate(whole_lines(&bytes).len());
        let length = bytes.len() as u64;
        let mut lines = Self { path, file, length };
        lines
            .cut()
            .map_err(Error::io("cut the last line of", &lines.path))?;
        Ok((lines, bytes))
    }

    /// The times of a folder, open for appending.
    pub(crate) fn of_times(folder: &Path) -> Result<Self> {
        Ok(Self::open(folder.join(WALLTIME))?.0)
    }

    /// Cuts off what follows the last whole line.
    fn cut(&mut self) -> io::Result<()> {
        self.file.set_len(self.length)?;
        self.file.seek(SeekFrom::Start(self.length)).map(|_| ())
    }

    /// Appends a line. When this returns, the operating system has it: it outlives a kill of this
    /// process, though perhaps not a power failure. If it fails, the file is as it was.
    pub(crate) fn append(&mut self, value: &impl Serialize) -> Result<()> {
        let line = line(value)?;
        if let Err(source) = self.file.write_all(line.as_bytes()) {
            // If this fails too, the unfinished line is cut off when the file is opened again.
            let _ = self.cut();
            return Err(Error::io("append to", &self.path)(source));
        }
        self.length += line.len() as u64;
        Ok(())
    }
}

/// A value as a line of JSON, with its end.
pub(crate) fn line(value: &impl Serialize) -> Result<String> {
    let json = serde_json::to_string(value).map_err(Error::json("a line"))?;
    Ok(cascade_core::fs::one_line(json) + "\n")
}

/// The bytes up to the end of the last whole line.
fn whole_lines(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&byte| byte == b'\n');
    &bytes[..end.map_or(0, |end| end + 1)]
}

/// Records by their indices, and the indices by id.
#[derive(Debug, Default)]
struct Records {
    by_index: BTreeMap<u64, Run>,
    by_id: HashMap<String, u64>,
}

impl Records {
    /// Reads the whole lines of a file.
    fn read(path: &Path, bytes: &[u8], contents: &Contents) -> Result<Self> {
        let mut records = Self::default();
        let lines = whole_lines(bytes).split_inclusive(|&byte| byte == b'\n');
        for (number, line) in lines.enumerate() {
            let damaged = |source| Error::damaged(path, number + 1, source);
            let run: Run = serde_json::from_slice(&line[..line.len() - 1]).map_err(damaged)?;
            records.check(path, contents, &run)?;
            records.insert(run);
        }
        Ok(records)
    }

    /// Refuses a record that is there already or lies outside of the experiment.
    fn check(&self, file: &Path, contents: &Contents, run: &Run) -> Result<()> {
        let (index, id, file) = (run.index, &run.id, file.display());
        if index >= contents.records {
            let message = format!(
                "the record `{id}` has index {index}, and the experiment of {file} ends before {}; count from 0",
                contents.records
            );
            return Err(Error::new(ErrorKind::Record, message));
        }
        let same_id = || self.by_index.get(self.by_id.get(id)?);
        let Some(found) = self.by_index.get(&index).or_else(same_id) else {
            return Ok(());
        };
        let message = format!(
            "{file} already has the record with index {} and id `{}`, so that one with index {index} \
             and id `{id}` cannot be added; each is recorded once",
            found.index, found.id
        );
        Err(Error::new(ErrorKind::Record, message))
    }

    fn insert(&mut self, run: Run) {
        self.by_id.insert(run.id.clone(), run.index);
        self.by_index.insert(run.index, run);
    }
}

/// A folder of results that is open for appending, and locked against other processes.
#[derive(Debug)]
pub(crate) struct Results {
    lines: Lines,
    contents: Contents,
    records: Records,
}

impl Results {
    /// Opens a folder, which is made if it is not there. If it holds results of this experiment,
    /// they are continued.
    ///
    /// # Errors
    /// If the folder holds results of another experiment or of an unknown one, a line cannot be
    /// read, two records are the same, another process has the folder open, or the system refuses.
    pub(crate) fn open(folder: &Path, contents: Contents) -> Result<Self> {
        claim_contents(folder, &contents)?;
        let (lines, bytes) = Lines::open(folder.join(RECORDS))?;
        Ok(Self {
            records: Records::read(&lines.path, &bytes, &contents)?,
            lines,
            contents,
        })
    }

    /// The records, in the order of their indices.
    pub(crate) fn into_ordered(self) -> impl Iterator<Item = Run> {
        self.records.by_index.into_values()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.by_index.is_empty()
    }

    /// Whether there is a record with this index, so that it need not be made again.
    pub(crate) fn contains(&self, index: u64) -> bool {
        self.records.by_index.contains_key(&index)
    }

    /// Appends a record.
    ///
    /// # Errors
    /// A record that is there already or lies outside of the experiment, or what the system says.
    /// The file is then as it was.
    pub(crate) fn append(&mut self, run: Run) -> Result<()> {
        self.records.check(&self.lines.path, &self.contents, &run)?;
        self.lines.append(&run)?;
        self.records.insert(run);
        Ok(())
    }
}

/// The times of a folder, by prompt: the last of each. Lines that are none are passed over, since
/// times are no part of the results.
pub(crate) fn walltimes(folder: &Path) -> BTreeMap<u64, Vec<f64>> {
    let text = cascade_core::fs::read_text(folder.join(WALLTIME), LARGEST_OWN).unwrap_or_default();
    let lines = text.lines().map(serde_json::from_str::<Walltime>);
    lines
        .flatten()
        .map(|walltime| (walltime.prompt, walltime.seconds))
        .collect()
}

/// Seconds of a single-row forward by place, as measured in a folder; empty if they were not.
pub(crate) fn forward_seconds(folder: &Path) -> BTreeMap<String, f64> {
    let text = cascade_core::fs::read_text(folder.join(COSTS), LARGEST_OWN).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Keeps what forwards cost.
pub(crate) fn write_forward_seconds(folder: &Path, seconds: &BTreeMap<String, f64>) -> Result<()> {
    let json = serde_json::to_vec_pretty(seconds).map_err(Error::json(COSTS))?;
    write(&folder.join(COSTS), &json)
}

/// Whether a run writes a file of this name into its folder.
pub fn is_written(name: &str) -> bool {
    OURS.contains(&name) || is_result_file(name)
}

/// Whether a file of this name is written into folders of results: the records, and parts of the
/// report.
pub fn is_result_file(name: &str) -> bool {
    name == RECORDS || is_part(name)
}

/// Refuses a folder in which a run of this experiment would replace anything, before models are
/// loaded. Whether its results are of the same models and prompts is only known when these are:
/// [`Experiment::run`](crate::Experiment::run) refuses others.
///
/// # Errors
/// A folder of another experiment; one that has records already, unless `resume`; a folder with
/// files that no run has written.
pub fn check_folder(folder: &Path, definition: &Definition, resume: bool) -> Result<()> {
    refuse_others(folder)?;
    if let Ok(plan) = Plan::of_folder(folder) {
        let (found, expected) = (&plan.name, &definition.name);
        if (found, &plan.definition) != (expected, &definition.text) {
            let changed = if found == expected {
                " with another definition"
            } else {
                ""
            };
            let problem = format!(
                "holds results of the experiment `{found}`, and this is `{expected}`{changed}; write to another folder with \
                 --out, or delete that one if it is no longer wanted"
            );
            return Err(Error::other_results(folder, problem));
        }
    }
    let records = fs::metadata(folder.join(RECORDS));
    if records.is_ok_and(|records| records.len() > 0) && !resume {
        Err(Error::not_resumed(folder))
    } else {
        Ok(())
    }
}

/// Marks a folder as one of an experiment of formulas, which has no plan and no records, so that
/// only the same experiment replaces its report.
///
/// # Errors
/// A folder of other results, or with files that no run has written. Nothing is then written.
pub fn claim(folder: &Path, definition: &Definition) -> Result<()> {
    refuse_others(folder)?;
    let fingerprint = Sha256::of(definition.text.as_bytes()).to_string();
    let key = format!("{} by formula, {}", definition.name, &fingerprint[..16]);
    claim_contents(folder, &Contents { key, records: 0 })
}

/// Makes the folder one of this experiment, or refuses because it is one of another, or because it
/// has files that a report would replace. The folder is made if it is not there.
fn claim_contents(folder: &Path, contents: &Contents) -> Result<()> {
    if let Some(found) = contents_of(folder)? {
        return same_experiment(folder, &found, contents);
    }
    if folder.join(RECORDS).exists() {
        return Err(Error::other_results(
            folder,
            "holds results.jsonl and no experiment.json, so it is unknown of what they are; write to another folder, \
             or delete that one if it is no longer wanted",
        ));
    }
    refuse_foreign(folder, &[])?;
    fs::create_dir_all(folder).map_err(Error::io("make", folder))?;
    let mut json = serde_json::to_vec_pretty(contents).map_err(Error::json(EXPERIMENT))?;
    json.push(b'\n');
    write(&folder.join(EXPERIMENT), &json)
}

/// Refuses a folder that is of no experiment and has files that a run would replace.
pub(crate) fn refuse_others(folder: &Path) -> Result<()> {
    refuse_foreign(folder, &OURS)
}

/// Refuses a folder that is no experiment's and has files that results would replace: those of a
/// report, or of one of these names.
///
/// # Errors
/// Such a file, or what the system says.
pub fn refuse_foreign(folder: &Path, others: &[&str]) -> Result<()> {
    if folder.join(EXPERIMENT).exists() {
        return Ok(());
    }
    let entries = match fs::read_dir(folder) {
        Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(Error::io("read", folder))?,
    };
    let is_result = |name: &str| others.contains(&name) || is_result_file(name);
    let names = entries.flatten().map(|entry| entry.file_name());
    let foreign = names.filter(|name| name.to_str().is_some_and(is_result));
    foreign.min().map_or(Ok(()), |name| {
        Err(Error::other_results(
            &folder.join(name),
            "would be replaced, and no experiment.json beside it says that it is a result; write to another folder, \
             or move the file away",
        ))
    })
}

/// Refuses a folder of another experiment.
fn same_experiment(folder: &Path, found: &Contents, expected: &Contents) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    let problem = format!(
        "holds results of the experiment `{}` ({} records), and this is `{}` ({} records); write to another folder, or \
         delete that one if it is no longer wanted",
        found.key, found.records, expected.key, expected.records
    );
    Err(Error::other_results(folder, problem))
}

fn contents_of(folder: &Path) -> Result<Option<Contents>> {
    let path = folder.join(EXPERIMENT);
    let bytes = read(&path, LARGEST_EXPERIMENT)?;
    let parse = |bytes: Vec<u8>| {
        serde_json::from_slice(&bytes)
            .map_err(|source| Error::damaged(&path, source.line(), source))
    };
    bytes.map(parse).transpose()
}

/// Puts shards of one experiment together in a new folder: the records, byte for byte, of one run;
/// all times; the costs of the first shard; all samples. The shards are only read.
///
/// # Errors
/// Shards of different experiments, shards that overlap, or that lack a record; a folder that is
/// not empty.
pub fn merge(shards: &[PathBuf], into: &Path) -> Result<Plan> {
    let first = shards.first().ok_or_else(|| {
        let message = "there is no shard to merge; give at least one folder of results";
        Error::new(ErrorKind::Shards, message)
    })?;
    let plan = Plan::of_folder(first)?;
    refuse_others(into)?;
    merge_records(shards, into)?;
    plan.save(into)?;
    let mut all = BTreeMap::new();
    for shard in shards {
        all.extend(walltimes(shard));
    }
    let mut times = Lines::of_times(into)?;
    for (prompt, seconds) in all {
        times.append(&Walltime { prompt, seconds })?;
    }
    write_forward_seconds(into, &forward_seconds(first))?;
    Samples::merge(shards, into)?;
    Ok(plan)
}

/// A folder of results that is only read.
type Shard<'p> = (&'p Path, Contents, Records);

fn merge_records(folders: &[PathBuf], into: &Path) -> Result<()> {
    let read = folders.iter().map(|folder| read_shard(folder));
    let shards = read.collect::<Result<Vec<Shard<'_>>>>()?;
    let contents = &shards[0].1;
    for (folder, found, _) in &shards {
        same_experiment(folder, found, contents)?;
    }
    let (mut by_index, mut by_id) = (BTreeMap::new(), HashMap::new());
    for (folder, _, records) in &shards {
        for run in records.by_index.values() {
            let here = (*folder, run);
            let there = by_index.insert(run.index, here);
            if let Some(there) = by_id.insert(&run.id, here).or(there) {
                return Err(overlap(there, here));
            }
        }
    }
    refuse_missing(contents, shards.len(), by_index.keys().copied())?;
    if into.join(RECORDS).exists() {
        let problem = "already holds results; merge into a new folder";
        return Err(Error::other_results(into, problem));
    }
    claim_contents(into, contents)?;
    let lines = by_index.values().map(|(_, run)| line(run));
    write(
        &into.join(RECORDS),
        lines.collect::<Result<String>>()?.as_bytes(),
    )
}

/// Reads a folder. An unfinished last line is passed over.
fn read_shard(folder: &Path) -> Result<Shard<'_>> {
    let contents = contents_of(folder)?.ok_or_else(|| {
        let problem = "holds no experiment.json; is it a folder of results?";
        let message = format!("{} {problem}", folder.display());
        Error::new(ErrorKind::NoResults, message)
    })?;
    let path = folder.join(RECORDS);
    let bytes = read(&path, LARGEST_OWN)?.unwrap_or_default();
    let records = Records::read(&path, &bytes, &contents)?;
    Ok((folder, contents, records))
}

fn overlap((first_folder, first): (&Path, &Run), (second_folder, second): (&Path, &Run)) -> Error {
    let message = format!(
        "{} and {} both have the record with index {} (`{}`) or index {} (`{}`); give each shard once, and let \
         shards not overlap",
        first_folder.display(),
        second_folder.display(),
        first.index,
        first.id,
        second.index,
        second.id
    );
    Error::new(ErrorKind::Shards, message)
}

fn refuse_missing(
    contents: &Contents,
    shards: usize,
    present: impl Iterator<Item = u64>,
) -> Result<()> {
    let gaps = gaps(contents.records, present);
    if gaps.is_empty() {
        return Ok(());
    }
    let missing: u64 = gaps.iter().map(|(first, last)| last - first + 1).sum();
    let message = format!(
        "the {shards} shards of `{}` lack {missing} of its {} records: index {}; give the folders that have them, or \
         resume the shards that were stopped",
        contents.key,
        contents.records,
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
    let shown = gaps.iter().take(SHOWN).map(|(first, last)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first} to {last}")
        }
    });
    let mut parts: Vec<String> = shown.collect();
    if gaps.len() > SHOWN {
        parts.push(format!("and {} more ranges", gaps.len() - SHOWN));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn run_of(index: u64) -> Run {
        let text = "line\nfeed \u{0} é".repeat(index as usize % 3);
        let record = json!({
            "index": index, "id": format!("q{index}"), "dataset": "d", "prompt": text, "arm": "plain", "tokens": 1,
            "output": "0".repeat(64), "steps": 1, "drafted": 0, "accepted": 0, "drafted_at": [], "accepted_at": [],
            "models": [],
        });
        serde_json::from_value(record).unwrap()
    }

    fn contents(key: &str) -> Contents {
        let (key, records) = (key.to_owned(), 6);
        Contents { key, records }
    }

    fn open(folder: &Path) -> Result<Results> {
        Results::open(folder, contents("key-1"))
    }

    fn run(folder: &Path, indices: impl IntoIterator<Item = u64>) {
        let mut results = open(folder).unwrap();
        for index in indices {
            results.append(run_of(index)).unwrap();
        }
    }

    fn bytes(folder: &Path) -> Vec<u8> {
        fs::read(folder.join("results.jsonl")).unwrap()
    }

    #[test]
    fn every_cut_resumes_to_the_same_bytes() {
        let whole = tempfile::tempdir().unwrap();
        run(whole.path(), 0..6);
        let expected = bytes(whole.path());
        for cut in 0..=expected.len() {
            let folder = tempfile::tempdir().unwrap();
            run(folder.path(), []);
            fs::write(folder.path().join("results.jsonl"), &expected[..cut]).unwrap();
            let mut results = open(folder.path()).unwrap();
            let missing: Vec<u64> = (0..6).filter(|i| !results.contains(*i)).collect();
            for index in missing {
                results.append(run_of(index)).unwrap();
            }
            drop(results);
            assert_eq!(bytes(folder.path()), expected, "cut at {cut}");
        }
    }

    #[test]
    fn another_experiment_is_refused_by_both_names() {
        let folder = tempfile::tempdir().unwrap();
        run(folder.path(), 0..2);
        let error = Results::open(folder.path(), contents("key-2")).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("key-1") && text.contains("key-2"), "{text}");
        fs::remove_file(folder.path().join("experiment.json")).unwrap();
        let error = open(folder.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OtherResults);
        assert!(error.to_string().contains("no experiment.json"), "{error}");
    }

    #[test]
    fn repeated_and_stray_records_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut results = open(folder.path()).unwrap();
        results.append(run_of(1)).unwrap();
        let before = bytes(folder.path());
        let same_id = Run {
            index: 2,
            ..run_of(1)
        };
        let same_index = Run {
            id: "new".into(),
            ..run_of(1)
        };
        for record in [run_of(1), same_id, same_index] {
            let error = results.append(record).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Record);
            let problem = "already has the record with index 1 ";
            assert!(error.to_string().contains(problem), "{error}");
        }
        let error = results.append(run_of(6)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Record);
        assert!(error.to_string().contains("ends before 6"), "{error}");
        assert_eq!(bytes(folder.path()), before);
        results.append(run_of(0)).unwrap();
        let all: Vec<Run> = results.into_ordered().collect();
        assert_eq!(all, [run_of(0), run_of(1)]);
    }

    #[test]
    fn a_broken_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        run(folder.path(), 0..2);
        let mut broken = bytes(folder.path());
        broken.extend_from_slice(b"{\"index\": nonsense}\n");
        fs::write(folder.path().join("results.jsonl"), broken).unwrap();
        let error = open(folder.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Record);
        assert!(error.to_string().starts_with("line 3 of "), "{error}");
    }

    #[test]
    fn two_writers_are_one_too_many() {
        let folder = tempfile::tempdir().unwrap();
        let first = open(folder.path()).unwrap();
        let error = open(folder.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy);
        drop(first);
        open(folder.path()).unwrap();
    }

    #[test]
    fn shards_that_do_not_fit_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        run(&at("a"), 0..3);
        run(&at("b"), 3..5);
        run(&at("c"), 2..6);
        let into = at("into");
        let merged = |names: &[&str]| {
            let shards: Vec<PathBuf> = names.iter().map(|name| at(name)).collect();
            merge_records(&shards, &into)
        };
        let text = merged(&["a", "b"]).unwrap_err().to_string();
        assert!(text.contains("lack 1 of its 6 records: index 5"), "{text}");
        let kind = |names: &[&str]| merged(names).unwrap_err().kind();
        let text = merged(&["a", "c"]).unwrap_err().to_string();
        assert!(text.contains("or index 2"), "{text}");
        assert_eq!(kind(&["a", "c"]), ErrorKind::Shards);
        assert_eq!(kind(&["a", "nowhere"]), ErrorKind::NoResults);
        assert_eq!(merge(&[], &into).unwrap_err().kind(), ErrorKind::Shards);
        assert!(!into.exists());
        run(&at("d"), 5..6);
        merged(&["a", "b", "d"]).unwrap();
        assert_eq!(kind(&["a", "b", "d"]), ErrorKind::OtherResults);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn shards_merge_to_the_bytes_of_one_run(owners in prop::collection::vec(0usize..3, 6), backwards: bool) {
            let root = tempfile::tempdir().unwrap();
            run(&root.path().join("one"), 0..6);
            let shards: Vec<_> = (0..3).map(|shard| {
                let folder = root.path().join(format!("shard-{shard}"));
                let mut own: Vec<u64> = (0..6).filter(|i| owners[*i as usize] == shard).collect();
                if backwards { own.reverse(); }
                run(&folder, own);
                folder
            }).collect();
            let into = root.path().join("merged");
            merge_records(&shards, &into).unwrap();
            for name in ["results.jsonl", "experiment.json"] {
                prop_assert_eq!(fs::read(into.join(name)).unwrap(), fs::read(root.path().join("one").join(name)).unwrap());
            }
        }
    }

    #[test]
    fn gaps_are_named() {
        let gaps = gaps(10, [1, 2, 4, 7].into_iter());
        assert_eq!(gaps, [(0, 0), (3, 3), (5, 6), (8, 9)]);
        assert_eq!(ranges(&gaps), "0, 3, 5 to 6, 8 to 9");
        assert!(super::gaps(0, std::iter::empty()).is_empty());
    }
}
