//! Keys and values of all layers of a sequence, in one tensor of candle's.

use candle_core::{DType, Device, Error, Result, Tensor};

use crate::backend::CacheShape;

/// Slots that there is room for at first.
const FIRST: usize = 256;

/// Keys and values in one tensor, `[2 * layers, heads, slots, head size]`, keys of a layer before
/// its values: rows are copied into the tensor, and read as views of it.
#[derive(Debug)]
pub(super) struct CandleCache {
    device: Device,
    shape: CacheShape,
    dtype: DType,
    arena: Option<Tensor>,
    len: usize,
}

impl CandleCache {
    /// A cache that holds nothing. Allocates nothing.
    pub(super) fn new(device: &Device, shape: CacheShape, dtype: DType) -> Self {
        Self {
            device: device.clone(),
            shape,
            dtype,
            arena: None,
            len: 0,
        }
    }

    /// Committed slots.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Makes room for `rows` slots more. Growing copies the cache to one of at least twice the
    /// size.
    pub(super) fn reserve(&mut self, rows: usize) -> Result<()> {
        let capacity = match &self.arena {
            Some(arena) => arena.dim(2)?,
            None => 0,
        };
        let needed = self.len + rows;
        if needed <= capacity {
            return Ok(());
        }
        let slots = needed.max(2 * capacity).max(FIRST);
        let CacheShape {
            layers,
            kv_heads,
            head_dim,
        } = self.shape;
        let shape = (2 * layers, kv_heads, slots, head_dim);
        let grown = Tensor::zeros(shape, self.dtype, &self.device)?;
        if let Some(arena) = self.arena.as_ref().filter(|_| self.len > 0) {
            grown.slice_set(&arena.narrow(2, 0, self.len)?.contiguous()?, 2, 0)?;
        }
        self.arena = Some(grown);
        Ok(())
    }

    fn arena(&self) -> Result<&Tensor> {
        let none = || Error::Msg("a cache without room".to_owned());
        self.arena.as_ref().ok_or_else(none)
    }

    /// Writes keys and values `[heads, rows, head size]` of a layer behind the committed slots.
    pub(super) fn write(&self, layer: usize, keys: &Tensor, values: &Tensor) -> Result<()> {
        let arena = self.arena()?;
        arena.get(2 * layer)?.slice_set(keys, 1, self.len)?;
        arena.get(2 * layer + 1)?.slice_set(values, 1, self.len)
    }

    /// Keys and values of the first slots of a layer, `[heads, slots, head size]` each.
    pub(super) fn read(&self, layer: usize, slots: usize) -> Result<[Tensor; 2]> {
        let arena = self.arena()?;
        Ok([
            arena.get(2 * layer)?.narrow(1, 0, slots)?,
            arena.get(2 * layer + 1)?.narrow(1, 0, slots)?,
        ])
    }

    /// Keeps the `rows` slots that were written last.
    pub(super) fn commit(&mut self, rows: usize) {
        self.len += rows;
    }

    /// Forgets all slots from `len` on. Free.
    pub(super) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Moves `slots`, which ascend from `at` or later, to where the slot `at` begins, and forgets
    /// everything else from `at` on: two operations for all layers. On failure, slots `..at` are
    /// left.
    pub(super) fn retain(&mut self, at: usize, slots: &[u32]) -> Result<()> {
        let mut targets = slots.iter().zip(at..);
        let moves = targets.any(|(&slot, to)| slot as usize != to);
        self.truncate(at);
        if moves {
            let arena = self.arena()?;
            let index = Tensor::new(slots, &self.device)?;
            arena.slice_set(&arena.index_select(&index, 2)?, 2, at)?;
        }
        self.len = at + slots.len();
        Ok(())
    }
}
