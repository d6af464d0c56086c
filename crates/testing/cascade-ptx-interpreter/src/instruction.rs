//! Kernels as they are run: registers are slots, labels are indices of instructions.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::arithmetic::{
    Binary, LongBinary, LongShift, Narrowing, Relation, Ternary, Unary, WideProduct, Widening,
};

/// A register's index among those of its size.
pub(crate) type Slot = u16;

/// A register of 32 bits (floats and halves too) or of 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Register {
    Word(Slot),
    Long(Slot),
}

/// The operand of a memory access: a register and an offset in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
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

/// A load or store of up to four registers from or to consecutive values in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) space: Space,
    pub(crate) address: Address,
    /// Bytes of a value: 2, 4 or 8.
    pub(crate) size: usize,
    pub(crate) registers: [Register; 4],
    pub(crate) count: usize,
}

impl Access {
    pub(crate) fn registers(&self) -> &[Register] {
        &self.registers[..self.count]
    }

    /// Bytes of all its values; the address must be a multiple of it.
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

/// An instruction that reads and writes registers only. Destinations come first.
#[derive(Clone, Debug)]
pub(crate) enum Compute {
    Move(Slot, Slot),
    MoveLong(Slot, Slot),
    /// The lower and the upper half of a word, each into a register of its own.
    Split([Slot; 2], Slot),
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
}

/// Adds `value` to a word of global memory and gives what was there.
#[derive(Clone, Debug)]
pub(crate) struct AtomicAdd {
    pub(crate) to: Slot,
    pub(crate) address: Address,
    pub(crate) value: Slot,
    /// Whether what happened before it is published to whoever counts later.
    pub(crate) release: bool,
    /// Whether what those who counted before have published becomes visible.
    pub(crate) acquire: bool,
}

/// The value of the lane whose index differs in the bits of `lanes`.
#[derive(Clone, Debug)]
pub(crate) struct Shuffle {
    pub(crate) to: Slot,
    pub(crate) value: Slot,
    pub(crate) lanes: Slot,
    pub(crate) clamp: Slot,
    pub(crate) members: Slot,
}

/// A type of 16 bits that tiles are multiplied in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    BF16,
    F16,
}

/// d = a · b + c of 16 x 16 and 16 x 8 numbers of 16 bits, summed in f32.
#[derive(Clone, Debug)]
pub(crate) struct Tiles {
    pub(crate) half: Half,
    pub(crate) d: [Slot; 4],
    pub(crate) a: [Slot; 4],
    pub(crate) b: [Slot; 2],
    pub(crate) c: [Slot; 4],
}

/// Sixteen bytes to shared memory: the first `size` from global memory, zeros after them.
#[derive(Clone, Debug)]
pub(crate) struct CopyAsync {
    pub(crate) to: Address,
    pub(crate) from: Address,
    pub(crate) size: Slot,
}

/// What an instruction does.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Compute(Compute),
    Load(Access),
    Store(Access),
    AtomicAdd(AtomicAdd),
    ShuffleXor(Shuffle),
    MultiplyTiles(Tiles),
    CopyAsync(CopyAsync),
    CopyCommit,
    /// Waits until at most so many groups are under way.
    CopyWait(usize),
    Barrier,
    /// Whoever sees a later write of this thread sees its earlier ones too.
    Fence,
    WaitForKernelBefore,
    LaunchDependents,
    Branch(usize),
    Return,
}

impl Compute {
    /// Calls `read` with each register of 32 or 64 bits that it reads.
    fn registers_read(&self, read: &mut impl FnMut(Register)) {
        let mut words = |slots: &[Slot]| slots.iter().for_each(|&slot| read(Register::Word(slot)));
        match *self {
            Self::Move(_, a) | Self::Split(_, a) | Self::Unary(_, _, a) | Self::Widen(_, _, a) => {
                words(&[a])
            }
            Self::Binary(_, _, from)
            | Self::WideProduct(_, _, from)
            | Self::Select(_, from, _)
            | Self::Compare(Type::U32 | Type::I32 | Type::F32, _, _, from) => words(&from),
            Self::Ternary(_, _, from) => words(&from),
            Self::LongShift(_, _, a, by) => {
                words(&[by]);
                read(Register::Long(a));
            }
            Self::MoveLong(_, a) | Self::Narrow(_, _, a) => read(Register::Long(a)),
            Self::LongBinary(_, _, from)
            | Self::SelectLong(_, from, _)
            | Self::Compare(Type::U64 | Type::I64, _, _, from) => {
                from.iter().for_each(|&slot| read(Register::Long(slot)));
            }
            Self::Logic(..) | Self::LogicNot(..) | Self::LogicSet(..) => {}
        }
    }
}

impl Operation {
    /// Calls `read` with each register of 32 or 64 bits that it reads.
    pub(crate) fn registers_read(&self, mut read: impl FnMut(Register)) {
        match self {
            Self::Compute(compute) => compute.registers_read(&mut read),
            Self::Load(access) => read(access.address.base),
            Self::Store(access) => {
                read(access.address.base);
                access
                    .registers()
                    .iter()
                    .for_each(|&register| read(register));
            }
            Self::AtomicAdd(add) => {
                read(add.address.base);
                read(Register::Word(add.value));
            }
            Self::ShuffleXor(shuffle) => read(Register::Word(shuffle.value)),
            Self::MultiplyTiles(tiles) => {
                let slots = tiles.a.iter().chain(&tiles.b).chain(&tiles.c);
                slots.for_each(|&slot| read(Register::Word(slot)));
            }
            Self::CopyAsync(copy) => [copy.to.base, copy.from.base].into_iter().for_each(read),
            Self::CopyCommit
            | Self::CopyWait(_)
            | Self::Barrier
            | Self::Fence
            | Self::WaitForKernelBefore
            | Self::LaunchDependents
            | Self::Branch(_)
            | Self::Return => {}
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Instruction {
    pub(crate) operation: Operation,
    /// The predicate that must hold (or, if `false`, must not) in a lane.
    pub(crate) guard: Option<(Slot, bool)>,
    /// Its line in the PTX, counted from 1.
    pub(crate) line: usize,
}

/// Registers that hold the position of a thread, where the kernel reads them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Special {
    /// Index of the thread in its block.
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
    /// Registers that hold a constant.
    pub(crate) constant_words: Vec<(Slot, u32)>,
    pub(crate) constant_longs: Vec<(Slot, u64)>,
    pub(crate) special: Special,
}

/// Kernels and constants of a PTX module, by name. Clones share the kernels.
#[derive(Clone, Debug, Default)]
pub struct Module {
    pub(crate) kernels: BTreeMap<String, Arc<Kernel>>,
    pub(crate) constants: BTreeMap<String, Vec<u8>>,
}

impl Module {
    /// The bytes of a constant that it declares (`.visible .global`).
    pub fn constant(&self, name: &str) -> Option<&[u8]> {
        self.constants.get(name).map(Vec::as_slice)
    }
}
