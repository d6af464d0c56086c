//! The provenance of a run's figures.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::Digest;

use crate::error::{Error, Result};
use crate::results::read;

/// The provenance of figures: what is needed to reproduce and to question them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The command line, the program first.
    pub command: Vec<String>,
    /// The commit that the program was built from, where it is known.
    pub commit: Option<String>,
    /// Versions of the program and of the libraries that the figures depend on, by name.
    pub versions: BTreeMap<String, String>,
    /// Where it ran.
    pub machine: Machine,
    /// Seeds of random numbers, by what they are for.
    pub seeds: BTreeMap<String, u64>,
    /// The models that took part, the target first.
    pub models: Vec<Weights>,
    /// When the run began.
    pub started: Timestamp,
    /// When the run ended, if it did.
    pub finished: Option<Timestamp>,
}

/// The largest manifest that is read.
const LARGEST_MANIFEST: u64 = 16 << 20;

/// The file that a report keeps it in.
pub(crate) const MANIFEST: &str = "manifest.json";

impl Manifest {
    /// The manifest of a folder that a report was written to; `None` if it has none.
    ///
    /// # Errors
    /// A file that cannot be read or understood.
    pub fn of_folder(folder: &Path) -> Result<Option<Self>> {
        let file = folder.join(MANIFEST);
        let parse = |bytes: Vec<u8>| {
            serde_json::from_slice(&bytes)
                .map_err(|source| Error::damaged(&file, source.line(), source))
        };
        read(&file, LARGEST_MANIFEST)?.map(parse).transpose()
    }

    /// A manifest of what is known at the start of a run; the rest is added to its fields.
    pub fn new(command: Vec<String>, machine: Machine, started: Timestamp) -> Self {
        Self {
            command,
            commit: None,
            versions: BTreeMap::new(),
            machine,
            seeds: BTreeMap::new(),
            models: Vec::new(),
            started,
            finished: None,
        }
    }

    /// The manifest as indented JSON that ends in a line feed. Deserialize it with serde.
    ///
    /// # Errors
    /// What writing JSON fails with; no manifest is known to cause it.
    pub fn to_json(&self) -> Result<String> {
        let json = serde_json::to_string_pretty(self).map_err(Error::json("the manifest"))?;
        Ok(json + "\n")
    }

    /// The command as a line that a POSIX shell would read back.
    pub fn command_line(&self) -> String {
        let words: Vec<String> = self.command.iter().map(|word| quoted(word)).collect();
        words.join(" ")
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Where something ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Operating system and kernel.
    pub os: String,
    /// Model of the CPU.
    pub cpu: String,
    /// Logical CPU cores.
    pub cores: usize,
    /// Bytes of memory.
    pub memory: u64,
    /// Models of the accelerators that were used.
    #[serde(default)]
    pub accelerators: Vec<String>,
}

impl Machine {
    /// This machine, as the system describes it; the caller adds accelerators. Names neither host
    /// nor user.
    ///
    /// What the operating system does not report is `"unknown"` or 0.
    pub fn this() -> Self {
        let mut system = sysinfo::System::new();
        system.refresh_memory();
        system.refresh_cpu_list(sysinfo::CpuRefreshKind::nothing());
        Self {
            os: os(),
            cpu: cpu(&system),
            cores: system.cpus().len(),
            memory: system.total_memory(),
            accelerators: Vec::new(),
        }
    }
}

fn os() -> String {
    let name = sysinfo::System::long_os_version();
    let kernel = sysinfo::System::kernel_version().map(|kernel| format!("kernel {kernel}"));
    let parts: Vec<String> = name.into_iter().chain(kernel).collect();
    if parts.is_empty() {
        std::env::consts::OS.to_owned()
    } else {
        parts.join(", ")
    }
}

fn cpu(system: &sysinfo::System) -> String {
    match system.cpus().first().map(|cpu| cpu.brand().trim()) {
        None | Some("") => "unknown".to_owned(),
        Some(brand) => brand.to_owned(),
    }
}

/// A model that took part in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weights {
    /// Name of the model in the report.
    pub name: String,
    /// Where it is from: a folder, or the id of a hub with its revision.
    pub source: String,
    /// Hashes of the files that hold its weights.
    pub files: BTreeMap<String, Sha256>,
}

/// The SHA-256 of some bytes, as 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Sha256(String);

impl Sha256 {
    /// The hash of bytes in memory.
    pub fn of(bytes: &[u8]) -> Self {
        Self::of_digest(sha2::Sha256::digest(bytes))
    }

    /// The hash of a file, which is read once from start to end.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of_file(path: &Path) -> Result<Self> {
        let hash = || {
            let mut hasher = sha2::Sha256::new();
            io::copy(&mut std::fs::File::open(path)?, &mut hasher)?;
            Ok(Self::of_digest(hasher.finalize()))
        };
        hash().map_err(Error::io("hash", path))
    }

    fn of_digest(digest: impl IntoIterator<Item = u8>) -> Self {
        let bytes = digest.into_iter();
        Self(bytes.map(|byte| format!("{byte:02x}")).collect())
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Sha256 {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        if text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(Self(text.to_lowercase()));
        }
        let problem = "is not a SHA-256; give its 64 hexadecimal digits";
        Err(Error::invalid(format!("\"{text}\" {problem}")))
    }
}
