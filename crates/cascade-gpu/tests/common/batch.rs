//! Rows of a forward, with what they borrow.

use cascade_gpu::{Mask, Rows};

/// What [`Rows`] borrows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    pub(crate) tokens: Vec<u32>,
    pub(crate) positions: Vec<u32>,
    pub(crate) past: usize,
    pub(crate) first: usize,
    pub(crate) masks: Vec<Mask>,
    pub(crate) window_positions: Vec<u32>,
    pub(crate) wanted: usize,
    pub(crate) picks: Vec<(u32, u32)>,
}

impl Batch {
    /// `tokens` behind `past` slots, each seeing those before it; logits are wanted of all.
    pub(crate) fn chain(tokens: &[u32], past: usize) -> Self {
        let count = tokens.len();
        let places: Vec<u32> = (past..past + count).map(|slot| slot as u32).collect();
        Self {
            tokens: tokens.to_vec(),
            positions: places.clone(),
            past,
            first: past,
            masks: (0..count).map(|row| mask(0..=row)).collect(),
            window_positions: places,
            wanted: count,
            picks: Vec::new(),
        }
    }

    pub(crate) fn rows(&self) -> Rows<'_> {
        Rows {
            tokens: &self.tokens,
            positions: &self.positions,
            past: self.past,
            first: self.first,
            masks: &self.masks,
            window_positions: &self.window_positions,
            wanted: self.wanted,
            picks: &self.picks,
        }
    }
}

/// A mask with these bits.
pub(crate) fn mask(bits: impl IntoIterator<Item = usize>) -> Mask {
    let mut mask = Mask::default();
    for bit in bits {
        mask[bit / 64] |= 1 << (bit % 64);
    }
    mask
}

/// Whether a mask has a bit.
pub(crate) fn sees(mask: &Mask, bit: usize) -> bool {
    mask[bit / 64] >> (bit % 64) & 1 == 1
}
