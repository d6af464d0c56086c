//! The happens-before order of memory accesses.
//!
//! Within a block, barriers order accesses: those before one come before those after it. Blocks of
//! a launch are ordered by counters only: a block whose threads have published what they wrote (a
//! fence, then a barrier; or a barrier, then an addition that releases) adds to a counter; a block
//! that adds to it later, and passes a fence or acquires by the addition, sees what was published.
//! Launches come one after the other, unless they overlap: then the one before may be running until
//! a thread has waited for it.

use rustc_hash::FxHashMap;

use crate::error::KernelFault;
use crate::lanes::WARP;

/// A thread between two barriers of a launch. Later stamps are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(u32);

impl Stamp {
    pub(crate) const NOBODY: Self = Self(0);

    pub(crate) fn of_lane(self, lane: usize) -> Self {
        Self(self.0 + lane as u32)
    }
}

/// For each block, how many barriers it had passed when it published what it wrote.
pub(crate) type Seen = FxHashMap<u32, u32>;

/// A thread that accesses memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accessor<'a> {
    pub(crate) stamp: Stamp,
    /// The stamp of any thread of its block between the same barriers.
    pub(crate) crowd: Stamp,
    pub(crate) block: u32,
    /// Barriers that the block has passed.
    pub(crate) epoch: u32,
    /// Whether the kernel before may still be running.
    pub(crate) early: bool,
    /// What the block has seen others publish.
    pub(crate) seen: &'a Seen,
}

/// Stamps that differ in the lane only.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// The block; none stands for several blocks.
    block: Option<u32>,
    epoch: u32,
    /// Whether it stands for any thread of the block.
    any: bool,
}

/// Stamps of the running launch and the one before, and what blocks have published through
/// counters.
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
    /// Begins a launch. Returns whether stamps start again, so that all earlier ones must be
    /// forgotten.
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

    /// The stamp of the first lane of a warp after `epoch` barriers; with `any`, one that stands
    /// for all threads of the block.
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

    /// Whether the access of `stamp` comes before that of `accessor`, both of this launch.
    fn ordered(&self, stamp: Stamp, group: Group, accessor: Accessor<'_>) -> bool {
        match group.block {
            Some(block) if block == accessor.block => {
                group.epoch < accessor.epoch || (stamp == accessor.stamp && !group.any)
            }
            Some(block) => accessor
                .seen
                .get(&block)
                .is_some_and(|&seen| group.epoch < seen),
            None => false,
        }
    }

    fn race(
        &self,
        stamp: Stamp,
        group: Group,
        accessor: Accessor<'_>,
        address: u64,
        did: &str,
        does: &str,
    ) -> KernelFault {
        let other = stamp.0 % WARP as u32;
        let how = match group.block {
            Some(block) if block == accessor.block => {
                let how = format!("lane {other} of a warp {did} it, another {does} it");
                let space = "global memory";
                return KernelFault::RaceInBlock {
                    space,
                    address,
                    how,
                };
            }
            Some(block) => format!("block {block} {did} it, block {} {does} it", accessor.block),
            None => format!(
                "several blocks {did} it, block {} {does} it",
                accessor.block
            ),
        };
        KernelFault::RaceOfBlocks { address, how }
    }

    /// Whether it is of this launch or the one before: earlier ones cannot race.
    pub(crate) fn is_recent(&self, stamp: Stamp) -> bool {
        stamp.0 >= self.before
    }

    /// Checks a read of memory that `writer`, which is [recent](Self::is_recent), has written.
    pub(crate) fn before_read(
        &self,
        writer: Stamp,
        address: u64,
        constant: bool,
        accessor: Accessor<'_>,
    ) -> Result<(), KernelFault> {
        let Some(group) = self.of(writer) else {
            return self.not_early(accessor, address, "read", "wrote");
        };
        if constant {
            return Err(KernelFault::NotConstant { address });
        }
        if self.ordered(writer, group, accessor) {
            Ok(())
        } else {
            Err(self.race(writer, group, accessor, address, "writes", "reads"))
        }
    }

    /// The recorded reader once `accessor` has read too.
    pub(crate) fn reader_after(&self, reader: Stamp, accessor: Accessor<'_>) -> Stamp {
        if reader.0 < self.first || reader == accessor.stamp {
            return accessor.stamp;
        }
        // It stands for several already.
        if reader.0 == self.first || reader == accessor.crowd {
            return reader;
        }
        let Some(group) = self.of(reader) else {
            return accessor.stamp;
        };
        if self.ordered(reader, group, accessor) {
            return accessor.stamp;
        }
        match group.block {
            // Another thread of the block, with no barrier between.
            Some(block) if block == accessor.block => accessor.crowd,
            _ => Stamp(self.first),
        }
    }

    pub(crate) fn before_write(
        &self,
        reader: Stamp,
        writer: Stamp,
        address: u64,
        accessor: Accessor<'_>,
    ) -> Result<(), KernelFault> {
        for (stamp, did) in [(reader, "reads"), (writer, "writes")] {
            if !self.is_recent(stamp) {
                continue;
            }
            let Some(group) = self.of(stamp) else {
                let its = if did == "reads" { "read" } else { "wrote" };
                self.not_early(accessor, address, "written", its)?;
                continue;
            };
            if !self.ordered(stamp, group, accessor) {
                return Err(self.race(stamp, group, accessor, address, did, "writes"));
            }
        }
        Ok(())
    }

    fn not_early(
        &self,
        accessor: Accessor<'_>,
        address: u64,
        how: &'static str,
        its: &'static str,
    ) -> Result<(), KernelFault> {
        if accessor.early {
            Err(KernelFault::TooEarly { address, how, its })
        } else {
            Ok(())
        }
    }

    /// Whether a word is a counter of this launch.
    pub(crate) fn counts(&self, address: u64) -> bool {
        self.counters.contains_key(&address)
    }

    pub(crate) fn counts_from_now(&mut self, address: u64) {
        self.counters.entry(address).or_default();
    }

    /// A block adds to a counter: it receives what others have published there, and publishes what
    /// it has seen and, if `published`, what it has written.
    pub(crate) fn exchange(
        &mut self,
        address: u64,
        accessor: Accessor<'_>,
        published: bool,
    ) -> Seen {
        let counter = self.counters.entry(address).or_default();
        let got = counter.clone();
        merge(counter, accessor.seen);
        if published {
            counter.insert(accessor.block, accessor.epoch);
        }
        got
    }
}

/// Adds what another block has seen.
pub(crate) fn merge(seen: &mut Seen, others: &Seen) {
    for (&block, &epoch) in others {
        let known = seen.entry(block).or_default();
        *known = epoch.max(*known);
    }
}

/// Which threads of a block have executed a fence after their writes.
#[derive(Debug, Default)]
pub(crate) struct Fences {
    /// For each thread, the epoch of its first write since its last fence.
    open: Vec<Option<u32>>,
    /// For each thread, the epoch of its last fence.
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

    /// Whether what this thread writes now publishes everything that was written before the last
    /// barrier: all writers have executed a fence, or this thread has done so since the barrier,
    /// after which it has seen what they wrote.
    pub(crate) fn publish(&self, thread: usize, epoch: u32) -> bool {
        let fenced = |open: &Option<u32>| open.is_none_or(|written| written >= epoch);
        self.last[thread] == Some(epoch) || self.open.iter().all(fenced)
    }
}
