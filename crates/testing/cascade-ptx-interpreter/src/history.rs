//! Who did what to memory before whom.
//!
//! Within a block, barriers order accesses: those before one come before those after it. Between blocks of a launch nothing does, but
//! counters: a block whose threads have published what they wrote (a fence, then a barrier) adds to a counter; a block that adds to
//! it later, and passes a fence, sees what was published. Launches come one after the other, unless they overlap: then the one before
//! may be at work until a thread has waited for it.

use rustc_hash::FxHashMap;

use crate::error::Wrong;
use crate::instruction::WARP;

/// A thread between two barriers of a launch, by number: the later, the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(u32);

impl Stamp {
    pub(crate) const NOBODY: Self = Self(0);

    pub(crate) fn of_lane(self, lane: usize) -> Self {
        Self(self.0 + lane as u32)
    }
}

/// Numbers of barriers that blocks had passed when they published what they wrote.
pub(crate) type Seen = FxHashMap<u32, u32>;

/// A thread that accesses memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who<'a> {
    pub(crate) stamp: Stamp,
    /// Any thread of its block, between the same barriers.
    pub(crate) crowd: Stamp,
    pub(crate) block: u32,
    /// Barriers that the block has passed.
    pub(crate) epoch: u32,
    /// Whether the kernel before may still be at work.
    pub(crate) early: bool,
    /// What the block has seen others publish.
    pub(crate) seen: &'a Seen,
}

/// Threads that share a number but for the lane.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// The block; or several, if there is none.
    block: Option<u32>,
    epoch: u32,
    /// Whether any thread of the block may be meant.
    any: bool,
}

/// Stamps of the launch at work and the one before, and what counters have brought from block to block.
#[derive(Debug)]
pub(crate) struct History {
    /// The first stamp of the launch before, and of this one.
    before: u32,
    first: u32,
    groups: Vec<Group>,
    counters: FxHashMap<u64, Seen>,
}

impl Default for History {
    fn default() -> Self {
        Self {
            before: 1,
            first: 1,
            groups: Vec::new(),
            counters: FxHashMap::default(),
        }
    }
}

impl History {
    /// A launch begins. Whether stamps begin anew, so that all that were given must be forgotten.
    pub(crate) fn launch(&mut self) -> bool {
        let used = (self.groups.len() * WARP) as u32;
        self.before = self.first;
        self.first += used;
        let anew = self.first > u32::MAX / 2;
        if anew {
            *self = Self::default();
        }
        self.groups.clear();
        self.counters.clear();
        self.groups.push(Group {
            block: None,
            epoch: 0,
            any: true,
        });
        anew
    }

    /// Stamps of a warp's lanes after so many barriers; or one of any thread of the block.
    pub(crate) fn stamps(&mut self, block: u32, epoch: u32, any: bool) -> Stamp {
        self.groups.push(Group {
            block: Some(block),
            epoch,
            any,
        });
        Stamp(self.first + ((self.groups.len() - 1) * WARP) as u32)
    }

    fn of(&self, stamp: Stamp) -> Option<Group> {
        let number = stamp.0.checked_sub(self.first)?;
        self.groups.get(number as usize / WARP).copied()
    }

    /// Whether what `stamp` did comes before what `who` does, both of this launch.
    fn ordered(&self, stamp: Stamp, group: Group, who: Who<'_>) -> bool {
        match group.block {
            Some(block) if block == who.block => {
                group.epoch < who.epoch || (stamp == who.stamp && !group.any)
            }
            Some(block) => who.seen.get(&block).is_some_and(|&seen| group.epoch < seen),
            None => false,
        }
    }

    fn race(
        &self,
        stamp: Stamp,
        group: Group,
        who: Who<'_>,
        address: u64,
        did: &str,
        does: &str,
    ) -> Wrong {
        let other = stamp.0 % WARP as u32;
        let how = match group.block {
            Some(block) if block == who.block => {
                let how = format!("lane {other} of a warp {did} it, another {does} it");
                let space = "global memory";
                return Wrong::RaceInBlock {
                    space,
                    address,
                    how,
                };
            }
            Some(block) => format!("block {block} {did} it, block {} {does} it", who.block),
            None => format!("several blocks {did} it, block {} {does} it", who.block),
        };
        Wrong::RaceOfBlocks { address, how }
    }

    /// Whether it is of this launch or the one before: what was done earlier concerns nobody.
    pub(crate) fn is_recent(&self, stamp: Stamp) -> bool {
        stamp.0 >= self.before
    }

    /// What reading a place where `writer` has written means; it is [recent](Self::is_recent).
    pub(crate) fn before_read(
        &self,
        writer: Stamp,
        address: u64,
        constant: bool,
        who: Who<'_>,
    ) -> Result<(), Wrong> {
        let Some(group) = self.of(writer) else {
            return self.not_early(who, address, "read", "wrote");
        };
        if constant {
            return Err(Wrong::NotConstant { address });
        }
        match self.ordered(writer, group, who) {
            true => Ok(()),
            false => Err(self.race(writer, group, who, address, "writes", "reads")),
        }
    }

    /// The note of readers once `who` has read too.
    pub(crate) fn reader_after(&self, reader: Stamp, who: Who<'_>) -> Stamp {
        if reader.0 < self.first || reader == who.stamp {
            return who.stamp;
        }
        let Some(group) = self.of(reader) else {
            return who.stamp;
        };
        if self.ordered(reader, group, who) {
            return who.stamp;
        }
        match group.block {
            // Another thread of the block, with no barrier between.
            Some(block) if block == who.block => who.crowd,
            _ => Stamp(self.first),
        }
    }

    pub(crate) fn before_write(
        &self,
        reader: Stamp,
        writer: Stamp,
        address: u64,
        who: Who<'_>,
    ) -> Result<(), Wrong> {
        for (stamp, did) in [(reader, "reads"), (writer, "writes")] {
            if !self.is_recent(stamp) {
                continue;
            }
            let Some(group) = self.of(stamp) else {
                let its = if did == "reads" { "read" } else { "wrote" };
                self.not_early(who, address, "written", its)?;
                continue;
            };
            if !self.ordered(stamp, group, who) {
                return Err(self.race(stamp, group, who, address, did, "writes"));
            }
        }
        Ok(())
    }

    fn not_early(
        &self,
        who: Who<'_>,
        address: u64,
        how: &'static str,
        its: &'static str,
    ) -> Result<(), Wrong> {
        match who.early {
            true => Err(Wrong::TooEarly { address, how, its }),
            false => Ok(()),
        }
    }

    /// Whether a word was added to in this launch.
    pub(crate) fn counts(&self, address: u64) -> bool {
        self.counters.contains_key(&address)
    }

    pub(crate) fn counts_from_now(&mut self, address: u64) {
        self.counters.entry(address).or_default();
    }

    /// A block adds to a counter: it gets what others have published there, and publishes what it knows and (if `published`) did before.
    pub(crate) fn exchange(&mut self, address: u64, who: Who<'_>, published: bool) -> Seen {
        let counter = self.counters.entry(address).or_default();
        let got = counter.clone();
        merge(counter, who.seen);
        if published {
            counter.insert(who.block, who.epoch);
        }
        got
    }
}

/// Takes what another has seen.
pub(crate) fn merge(seen: &mut Seen, others: &Seen) {
    for (&block, &epoch) in others {
        let known = seen.entry(block).or_default();
        *known = epoch.max(*known);
    }
}

/// Which threads of a block have fenced what they wrote.
#[derive(Debug, Default)]
pub(crate) struct Fences {
    /// For each thread, the number of barriers passed at its first write that it has not fenced.
    open: Vec<Option<u32>>,
    /// For each thread, the number of barriers passed at its last fence.
    last: Vec<Option<u32>>,
}

impl Fences {
    pub(crate) fn of(threads: usize) -> Self {
        Self {
            open: vec![None; threads],
            last: vec![None; threads],
        }
    }

    pub(crate) fn wrote(&mut self, thread: usize, epoch: u32) {
        self.open[thread].get_or_insert(epoch);
    }

    pub(crate) fn fence(&mut self, thread: usize, epoch: u32) {
        self.open[thread] = None;
        self.last[thread] = Some(epoch);
    }

    /// Whether everything written before the last barrier is published by what this thread writes now: those who wrote have fenced, or this
    /// thread has fenced since the barrier, after which it has seen what they wrote.
    pub(crate) fn publish(&self, thread: usize, epoch: u32) -> bool {
        let fenced = |open: &Option<u32>| open.is_none_or(|written| written >= epoch);
        self.last[thread] == Some(epoch) || self.open.iter().all(fenced)
    }
}
