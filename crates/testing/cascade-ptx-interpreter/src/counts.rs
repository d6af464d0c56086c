//! Counters of what kernels do: what a profiler reports of a GPU, without time.

use crate::instruction::Space;
use crate::lanes::{Mask, WARP};

/// What the launches of a kernel did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Launches.
    pub launches: u64,
    /// Instructions, counted once per warp.
    pub instructions: u64,
    /// Of those, tile products.
    pub tiles: u64,
    /// Loads from global memory, without constants.
    pub loads: Traffic,
    /// Loads of constants, such as weights.
    pub constants: Traffic,
    /// Stores to global memory.
    pub stores: Traffic,
    /// Copies from global to shared memory.
    pub copies: Traffic,
    /// Loads from and stores to shared memory.
    pub shared: Shared,
    /// Times that a warp reads what it has loaded from global memory before it has come.
    pub waits: u64,
    /// The latency of memory that a single warp spends waiting so, at most, one after the other: as
    /// if every load took as long, and an instruction a thousandth of it.
    pub latencies: f64,
    /// Bytes that the warp had under way then, summed over the waits.
    pub awaited: u64,
}

/// Accesses of warps to global memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Instructions of a warp.
    pub requests: u64,
    /// Sectors of 32 bytes that they touch: what moves from the L2 cache to a multiprocessor if L1
    /// has none of it.
    pub sectors: u64,
    /// Bytes that their lanes load or store.
    pub bytes: u64,
}

/// Accesses of warps to shared memory, which has 32 banks of four bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shared {
    /// Instructions of a warp.
    pub requests: u64,
    /// Wavefronts that they take: one for every four bytes of a lane, more where lanes conflict in
    /// a bank.
    pub turns: u64,
    /// Wavefronts that they would take without bank conflicts.
    pub fewest_turns: u64,
}

/// Where the lanes of a warp access memory.
pub(crate) struct Addresses<'a> {
    pub(crate) lanes: &'a [u64; WARP],
    pub(crate) mask: Mask,
    pub(crate) bytes: usize,
}

/// The kind of access.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AccessKind {
    Load(Space),
    Store(Space),
    /// From global to shared memory.
    Copy,
}

impl Counts {
    pub(crate) fn access(&mut self, kind: AccessKind, addresses: &Addresses<'_>) {
        match kind {
            AccessKind::Load(Space::Shared) | AccessKind::Store(Space::Shared) => {
                self.shared.add(addresses);
            }
            AccessKind::Load(Space::Global) => self.loads.add(addresses),
            AccessKind::Load(Space::Constant) => self.constants.add(addresses),
            AccessKind::Store(Space::Global) => self.stores.add(addresses),
            AccessKind::Copy => self.copies.add(addresses),
            // Parameters cost nothing, and cannot be written.
            AccessKind::Load(Space::Parameter)
            | AccessKind::Store(Space::Parameter | Space::Constant) => {}
        }
    }
}

impl Addresses<'_> {
    fn each(&self) -> impl Iterator<Item = u64> + '_ {
        let lanes = self.lanes.iter().enumerate();
        lanes
            .filter(|(lane, _)| self.mask >> lane & 1 == 1)
            .map(|(_, &address)| address)
    }
}

impl Traffic {
    fn add(&mut self, addresses: &Addresses<'_>) {
        let mut sectors: Vec<u64> = addresses.each().map(|address| address / 32).collect();
        self.requests += 1;
        self.bytes += (sectors.len() * addresses.bytes) as u64;
        sectors.sort_unstable();
        sectors.dedup();
        self.sectors += sectors.len() as u64;
    }
}

impl Shared {
    fn add(&mut self, addresses: &Addresses<'_>) {
        // As many lanes at a time as there are banks for: 32 with four bytes each, eight with
        // sixteen.
        let words = addresses.bytes.div_ceil(4);
        let at_once = WARP / words;
        self.requests += 1;
        for first in (0..WARP).step_by(at_once) {
            let lanes = first..first + at_once;
            let lanes = lanes.filter(|lane| addresses.mask >> lane & 1 == 1);
            let mut touched: Vec<u64> = lanes
                .flat_map(|lane| (0..words as u64).map(move |word| (lane, word)))
                .map(|(lane, word)| addresses.lanes[lane] / 4 + word)
                .collect();
            if touched.is_empty() {
                continue;
            }
            touched.sort_unstable();
            touched.dedup();
            let mut banks = [0u64; 32];
            touched
                .iter()
                .for_each(|word| banks[(word % 32) as usize] += 1);
            self.turns += banks.into_iter().max().unwrap_or(0);
            self.fewest_turns += (touched.len() as u64).div_ceil(32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(bytes: usize, address: impl Fn(u64) -> u64) -> Shared {
        let lanes = std::array::from_fn(|lane| address(lane as u64));
        let mut shared = Shared::default();
        shared.add(&Addresses {
            lanes: &lanes,
            mask: Mask::MAX,
            bytes,
        });
        shared
    }

    #[test]
    fn lanes_meet_in_banks() {
        let turns = |bytes, address: fn(u64) -> u64| {
            let shared = shared(bytes, address);
            (shared.turns, shared.fewest_turns)
        };
        assert_eq!(turns(4, |lane| lane * 4), (1, 1));
        // All lanes read the same word: one wavefront.
        assert_eq!(turns(4, |_| 64), (1, 1));
        assert_eq!(turns(4, |lane| lane * 8), (2, 1));
        assert_eq!(turns(4, |lane| lane * 128), (32, 1));
        assert_eq!(turns(16, |lane| lane * 16), (4, 4));
        // Four lanes read a row: the two rows of eight lanes must be half of the banks apart.
        assert_eq!(turns(16, |lane| lane / 4 * 80 + lane % 4 * 16), (8, 4));
        assert_eq!(turns(16, |lane| lane / 4 * 320 + lane % 4 * 16), (4, 4));
        assert_eq!(turns(16, |lane| lane * 128), (32, 4));
    }

    #[test]
    fn lanes_share_sectors() {
        let sectors = |mask, address: fn(u64) -> u64| {
            let lanes = std::array::from_fn(|lane| address(lane as u64));
            let mut traffic = Traffic::default();
            traffic.add(&Addresses {
                lanes: &lanes,
                mask,
                bytes: 4,
            });
            (traffic.sectors, traffic.bytes)
        };
        assert_eq!(sectors(Mask::MAX, |lane| lane * 4), (4, 128));
        assert_eq!(sectors(Mask::MAX, |lane| lane * 32), (32, 128));
        assert_eq!(sectors(0xff, |lane| lane * 4), (1, 32));
    }
}
