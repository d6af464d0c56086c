//! A block: threads that share memory and synchronise at barriers.

use crate::history::{merge, Fences, Seen, Stamp};
use crate::shared::SharedMemory;

/// What the warps of a block share.
#[derive(Debug)]
pub(crate) struct Block {
    /// Its index, and its position in the grid.
    pub(crate) index: u32,
    pub(crate) place: [u32; 3],
    /// Barriers passed.
    pub(crate) epoch: u32,
    pub(crate) shared: SharedMemory,
    pub(crate) fences: Fences,
    /// What other blocks have published: as of the last fence, and as of the next.
    pub(crate) seen: Seen,
    coming: Seen,
    /// The stamp of any of its threads since the last barrier.
    pub(crate) crowd: Stamp,
}

impl Block {
    pub(crate) fn new(index: u32, place: [u32; 3], threads: usize, shared: usize) -> Self {
        Self {
            index,
            place,
            epoch: 0,
            shared: SharedMemory::of(shared),
            fences: Fences::of(threads),
            seen: Seen::default(),
            coming: Seen::default(),
            crowd: Stamp::NOBODY,
        }
    }

    /// A thread's fence: its earlier writes are published by its later ones, and what it has
    /// received through counters becomes visible.
    pub(crate) fn fence(&mut self, thread: usize) {
        self.release(thread);
        self.acquire();
    }

    /// A thread's earlier writes, and those that it has seen, are published by its later ones.
    pub(crate) fn release(&mut self, thread: usize) {
        self.fences.fence(thread, self.epoch);
    }

    /// What was received through counters becomes visible.
    pub(crate) fn acquire(&mut self) {
        merge(&mut self.seen, &std::mem::take(&mut self.coming));
    }

    pub(crate) fn receive(&mut self, published: &Seen) {
        merge(&mut self.coming, published);
    }
}
