//! Loads of a warp that are under way: what it waits for, and how much comes together.
//!
//! As on a GPU, a load gives its registers later, and the warp goes on until an instruction reads one
//! of them; loads arrive in the order in which they began. A register that is only copied is not
//! waited for: assemblers give both copies one register where they can.

use std::collections::VecDeque;

use crate::counts::Counts;
use crate::instruction::{Compute, Operation, Register, Space};

/// Loads under way, by number: the first is 1.
#[derive(Debug, Default)]
pub(super) struct Flight {
    /// The load that gives each register; 0 for none.
    words: Vec<u64>,
    longs: Vec<u64>,
    /// Number and bytes of loads that nothing has waited for.
    pending: VecDeque<(u64, u64)>,
    bytes: u64,
    begun: u64,
    waits: u64,
}

impl Flight {
    /// Starts again for a new block.
    pub(super) fn begin(&mut self) {
        *self = Self::default();
    }

    fn source(&self, register: Register) -> u64 {
        let (all, slot) = match register {
            Register::Word(slot) => (&self.words, slot),
            Register::Long(slot) => (&self.longs, slot),
        };
        all.get(usize::from(slot)).copied().unwrap_or(0)
    }

    fn set_source(&mut self, register: Register, load: u64) {
        let (all, slot) = match register {
            Register::Word(slot) => (&mut self.words, usize::from(slot)),
            Register::Long(slot) => (&mut self.longs, usize::from(slot)),
        };
        if all.len() <= slot {
            all.resize(slot + 1, 0);
        }
        all[slot] = load;
    }

    /// Counts the wait of an instruction that is about to be executed, if it has to.
    pub(super) fn before(&mut self, operation: &Operation, counts: &mut Counts) {
        match *operation {
            Operation::Compute(Compute::Move(to, from)) => {
                let load = self.source(Register::Word(from));
                return self.set_source(Register::Word(to), load);
            }
            Operation::Compute(Compute::MoveLong(to, from)) => {
                let load = self.source(Register::Long(from));
                return self.set_source(Register::Long(to), load);
            }
            _ => {}
        }
        let mut last = 0;
        operation.registers_read(|register| last = last.max(self.source(register)));
        if self.pending.front().is_none_or(|&(first, _)| first > last) {
            return;
        }
        self.waits += 1;
        counts.waits += 1;
        counts.most_waits = counts.most_waits.max(self.waits);
        counts.awaited += self.bytes;
        while let Some(&(load, bytes)) = self.pending.front() {
            if load > last {
                break;
            }
            self.bytes -= bytes;
            self.pending.pop_front();
        }
    }

    /// Takes note of a load from global memory by so many lanes.
    pub(super) fn after(&mut self, operation: &Operation, lanes: u32) {
        let added;
        let (registers, bytes) = match operation {
            Operation::Load(access) => match access.space {
                Space::Global | Space::Constant => (access.registers(), access.bytes()),
                Space::Shared | Space::Parameter => {
                    let registers = access.registers().iter();
                    return registers.for_each(|&register| self.set_source(register, 0));
                }
            },
            Operation::AtomicAdd(add) => {
                added = [Register::Word(add.to)];
                (&added[..], 4)
            }
            _ => return,
        };
        self.begun += 1;
        for &register in registers {
            self.set_source(register, self.begun);
        }
        let bytes = u64::from(lanes) * bytes as u64;
        self.pending.push_back((self.begun, bytes));
        self.bytes += bytes;
    }
}
