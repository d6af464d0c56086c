//! Shared memory of a block, with a record of who read and wrote each word last.

use crate::error::KernelFault;
use crate::memory::{aligned, At};

const SPACE: &str = "shared memory";

/// A thread and the number of barriers passed, in one integer: 0 is nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark(u32);

const THREAD_BITS: u32 = 11;
/// Stands for several threads between the same barriers.
const SEVERAL: u32 = (1 << THREAD_BITS) - 1;

impl Mark {
    const NOBODY: Self = Self(0);

    fn new(thread: usize, epoch: u32) -> Self {
        Self(epoch << THREAD_BITS | (thread as u32 + 1))
    }

    fn thread(self) -> u32 {
        self.0 & SEVERAL
    }

    /// Whether it belongs to another thread between the same barriers.
    fn races(self, own: Self) -> bool {
        self.0 >> THREAD_BITS == own.0 >> THREAD_BITS && self != own && self != Self::NOBODY
    }
}

#[derive(Clone, Copy, Debug)]
struct Word {
    writer: Mark,
    reader: Mark,
    /// Whether an asynchronous copy to it is under way.
    awaited: bool,
}

/// Shared memory of a block.
#[derive(Debug, Default)]
pub(crate) struct SharedMemory {
    bytes: Vec<u8>,
    words: Vec<Word>,
}

impl SharedMemory {
    /// Memory of so many bytes, never written.
    pub(crate) fn of(bytes: usize) -> Self {
        let nobody = Word {
            writer: Mark::NOBODY,
            reader: Mark::NOBODY,
            awaited: false,
        };
        Self {
            bytes: vec![0xff; bytes],
            words: vec![nobody; bytes.div_ceil(4)],
        }
    }

    fn words(&mut self, at: At) -> Result<(&mut [Word], usize), KernelFault> {
        aligned(at)?;
        let start = at.address as usize;
        if start + at.bytes > self.bytes.len() {
            return Err(KernelFault::Outside {
                space: SPACE,
                address: at.address,
                bytes: at.bytes,
            });
        }
        Ok((
            &mut self.words[start / 4..(start + at.bytes).div_ceil(4)],
            start,
        ))
    }

    pub(crate) fn read(&mut self, at: At, thread: usize, epoch: u32) -> Result<&[u8], KernelFault> {
        let own = Mark::new(thread, epoch);
        let (words, start) = self.words(at)?;
        for (index, word) in words.iter_mut().enumerate() {
            let address = at.address + index as u64 * 4;
            if word.awaited {
                return Err(race(address, own, "a copy to it is under way", "reads"));
            }
            if word.writer == Mark::NOBODY {
                return Err(KernelFault::Unwritten { address });
            }
            if word.writer.races(own) {
                return Err(race(address, own, &writes(word.writer), "reads"));
            }
            let several = word.reader.races(own);
            let thread = if several {
                SEVERAL as usize - 1
            } else {
                thread
            };
            word.reader = Mark::new(thread, epoch);
        }
        Ok(&self.bytes[start..start + at.bytes])
    }

    pub(crate) fn write(
        &mut self,
        at: At,
        thread: usize,
        epoch: u32,
    ) -> Result<&mut [u8], KernelFault> {
        let own = Mark::new(thread, epoch);
        let (words, start) = self.words(at)?;
        for (index, word) in words.iter_mut().enumerate() {
            before_write(word, at.address + index as u64 * 4, own)?;
            word.writer = own;
        }
        Ok(&mut self.bytes[start..start + at.bytes])
    }

    /// Begins an asynchronous copy: nobody may access the bytes until it is waited for.
    pub(crate) fn await_copy(
        &mut self,
        at: At,
        thread: usize,
        epoch: u32,
    ) -> Result<(), KernelFault> {
        let own = Mark::new(thread, epoch);
        for (index, word) in self.words(at)?.0.iter_mut().enumerate() {
            before_write(word, at.address + index as u64 * 4, own)?;
            word.awaited = true;
        }
        Ok(())
    }

    /// Ends an asynchronous copy: it counts as a write at this time.
    pub(crate) fn copied(
        &mut self,
        at: At,
        thread: usize,
        epoch: u32,
    ) -> Result<&mut [u8], KernelFault> {
        for word in self.words(at)?.0 {
            word.awaited = false;
        }
        self.write(at, thread, epoch)
    }
}

fn before_write(word: &Word, address: u64, own: Mark) -> Result<(), KernelFault> {
    if word.awaited {
        return Err(race(address, own, "a copy to it is under way", "writes"));
    }
    if word.writer.races(own) {
        return Err(race(address, own, &writes(word.writer), "writes"));
    }
    if word.reader.races(own) {
        let other = match word.reader.thread() {
            SEVERAL => "others read it".to_owned(),
            thread => format!("thread {} reads it", thread - 1),
        };
        return Err(race(address, own, &other, "writes"));
    }
    Ok(())
}

fn writes(writer: Mark) -> String {
    format!("thread {} writes it", writer.thread() - 1)
}

fn race(address: u64, own: Mark, other: &str, does: &str) -> KernelFault {
    KernelFault::RaceInBlock {
        space: SPACE,
        address,
        how: format!("{other}, thread {} {does} it", own.thread() - 1),
    }
}
