//! What all lanes of a warp hold, and sets of them.

/// Lanes of a warp.
pub(crate) const WARP: usize = 32;

/// A register of 32 bits in all lanes, or of 64.
pub(crate) type Words = [u32; WARP];
pub(crate) type Longs = [u64; WARP];
/// A set of lanes of a warp; a predicate in all lanes.
pub(crate) type Mask = u32;
