//! What is wrong with a module or a kernel.

use thiserror::Error;

/// A line of PTX that the interpreter does not know.
#[derive(Debug, Error)]
#[error("line {line}, `{text}`: {reason}")]
pub struct ReadError {
    /// The number of the line, counted from 1.
    pub line: usize,
    /// The line.
    pub text: String,
    /// What is not known.
    pub reason: String,
}

/// A fault of a kernel, and where it happened.
#[derive(Debug, Error)]
#[error("{what} (line {line}; block {}, {}, {}; thread {thread})", block[0], block[1], block[2])]
pub struct FaultSite {
    /// The fault.
    pub what: KernelFault,
    /// The line of the PTX, counted from 1; 0 if the launch itself is wrong.
    pub line: usize,
    /// The block's position in the grid.
    pub block: [u32; 3],
    /// The index of the thread in the block: the first of those concerned.
    pub thread: usize,
}

/// A fault of a kernel.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelFault {
    /// The module has no such kernel.
    #[error("there is no kernel {0}")]
    NoKernel(String),
    /// The parameters do not have the size that the kernel declares.
    #[error("the kernel is called with {given} bytes of parameters, and takes {taken}")]
    Parameters {
        /// Bytes given.
        given: usize,
        /// Bytes that it declares.
        taken: usize,
    },
    /// More threads than the kernel is compiled for, or none.
    #[error("a block has {given} threads, and the kernel is compiled for at most {most}")]
    Threads {
        /// Threads asked for.
        given: u32,
        /// The maximum.
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
    /// An address that is not a multiple of the access's size.
    #[error("{bytes} bytes are accessed at {address:#x}, which is not a multiple of {bytes}")]
    Misaligned {
        /// Where the access begins.
        address: u64,
        /// Its size.
        bytes: usize,
    },
    /// A read of shared memory that no thread of the block has written.
    #[error("shared memory at {address:#x} is read, but was never written")]
    Unwritten {
        /// Where.
        address: u64,
    },
    /// Two threads of a block access the same memory, one of them writes, and no barrier lies
    /// between.
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
    /// Memory that is declared constant is written while the kernel runs.
    #[error("memory at {address:#x} is read as a constant, and this launch has written it")]
    NotConstant {
        /// Where.
        address: u64,
    },
    /// Memory that the kernel before accesses is accessed too early.
    #[error("memory at {address:#x} is {how} before the kernel waits for the kernel before it, which {its}")]
    TooEarly {
        /// Where.
        address: u64,
        /// What this kernel does.
        how: &'static str,
        /// What the kernel before did.
        its: &'static str,
    },
    /// Only some threads of a warp reach an instruction that all must execute together.
    #[error(
        "some threads of a warp are at this instruction while others are not, and it needs all"
    )]
    DivergentWarp,
    /// A shuffle among some of the lanes.
    #[error("a shuffle among lanes {members:#x} that are not the whole warp")]
    Members {
        /// The lanes.
        members: u32,
    },
    /// A thread ends with copies under way.
    #[error("a thread ends without waiting for its copies")]
    Copies,
    /// A copy of some of the sixteen bytes.
    #[error("a copy of {0} of sixteen bytes; only all and none are known")]
    PartialCopy(u32),
    /// A thread of an overlapping launch ends, or lets the next one start, before it has waited.
    #[error("a thread {0} without waiting for the kernel before")]
    NoWait(&'static str),
}
