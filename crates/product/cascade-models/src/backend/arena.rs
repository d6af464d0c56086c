//! The KV arena: keys and values of all layers of one sequence, in one tensor.

use candle_core::{DType, Device, Result, Tensor};
use cascade_cpu::CacheShape;

/// Keys and values of one sequence: a tensor `[2 * layers, kv_heads, capacity, head_dim]` whose
/// plane `2 * l` holds the keys of layer `l` and plane `2 * l + 1` its values. Slots `..len` are
/// committed; whatever lies behind is garbage.
///
/// Keys and values are read as strided views, never copied. Appending copies the new rows only,
/// rolling back is an integer, and keeping a branch of a tree is one gather and one copy for all
/// layers together.
///
/// Memory: grows by doubling, so the capacity stays below twice the most slots ever needed (and at
/// [`MIN_CAPACITY`](Self::MIN_CAPACITY) below that); it never shrinks. Nothing is allocated before
/// the first [`reserve`](Self::reserve).
#[derive(Debug)]
pub(super) struct Arena {
    shape: CacheShape,
    dtype: DType,
    store: Option<Tensor>,
    len: usize,
}

impl Arena {
    /// Slots allocated at least.
    pub(super) const MIN_CAPACITY: usize = 64;

    pub(super) fn new(shape: CacheShape, dtype: DType) -> Self {
        Self {
            shape,
            dtype,
            store: None,
            len: 0,
        }
    }

    /// Slots that are committed.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Slots that there is memory for.
    pub(super) fn capacity(&self) -> usize {
        self.store.as_ref().map_or(0, |store| store.dims()[2])
    }

    /// Makes room for `rows` slots behind the committed ones. Costs a copy of the arena when it
    /// grows.
    pub(super) fn reserve(&mut self, rows: usize) -> Result<()> {
        let needed = self.len + rows;
        if needed <= self.capacity() {
            return Ok(());
        }
        let capacity = needed.next_power_of_two().max(Self::MIN_CAPACITY);
        let CacheShape {
            layers,
            kv_heads,
            head_dim,
        } = self.shape;
        let shape = (2 * layers, kv_heads, capacity, head_dim);
        let grown = Tensor::zeros(shape, self.dtype, &Device::Cpu)?;
        if let Some(old) = &self.store {
            grown.slice_set(old, 2, 0)?;
        }
        self.store = Some(grown);
        Ok(())
    }

    /// Writes `planes` (`[n, kv_heads, rows, head_dim]`, contiguous) into planes `first..first +
    /// n`, behind the committed slots. The rows count once they are [committed](Self::commit).
    pub(super) fn write(&self, first: usize, planes: &Tensor) -> Result<()> {
        self.store()?
            .narrow(0, first, planes.dim(0)?)?
            .slice_set(planes, 2, self.len)
    }

    /// Keys and values of `layer` in the first `keys` slots: `[2, kv_heads, keys, head_dim]`, a
    /// view.
    pub(super) fn keys_values(&self, layer: usize, keys: usize) -> Result<Tensor> {
        self.store()?.narrow(0, 2 * layer, 2)?.narrow(2, 0, keys)
    }

    /// Makes the `rows` slots behind the committed ones committed, after every layer has written
    /// them.
    pub(super) fn commit(&mut self, rows: usize) {
        self.len += rows;
        debug_assert!(self.len <= self.capacity());
    }

    /// Forgets all slots from `len` on. Free.
    pub(super) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Moves `slots`, in this order, to where the slot `at` begins, and forgets everything else
    /// from `at` on. Free if they lie there already, one gather and one copy otherwise. On failure,
    /// slots `..at` are left.
    pub(super) fn retain(&mut self, at: usize, slots: &[u32]) -> Result<()> {
        let in_place = slots
            .iter()
            .enumerate()
            .all(|(i, &slot)| slot as usize == at + i);
        if !in_place {
            self.truncate(at);
            let store = self.store()?;
            let slots = Tensor::new(slots, &Device::Cpu)?;
            store.slice_set(&store.index_select(&slots, 2)?, 2, at)?;
        }
        self.len = at + slots.len();
        Ok(())
    }

    fn store(&self) -> Result<&Tensor> {
        self.store
            .as_ref()
            .ok_or_else(|| candle_core::Error::Msg("the KV arena is used before reserve".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{rngs::StdRng, Rng, SeedableRng};

    const SHAPE: CacheShape = CacheShape {
        layers: 3,
        kv_heads: 2,
        head_dim: 4,
    };

    fn arena() -> Arena {
        Arena::new(SHAPE, DType::F32)
    }

    /// What layer `layer` holds of the row `stamp`: `[2, kv_heads, head_dim]`, flat.
    fn content(layer: usize, stamp: u32) -> Vec<f32> {
        (0..2 * SHAPE.kv_heads * SHAPE.head_dim)
            .map(|i| (stamp as usize * 1000 + layer * 100 + i) as f32)
            .collect()
    }

    fn append(arena: &mut Arena, stamps: &[u32]) {
        arena.reserve(stamps.len()).unwrap();
        for layer in 0..SHAPE.layers {
            let rows: Vec<f32> = stamps.iter().flat_map(|&s| content(layer, s)).collect();
            let planes = Tensor::from_vec(
                rows,
                (stamps.len(), 2, SHAPE.kv_heads, SHAPE.head_dim),
                &Device::Cpu,
            )
            .unwrap()
            .permute((1, 2, 0, 3))
            .unwrap()
            .contiguous()
            .unwrap();
            // Layer 1 writes keys and values apart, as LLaMA does.
            if layer == 1 {
                let half = |i| planes.narrow(0, i, 1).unwrap();
                arena.write(2 * layer, &half(0)).unwrap();
                arena.write(2 * layer + 1, &half(1)).unwrap();
            } else {
                arena.write(2 * layer, &planes).unwrap();
            }
        }
        arena.commit(stamps.len());
    }

    fn assert_holds(arena: &Arena, stamps: &[u32]) {
        assert_eq!(arena.len(), stamps.len());
        for layer in 0..SHAPE.layers {
            let expected: Vec<f32> = stamps.iter().flat_map(|&s| content(layer, s)).collect();
            let found: Vec<f32> = match stamps.len() {
                0 => Vec::new(),
                keys => arena
                    .keys_values(layer, keys)
                    .unwrap()
                    .permute((2, 0, 1, 3))
                    .unwrap()
                    .flatten_all()
                    .unwrap()
                    .to_vec1()
                    .unwrap(),
            };
            assert_eq!(found, expected, "layer {layer}");
        }
    }

    #[test]
    fn behaves_like_a_vector() {
        let mut rng = StdRng::seed_from_u64(7);
        let mut arena = arena();
        let mut twin: Vec<u32> = Vec::new();
        let (mut stamp, mut most) = (0, 0);
        for _ in 0..600 {
            match rng.random_range(0..3) {
                0 => {
                    let rows = rng.random_range(1..20);
                    let stamps: Vec<u32> = (stamp..stamp + rows).collect();
                    stamp += rows;
                    append(&mut arena, &stamps);
                    twin.extend(&stamps);
                }
                1 => {
                    let len = rng.random_range(twin.len().saturating_sub(15)..=twin.len());
                    arena.truncate(len);
                    twin.truncate(len);
                }
                _ => {
                    let at = rng.random_range(twin.len().saturating_sub(12)..=twin.len());
                    let slots: Vec<u32> = (at..twin.len())
                        .filter(|_| rng.random_bool(0.5))
                        .map(|slot| slot as u32)
                        .collect();
                    arena.retain(at, &slots).unwrap();
                    let kept: Vec<u32> = slots.iter().map(|&s| twin[s as usize]).collect();
                    twin.truncate(at);
                    twin.extend(kept);
                }
            }
            most = most.max(twin.len());
            assert_holds(&arena, &twin);
            assert!(arena.capacity() <= (2 * most).max(Arena::MIN_CAPACITY));
        }
    }

    #[test]
    fn rows_that_are_not_committed_leave_no_trace() {
        let mut arena = arena();
        append(&mut arena, &[1, 2]);
        append(&mut arena, &[3]);
        arena.truncate(2);
        arena.reserve(500).unwrap();
        assert_holds(&arena, &[1, 2]);
    }

    #[test]
    fn reading_before_the_first_reserve_is_an_error() {
        assert!(arena().keys_values(0, 0).is_err());
    }
}
