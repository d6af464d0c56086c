//! A block: threads that share memory and meet at barriers.

use crate::history::{merge, Fences, Seen, Stamp};
use crate::shared::SharedMemory;

/// What the warps of a block share.
#[derive(Debug)]
pub(crate) struct Block {
    /// Its number, and its place in the grid.
    pub(crate) index: u32,
    pub(crate) place: [u32; 3],
    /// Barriers passed.
    pub(crate) epoch: u32,
    pub(crate) shared: SharedMemory,
    pub(crate) fences: Fences,
    /// What it knows others to have published, and what it will know at the next fence.
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

    /// A thread's fence: what it wrote is published by what is written after, and what counters have brought is seen.
    pub(crate) fn fence(&mut self, thread: usize) {
        self.fences.fence(thread, self.epoch);
        merge(&mut self.seen, &std::mem::take(&mut self.coming));
    }

    pub(crate) fn receive(&mut self, published: &Seen) {
        merge(&mut self.coming, published);
    }
}
