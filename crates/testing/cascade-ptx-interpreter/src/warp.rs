//! A warp: 32 lanes that execute the same instructions, together where they are at the same one.

use crate::arithmetic::Relation;
use crate::block::Block;
use crate::counts::{AccessKind, Addresses};
use crate::error::Wrong;
use crate::grid::Launching;
use crate::history::{Stamp, Who};
use crate::instruction::{
    Access, Instruction, Kernel, Logic, Longs, Mask, Operation, Place, Register, Slot, Space, Type,
    Words, WARP,
};
use crate::memory::At;
use crate::tile;

/// Lanes that are at the same instruction.
#[derive(Clone, Copy, Debug)]
struct Group {
    at: usize,
    lanes: Mask,
    /// Whether they wait for the others there.
    waits: bool,
}

/// Sixteen bytes on their way to shared memory.
#[derive(Clone, Copy, Debug)]
struct Pending {
    lane: usize,
    /// Which of the thread's groups it belongs to.
    group: usize,
    to: At,
    from: Source,
}

#[derive(Clone, Copy, Debug)]
enum Source {
    /// Read when the copy is waited for, as late as may be.
    Late(At),
    /// Read at once, or zeros.
    Bytes([u8; 16]),
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
    words: Vec<[u32; WARP]>,
    longs: Vec<[u64; WARP]>,
    predicates: Vec<Mask>,
    groups: Vec<Group>,
    /// Lanes that have not ended.
    live: Mask,
    pub(crate) state: State,
    /// Its first thread's number in the block.
    first_thread: usize,
    /// Lanes that have waited for the kernel before.
    waited: Mask,
    copies: Vec<Pending>,
    copy_groups: [usize; WARP],
    pub(crate) stamp: Stamp,
    /// Where it is, for faults: instruction and lane.
    pub(crate) at: usize,
    pub(crate) lane: usize,
}

fn lanes(mut mask: Mask) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (lane < WARP).then_some(lane)
    })
}

/// Sets a register in the lanes of a mask.
fn put<T: Copy>(to: &mut [T; WARP], mask: Mask, value: [T; WARP]) {
    if mask == Mask::MAX {
        *to = value;
        return;
    }
    for lane in lanes(mask) {
        to[lane] = value[lane];
    }
}

impl Warp {
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
            groups: Vec::new(),
            live: 0,
            state: State::Done,
            first_thread: 0,
            waited: 0,
            copies: Vec::new(),
            copy_groups: [0; WARP],
            stamp: Stamp::NOBODY,
            at: 0,
            lane: 0,
        }
    }

    /// Begins anew as warp `index` of a block.
    pub(crate) fn begin(&mut self, index: usize, block: &Block, launch: &Launching<'_>) {
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
        self.copy_groups = [0; WARP];
        let special = &launch.kernel.special;
        let first = self.first_thread as u32;
        if let Some(slot) = special.thread {
            self.words[usize::from(slot)] = std::array::from_fn(|lane| first + lane as u32);
        }
        let same = [(special.threads, launch.threads)];
        let blocks = special.block.into_iter().zip(block.place);
        let grid = special.blocks.into_iter().zip(launch.grid);
        for (slot, value) in same.into_iter().chain(blocks).chain(grid) {
            if let Some(slot) = slot {
                self.words[usize::from(slot)] = [value; WARP];
            }
        }
    }

    /// Passes a barrier that all of the block have come to.
    pub(crate) fn pass(&mut self, stamp: Stamp) {
        self.stamp = stamp;
        if self.state == State::AtBarrier {
            self.state = State::Ready;
        }
    }

    /// Executes up to so many instructions, until it ends or comes to a barrier.
    pub(crate) fn run(
        &mut self,
        block: &mut Block,
        launch: &mut Launching<'_>,
        mut budget: usize,
    ) -> Result<(), Wrong> {
        let kernel = launch.kernel;
        while self.state == State::Ready && budget > 0 {
            let mut group = self.choose()?;
            let others = self.groups.iter().map(|other| other.at);
            let nearest = others.min().unwrap_or(usize::MAX);
            loop {
                let instruction = &kernel.instructions[group.at];
                (self.at, self.lane) = (group.at, group.lanes.trailing_zeros() as usize);
                if needs_all(&instruction.operation) && group.lanes != self.live {
                    group.waits = true;
                    break;
                }
                let lanes = group.lanes & self.guard(instruction);
                if lanes != 0 && lanes != group.lanes && needs_all(&instruction.operation) {
                    return Err(Wrong::Apart);
                }
                match instruction.operation {
                    Operation::Branch(target) if lanes == group.lanes => group.at = target,
                    Operation::Branch(target) if lanes != 0 => {
                        self.groups.push(Group {
                            at: target,
                            lanes,
                            waits: false,
                        });
                        group.lanes &= !lanes;
                        group.at += 1;
                        break;
                    }
                    Operation::Return => {
                        self.end(lanes, launch.overlaps)?;
                        group.lanes &= !lanes;
                        group.at += 1;
                    }
                    _ => {
                        if lanes != 0 {
                            self.execute(&instruction.operation, lanes, block, launch)?;
                        }
                        group.at += 1;
                    }
                }
                budget = budget.saturating_sub(1);
                if let Some(counts) = &mut launch.counts {
                    counts.instructions += 1;
                }
                let stops = group.lanes == 0 || self.state != State::Ready;
                if stops || budget == 0 || group.at >= nearest {
                    break;
                }
            }
            if group.lanes != 0 {
                self.groups.push(group);
            }
            if self.groups.is_empty() {
                self.state = State::Done;
            }
        }
        Ok(())
    }

    /// Takes the lanes that are furthest behind, all that are at the same instruction.
    fn choose(&mut self) -> Result<Group, Wrong> {
        let free = self.groups.iter().filter(|group| !group.waits);
        let furthest = free.map(|group| group.at).min();
        // Where all wait, they wait for each other: at one instruction, or in vain.
        let at = furthest.unwrap_or(self.groups[0].at);
        let mut lanes = 0;
        self.groups.retain(|group| {
            lanes |= if group.at == at { group.lanes } else { 0 };
            group.at != at
        });
        (self.at, self.lane) = (at, lanes.trailing_zeros() as usize);
        if furthest.is_none() && !self.groups.is_empty() {
            return Err(Wrong::Apart);
        }
        let waits = false;
        Ok(Group { at, lanes, waits })
    }

    fn guard(&self, instruction: &Instruction) -> Mask {
        match instruction.guard {
            None => Mask::MAX,
            Some((slot, true)) => self.predicates[usize::from(slot)],
            Some((slot, false)) => !self.predicates[usize::from(slot)],
        }
    }

    fn end(&mut self, lanes: Mask, overlaps: bool) -> Result<(), Wrong> {
        if self.copies.iter().any(|copy| lanes >> copy.lane & 1 == 1) {
            return Err(Wrong::Copies);
        }
        if overlaps && lanes & !self.waited != 0 {
            return Err(Wrong::NoWait("ends"));
        }
        self.live &= !lanes;
        Ok(())
    }

    fn word(&self, slot: Slot) -> &Words {
        &self.words[usize::from(slot)]
    }

    fn long(&self, slot: Slot) -> &Longs {
        &self.longs[usize::from(slot)]
    }

    fn predicate(&self, slot: Slot) -> Mask {
        self.predicates[usize::from(slot)]
    }

    fn set(&mut self, to: Slot, mask: Mask, value: Words) {
        put(&mut self.words[usize::from(to)], mask, value);
    }

    fn set_long(&mut self, to: Slot, mask: Mask, value: Longs) {
        put(&mut self.longs[usize::from(to)], mask, value);
    }

    fn set_predicate(&mut self, to: Slot, mask: Mask, value: Mask) {
        let to = &mut self.predicates[usize::from(to)];
        *to = *to & !mask | value & mask;
    }

    fn execute(
        &mut self,
        operation: &Operation,
        mask: Mask,
        block: &mut Block,
        launch: &mut Launching<'_>,
    ) -> Result<(), Wrong> {
        match *operation {
            Operation::Load(ref access) => return self.load(access, mask, block, launch),
            Operation::Store(ref access) => return self.store(access, mask, block, launch),
            Operation::AtomicAdd { to, place, add } => {
                return self.add_atomically(to, place, add, mask, block, launch)
            }
            Operation::CopyAsync { to, from, there } => {
                return self.copy(to, from, there, mask, block, launch)
            }
            Operation::CopyCommit => lanes(mask).for_each(|lane| self.copy_groups[lane] += 1),
            Operation::CopyWait(pending) => {
                return self.finish_copies(pending, mask, block, launch)
            }
            Operation::Barrier => self.state = State::AtBarrier,
            Operation::Fence => lanes(mask).for_each(|lane| block.fence(self.first_thread + lane)),
            Operation::WaitForKernelBefore => self.waited |= mask,
            Operation::LaunchDependents if launch.overlaps && mask & !self.waited != 0 => {
                return Err(Wrong::NoWait("lets the next kernel start"));
            }
            Operation::LaunchDependents | Operation::Branch(_) | Operation::Return => {}
            Operation::ShuffleXor {
                to,
                value,
                lanes,
                clamp,
                members,
            } => {
                let (value, by) = (*self.word(value), *self.word(lanes));
                let (clamp, members) = (self.word(clamp)[0], self.word(members)[0]);
                if members != Mask::MAX || mask != Mask::MAX || clamp != WARP as u32 - 1 {
                    return Err(Wrong::Members { members });
                }
                let from = |lane: usize| value[lane ^ (by[lane] as usize % WARP)];
                self.set(to, mask, std::array::from_fn(from));
            }
            Operation::MultiplyTiles { d, a, b, c } => {
                if mask != Mask::MAX {
                    return Err(Wrong::Apart);
                }
                if let Some(counts) = &mut launch.counts {
                    counts.tiles += 1;
                }
                let [a, c] = [a, c].map(|slots| slots.map(|slot| *self.word(slot)));
                let sums = tile::multiply(a, b.map(|slot| *self.word(slot)), c);
                for (slot, sum) in d.into_iter().zip(sums) {
                    self.words[usize::from(slot)] = sum;
                }
            }
            ref computes => self.compute(computes, mask),
        }
        Ok(())
    }

    /// Instructions that know only registers.
    fn compute(&mut self, operation: &Operation, mask: Mask) {
        match *operation {
            Operation::Move(to, from) => self.set(to, mask, *self.word(from)),
            Operation::MoveLong(to, from) => self.set_long(to, mask, *self.long(from)),
            Operation::Unary(value, to, from) => self.set(to, mask, value(self.word(from))),
            Operation::Binary(value, to, [a, b]) => {
                self.set(to, mask, value(self.word(a), self.word(b)));
            }
            Operation::Ternary(value, to, [a, b, c]) => {
                self.set(to, mask, value(self.word(a), self.word(b), self.word(c)));
            }
            Operation::LongBinary(value, to, [a, b]) => {
                self.set_long(to, mask, value(self.long(a), self.long(b)));
            }
            Operation::LongShift(value, to, from, by) => {
                self.set_long(to, mask, value(self.long(from), self.word(by)));
            }
            Operation::Widen(value, to, from) => self.set_long(to, mask, value(self.word(from))),
            Operation::WideProduct(value, to, [a, b]) => {
                self.set_long(to, mask, value(self.word(a), self.word(b)));
            }
            Operation::Narrow(value, to, from) => self.set(to, mask, value(self.long(from))),
            Operation::Compare(kind, relation, to, from) => {
                self.set_predicate(to, mask, self.compare(kind, relation, from));
            }
            Operation::Logic(logic, to, [a, b]) => {
                let (a, b) = (self.predicate(a), self.predicate(b));
                let value = match logic {
                    Logic::And => a & b,
                    Logic::Or => a | b,
                };
                self.set_predicate(to, mask, value);
            }
            Operation::LogicNot(to, from) => self.set_predicate(to, mask, !self.predicate(from)),
            Operation::LogicSet(to, value) => {
                self.set_predicate(to, mask, if value { Mask::MAX } else { 0 });
            }
            // What the second says, and then the first where the predicate holds.
            Operation::Select(to, [a, b], by) => {
                let (a, b, by) = (*self.word(a), *self.word(b), self.predicate(by));
                self.set(to, mask & !by, b);
                self.set(to, mask & by, a);
            }
            Operation::SelectLong(to, [a, b], by) => {
                let (a, b, by) = (*self.long(a), *self.long(b), self.predicate(by));
                self.set_long(to, mask & !by, b);
                self.set_long(to, mask & by, a);
            }
            _ => unreachable!("`execute` knows the rest"),
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

    fn address(&self, place: Place, lane: usize) -> u64 {
        match place.base {
            Register::Long(slot) => {
                self.longs[usize::from(slot)][lane].wrapping_add(place.offset as u64)
            }
            Register::Word(slot) => {
                let base = self.words[usize::from(slot)][lane];
                base.wrapping_add(place.offset as u32).into()
            }
        }
    }

    /// Where a lane accesses memory.
    fn at(&self, place: Place, bytes: usize, lane: usize) -> At {
        let address = self.address(place, lane);
        At { address, bytes }
    }

    /// Counts an access of some lanes, if that is wanted.
    fn count(
        &self,
        kind: AccessKind,
        (place, bytes): (Place, usize),
        mask: Mask,
        launch: &mut Launching<'_>,
    ) {
        if let Some(counts) = &mut launch.counts {
            let lanes = std::array::from_fn(|lane| self.address(place, lane));
            let addresses = Addresses {
                lanes: &lanes,
                mask,
                bytes,
            };
            counts.access(kind, &addresses);
        }
    }

    fn who<'a>(&self, lane: usize, block: &'a Block, launch: &Launching<'_>) -> Who<'a> {
        Who {
            stamp: self.stamp.of_lane(lane),
            crowd: block.crowd,
            block: block.index,
            epoch: block.epoch,
            early: launch.overlaps && self.waited >> lane & 1 == 0,
            seen: &block.seen,
        }
    }

    fn load(
        &mut self,
        access: &Access,
        mask: Mask,
        block: &mut Block,
        launch: &mut Launching<'_>,
    ) -> Result<(), Wrong> {
        let kind = AccessKind::Load(access.space);
        self.count(kind, (access.place, access.bytes()), mask, launch);
        for lane in lanes(mask) {
            self.lane = lane;
            let at = self.at(access.place, access.bytes(), lane);
            let bytes = match access.space {
                Space::Parameter => launch.parameter(at)?,
                Space::Shared => block
                    .shared
                    .read(at, self.first_thread + lane, block.epoch)?,
                Space::Global | Space::Constant => {
                    let who = self.who(lane, block, launch);
                    let constant = access.space == Space::Constant;
                    launch.memory.read(at, constant, who, launch.history)?
                }
            };
            let numbers = bytes.chunks_exact(access.size).map(number);
            for (register, value) in access.registers().iter().zip(numbers) {
                match *register {
                    Register::Word(slot) => self.words[usize::from(slot)][lane] = value as u32,
                    Register::Long(slot) => self.longs[usize::from(slot)][lane] = value,
                }
            }
        }
        Ok(())
    }

    fn store(
        &mut self,
        access: &Access,
        mask: Mask,
        block: &mut Block,
        launch: &mut Launching<'_>,
    ) -> Result<(), Wrong> {
        let kind = AccessKind::Store(access.space);
        self.count(kind, (access.place, access.bytes()), mask, launch);
        for lane in lanes(mask) {
            self.lane = lane;
            let at = self.at(access.place, access.bytes(), lane);
            let thread = self.first_thread + lane;
            let bytes = match access.space {
                Space::Shared => block.shared.write(at, thread, block.epoch)?,
                Space::Global => {
                    block.fences.wrote(thread, block.epoch);
                    let who = self.who(lane, block, launch);
                    launch.memory.write(at, who, launch.history)?
                }
                Space::Parameter | Space::Constant => {
                    return Err(Wrong::NotConstant {
                        address: at.address,
                    })
                }
            };
            for (register, to) in access.registers().iter().zip(bytes.chunks_mut(access.size)) {
                let value = match *register {
                    Register::Word(slot) => self.words[usize::from(slot)][lane].into(),
                    Register::Long(slot) => self.longs[usize::from(slot)][lane],
                };
                to.copy_from_slice(&value.to_le_bytes()[..access.size]);
            }
        }
        Ok(())
    }

    fn add_atomically(
        &mut self,
        to: Slot,
        place: Place,
        add: Slot,
        mask: Mask,
        block: &mut Block,
        launch: &mut Launching<'_>,
    ) -> Result<(), Wrong> {
        for lane in lanes(mask) {
            self.lane = lane;
            let address = self.address(place, lane);
            let who = self.who(lane, block, launch);
            let bytes = launch.memory.count(address, who, launch.history)?;
            let mut was = [0; 4];
            was.copy_from_slice(bytes);
            let was = u32::from_le_bytes(was);
            let sum = was.wrapping_add(self.words[usize::from(add)][lane]);
            bytes.copy_from_slice(&sum.to_le_bytes());
            let published = block.fences.publish(self.first_thread + lane, block.epoch);
            let got = launch.history.exchange(address, who, published);
            block.receive(&got);
            self.words[usize::from(to)][lane] = was;
        }
        Ok(())
    }

    fn copy(
        &mut self,
        to: Place,
        from: Place,
        there: Slot,
        mask: Mask,
        block: &mut Block,
        launch: &mut Launching<'_>,
    ) -> Result<(), Wrong> {
        let there_at_all = lanes(mask).filter(|&lane| self.word(there)[lane] != 0);
        let copied = there_at_all.fold(0, |mask, lane| mask | 1 << lane);
        self.count(AccessKind::Copy, (from, 16), copied, launch);
        for lane in lanes(mask) {
            self.lane = lane;
            let [to, from] = [to, from].map(|place| self.at(place, 16, lane));
            block
                .shared
                .await_copy(to, self.first_thread + lane, block.epoch)?;
            let from = match self.words[usize::from(there)][lane] {
                0 => Source::Bytes([0; 16]),
                16 => {
                    let who = self.who(lane, block, launch);
                    let bytes = launch.memory.read(from, false, who, launch.history)?;
                    match launch.late {
                        true => Source::Late(from),
                        false => Source::Bytes(sixteen(bytes)),
                    }
                }
                some => return Err(Wrong::PartialCopy(some)),
            };
            self.copies.push(Pending {
                lane,
                group: self.copy_groups[lane],
                to,
                from,
            });
        }
        Ok(())
    }

    /// Ends copies of all groups but the last `pending`.
    fn finish_copies(
        &mut self,
        pending: usize,
        mask: Mask,
        block: &mut Block,
        launch: &mut Launching<'_>,
    ) -> Result<(), Wrong> {
        let mut kept = Vec::new();
        for copy in std::mem::take(&mut self.copies) {
            let waits = mask >> copy.lane & 1 == 1;
            if !waits || copy.group + pending >= self.copy_groups[copy.lane] {
                kept.push(copy);
                continue;
            }
            self.lane = copy.lane;
            let bytes = match copy.from {
                Source::Bytes(bytes) => bytes,
                Source::Late(from) => sixteen(launch.memory.peek(from)?),
            };
            let thread = self.first_thread + copy.lane;
            let to = block.shared.copied(copy.to, thread, block.epoch)?;
            to.copy_from_slice(&bytes);
        }
        self.copies = kept;
        Ok(())
    }
}

fn number(bytes: &[u8]) -> u64 {
    match *bytes {
        [a, b] => u16::from_le_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => unreachable!("numbers have two, four or eight bytes"),
    }
}

fn sixteen(bytes: &[u8]) -> [u8; 16] {
    let mut sixteen = [0; 16];
    sixteen.copy_from_slice(bytes);
    sixteen
}

/// What all lanes of a warp must do together.
fn needs_all(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::ShuffleXor { .. } | Operation::MultiplyTiles { .. } | Operation::Barrier
    )
}
