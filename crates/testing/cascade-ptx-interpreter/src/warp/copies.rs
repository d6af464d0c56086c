//! Asynchronous copies from global to shared memory (`cp.async`).

use super::{lanes, Warp};
use crate::block::Block;
use crate::counts::AccessKind;
use crate::error::KernelFault;
use crate::instruction::CopyAsync;
use crate::lanes::{Mask, WARP};
use crate::launch::ActiveLaunch;
use crate::memory::At;

/// Copies of a warp that are under way.
#[derive(Debug, Default)]
pub(super) struct CopyQueue {
    pending: Vec<Pending>,
    /// How many groups each lane has committed.
    groups: [usize; WARP],
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
    /// Read when the copy is waited for, as late as possible.
    Late(At),
    /// Read at once, or zeros.
    Bytes([u8; 16]),
}

impl CopyQueue {
    /// Starts again for a new block.
    pub(super) fn begin(&mut self) {
        self.groups = [0; WARP];
    }

    /// Whether a lane of a mask has copies under way.
    pub(super) fn any(&self, mask: Mask) -> bool {
        self.pending.iter().any(|copy| mask >> copy.lane & 1 == 1)
    }

    pub(super) fn commit(&mut self, mask: Mask) {
        lanes(mask).for_each(|lane| self.groups[lane] += 1);
    }

    /// Whether a copy is complete once the lanes of a mask have waited until at most `pending`
    /// groups are under way.
    fn completes(&self, copy: &Pending, pending: usize, mask: Mask) -> bool {
        mask >> copy.lane & 1 == 1 && copy.group + pending < self.groups[copy.lane]
    }
}

impl Warp {
    pub(super) fn copy(
        &mut self,
        copy: &CopyAsync,
        mask: Mask,
        block: &mut Block,
        launch: &mut ActiveLaunch<'_>,
    ) -> Result<(), KernelFault> {
        let copying = lanes(mask).filter(|&lane| self.registers.word(copy.size)[lane] != 0);
        let copied = copying.fold(0, |mask, lane| mask | 1 << lane);
        self.count(AccessKind::Copy, (copy.from, 16), copied, launch);
        for lane in lanes(mask) {
            self.lane = lane;
            let [to, from] = [copy.to, copy.from].map(|address| self.at(address, 16, lane));
            let thread = self.first_thread + lane;
            block.shared.await_copy(to, thread, block.epoch)?;
            let size = self.registers.word(copy.size)[lane];
            let from = self.source(from, size, block, launch)?;
            let group = self.copies.groups[lane];
            self.copies.pending.push(Pending {
                lane,
                group,
                to,
                from,
            });
        }
        Ok(())
    }

    /// What a lane copies: all sixteen bytes, or zeros.
    fn source(
        &self,
        from: At,
        size: u32,
        block: &Block,
        launch: &mut ActiveLaunch<'_>,
    ) -> Result<Source, KernelFault> {
        match size {
            0 => Ok(Source::Bytes([0; 16])),
            16 => {
                let accessor = self.accessor(self.lane, block, launch);
                let bytes = launch.memory.read(from, false, accessor, launch.history)?;
                Ok(if launch.late {
                    Source::Late(from)
                } else {
                    Source::Bytes(sixteen(bytes))
                })
            }
            partial => Err(KernelFault::PartialCopy(partial)),
        }
    }

    /// Ends copies of all groups but the last `pending`.
    pub(super) fn finish_copies(
        &mut self,
        pending: usize,
        mask: Mask,
        block: &mut Block,
        launch: &mut ActiveLaunch<'_>,
    ) -> Result<(), KernelFault> {
        for copy in std::mem::take(&mut self.copies.pending) {
            if !self.copies.completes(&copy, pending, mask) {
                self.copies.pending.push(copy);
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
        Ok(())
    }
}

fn sixteen(bytes: &[u8]) -> [u8; 16] {
    let mut sixteen = [0; 16];
    sixteen.copy_from_slice(bytes);
    sixteen
}
