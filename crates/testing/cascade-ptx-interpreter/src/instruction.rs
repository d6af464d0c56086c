//! Kernels as they are run: registers are numbers, labels are places.

use std::collections::BTreeMap;

use crate::arithmetic::{
    Binary, LongBinary, LongShift, Narrowing, Relation, Ternary, Unary, WideProduct, Widening,
};

/// Lanes of a warp.
pub(crate) const WARP: usize = 32;

/// A register of all lanes, of 32 bits or 64.
pub(crate) type Words = [u32; WARP];
pub(crate) type Longs = [u64; WARP];
/// Some lanes of a warp; a predicate of all.
pub(crate) type Mask = u32;

/// A register's place among those of its size.
pub(crate) type Slot = u16;

/// A register of 32 bits (floats and halves too) or of 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Register {
    Word(Slot),
    Long(Slot),
}

/// Where an access goes: a register, and bytes beyond what it says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) base: Register,
    pub(crate) offset: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Parameter,
    Shared,
    Global,
    /// Memory that nothing may write while the kernel runs.
    Constant,
}

/// Up to four registers and the consecutive numbers in memory that belong to them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) space: Space,
    pub(crate) place: Place,
    /// Bytes of a number: 2, 4 or 8.
    pub(crate) size: usize,
    pub(crate) registers: [Register; 4],
    pub(crate) count: usize,
}

impl Access {
    pub(crate) fn registers(&self) -> &[Register] {
        &self.registers[..self.count]
    }

    /// Bytes of all its numbers, which must lie at a multiple of as many.
    pub(crate) fn bytes(&self) -> usize {
        self.size * self.count
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Type {
    U32,
    I32,
    F32,
    U64,
    I64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Logic {
    And,
    Or,
}

/// What an instruction does. Destinations come first.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Move(Slot, Slot),
    MoveLong(Slot, Slot),
    Unary(Unary, Slot, Slot),
    Binary(Binary, Slot, [Slot; 2]),
    Ternary(Ternary, Slot, [Slot; 3]),
    LongBinary(LongBinary, Slot, [Slot; 2]),
    LongShift(LongShift, Slot, Slot, Slot),
    Widen(Widening, Slot, Slot),
    WideProduct(WideProduct, Slot, [Slot; 2]),
    Narrow(Narrowing, Slot, Slot),
    Compare(Type, Relation, Slot, [Slot; 2]),
    Logic(Logic, Slot, [Slot; 2]),
    LogicNot(Slot, Slot),
    LogicSet(Slot, bool),
    Select(Slot, [Slot; 2], Slot),
    SelectLong(Slot, [Slot; 2], Slot),
    Load(Access),
    Store(Access),
    /// Adds to a word of global memory and gives what was there.
    AtomicAdd {
        to: Slot,
        place: Place,
        add: Slot,
    },
    /// The value of the lane whose number differs in the bits of `lanes`.
    ShuffleXor {
        to: Slot,
        value: Slot,
        lanes: Slot,
        clamp: Slot,
        members: Slot,
    },
    /// d = a · b + c of 16 x 16 and 16 x 8 bf16, summed in f32.
    MultiplyTiles {
        d: [Slot; 4],
        a: [Slot; 4],
        b: [Slot; 2],
        c: [Slot; 4],
    },
    /// Sixteen bytes to shared memory, `there` of them from global memory, the rest zeros.
    CopyAsync {
        to: Place,
        from: Place,
        there: Slot,
    },
    CopyCommit,
    /// Until at most so many groups are under way.
    CopyWait(usize),
    Barrier,
    /// What this thread wrote is there for whoever sees what it writes after.
    Fence,
    WaitForKernelBefore,
    LaunchDependents,
    Branch(usize),
    Return,
}

#[derive(Clone, Debug)]
pub(crate) struct Instruction {
    pub(crate) operation: Operation,
    /// The predicate that must hold (or, if `false`, must not) in a lane.
    pub(crate) guard: Option<(Slot, bool)>,
    /// Its line in the text, counted from 1.
    pub(crate) line: usize,
}

/// Places of registers that say where a thread is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Special {
    /// Number of the thread in its block, if the kernel asks.
    pub(crate) thread: Option<Slot>,
    pub(crate) threads: Option<Slot>,
    pub(crate) block: [Option<Slot>; 3],
    pub(crate) blocks: [Option<Slot>; 3],
}

/// A kernel, ready to run.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) instructions: Vec<Instruction>,
    /// Bytes of its parameters.
    pub(crate) parameters: usize,
    /// Bytes of shared memory.
    pub(crate) shared: usize,
    /// The most threads of a block.
    pub(crate) max_threads: u32,
    /// Registers of 32 bits, of 64, and of one.
    pub(crate) words: usize,
    pub(crate) longs: usize,
    pub(crate) predicates: usize,
    /// Registers that hold the same from beginning to end.
    pub(crate) constant_words: Vec<(Slot, u32)>,
    pub(crate) constant_longs: Vec<(Slot, u64)>,
    pub(crate) special: Special,
}

/// Kernels and constants of a text, by name.
#[derive(Debug, Default)]
pub(crate) struct Module {
    pub(crate) kernels: BTreeMap<String, Kernel>,
    pub(crate) constants: BTreeMap<String, Vec<u8>>,
}
