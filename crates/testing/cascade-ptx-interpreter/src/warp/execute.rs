//! Instructions that are more than arithmetic in registers.

use super::{lanes, State, Warp};
use crate::block::Block;
use crate::error::KernelFault;
use crate::instruction::{Operation, Shuffle, Tiles};
use crate::lanes::{Mask, WARP};
use crate::launch::ActiveLaunch;
use crate::tile;

impl Warp {
    /// Executes an instruction in the lanes of a mask.
    #[inline]
    pub(super) fn execute(
        &mut self,
        operation: &Operation,
        mask: Mask,
        block: &mut Block,
        launch: &mut ActiveLaunch<'_>,
    ) -> Result<(), KernelFault> {
        match *operation {
            Operation::Compute(ref compute) => self.registers.compute(compute, mask),
            Operation::Load(ref access) => return self.load(access, mask, block, launch),
            Operation::Store(ref access) => return self.store(access, mask, block, launch),
            Operation::AtomicAdd(ref add) => return self.add_atomically(add, mask, block, launch),
            Operation::CopyAsync(ref copy) => return self.copy(copy, mask, block, launch),
            Operation::CopyCommit => self.copies.commit(mask),
            Operation::CopyWait(pending) => {
                return self.finish_copies(pending, mask, block, launch)
            }
            Operation::Barrier => self.state = State::AtBarrier,
            Operation::Fence => lanes(mask).for_each(|lane| block.fence(self.first_thread + lane)),
            Operation::WaitForKernelBefore => self.waited |= mask,
            Operation::LaunchDependents => return self.launch_dependents(mask, launch.overlaps),
            Operation::ShuffleXor(ref shuffle) => return self.shuffle(shuffle, mask),
            Operation::MultiplyTiles(ref tiles) => return self.multiply_tiles(tiles, mask, launch),
            // A step carries them out itself.
            Operation::Branch(_) | Operation::Return => {}
        }
        Ok(())
    }

    fn launch_dependents(&self, mask: Mask, overlaps: bool) -> Result<(), KernelFault> {
        if overlaps && mask & !self.waited != 0 {
            Err(KernelFault::NoWait("lets the next kernel start"))
        } else {
            Ok(())
        }
    }

    fn shuffle(&mut self, shuffle: &Shuffle, mask: Mask) -> Result<(), KernelFault> {
        let word = |slot| *self.registers.word(slot);
        let (value, by) = (word(shuffle.value), word(shuffle.lanes));
        let (clamp, members) = (word(shuffle.clamp)[0], word(shuffle.members)[0]);
        if members != Mask::MAX || mask != Mask::MAX || clamp != WARP as u32 - 1 {
            return Err(KernelFault::Members { members });
        }
        let from = |lane: usize| value[lane ^ (by[lane] as usize % WARP)];
        let exchanged = std::array::from_fn(from);
        self.registers.set(shuffle.to, mask, exchanged);
        Ok(())
    }

    fn multiply_tiles(
        &mut self,
        tiles: &Tiles,
        mask: Mask,
        launch: &mut ActiveLaunch<'_>,
    ) -> Result<(), KernelFault> {
        if mask != Mask::MAX {
            return Err(KernelFault::DivergentWarp);
        }
        if let Some(counts) = &mut launch.counts {
            counts.tiles += 1;
        }
        let word = |slot| *self.registers.word(slot);
        let sums = tile::multiply(
            tiles.half,
            tiles.a.map(word),
            tiles.b.map(word),
            tiles.c.map(word),
        );
        for (slot, sum) in tiles.d.into_iter().zip(sums) {
            self.registers.set(slot, mask, sum);
        }
        Ok(())
    }
}
