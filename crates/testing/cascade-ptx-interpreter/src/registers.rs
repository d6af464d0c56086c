//! The registers of a warp, and the instructions that read and write nothing else.

use crate::arithmetic::Relation;
use crate::block::Block;
use crate::instruction::{Address, Compute, Kernel, Logic, Register, Slot, Type};
use crate::lanes::{Longs, Mask, Words, WARP};
use crate::launch::ActiveLaunch;

/// Registers of all lanes: of 32 bits, of 64, and predicates.
#[derive(Debug)]
pub(crate) struct Registers {
    words: Vec<Words>,
    longs: Vec<Longs>,
    predicates: Vec<Mask>,
}

/// Sets a register in the lanes of a mask.
fn put<T: Copy>(to: &mut [T; WARP], mask: Mask, value: [T; WARP]) {
    if mask == Mask::MAX {
        *to = value;
        return;
    }
    for (lane, (to, value)) in to.iter_mut().zip(value).enumerate() {
        if mask >> lane & 1 == 1 {
            *to = value;
        }
    }
}

impl Registers {
    /// Registers of a kernel: constants have their values, all others are 0.
    pub(crate) fn new(kernel: &Kernel) -> Self {
        let mut words = vec![[0; WARP]; kernel.words];
        let mut longs = vec![[0; WARP]; kernel.longs];
        for &(slot, value) in &kernel.constant_words {
            words[usize::from(slot)] = [value; WARP];
        }
        for &(slot, value) in &kernel.constant_longs {
            longs[usize::from(slot)] = [value; WARP];
        }
        Self {
            words,
            longs,
            predicates: vec![0; kernel.predicates],
        }
    }

    /// Sets the registers that hold the position of threads in block and grid.
    pub(crate) fn locate(&mut self, first_thread: usize, block: &Block, launch: &ActiveLaunch<'_>) {
        let special = &launch.kernel.special;
        if let Some(slot) = special.thread {
            let first = first_thread as u32;
            self.words[usize::from(slot)] = std::array::from_fn(|lane| first + lane as u32);
        }
        let threads = [(special.threads, launch.threads)];
        let blocks = special.block.into_iter().zip(block.place);
        let grid = special.blocks.into_iter().zip(launch.grid);
        for (slot, value) in threads.into_iter().chain(blocks).chain(grid) {
            if let Some(slot) = slot {
                self.words[usize::from(slot)] = [value; WARP];
            }
        }
    }

    pub(crate) fn word(&self, slot: Slot) -> &Words {
        &self.words[usize::from(slot)]
    }

    fn long(&self, slot: Slot) -> &Longs {
        &self.longs[usize::from(slot)]
    }

    pub(crate) fn predicate(&self, slot: Slot) -> Mask {
        self.predicates[usize::from(slot)]
    }

    pub(crate) fn set(&mut self, to: Slot, mask: Mask, value: Words) {
        put(&mut self.words[usize::from(to)], mask, value);
    }

    fn set_long(&mut self, to: Slot, mask: Mask, value: Longs) {
        put(&mut self.longs[usize::from(to)], mask, value);
    }

    fn set_predicate(&mut self, to: Slot, mask: Mask, value: Mask) {
        let to = &mut self.predicates[usize::from(to)];
        *to = *to & !mask | value & mask;
    }

    /// The value of a register in a lane, extended with zeros to 64 bits.
    fn get(&self, register: Register, lane: usize) -> u64 {
        match register {
            Register::Word(slot) => self.word(slot)[lane].into(),
            Register::Long(slot) => self.long(slot)[lane],
        }
    }

    /// Sets registers in a lane to consecutive integers of `N` bytes, at most 8.
    pub(crate) fn load<const N: usize>(&mut self, to: &[Register], lane: usize, bytes: &[u8]) {
        for (&register, of_register) in to.iter().zip(bytes.as_chunks::<N>().0) {
            let mut value = [0; 8];
            value[..N].copy_from_slice(of_register);
            self.set_lane(register, lane, u64::from_le_bytes(value));
        }
    }

    /// Writes registers of a lane as consecutive integers of `N` bytes, at most 8.
    pub(crate) fn store<const N: usize>(&self, from: &[Register], lane: usize, bytes: &mut [u8]) {
        for (&register, of_register) in from.iter().zip(bytes.as_chunks_mut::<N>().0) {
            of_register.copy_from_slice(&self.get(register, lane).to_le_bytes()[..N]);
        }
    }

    /// Sets a register in a lane, to the lower half of the value if it has 32 bits.
    pub(crate) fn set_lane(&mut self, register: Register, lane: usize, value: u64) {
        match register {
            Register::Word(slot) => self.words[usize::from(slot)][lane] = value as u32,
            Register::Long(slot) => self.longs[usize::from(slot)][lane] = value,
        }
    }

    /// The address that a lane accesses.
    pub(crate) fn address(&self, address: Address, lane: usize) -> u64 {
        match address.base {
            Register::Long(slot) => self.long(slot)[lane].wrapping_add(address.offset as u64),
            Register::Word(slot) => {
                let base = self.word(slot)[lane];
                base.wrapping_add(address.offset as u32).into()
            }
        }
    }

    /// Executes an instruction in the lanes of a mask.
    pub(crate) fn compute(&mut self, operation: &Compute, mask: Mask) {
        match *operation {
            Compute::Move(to, from) => self.set(to, mask, *self.word(from)),
            Compute::MoveLong(to, from) => self.set_long(to, mask, *self.long(from)),
            Compute::Split([low, high], from) => {
                let word = *self.word(from);
                self.set(low, mask, word.map(|word| word & 0xffff));
                self.set(high, mask, word.map(|word| word >> 16));
            }
            Compute::Unary(f, to, a) => self.set(to, mask, f(self.word(a))),
            Compute::Binary(f, to, [a, b]) => self.set(to, mask, f(self.word(a), self.word(b))),
            Compute::Ternary(f, to, [a, b, c]) => {
                self.set(to, mask, f(self.word(a), self.word(b), self.word(c)));
            }
            Compute::LongBinary(f, to, [a, b]) => {
                self.set_long(to, mask, f(self.long(a), self.long(b)));
            }
            Compute::LongShift(f, to, a, by) => {
                self.set_long(to, mask, f(self.long(a), self.word(by)));
            }
            Compute::Widen(f, to, a) => self.set_long(to, mask, f(self.word(a))),
            Compute::WideProduct(f, to, [a, b]) => {
                self.set_long(to, mask, f(self.word(a), self.word(b)));
            }
            Compute::Narrow(f, to, a) => self.set(to, mask, f(self.long(a))),
            Compute::Compare(kind, relation, to, from) => {
                self.set_predicate(to, mask, self.compare(kind, relation, from));
            }
            Compute::Logic(logic, to, from) => {
                self.set_predicate(to, mask, self.logic(logic, from));
            }
            Compute::LogicNot(to, from) => self.set_predicate(to, mask, !self.predicate(from)),
            Compute::LogicSet(to, value) => {
                self.set_predicate(to, mask, if value { Mask::MAX } else { 0 });
            }
            Compute::Select(to, from, by) => self.select(to, from, by, mask),
            Compute::SelectLong(to, from, by) => self.select_long(to, from, by, mask),
        }
    }

    fn compare(&self, kind: Type, relation: Relation, [a, b]: [Slot; 2]) -> Mask {
        let words = || (self.word(a), self.word(b));
        let longs = || (self.long(a), self.long(b));
        match kind {
            Type::U32 => relation.holds(words(), |bits| bits),
            Type::I32 => relation.holds(words(), |bits| bits as i32),
            Type::F32 => relation.holds(words(), f32::from_bits),
            Type::U64 => relation.holds(longs(), |bits| bits),
            Type::I64 => relation.holds(longs(), |bits| bits as i64),
        }
    }

    fn logic(&self, logic: Logic, [a, b]: [Slot; 2]) -> Mask {
        let (a, b) = (self.predicate(a), self.predicate(b));
        match logic {
            Logic::And => a & b,
            Logic::Or => a | b,
        }
    }

    /// The first operand where the predicate holds, the second elsewhere.
    fn select(&mut self, to: Slot, [a, b]: [Slot; 2], by: Slot, mask: Mask) {
        let (a, b, by) = (*self.word(a), *self.word(b), self.predicate(by));
        self.set(to, mask & !by, b);
        self.set(to, mask & by, a);
    }

    fn select_long(&mut self, to: Slot, [a, b]: [Slot; 2], by: Slot, mask: Mask) {
        let (a, b, by) = (*self.long(a), *self.long(b), self.predicate(by));
        self.set_long(to, mask & !by, b);
        self.set_long(to, mask & by, a);
    }
}
