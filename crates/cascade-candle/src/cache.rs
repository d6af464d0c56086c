//! Keys and values of all layers of a sequence.

use candle_core::Tensor;

use crate::{DType, Device, Result};

/// Slots that there is room for at first.
const FIRST: usize = 256;

/// What a slot holds.
#[derive(Clone, Copy, Debug)]
pub struct CacheShape {
    /// Layers.
    pub layers: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
}

/// Keys and values in one tensor, `[2 * layers, heads, slots, head size]`, those of a layer side by
/// side: rows are copied into it, and read as views of it.
#[derive(Debug)]
pub struct Cache {
    device: Device,
    shape: CacheShape,
    dtype: DType,
    arena: Option<Tensor>,
    len: usize,
}

impl Cache {
    /// A cache that holds nothing. Allocates nothing.
    pub fn new(device: &Device, shape: CacheShape, dtype: DType) -> Self {
        Self {
            device: device.clone(),
            shape,
            dtype,
            arena: None,
            len: 0,
        }
    }

    /// Committed slots.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no slot is committed.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn capacity(&self) -> Result<usize> {
        Ok(self
            .arena
            .as_ref()
            .map(|arena| arena.dim(2))
            .transpose()?
            .unwrap_or(0))
    }

    /// Makes room for `rows` slots more. What there is is copied when it grows, to twice the size.
    ///
    /// # Errors
    /// No memory.
    pub fn reserve(&mut self, rows: usize) -> Result<()> {
        let (needed, capacity) = (self.len + rows, self.capacity()?);
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
        let grown = Tensor::zeros(shape, self.dtype.of_candle(), &self.device.inner)?;
        if let Some(arena) = self.arena.as_ref().filter(|_| self.len > 0) {
            grown.slice_set(&arena.narrow(2, 0, self.len)?.contiguous()?, 2, 0)?;
        }
        self.arena = Some(grown);
        Ok(())
    }

    fn arena(&self) -> Result<&Tensor> {
        let none = || candle_core::Error::Msg("a cache without room".to_owned());
        Ok(self.arena.as_ref().ok_or_else(none)?)
    }

    /// Writes keys and values `[heads, rows, head size]` of a layer behind the committed slots.
    pub(crate) fn write(&self, layer: usize, keys: &Tensor, values: &Tensor) -> Result<()> {
        let arena = self.arena()?;
        arena.get(2 * layer)?.slice_set(keys, 1, self.len)?;
        arena.get(2 * layer + 1)?.slice_set(values, 1, self.len)?;
        Ok(())
    }

    /// Keys and values of the first slots of a layer, `[heads, slots, head size]` each.
    pub(crate) fn read(&self, layer: usize, slots: usize) -> Result<[Tensor; 2]> {
        let arena = self.arena()?;
        Ok([
            arena.get(2 * layer)?.narrow(1, 0, slots)?,
            arena.get(2 * layer + 1)?.narrow(1, 0, slots)?,
        ])
    }

    /// Keeps the `rows` slots that were written last.
    pub fn commit(&mut self, rows: usize) {
        self.len += rows;
    }

    /// Forgets all slots from `len` on. Free.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Moves `slots`, which ascend from `at` or later, to where the slot `at` begins, and forgets
    /// everything else from `at` on: two operations for all layers. On failure, slots `..at` are
    /// left.
    ///
    /// # Errors
    /// No memory.
    pub fn retain(&mut self, at: usize, slots: &[u32]) -> Result<()> {
        let moves = slots
            .iter()
            .zip(at..)
            .any(|(&slot, to)| slot as usize != to);
        self.truncate(at);
        if moves {
            let arena = self.arena()?;
            let index = Tensor::new(slots, &self.device.inner)?;
            arena.slice_set(&arena.index_select(&index, 2)?, 2, at)?;
        }
        self.len = at + slots.len();
        Ok(())
    }
}
