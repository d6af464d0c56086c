//! What is wrong with a text or a kernel.

use thiserror::Error;

/// A line that is not understood.
#[derive(Debug, Error)]
#[error("line {line}, `{text}`: {reason}")]
pub struct ReadError {
    /// Its number, counted from 1.
    pub line: usize,
    /// What it says.
    pub text: String,
    /// What is not understood.
    pub reason: String,
}

/// A kernel that does what it must not, and where.
#[derive(Debug, Error)]
#[error("{what} (line {line}; block {}, {}, {}; thread {thread})", block[0], block[1], block[2])]
pub struct Fault {
    /// What is wrong.
    pub what: Wrong,
    /// The line of the text, counted from 1; 0 where there is none.
    pub line: usize,
    /// The block's place in the grid.
    pub block: [u32; 3],
    /// The thread of the block: the first of those concerned.
    pub thread: usize,
}

/// What may be wrong with a kernel.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wrong {
    /// The text has no such kernel.
    #[error("there is no kernel {0}")]
    NoKernel(String),
    /// It is called with other parameters than it has.
    #[error("the kernel is called with {given} bytes of parameters, and takes {taken}")]
    Parameters {
        /// Bytes given.
        given: usize,
        /// Bytes that it takes.
        taken: usize,
    },
    /// More threads than it is compiled for, or none.
    #[error("a block has {given} threads, and the kernel is compiled for at most {most}")]
    Threads {
        /// Threads asked for.
        given: u32,
        /// The most.
        most: u32,
    },
    /// Memory that is not allocated.
    #[error("{bytes} bytes at {address:#x} lie outside of {space}")]
    Outside {
        /// Which memory.
        space: &'static str,
        /// Where the access begins.
        address: u64,
        /// Its size.
        bytes: usize,
    },
    /// An address that the access' size does not divide.
    #[error("{bytes} bytes are accessed at {address:#x}, which is no multiple of as many")]
    Misaligned {
        /// Where the access begins.
        address: u64,
        /// Its size.
        bytes: usize,
    },
    /// Shared memory that no thread of the block has written.
    #[error("shared memory at {address:#x} is read, and nobody has written it")]
    Unwritten {
        /// Where.
        address: u64,
    },
    /// Two threads of a block access the same memory, one of them writes, and no barrier lies between.
    #[error("a race in {space} at {address:#x}: {how}, and no barrier lies between")]
    RaceInBlock {
        /// Which memory.
        space: &'static str,
        /// Where.
        address: u64,
        /// Who does what.
        how: String,
    },
    /// Two blocks access the same memory, one of them writes, and nothing orders them.
    #[error("a race at {address:#x}: {how}, and no fences and counters order them")]
    RaceOfBlocks {
        /// Where.
        address: u64,
        /// Who does what.
        how: String,
    },
    /// What is declared constant is written while the kernel runs.
    #[error("memory at {address:#x} is read as a constant, and this launch has written it")]
    NotConstant {
        /// Where.
        address: u64,
    },
    /// Memory of the kernel before is accessed too early.
    #[error("memory at {address:#x} is {how} before the kernel waits for the kernel before it, which {its}")]
    TooEarly {
        /// Where.
        address: u64,
        /// What this kernel does.
        how: &'static str,
        /// What the kernel before did.
        its: &'static str,
    },
    /// Only some threads of a warp do what all must do together.
    #[error(
        "some threads of a warp are at this instruction while others are not, and it needs all"
    )]
    Apart,
    /// A shuffle among some lanes.
    #[error("a shuffle among lanes {members:#x} that are not the whole warp")]
    Members {
        /// The lanes.
        members: u32,
    },
    /// A thread ends with copies under way.
    #[error("a thread ends without waiting for its copies")]
    Copies,
    /// A copy of some of sixteen bytes.
    #[error("a copy of {0} of sixteen bytes; only all and none are known")]
    PartialCopy(u32),
    /// A thread of a launch that overlaps the one before ends, or lets the next one start, before it has waited.
    #[error("a thread {0} without waiting for the kernel before")]
    NoWait(&'static str),
}
