//! Rows of a forward, with what they borrow.

use cascade_gpu::Rows;

/// What [`Rows`] borrows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    pub(crate) tokens: Vec<u32>,
    pub(crate) positions: Vec<u32>,
    pub(crate) past: usize,
    pub(crate) first: usize,
    pub(crate) paths: Option<Vec<Vec<usize>>>,
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
            positions: places,
            past,
            first: past,
            paths: None,
            wanted: count,
            picks: Vec::new(),
        }
    }

    /// The slots that a row sees behind the past, its own last.
    pub(crate) fn path(&self, row: usize) -> Vec<usize> {
        match &self.paths {
            Some(paths) => paths[row].clone(),
            None => (self.past..=self.first + row).collect(),
        }
    }

    pub(crate) fn rows(&self) -> Rows<'_> {
        Rows {
            tokens: &self.tokens,
            positions: &self.positions,
            past: self.past,
            first: self.first,
            paths: self.paths.as_deref(),
            wanted: self.wanted,
            picks: &self.picks,
        }
    }
}
