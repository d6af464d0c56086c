//! A warp: 32 lanes that execute the same instructions, together where they are at the same one.

mod access;
mod copies;
mod execute;
mod flight;

use crate::block::Block;
use crate::error::KernelFault;
use crate::history::Stamp;
use crate::instruction::{Instruction, Kernel, Operation};
use crate::lanes::{Mask, WARP};
use crate::launch::ActiveLaunch;
use crate::registers::Registers;
use copies::CopyQueue;
use flight::Flight;

/// Lanes that are at the same instruction.
#[derive(Clone, Copy, Debug)]
struct Group {
    at: usize,
    lanes: Mask,
    /// Whether they wait for the others there.
    waits: bool,
}

/// What a group does after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Continues,
    /// It waits for other lanes, or has split.
    Pauses,
}

/// What a warp does when it stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    AtBarrier,
    Done,
}

/// A warp and its registers.
#[derive(Debug)]
pub(crate) struct Warp {
    registers: Registers,
    groups: Vec<Group>,
    /// Lanes that have not ended.
    live: Mask,
    pub(crate) state: State,
    /// The index of its first thread in the block.
    first_thread: usize,
    /// Lanes that have waited for the kernel before.
    waited: Mask,
    copies: CopyQueue,
    /// Only if waits are counted.
    flight: Flight,
    pub(crate) stamp: Stamp,
    /// Where it is, for faults: instruction and lane.
    pub(crate) at: usize,
    pub(crate) lane: usize,
}

/// The lanes of a mask, in ascending order.
fn lanes(mut mask: Mask) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (lane < WARP).then_some(lane)
    })
}

fn first_lane(mask: Mask) -> usize {
    mask.trailing_zeros() as usize
}

impl Warp {
    pub(crate) fn new(kernel: &Kernel) -> Self {
        Self {
            registers: Registers::new(kernel),
            groups: Vec::new(),
            live: 0,
            state: State::Done,
            first_thread: 0,
            waited: 0,
            copies: CopyQueue::default(),
            flight: Flight::default(),
            stamp: Stamp::NOBODY,
            at: 0,
            lane: 0,
        }
    }

    /// Starts again as warp `index` of a block.
    pub(crate) fn begin(&mut self, index: usize, block: &Block, launch: &ActiveLaunch<'_>) {
        self.first_thread = index * WARP;
        let count = (launch.threads as usize - self.first_thread).min(WARP);
        self.live = Mask::MAX >> (WARP - count);
        self.groups.clear();
        self.groups.push(Group {
            at: 0,
            lanes: self.live,
            waits: false,
        });
        self.state = State::Ready;
        self.waited = 0;
        self.copies.begin();
        if launch.counts.is_some() {
            self.flight.begin();
        }
        self.registers.locate(self.first_thread, block, launch);
    }

    /// Passes a barrier that the whole block has reached.
    pub(crate) fn pass(&mut self, stamp: Stamp) {
        self.stamp = stamp;
        if self.state == State::AtBarrier {
            self.state = State::Ready;
        }
    }

    /// Executes at most `budget` instructions, until it ends or reaches a barrier.
    pub(crate) fn run(
        &mut self,
        block: &mut Block,
        launch: &mut ActiveLaunch<'_>,
        mut budget: usize,
    ) -> Result<(), KernelFault> {
        while self.state == State::Ready && budget > 0 {
            let mut group = self.choose()?;
            self.advance(&mut group, &mut budget, block, launch)?;
            if group.lanes != 0 {
                self.groups.push(group);
            }
            if self.groups.is_empty() {
                self.state = State::Done;
            }
        }
        Ok(())
    }

    /// Executes a group until it pauses, ends, or reaches the place of another group.
    fn advance(
        &mut self,
        group: &mut Group,
        budget: &mut usize,
        block: &mut Block,
        launch: &mut ActiveLaunch<'_>,
    ) -> Result<(), KernelFault> {
        let others = self.groups.iter().map(|other| other.at);
        let nearest = others.min().unwrap_or(usize::MAX);
        while self.step(group, block, launch)? == Flow::Continues {
            *budget = budget.saturating_sub(1);
            if let Some(counts) = &mut launch.counts {
                counts.instructions += 1;
            }
            let stops = group.lanes == 0 || self.state != State::Ready;
            if stops || *budget == 0 || group.at >= nearest {
                break;
            }
        }
        Ok(())
    }

    /// Executes the instruction that a group is at.
    #[inline]
    fn step(
        &mut self,
        group: &mut Group,
        block: &mut Block,
        launch: &mut ActiveLaunch<'_>,
    ) -> Result<Flow, KernelFault> {
        let kernel = launch.kernel;
        let instruction = &kernel.instructions[group.at];
        (self.at, self.lane) = (group.at, first_lane(group.lanes));
        let whole_warp = needs_whole_warp(&instruction.operation);
        if whole_warp && group.lanes != self.live {
            group.waits = true;
            return Ok(Flow::Pauses);
        }
        let lanes = group.lanes & self.guard(instruction);
        if whole_warp && lanes != 0 && lanes != group.lanes {
            return Err(KernelFault::DivergentWarp);
        }
        match &instruction.operation {
            Operation::Branch(target) => return Ok(self.branch(group, lanes, *target)),
            Operation::Return => {
                self.end(lanes, launch.overlaps)?;
                group.lanes &= !lanes;
            }
            _ if lanes == 0 => {}
            operation => match &mut launch.counts {
                None => self.execute(operation, lanes, block, launch)?,
                Some(counts) => {
                    self.flight.before(operation, counts);
                    self.execute(operation, lanes, block, launch)?;
                    self.flight.after(operation, lanes.count_ones());
                }
            },
        }
        group.at += 1;
        Ok(Flow::Continues)
    }

    /// Sends the lanes of a mask to another instruction. A group of which only some lanes go there
    /// splits.
    fn branch(&mut self, group: &mut Group, lanes: Mask, target: usize) -> Flow {
        if lanes == group.lanes {
            group.at = target;
            return Flow::Continues;
        }
        group.at += 1;
        if lanes == 0 {
            return Flow::Continues;
        }
        group.lanes &= !lanes;
        self.groups.push(Group {
            at: target,
            lanes,
            waits: false,
        });
        Flow::Pauses
    }

    /// Takes the lanes that are furthest behind, all that are at the same instruction.
    fn choose(&mut self) -> Result<Group, KernelFault> {
        let free = self.groups.iter().filter(|group| !group.waits);
        let furthest = free.map(|group| group.at).min();
        // Where all wait, they wait for each other: at one instruction, or in vain.
        let at = furthest.unwrap_or(self.groups[0].at);
        let mut lanes = 0;
        self.groups.retain(|group| {
            lanes |= if group.at == at { group.lanes } else { 0 };
            group.at != at
        });
        (self.at, self.lane) = (at, first_lane(lanes));
        if furthest.is_none() && !self.groups.is_empty() {
            return Err(KernelFault::DivergentWarp);
        }
        let waits = false;
        Ok(Group { at, lanes, waits })
    }

    fn guard(&self, instruction: &Instruction) -> Mask {
        match instruction.guard {
            None => Mask::MAX,
            Some((slot, true)) => self.registers.predicate(slot),
            Some((slot, false)) => !self.registers.predicate(slot),
        }
    }

    fn end(&mut self, lanes: Mask, overlaps: bool) -> Result<(), KernelFault> {
        if self.copies.any(lanes) {
            return Err(KernelFault::Copies);
        }
        if overlaps && lanes & !self.waited != 0 {
            return Err(KernelFault::NoWait("ends"));
        }
        self.live &= !lanes;
        Ok(())
    }
}

/// Whether all lanes of a warp must execute it together.
fn needs_whole_warp(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::ShuffleXor { .. } | Operation::MultiplyTiles { .. } | Operation::Barrier
    )
}
