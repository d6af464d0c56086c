//! The device's memory, with a record of who read and wrote each two bytes last.

use crate::error::KernelFault;
use crate::history::{Accessor, History, Stamp};

/// An address is the number of an allocation and an offset in it, so that no access beyond its end
/// reaches another.
const OFFSET_BITS: u32 = 36;

/// The device's memory.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// By number, from 1; `None` once it is freed. Numbers are never used again.
    allocations: Vec<Option<Allocation>>,
    allocated: usize,
}

#[derive(Debug)]
struct Allocation {
    bytes: Box<[u8]>,
    /// Accessor read and wrote each two bytes last.
    readers: Box<[Stamp]>,
    writers: Box<[Stamp]>,
}

/// An access of a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) address: u64,
    pub(crate) bytes: usize,
}

impl Memory {
    /// Allocates memory filled with ones, which are NaN in every float format: results must not
    /// depend on memory that was never written.
    pub(crate) fn allocate(&mut self, bytes: usize) -> u64 {
        let halves = bytes.div_ceil(2);
        self.allocations.push(Some(Allocation {
            bytes: vec![0xff; bytes].into(),
            readers: vec![Stamp::NOBODY; halves].into(),
            writers: vec![Stamp::NOBODY; halves].into(),
        }));
        self.allocated += bytes;
        (self.allocations.len() as u64) << OFFSET_BITS
    }

    pub(crate) fn free(&mut self, address: u64) {
        let number = (address >> OFFSET_BITS) as usize;
        let freed = number
            .checked_sub(1)
            .and_then(|index| self.allocations.get_mut(index)?.take());
        self.allocated -= freed.map_or(0, |allocation| allocation.bytes.len());
    }

    pub(crate) fn allocated(&self) -> usize {
        self.allocated
    }

    fn find(&mut self, at: At) -> Result<(&mut Allocation, usize), KernelFault> {
        let start = (at.address & ((1 << OFFSET_BITS) - 1)) as usize;
        let number = (at.address >> OFFSET_BITS) as usize;
        let allocation = number
            .checked_sub(1)
            .and_then(|index| self.allocations.get_mut(index));
        match allocation {
            Some(Some(allocation)) if start + at.bytes <= allocation.bytes.len() => {
                Ok((allocation, start))
            }
            _ => Err(KernelFault::Outside {
                space: "global memory",
                address: at.address,
                bytes: at.bytes,
            }),
        }
    }

    /// Memory that the host reads or writes.
    pub(crate) fn of_host(&mut self, address: u64, bytes: usize) -> Result<&mut [u8], KernelFault> {
        let (allocation, start) = self.find(At { address, bytes })?;
        Ok(&mut allocation.bytes[start..start + bytes])
    }

    /// The bytes that a thread reads; `constant` if nothing may write them while the kernel runs.
    pub(crate) fn read(
        &mut self,
        at: At,
        constant: bool,
        accessor: Accessor<'_>,
        history: &History,
    ) -> Result<&[u8], KernelFault> {
        aligned(at)?;
        let (allocation, start) = self.find(at)?;
        let halves = start / 2..(start + at.bytes) / 2;
        for (index, &writer) in allocation.writers[halves.clone()].iter().enumerate() {
            if history.is_recent(writer) {
                let address = at.address + index as u64 * 2;
                history.before_read(writer, address, constant, accessor)?;
            }
        }
        for reader in &mut allocation.readers[halves] {
            *reader = history.reader_after(*reader, accessor);
        }
        Ok(&allocation.bytes[start..start + at.bytes])
    }

    /// The bytes of a read that [`read`](Self::read) has checked before.
    pub(crate) fn peek(&mut self, at: At) -> Result<&[u8], KernelFault> {
        let (allocation, start) = self.find(at)?;
        Ok(&allocation.bytes[start..start + at.bytes])
    }

    /// The bytes that a thread writes.
    pub(crate) fn write(
        &mut self,
        at: At,
        accessor: Accessor<'_>,
        history: &History,
    ) -> Result<&mut [u8], KernelFault> {
        aligned(at)?;
        let (allocation, start) = self.find(at)?;
        for half in start / 2..(start + at.bytes) / 2 {
            let address = at.address + (half * 2 - start) as u64;
            let (reader, writer) = (allocation.readers[half], allocation.writers[half]);
            history.before_write(reader, writer, address, accessor)?;
            allocation.writers[half] = accessor.stamp;
        }
        Ok(&mut allocation.bytes[start..start + at.bytes])
    }

    /// A counter: a word to which threads of all blocks may add at any time.
    pub(crate) fn count(
        &mut self,
        address: u64,
        accessor: Accessor<'_>,
        history: &mut History,
    ) -> Result<&mut [u8], KernelFault> {
        if history.counts(address) {
            let (allocation, start) = self.find(At { address, bytes: 4 })?;
            allocation.writers[start / 2..start / 2 + 2].fill(accessor.stamp);
            return Ok(&mut allocation.bytes[start..start + 4]);
        }
        history.counts_from_now(address);
        self.write(At { address, bytes: 4 }, accessor, history)
    }

    /// Forgets all accesses.
    pub(crate) fn forget(&mut self) {
        for allocation in self.allocations.iter_mut().flatten() {
            allocation.readers.fill(Stamp::NOBODY);
            allocation.writers.fill(Stamp::NOBODY);
        }
    }
}

/// Checks that the address is a multiple of the access's size.
pub(crate) fn aligned(at: At) -> Result<(), KernelFault> {
    // Sizes are powers of two; a division would take longer.
    if at.address & (at.bytes as u64 - 1) == 0 {
        return Ok(());
    }
    Err(KernelFault::Misaligned {
        address: at.address,
        bytes: at.bytes,
    })
}
