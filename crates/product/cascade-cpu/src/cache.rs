//! Keys and values of one sequence.

use std::fmt;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use crate::{Elements, KeysValues};

/// How keys and values are held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheType {
    /// As they were computed.
    #[default]
    F32,
    /// Rounded to bf16.
    BF16,
    /// Rounded to f16, which has no numbers beyond 65,504.
    F16,
}

impl CacheType {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::F32, Self::BF16, Self::F16];

    /// Its name, as users write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::BF16 => "bf16",
            Self::F16 => "f16",
        }
    }

    /// Bytes of an element.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::BF16 | Self::F16 => 2,
        }
    }
}

impl fmt::Display for CacheType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

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
    store: Store,
    capacity: usize,
    len: usize,
}

#[derive(Clone, Debug)]
enum Store {
    F32(Vec<f32>),
    BF16(Vec<bf16>),
    F16(Vec<f16>),
}

/// Does the same with a store of any type.
macro_rules! of_any_type {
    ($store:expr, $values:ident => $done:expr) => {
        match $store {
            Store::F32($values) => $done,
            Store::BF16($values) => $done,
            Store::F16($values) => $done,
        }
    };
}

impl Cache {
    /// Slots allocated at least.
    const MIN_CAPACITY: usize = 64;

    /// An empty cache, of f32.
    pub fn new(shape: CacheShape) -> Self {
        Self::of_type(shape, CacheType::F32)
    }

    /// An empty cache.
    pub fn of_type(shape: CacheShape, cache_type: CacheType) -> Self {
        Self {
            shape,
            store: match cache_type {
                CacheType::F32 => Store::F32(Vec::new()),
                CacheType::BF16 => Store::BF16(Vec::new()),
                CacheType::F16 => Store::F16(Vec::new()),
            },
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
        let length = self.shape.elements_per_slot() * capacity;
        let (head, grown) = (
            self.capacity * self.shape.head_dim,
            capacity * self.shape.head_dim,
        );
        let used = self.len * self.shape.head_dim;
        of_any_type!(&mut self.store, store => {
            let mut larger = vec![Default::default(); length];
            if used > 0 {
                for (to, from) in larger.chunks_exact_mut(grown).zip(store.chunks_exact(head)) {
                    to[..used].copy_from_slice(&from[..used]);
                }
            }
            *store = larger;
        });
        self.capacity = capacity;
    }

    /// Writes keys or values of `head` of `layer` of the row number `row` behind the committed
    /// slots, rounded to the type of the cache. The row counts once it is
    /// [committed](Self::commit).
    ///
    /// # Panics
    /// If there is no [room](Self::reserve) for the row, or no such layer, or `values` are not a
    /// head.
    pub fn write(&mut self, layer: usize, part: Part, head: usize, row: usize, values: &[f32]) {
        let slot = self.len + row;
        assert!(slot < self.capacity, "a row without a place in the cache");
        let start = self.start(layer, part) + (head * self.capacity + slot) * self.shape.head_dim;
        let place = start..start + self.shape.head_dim;
        match &mut self.store {
            Store::F32(store) => store[place].copy_from_slice(values),
            Store::BF16(store) => store[place].convert_from_f32_slice(values),
            Store::F16(store) => store[place].convert_from_f32_slice(values),
        }
    }

    /// Keys and values of `layer` in the first `count` slots, a view.
    pub fn keys_values(&self, layer: usize, count: usize) -> KeysValues<'_> {
        let size = self.capacity * self.shape.kv_heads * self.shape.head_dim;
        let part = |part| {
            let start = self.start(layer, part);
            match &self.store {
                Store::F32(store) => Elements::F32(&store[start..start + size]),
                Store::BF16(store) => Elements::BF16(&store[start..start + size]),
                Store::F16(store) => Elements::F16(&store[start..start + size]),
            }
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
            of_any_type!(&mut self.store, store => {
                for head in store.chunks_exact_mut(self.capacity * size) {
                    for (slot, to) in slots.iter().map(|&slot| slot as usize).zip(at..) {
                        head.copy_within(slot * size..(slot + 1) * size, to * size);
                    }
                }
            });
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
        // Numbers that all types have.
        let number = |x: usize| (x * 37 % 251) as f32;
        (first..first + SHAPE.head_dim).map(number).collect()
    }

    fn append(cache: &mut Cache, stamps: &[u32]) {
        cache.reserve(stamps.len());
        for (row, &stamp) in stamps.iter().enumerate() {
            for (layer, part, head) in places() {
                let values = content(stamp, (layer, part, head));
                cache.write(layer, part, head, row, &values);
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
                    found.some(start, SHAPE.head_dim, &mut Vec::new()),
                    content(stamp, (layer, part, head)),
                    "slot {slot}, layer {layer}"
                );
            }
        }
    }

    #[test]
    fn behaves_like_a_vector() {
        CacheType::ALL.into_iter().for_each(like_a_vector);
    }

    fn like_a_vector(cache_type: CacheType) {
        let mut rng = StdRng::seed_from_u64(7);
        let mut cache = Cache::of_type(SHAPE, cache_type);
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
        Cache::new(SHAPE).write(0, Part::Keys, 0, 0, &[0.0; 4]);
    }
}
