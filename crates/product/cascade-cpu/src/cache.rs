//! Keys and values of one sequence.

use crate::KeysValues;

/// Sizes of a cache that stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheShape {
    /// Layers that have keys and values.
    pub layers: usize,
    /// Heads of keys and values; fewer than query heads if those are grouped.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
}

impl CacheShape {
    /// Elements of the keys and values in one slot, in all layers.
    pub fn elements_per_slot(self) -> usize {
        2 * self.layers * self.kv_heads * self.head_dim
    }
}

/// Keys or values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What queries are compared with.
    Keys,
    /// What attention mixes.
    Values,
}

/// Keys and values of one sequence, `[layers][keys, values][kv_heads][capacity][head_dim]`.
/// Slots `..len` are committed; whatever lies behind is garbage.
///
/// They are read where they lie. Appending copies the new rows only, and rolling back is an
/// integer. Memory grows by doubling, so the capacity stays below twice the most slots ever needed
/// (and at 64 below that); it never shrinks. A new cache allocates nothing.
#[derive(Clone, Debug)]
pub struct Cache {
    shape: CacheShape,
    store: Vec<f32>,
    capacity: usize,
    len: usize,
}

impl Cache {
    /// Slots allocated at least.
    const MIN_CAPACITY: usize = 64;

    /// An empty cache.
    pub fn new(shape: CacheShape) -> Self {
        Self {
            shape,
            store: Vec::new(),
            capacity: 0,
            len: 0,
        }
    }

    /// Slots that are committed.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no slot is committed.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Slots that there is memory for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Makes room for `rows` slots behind the committed ones. Costs a copy when it grows.
    pub fn reserve(&mut self, rows: usize) {
        let needed = self.len + rows;
        if needed <= self.capacity {
            return;
        }
        let capacity = needed.next_power_of_two().max(Self::MIN_CAPACITY);
        let (size, used) = (self.shape.head_dim, self.len * self.shape.head_dim);
        let mut grown = vec![0.0; self.shape.elements_per_slot() * capacity];
        if used > 0 {
            let heads = self.store.chunks_exact(self.capacity * size);
            for (to, from) in grown.chunks_exact_mut(capacity * size).zip(heads) {
                to[..used].copy_from_slice(&from[..used]);
            }
        }
        self.store = grown;
        self.capacity = capacity;
    }

    /// Where keys or values of `head` of `layer` go, of the row number `row` behind the committed
    /// slots. The row counts once it is [committed](Self::commit).
    ///
    /// # Panics
    /// If there is no [room](Self::reserve) for the row, or no such layer.
    pub fn row_mut(&mut self, layer: usize, part: Part, head: usize, row: usize) -> &mut [f32] {
        let slot = self.len + row;
        assert!(slot < self.capacity, "a row without a place in the cache");
        let start = self.start(layer, part) + (head * self.capacity + slot) * self.shape.head_dim;
        &mut self.store[start..start + self.shape.head_dim]
    }

    /// Keys and values of `layer` in the first `count` slots, a view.
    pub fn keys_values(&self, layer: usize, count: usize) -> KeysValues<'_> {
        let size = self.capacity * self.shape.kv_heads * self.shape.head_dim;
        let part = |part| {
            let start = self.start(layer, part);
            &self.store[start..start + size]
        };
        KeysValues {
            keys: part(Part::Keys),
            values: part(Part::Values),
            heads: self.shape.kv_heads,
            count,
            head_stride: self.capacity * self.shape.head_dim,
        }
    }

    fn start(&self, layer: usize, part: Part) -> usize {
        let plane = 2 * layer + usize::from(part == Part::Values);
        plane * self.shape.kv_heads * self.capacity * self.shape.head_dim
    }

    /// Makes the `rows` slots behind the committed ones committed, after every layer has written
    /// them.
    pub fn commit(&mut self, rows: usize) {
        self.len += rows;
        debug_assert!(self.len <= self.capacity);
    }

    /// Forgets all slots from `len` on. Free.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Moves `slots`, which ascend from `at` or later, to where the slot `at` begins, and forgets
    /// everything else from `at` on. Free if they lie there already.
    pub fn retain(&mut self, at: usize, slots: &[u32]) {
        let size = self.shape.head_dim;
        let mut moved = slots.iter().map(|&slot| slot as usize).zip(at..);
        if moved.any(|(slot, to)| slot != to) {
            for head in self.store.chunks_exact_mut(self.capacity * size) {
                for (slot, to) in slots.iter().map(|&slot| slot as usize).zip(at..) {
                    head.copy_within(slot * size..(slot + 1) * size, to * size);
                }
            }
        }
        self.len = at + slots.len();
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

    /// Every place of a row: layer, part, head.
    fn places() -> impl Iterator<Item = (usize, Part, usize)> {
        let parts = |layer| [(layer, Part::Keys), (layer, Part::Values)];
        let heads = |(layer, part)| (0..SHAPE.kv_heads).map(move |head| (layer, part, head));
        (0..SHAPE.layers).flat_map(parts).flat_map(heads)
    }

    /// What the row `stamp` holds at a place.
    fn content(stamp: u32, (layer, part, head): (usize, Part, usize)) -> Vec<f32> {
        let place = (layer * 2 + part as usize) * SHAPE.kv_heads + head;
        let first = stamp as usize * 1000 + place * SHAPE.head_dim;
        (first..first + SHAPE.head_dim).map(|x| x as f32).collect()
    }

    fn append(cache: &mut Cache, stamps: &[u32]) {
        cache.reserve(stamps.len());
        for (row, &stamp) in stamps.iter().enumerate() {
            for (layer, part, head) in places() {
                let values = content(stamp, (layer, part, head));
                let row = cache.row_mut(layer, part, head, row);
                row.copy_from_slice(&values);
            }
        }
        cache.commit(stamps.len());
    }

    fn assert_holds(cache: &Cache, stamps: &[u32]) {
        assert_eq!(cache.len(), stamps.len());
        for (slot, &stamp) in stamps.iter().enumerate() {
            for (layer, part, head) in places() {
                let view = cache.keys_values(layer, stamps.len());
                let found = match part {
                    Part::Keys => view.keys,
                    Part::Values => view.values,
                };
                let start = head * view.head_stride + slot * SHAPE.head_dim;
                assert_eq!(
                    found[start..start + SHAPE.head_dim],
                    content(stamp, (layer, part, head)),
                    "slot {slot}, layer {layer}"
                );
            }
        }
    }

    #[test]
    fn behaves_like_a_vector() {
        let mut rng = StdRng::seed_from_u64(7);
        let mut cache = Cache::new(SHAPE);
        let mut twin: Vec<u32> = Vec::new();
        let (mut stamp, mut most) = (0, 0);
        for _ in 0..600 {
            match rng.random_range(0..3) {
                0 => {
                    let rows = rng.random_range(1..20);
                    let stamps: Vec<u32> = (stamp..stamp + rows).collect();
                    stamp += rows;
                    append(&mut cache, &stamps);
                    twin.extend(&stamps);
                }
                1 => {
                    let len = rng.random_range(twin.len().saturating_sub(15)..=twin.len());
                    cache.truncate(len);
                    twin.truncate(len);
                }
                _ => {
                    let at = rng.random_range(twin.len().saturating_sub(12)..=twin.len());
                    let slots: Vec<u32> = (at..twin.len())
                        .filter(|_| rng.random_bool(0.5))
                        .map(|slot| slot as u32)
                        .collect();
                    cache.retain(at, &slots);
                    let kept: Vec<u32> = slots.iter().map(|&s| twin[s as usize]).collect();
                    twin.truncate(at);
                    twin.extend(kept);
                }
            }
            most = most.max(twin.len());
            assert_holds(&cache, &twin);
            assert!(cache.capacity() <= (2 * most).max(Cache::MIN_CAPACITY));
        }
    }

    #[test]
    fn rows_that_are_not_committed_leave_no_trace() {
        let mut cache = Cache::new(SHAPE);
        assert!(cache.is_empty());
        append(&mut cache, &[1, 2]);
        append(&mut cache, &[3]);
        cache.truncate(2);
        cache.reserve(500);
        assert_holds(&cache, &[1, 2]);
    }

    #[test]
    #[should_panic(expected = "a row without a place in the cache")]
    fn writing_before_the_first_reserve_is_refused() {
        Cache::new(SHAPE).row_mut(0, Part::Keys, 0, 0);
    }
}
