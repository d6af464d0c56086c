//! The host's memory, as far as the system reports it.

mod cgroup;

use std::fmt;
use std::path::{Path, PathBuf};

/// Memory that can be had.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FreeMemory {
    /// In bytes.
    pub bytes: usize,
    /// What keeps it from being more.
    pub limit: MemoryLimit,
}

/// What limits the memory that a process can have.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryLimit {
    /// The machine has no more.
    Machine,
    /// The limit of a control group that the process is in: its container, pod, service or job.
    Cgroup {
        /// The file that says so.
        file: PathBuf,
        /// Bytes that all processes of the group may have together.
        bytes: usize,
    },
    /// A limit of the process itself, as a shell sets it.
    Process {
        /// The option of `ulimit`.
        option: &'static str,
        /// Bytes that the process may have.
        bytes: usize,
    },
    /// The GPU has no more.
    Gpu,
}

/// `0.9 GB can be had (limit of 8.6 GB in /sys/fs/cgroup/memory.max)`.
impl fmt::Display for FreeMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gb = |bytes: usize| bytes as f64 / 1e9;
        write!(f, "{:.1} GB can be had (", gb(self.bytes))?;
        match &self.limit {
            MemoryLimit::Machine => f.write_str("the machine's available memory)"),
            MemoryLimit::Cgroup { file, bytes } => {
                write!(f, "limit of {:.1} GB in {})", gb(*bytes), file.display())
            }
            MemoryLimit::Process { option, bytes } => {
                write!(f, "limit of {:.1} GB by `ulimit {option}`)", gb(*bytes))
            }
            MemoryLimit::Gpu => f.write_str("the GPU's free memory)"),
        }
    }
}

/// What happens to models that are larger than the memory that can be had. What is known of that
/// may be wrong: memory that others are about to give up counts as theirs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overcommit {
    /// Models that do not fit are refused.
    #[default]
    Refuse,
    /// Models that do not fit are loaded after a warning.
    Warn,
    /// Models that do not fit are loaded.
    Allow,
}

impl Overcommit {
    /// The environment variable that [`from_env`](Self::from_env) reads.
    pub const VARIABLE: &str = "CASCADE_ALLOW_MEMORY_OVERCOMMIT";

    /// A warning if the environment variable `CASCADE_ALLOW_MEMORY_OVERCOMMIT` is set to anything
    /// but 0, else refusal.
    pub fn from_env() -> Self {
        match std::env::var_os(Self::VARIABLE) {
            Some(value) if !value.is_empty() && value != "0" => Self::Warn,
            _ => Self::Refuse,
        }
    }
}

/// What can be allocated without others losing theirs: what the machine has available, within the
/// limits of the control groups that this process is in and of the process itself. Memory that
/// only caches files can be had: the system gives it up when it is asked for.
pub(crate) fn available() -> Option<FreeMemory> {
    available_in(Path::new("/"))
}

/// [`available`] for a system with its `/proc` and `/sys` in a folder.
fn available_in(root: &Path) -> Option<FreeMemory> {
    let machine = machine(root).map(|bytes| FreeMemory {
        bytes,
        limit: MemoryLimit::Machine,
    });
    let process = [
        ("-v", "Max address space", "VmSize:"),
        ("-d", "Max data size", "VmData:"),
    ];
    let process = process
        .into_iter()
        .filter_map(|(option, limit, used)| of_process(root, option, limit, used));
    let all = machine
        .into_iter()
        .chain(cgroup::limits(root))
        .chain(process);
    all.min_by_key(|free| free.bytes)
}

/// What the machine has available. A system that reports nothing is not one without memory.
fn machine(root: &Path) -> Option<usize> {
    let of_linux = std::fs::read_to_string(root.join("proc/meminfo")).ok();
    let bytes = match of_linux {
        Some(text) => field(&text, "MemAvailable:")?,
        None => {
            let mut system = sysinfo::System::new();
            system.refresh_memory();
            usize::try_from(system.available_memory()).ok()?
        }
    };
    Some(bytes).filter(|&bytes| bytes > 0)
}

/// What a limit of this process leaves to it; nothing if there is none, or on other systems than
/// Linux.
fn of_process(root: &Path, option: &'static str, limit: &str, used: &str) -> Option<FreeMemory> {
    let text = std::fs::read_to_string(root.join("proc/self/limits")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(limit))?;
    let bytes: usize = line.split_whitespace().next()?.parse().ok()?;
    let used = status(root, used).unwrap_or(0);
    Some(FreeMemory {
        bytes: bytes.saturating_sub(used),
        limit: MemoryLimit::Process { option, bytes },
    })
}

/// The most bytes that this process has held so far; known on Linux only.
pub(crate) fn peak() -> Option<usize> {
    status(Path::new("/"), "VmHWM:")
}

/// A figure of this process, in bytes; nothing on other systems than Linux.
fn status(root: &Path, name: &str) -> Option<usize> {
    field(
        &std::fs::read_to_string(root.join("proc/self/status")).ok()?,
        name,
    )
}

/// A line such as `MemAvailable:  123 kB`, in bytes.
fn field(text: &str, name: &str) -> Option<usize> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let number = line.trim().strip_suffix("kB")?.trim();
    number.parse::<usize>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests;
