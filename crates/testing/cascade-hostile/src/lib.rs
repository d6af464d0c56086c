//! Every reader of the project as a function of a file that anybody may have written.
//!
//! [`READERS`] is the table: one line adds a reader, which then runs over every file of
//! `tests/hostile`, over the large ones that the suite makes, and, through [`fuzz`], under the
//! fuzzer. A reader reads all that there is to read, and ends with success or an error; what it
//! must never do is panic, abort, hang, or take memory out of proportion.

#![forbid(unsafe_code)]

mod readers;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tempfile::TempDir;

/// Reads a file to its end; the message of what is wrong with it.
pub type Read = fn(&Path) -> Result<(), String>;

/// A reader of the project.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    /// What it is called in this suite: the folder of its own examples in `tests/hostile`.
    pub name: &'static str,
    /// What it reads a file as: some readers look at the name. If it is a path with a folder, the
    /// reader is given the folder.
    pub file: &'static str,
    /// The reader.
    pub read: Read,
}

/// All readers, one on each line.
#[rustfmt::skip]
pub const READERS: &[Reader] = &[
    reader("config", "config.yaml", readers::config),
    reader("experiment", "experiment.yaml", readers::experiment),
    reader("chain", "chain.json", readers::chain),
    reader("classifier", "classifier.safetensors", readers::classifier),
    reader("head-config", "head/config.json", readers::head),
    reader("head-weights", "head/model.safetensors", readers::head),
    reader("trace", "trace.jsonl", readers::trace),
    reader("spec-bench-answers", "answers.jsonl", readers::answers),
    reader("prompts", "prompts.jsonl", readers::prompts),
    reader("templates", "text", readers::templates),
    reader("dataset-json", "questions.json", readers::gsm8k),
    reader("dataset-csv", "anatomy_test.csv", readers::mmlu),
    reader("dataset-parquet", "questions.parquet", readers::gsm8k),
    reader("corpus", "corpus", readers::corpus),
    reader("wikitext", "wikitext", readers::wikitext),
    reader("costs", "costs.json", readers::costs),
    reader("table", "table.safetensors", readers::table),
    reader("ngram-table", "table.safetensors", readers::table),
    reader("table-json", "table.json", readers::table_json),
    reader("drafter-weights", "weights.json", readers::drafter_weights),
    reader("tokenizer", "tokenizer.json", readers::tokenizer),
    reader("model-config", "model/config.json", readers::model),
    reader("t5-config", "t5/config.json", readers::model),
    reader("generation-config", "model/generation_config.json", readers::model),
    reader("model-tokenizer", "model/tokenizer.json", readers::model),
    reader("tokenizer-config", "model/tokenizer_config.json", readers::model),
    reader("weights", "model/model.safetensors", readers::model),
    reader("pytorch", "pickled/pytorch_model.bin", readers::model),
    reader("gguf", "model.gguf", readers::gguf),
    reader("sentencepiece", "tokenizer.model", readers::tokenizer),
    reader("chat-template", "tokenizer_config.json", readers::chat),
    reader("weights-index", "model/model.safetensors.index.json", readers::model),
    reader("results", "results/results.jsonl", readers::report),
    reader("results-experiment", "results/experiment.json", readers::report),
    reader("plan", "results/plan.json", readers::plan),
    reader("manifest", "results/manifest.json", readers::manifest),
    reader("samples", "results/samples.jsonl", readers::report),
];

const fn reader(name: &'static str, file: &'static str, read: Read) -> Reader {
    Reader { name, file, read }
}

impl Reader {
    /// The reader of a name.
    ///
    /// # Panics
    /// If there is none.
    pub fn named(name: &str) -> Self {
        let known = READERS.iter().find(|reader| reader.name == name);
        *known.unwrap_or_else(|| panic!("no reader is called {name}"))
    }

    /// Reads bytes, as a file of its own in `folder`.
    ///
    /// # Errors
    /// What is wrong with them.
    ///
    /// # Panics
    /// If the file cannot be written; if the reader panics.
    pub fn read_bytes(&self, bytes: &[u8], folder: &Path) -> Result<(), String> {
        let path = self.place(folder);
        std::fs::write(&path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        self.read_placed(&path)
    }

    /// Reads a file that stands where [`place`](Self::place) says.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read_placed(&self, path: &Path) -> Result<(), String> {
        let whole_folder = self.file.contains('/');
        let folder = path.parent().filter(|_| whole_folder);
        (self.read)(folder.unwrap_or(path))
    }

    /// Where a file must stand to be read: the rest of what belongs to it is put there.
    ///
    /// # Panics
    /// If that cannot be written.
    pub fn place(&self, folder: &Path) -> PathBuf {
        let path = folder.join(self.file);
        let around = path.parent().unwrap_or(folder);
        let made = std::fs::create_dir_all(around);
        made.unwrap_or_else(|error| panic!("{}: {error}", around.display()));
        readers::surround(self, around);
        path
    }
}

/// One input of the fuzzer: read by the reader of this name, whatever comes of it. All inputs of a
/// process take the same place.
///
/// # Panics
/// If the reader does, which is what the fuzzer looks for.
pub fn fuzz(name: &str, bytes: &[u8]) {
    static PLACE: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let reader = Reader::named(name);
    let (_, path) = PLACE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("no folder: {error}"));
        let path = reader.place(folder.path());
        (folder, path)
    });
    std::fs::write(path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let _ = reader.read_placed(path);
}

/// Bytes with something wrong with them, the same in every run: cut off, with bits turned, with
/// bytes left out, doubled, or made into numbers that readers trust.
pub fn mutations(bytes: &[u8]) -> Vec<Vec<u8>> {
    const MUTATIONS: u64 = 200;
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        // xorshift64*: any will do, as long as it stays the same.
        seed ^= seed >> 12;
        seed ^= seed << 25;
        seed ^= seed >> 27;
        (seed.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % below.max(1)
    };
    let mutant = |kind: u64| {
        let mut mutant = bytes.to_vec();
        let at = next(bytes.len());
        let end = (at + 1 + next(16)).min(bytes.len());
        match kind % 5 {
            0 => mutant.truncate(at),
            1 => mutant
                .iter_mut()
                .skip(at)
                .take(1)
                .for_each(|byte| *byte ^= 1 << next(8)),
            2 => drop(mutant.drain(at.min(end)..end)),
            3 => mutant
                .splice(at..at, bytes[at..end].iter().copied())
                .for_each(drop),
            _ => mutant
                .iter_mut()
                .skip(at)
                .take(8)
                .for_each(|byte| *byte = 0xff),
        }
        mutant
    };
    (0..MUTATIONS).map(mutant).collect()
}
