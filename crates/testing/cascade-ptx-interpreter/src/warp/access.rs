//! Loads, stores and atomic additions.

use super::{lanes, Warp};
use crate::block::Block;
use crate::counts::{AccessKind, Addresses};
use crate::error::KernelFault;
use crate::history::Accessor;
use crate::instruction::{Access, Address, AtomicAdd, Register, Space};
use crate::lanes::Mask;
use crate::launch::ActiveLaunch;
use crate::memory::At;

impl Warp {
    /// Where a lane accesses memory.
    pub(super) fn at(&self, address: Address, bytes: usize, lane: usize) -> At {
        let address = self.registers.address(address, lane);
        At { address, bytes }
    }

    /// Counts an access of the lanes of a mask, if accesses are counted.
    pub(super) fn count(
        &self,
        kind: AccessKind,
        (address, bytes): (Address, usize),
        mask: Mask,
        launch: &mut ActiveLaunch<'_>,
    ) {
        if let Some(counts) = &mut launch.counts {
            let lanes = std::array::from_fn(|lane| self.registers.address(address, lane));
            let addresses = Addresses {
                lanes: &lanes,
                mask,
                bytes,
            };
            counts.access(kind, &addresses);
        }
    }

    pub(super) fn accessor<'a>(
        &self,
        lane: usize,
        block: &'a Block,
        launch: &ActiveLaunch<'_>,
    ) -> Accessor<'a> {
        Accessor {
            stamp: self.stamp.of_lane(lane),
            crowd: block.crowd,
            block: block.index,
            epoch: block.epoch,
            early: launch.overlaps && self.waited >> lane & 1 == 0,
            seen: &block.seen,
        }
    }

    pub(super) fn load(
        &mut self,
        access: &Access,
        mask: Mask,
        block: &mut Block,
        launch: &mut ActiveLaunch<'_>,
    ) -> Result<(), KernelFault> {
        let kind = AccessKind::Load(access.space);
        self.count(kind, (access.address, access.bytes()), mask, launch);
        for lane in lanes(mask) {
            self.lane = lane;
            let bytes = self.loaded(access, lane, block, launch)?;
            let registers = &mut self.registers;
            match access.size {
                2 => registers.load::<2>(access.registers(), lane, bytes),
                4 => registers.load::<4>(access.registers(), lane, bytes),
                _ => registers.load::<8>(access.registers(), lane, bytes),
            }
        }
        Ok(())
    }

    /// The bytes that a lane reads.
    #[inline]
    fn loaded<'a>(
        &self,
        access: &Access,
        lane: usize,
        block: &'a mut Block,
        launch: &'a mut ActiveLaunch<'_>,
    ) -> Result<&'a [u8], KernelFault> {
        let at = self.at(access.address, access.bytes(), lane);
        match access.space {
            Space::Parameter => launch.parameter(at),
            Space::Shared => block.shared.read(at, self.first_thread + lane, block.epoch),
            Space::Global | Space::Constant => {
                let accessor = self.accessor(lane, block, launch);
                let constant = access.space == Space::Constant;
                launch.memory.read(at, constant, accessor, launch.history)
            }
        }
    }

    pub(super) fn store(
        &mut self,
        access: &Access,
        mask: Mask,
        block: &mut Block,
        launch: &mut ActiveLaunch<'_>,
    ) -> Result<(), KernelFault> {
        let kind = AccessKind::Store(access.space);
        self.count(kind, (access.address, access.bytes()), mask, launch);
        for lane in lanes(mask) {
            self.lane = lane;
            let bytes = self.stored(access, lane, block, launch)?;
            let registers = &self.registers;
            match access.size {
                2 => registers.store::<2>(access.registers(), lane, bytes),
                4 => registers.store::<4>(access.registers(), lane, bytes),
                _ => registers.store::<8>(access.registers(), lane, bytes),
            }
        }
        Ok(())
    }

    /// The bytes that a lane writes.
    #[inline]
    fn stored<'a>(
        &self,
        access: &Access,
        lane: usize,
        block: &'a mut Block,
        launch: &'a mut ActiveLaunch<'_>,
    ) -> Result<&'a mut [u8], KernelFault> {
        let at = self.at(access.address, access.bytes(), lane);
        let thread = self.first_thread + lane;
        match access.space {
            Space::Shared => block.shared.write(at, thread, block.epoch),
            Space::Global => {
                block.fences.wrote(thread, block.epoch);
                let accessor = self.accessor(lane, block, launch);
                launch.memory.write(at, accessor, launch.history)
            }
            Space::Parameter | Space::Constant => Err(KernelFault::NotConstant {
                address: at.address,
            }),
        }
    }

    pub(super) fn add_atomically(
        &mut self,
        add: &AtomicAdd,
        mask: Mask,
        block: &mut Block,
        launch: &mut ActiveLaunch<'_>,
    ) -> Result<(), KernelFault> {
        for lane in lanes(mask) {
            self.lane = lane;
            let address = self.registers.address(add.address, lane);
            let accessor = self.accessor(lane, block, launch);
            let bytes = launch.memory.count(address, accessor, launch.history)?;
            let mut was = [0; 4];
            was.copy_from_slice(bytes);
            let was = u32::from_le_bytes(was);
            let sum = was.wrapping_add(self.registers.word(add.value)[lane]);
            bytes.copy_from_slice(&sum.to_le_bytes());
            let thread = self.first_thread + lane;
            if add.release {
                block.release(thread);
            }
            let accessor = self.accessor(lane, block, launch);
            let published = block.fences.publish(thread, block.epoch);
            let got = launch.history.exchange(address, accessor, published);
            block.receive(&got);
            if add.acquire {
                block.acquire();
            }
            self.registers
                .set_lane(Register::Word(add.to), lane, was.into());
        }
        Ok(())
    }
}
