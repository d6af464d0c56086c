//! Loads of a warp that are under way: what it waits for, and how much comes together.
//!
//! As on a GPU, a load gives its registers later, and the warp goes on until an instruction reads
//! one of them. Time is counted in instructions of the warp: each takes one, and a load arrives
//! [`LATENCY`] after it began. A register that is only copied is not waited for: assemblers give
//! both copies one register where they can.

use std::collections::VecDeque;

use crate::counts::Counts;
use crate::instruction::{Compute, Operation, Register, Space};

/// How long a load takes: so long that whatever is loaded together comes together.
const LATENCY: u64 = 1000;

/// Loads under way, by the time of their arrival.
#[derive(Debug, Default)]
pub(super) struct Flight {
    /// When the load that gives each register arrives; 0 if none does.
    words: Vec<u64>,
    longs: Vec<u64>,
    /// Arrival and bytes of loads.
    pending: VecDeque<(u64, u64)>,
    bytes: u64,
    now: u64,
    /// What of that was spent waiting.
    waited: u64,
}

impl Flight {
    /// Starts again for a new block.
    pub(super) fn begin(&mut self) {
        *self = Self::default();
    }

    fn arrival(&self, register: Register) -> u64 {
        let (all, slot) = match register {
            Register::Word(slot) => (&self.words, slot),
            Register::Long(slot) => (&self.longs, slot),
        };
        all.get(usize::from(slot)).copied().unwrap_or(0)
    }

    fn set_arrival(&mut self, register: Register, time: u64) {
        let (all, slot) = match register {
            Register::Word(slot) => (&mut self.words, usize::from(slot)),
            Register::Long(slot) => (&mut self.longs, usize::from(slot)),
        };
        if all.len() <= slot {
            all.resize(slot + 1, 0);
        }
        all[slot] = time;
    }

    /// Counts the wait of an instruction that is about to be executed, if it has to.
    pub(super) fn before(&mut self, operation: &Operation, counts: &mut Counts) {
        self.now += 1;
        match *operation {
            Operation::Compute(Compute::Move(to, from)) => {
                let time = self.arrival(Register::Word(from));
                return self.set_arrival(Register::Word(to), time);
            }
            Operation::Compute(Compute::MoveLong(to, from)) => {
                let time = self.arrival(Register::Long(from));
                return self.set_arrival(Register::Long(to), time);
            }
            _ => {}
        }
        self.forget_arrived();
        let mut last = 0;
        operation.registers_read(|register| last = last.max(self.arrival(register)));
        if last <= self.now {
            return;
        }
        self.waited += last - self.now;
        self.now = last;
        counts.waits += 1;
        counts.awaited += self.bytes;
        counts.latencies = counts.latencies.max(self.waited as f64 / LATENCY as f64);
        self.forget_arrived();
    }

    fn forget_arrived(&mut self) {
        while let Some(&(time, bytes)) = self.pending.front() {
            if time > self.now {
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
                    return registers.for_each(|&register| self.set_arrival(register, 0));
                }
            },
            Operation::AtomicAdd(add) => {
                added = [Register::Word(add.to)];
                (&added[..], 4)
            }
            _ => return,
        };
        let time = self.now + LATENCY;
        for &register in registers {
            self.set_arrival(register, time);
        }
        let bytes = u64::from(lanes) * bytes as u64;
        self.pending.push_back((time, bytes));
        self.bytes += bytes;
    }
}
