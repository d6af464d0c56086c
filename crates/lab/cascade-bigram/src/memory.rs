//! Memory limits.

use std::num::NonZeroUsize;

use sysinfo::{ProcessRefreshKind, ProcessesToUpdate};

use crate::{Error, ErrorKind, Result};

/// A limit on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// For the whole process, in bytes. What it holds when counting begins is set aside, and so is
    /// what reading, stripping and tokenizing were measured to take.
    Process(u64),
    /// For the counts alone, in bytes.
    Counts(u64),
}

const MIB: u64 = 1 << 20;
/// What a thread takes besides its counts: decompression, a document in all its stages, buffers.
const THREAD: u64 = 40 * MIB;
/// The least that a thread's counts should have.
const LEAST: u64 = 4 * MIB;
/// What the process takes where the system does not report it.
const USUAL: u64 = 256 * MIB;

impl Memory {
    /// What the counts of each thread may take, in bytes, if all share so many others.
    ///
    /// # Errors
    /// If nothing is left for them.
    pub(crate) fn of_thread(self, threads: NonZeroUsize, shared: u64) -> Result<u64> {
        let number = threads.get() as u64;
        let limit = match self {
            Self::Counts(bytes) => return Ok(bytes / number),
            Self::Process(bytes) => bytes,
        };
        let fixed = resident().unwrap_or(USUAL) + shared + number * THREAD;
        let least = fixed + number * LEAST;
        if limit < least {
            let message = format!(
                "{} MiB of memory is too little: tokenizer, readers and {threads} threads take about {} MiB alone; give \
                 --memory {}MiB at least, or fewer threads",
                limit / MIB,
                fixed / MIB,
                least.div_ceil(MIB)
            );
            return Err(Error::new(ErrorKind::Resources, message));
        }
        Ok((limit - fixed) / number)
    }
}

/// Memory that the process holds now, in bytes; `None` on systems that do not report it.
fn resident() -> Option<u64> {
    let process = sysinfo::get_current_pid().ok()?;
    let mut system = sysinfo::System::new();
    system.refresh_processes_specifics(
        ProcessesToUpdate::Some(&[process]),
        true,
        ProcessRefreshKind::nothing().with_memory(),
    );
    Some(system.process(process)?.memory())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_holds_some_memory() {
        let bytes = resident().unwrap();
        assert!((MIB..1 << 40).contains(&bytes), "{bytes}");
    }

    #[test]
    fn says_how_much_would_do() {
        let threads = NonZeroUsize::MIN;
        assert_eq!(Memory::Counts(100).of_thread(threads, 0).unwrap(), 100);
        let error = Memory::Process(MIB).of_thread(threads, 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Resources);
        let message = error.to_string();
        let (_, rest) = message.split_once("--memory ").unwrap();
        let least: u64 = rest.split_once("MiB").unwrap().0.parse().unwrap();
        // Resident memory may have grown a little meanwhile.
        let enough = Memory::Process((least + 16) * MIB).of_thread(threads, 0);
        assert!(enough.unwrap() >= LEAST);
    }
}
