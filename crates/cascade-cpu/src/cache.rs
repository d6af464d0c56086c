//! Keys and values of one sequence.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use half::{bf16, f16};

/// How keys and values are held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheType {
    /// Single precision, as keys and values are computed.
    #[default]
    F32,
    /// Rounded to bf16.
    BF16,
    /// Rounded to f16, which has no numbers beyond 65,504.
    F16,
}

impl CacheType {
    /// All types.
    pub const ALL: [Self; 3] = [Self::F32, Self::BF16, Self::F16];

    /// The name of the type, as users write it.
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

/// Which of the two a cache keeps of each row: its keys or its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvPart {
    /// What queries are compared with.
    Keys,
    /// What attention mixes.
    Values,
}

/// Slots of a [`Page`].
pub const PAGE_SLOTS: usize = 64;

/// Bytes of the pages of any number of caches, counted as they come and go. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct CacheMemory(Arc<AtomicUsize>);

impl CacheMemory {
    /// Bytes that there are at present; those of a page that several caches share, once.
    pub fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Keys and values of [`PAGE_SLOTS`] slots, `[layers][keys, values][kv_heads][slots][head_dim]`.
#[derive(Debug)]
pub struct Page {
    store: Store,
    memory: CacheMemory,
}

impl Page {
    fn new(shape: CacheShape, cache_type: CacheType, memory: &CacheMemory) -> Self {
        let elements = shape.elements_per_slot() * PAGE_SLOTS;
        let store = match cache_type {
            CacheType::F32 => Store::Whole(vec![0.0; elements]),
            CacheType::BF16 | CacheType::F16 => Store::Half(vec![0; elements]),
        };
        Self::counted(store, memory)
    }

    fn counted(store: Store, memory: &CacheMemory) -> Self {
        let page = Self {
            store,
            memory: memory.clone(),
        };
        memory.0.fetch_add(page.bytes(), Ordering::Relaxed);
        page
    }

    /// Bytes of the page.
    pub fn bytes(&self) -> usize {
        match &self.store {
            Store::Whole(store) => size_of_val(&store[..]),
            Store::Half(store) => size_of_val(&store[..]),
        }
    }

    /// Copies the head that begins at `from` in `other` to where one begins here.
    fn copy_head(&mut self, to: usize, other: &Self, from: usize, size: usize) {
        match (&mut self.store, &other.store) {
            (Store::Whole(here), Store::Whole(there)) => {
                here[to..to + size].copy_from_slice(&there[from..from + size]);
            }
            (Store::Half(here), Store::Half(there)) => {
                here[to..to + size].copy_from_slice(&there[from..from + size]);
            }
            // A cache makes pages of its own type, and `adopt` and `replace` want such pages.
            _ => unreachable!("pages of one cache hold one type"),
        }
    }
}

impl Clone for Page {
    fn clone(&self) -> Self {
        Self::counted(self.store.clone(), &self.memory)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.memory.0.fetch_sub(self.bytes(), Ordering::Relaxed);
    }
}

/// A page of a cache.
#[derive(Clone, Debug)]
enum Held {
    /// Which this cache alone has, and may write.
    Own(Page),
    /// Which others may have, too: while they do, it is copied before it is written.
    Shared(Arc<Page>),
}

impl Held {
    fn page(&self) -> &Page {
        match self {
            Self::Own(page) => page,
            Self::Shared(page) => page,
        }
    }

    /// The page, to write: a copy, if others have it.
    fn own(&mut self) -> &mut Page {
        match self {
            Self::Own(page) => page,
            Self::Shared(page) => Arc::make_mut(page),
        }
    }
}

/// Keys and values of one sequence, in [pages](Page). Slots `..len` are committed; whatever lies
/// behind is garbage.
///
/// They are read where they lie. Appending copies the new rows only, and rolling back is an
/// integer. Memory is taken page by page as slots are needed, and never moves. Caches of one shape
/// and type can [share](Self::share) pages whose slots are committed: who writes to one that others
/// have takes a copy. A new cache allocates nothing.
#[derive(Clone, Debug)]
pub struct Cache {
    shape: CacheShape,
    cache_type: CacheType,
    memory: CacheMemory,
    /// Shared ones first.
    pages: Vec<Held>,
    len: usize,
}

/// Elements of a page.
#[derive(Clone, Debug)]
enum Store {
    Whole(Vec<f32>),
    /// The bits of numbers of 16 bits.
    Half(Vec<u16>),
}

/// Where the first element of the slot `slot` of its page lies there.
fn place(shape: CacheShape, layer: usize, part: KvPart, head: usize, slot: usize) -> usize {
    let plane = 2 * layer + usize::from(part == KvPart::Values);
    ((plane * shape.kv_heads + head) * PAGE_SLOTS + slot % PAGE_SLOTS) * shape.head_dim
}

impl Cache {
    /// Pages that are kept behind those of the committed slots, for drafts that come and go.
    const SPARE_PAGES: usize = 1;

    /// An empty cache whose pages are counted in `memory`.
    pub fn new(shape: CacheShape, cache_type: CacheType, memory: CacheMemory) -> Self {
        Self {
            shape,
            cache_type,
            memory,
            pages: Vec::new(),
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
        self.pages.len() * PAGE_SLOTS
    }

    /// Bytes of its pages, those that it shares included.
    pub fn bytes(&self) -> usize {
        self.pages.iter().map(|held| held.page().bytes()).sum()
    }

    /// Makes room for `rows` slots behind the committed ones. Copies the page that the first of
    /// them lies in if others have it.
    pub fn reserve(&mut self, rows: usize) {
        let needed = (self.len + rows).div_ceil(PAGE_SLOTS);
        let first = self.len / PAGE_SLOTS;
        if let Some(held) = self.pages.get_mut(first) {
            held.own();
        }
        while self.pages.len() < needed {
            let page = Page::new(self.shape, self.cache_type, &self.memory);
            self.pages.push(Held::Own(page));
        }
    }

    /// Writes keys or values of `head` of `layer` of the row number `row` behind the committed
    /// slots, rounded to the type of the cache. The row counts once it is
    /// [committed](Self::commit).
    ///
    /// # Panics
    /// If there is no [room](Self::reserve) for the row, or no such layer, or `values` are not a
    /// head.
    pub fn write(&mut self, layer: usize, part: KvPart, head: usize, row: usize, values: &[f32]) {
        let slot = self.len + row;
        assert!(slot < self.capacity(), "a row without a place in the cache");
        let start = place(self.shape, layer, part, head, slot);
        let place = start..start + self.shape.head_dim;
        match &mut self.pages[slot / PAGE_SLOTS].own().store {
            Store::Whole(store) => store[place].copy_from_slice(values),
            Store::Half(store) if self.cache_type == CacheType::BF16 => {
                let place = store[place].reinterpret_cast_mut::<bf16>();
                place.convert_from_f32_slice(values);
            }
            Store::Half(store) => {
                let place = store[place].reinterpret_cast_mut::<f16>();
                place.convert_from_f32_slice(values);
            }
        }
    }

    /// Keys and values of `layer` in the first `count` slots, a view.
    ///
    /// # Panics
    /// If there are not so many slots.
    pub fn keys_values(&self, layer: usize, count: usize) -> KeysValues<'_> {
        assert!(
            count <= self.capacity(),
            "slots without a place in the cache"
        );
        KeysValues {
            cache: self,
            layer,
            count,
        }
    }

    /// Makes the `rows` slots behind the committed ones committed, after every layer has written
    /// them.
    pub fn commit(&mut self, rows: usize) {
        self.len += rows;
        debug_assert!(self.len <= self.capacity());
    }

    /// Forgets all slots from `len` on. Pages that are far behind the last slot are given back.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
        let used = self.len.div_ceil(PAGE_SLOTS);
        self.pages.truncate(used + Self::SPARE_PAGES);
        let unused = self.pages.iter().skip(used);
        let shared = unused
            .take_while(|held| matches!(held, Held::Shared(_)))
            .count();
        self.pages.drain(used..used + shared);
    }

    /// Moves `slots`, which ascend from `at` or later, to where the slot `at` begins, and forgets
    /// everything else from `at` on. Free if they lie there already.
    pub fn retain(&mut self, at: usize, slots: &[u32]) {
        let slots = slots.iter().map(|&slot| slot as usize);
        for (slot, to) in slots.clone().zip(at..) {
            if slot != to {
                self.move_slot(slot, to);
            }
        }
        self.len = at + slots.len();
    }

    /// Copies keys and values of a slot to one before it.
    fn move_slot(&mut self, from: usize, to: usize) {
        let (shape, size) = (self.shape, self.shape.head_dim);
        let heads = 2 * shape.layers * shape.kv_heads;
        let begins = |head: usize, slot: usize| (head * PAGE_SLOTS + slot % PAGE_SLOTS) * size;
        let (before, here) = self.pages.split_at_mut(from / PAGE_SLOTS);
        match before.get_mut(to / PAGE_SLOTS) {
            Some(target) => {
                let (target, source) = (target.own(), here[0].page());
                for head in 0..heads {
                    target.copy_head(begins(head, to), source, begins(head, from), size);
                }
            }
            None => {
                let moved = |head| {
                    (
                        begins(head, from)..begins(head, from) + size,
                        begins(head, to),
                    )
                };
                let moved = (0..heads).map(moved);
                match &mut here[0].own().store {
                    Store::Whole(store) => moved.for_each(|(from, to)| store.copy_within(from, to)),
                    Store::Half(store) => moved.for_each(|(from, to)| store.copy_within(from, to)),
                }
            }
        }
    }

    /// The page of the slots from [`PAGE_SLOTS`] times `number` on, for [others](Self::adopt). It
    /// is copied when this cache writes to it again while they have it.
    ///
    /// # Panics
    /// If one of its slots is not committed.
    pub fn share(&mut self, number: usize) -> Arc<Page> {
        let end = (number + 1) * PAGE_SLOTS;
        assert!(end <= self.len, "a page that is not committed");
        let page = match self.pages.remove(number) {
            Held::Own(page) => Arc::new(page),
            Held::Shared(page) => page,
        };
        self.pages.insert(number, Held::Shared(Arc::clone(&page)));
        page
    }

    /// Puts a page of the same content, which others have, in place of an own one.
    ///
    /// # Panics
    /// As [`share`](Self::share).
    pub fn replace(&mut self, number: usize, page: Arc<Page>) {
        let end = (number + 1) * PAGE_SLOTS;
        assert!(end <= self.len, "a page that is not committed");
        self.pages[number] = Held::Shared(page);
    }

    /// Appends the slots of a page that a cache of the same shape and type shares.
    ///
    /// # Panics
    /// If the committed slots do not end with a page, or the page is of another size.
    pub fn adopt(&mut self, page: Arc<Page>) {
        assert!(self.len.is_multiple_of(PAGE_SLOTS), "a page within a page");
        let bytes = self.shape.elements_per_slot() * PAGE_SLOTS * self.cache_type.bytes();
        assert_eq!(page.bytes(), bytes, "a page of another cache's shape");
        self.pages.truncate(self.len / PAGE_SLOTS);
        self.pages.push(Held::Shared(page));
        self.len += PAGE_SLOTS;
    }
}

/// Keys and values of the heads of one layer of a [`Cache`].
#[derive(Clone, Copy, Debug)]
pub struct KeysValues<'a> {
    cache: &'a Cache,
    layer: usize,
    /// Keys of each head.
    pub(crate) count: usize,
}

impl<'a> KeysValues<'a> {
    /// Number of heads.
    pub(crate) fn heads(&self) -> usize {
        self.cache.shape.kv_heads
    }

    /// Keys or values of a head in some slots, which lie in one page: where they lie, or widened
    /// into `room`.
    #[inline(always)]
    pub(crate) fn widened<'s>(
        &self,
        part: KvPart,
        head: usize,
        slots: Range<usize>,
        room: &'s mut Vec<f32>,
    ) -> &'s [f32]
    where
        'a: 's,
    {
        let Cache {
            shape, cache_type, ..
        } = *self.cache;
        let count = slots.len() * shape.head_dim;
        let start = place(shape, self.layer, part, head, slots.start);
        match &self.cache.pages[slots.start / PAGE_SLOTS].page().store {
            Store::Whole(all) => &all[start..start + count],
            Store::Half(all) if cache_type == CacheType::BF16 => {
                let widened = all[start..start + count].iter().map(
                    #[inline(always)]
                    |&bits| f32::from_bits(u32::from(bits) << 16),
                );
                room.clear();
                room.extend(widened);
                room
            }
            Store::Half(all) => {
                room.resize(count, 0.0);
                let halves = all[start..start + count].reinterpret_cast::<f16>();
                halves.convert_to_f32_slice(room);
                room
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng, rngs::StdRng};

    const SHAPE: CacheShape = CacheShape {
        layers: 3,
        kv_heads: 2,
        head_dim: 4,
    };

    /// Every place of a row: layer, part, head.
    fn places() -> impl Iterator<Item = (usize, KvPart, usize)> {
        let parts = |layer| [(layer, KvPart::Keys), (layer, KvPart::Values)];
        let heads = |(layer, part)| (0..SHAPE.kv_heads).map(move |head| (layer, part, head));
        (0..SHAPE.layers).flat_map(parts).flat_map(heads)
    }

    /// What the row `stamp` holds at a place.
    fn content(stamp: u32, (layer, part, head): (usize, KvPart, usize)) -> Vec<f32> {
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
                let held = cache.keys_values(layer, cache.len());
                assert_eq!(
                    held.widened(part, head, slot..slot + 1, &mut Vec::new()),
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
        let mut cache = Cache::new(SHAPE, cache_type, CacheMemory::default());
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
            let used = cache.len().div_ceil(PAGE_SLOTS) * PAGE_SLOTS;
            assert!(cache.capacity() <= used.max(most.next_multiple_of(PAGE_SLOTS)));
        }
    }

    /// Caches that share pages, of which each goes on in its own way.
    #[test]
    fn shared_pages_are_copied_when_they_are_written() {
        let memory = CacheMemory::default();
        let counted = || Cache::new(SHAPE, CacheType::BF16, memory.clone());
        let (mut first, mut second) = (counted(), counted());
        let stamps: Vec<u32> = (0..2 * PAGE_SLOTS as u32 + 5).collect();
        append(&mut first, &stamps);
        let page = first.bytes() / 3;
        assert_eq!(memory.bytes(), 3 * page);
        for number in 0..2 {
            second.adopt(first.share(number));
        }
        let kept = &stamps[..2 * PAGE_SLOTS];
        assert_holds(&second, kept);
        assert_eq!((second.bytes(), memory.bytes()), (2 * page, 3 * page));
        // The first one takes back what lies in a shared page.
        let back = PAGE_SLOTS + 7;
        first.truncate(back);
        append(&mut first, &[900, 901]);
        assert_holds(&first, &[&stamps[..back], &[900, 901]].concat());
        assert_holds(&second, kept);
        append(&mut second, &[800]);
        second.retain(2 * PAGE_SLOTS - 3, &[2 * PAGE_SLOTS as u32]);
        assert_holds(&second, &[&stamps[..2 * PAGE_SLOTS - 3], &[800]].concat());
        assert_holds(&first, &[&stamps[..back], &[900, 901]].concat());
        drop(first);
        second.truncate(0);
        assert!(memory.bytes() <= second.bytes());
        drop(second);
        assert_eq!(memory.bytes(), 0);
    }

    #[test]
    fn memory_of_a_long_text_is_given_back_when_a_short_one_follows() {
        let memory = CacheMemory::default();
        let mut cache = Cache::new(SHAPE, CacheType::F32, memory.clone());
        let stamps: Vec<u32> = (0..20 * PAGE_SLOTS as u32).collect();
        append(&mut cache, &stamps);
        let page = memory.bytes() / 20;
        cache.truncate(10);
        assert_eq!(memory.bytes(), 2 * page);
        append(&mut cache, &[7; 2 * PAGE_SLOTS]);
        assert_eq!(memory.bytes(), 3 * page);
    }

    #[test]
    fn rows_that_are_not_committed_leave_no_trace() {
        let mut cache = Cache::new(SHAPE, CacheType::F32, CacheMemory::default());
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
        let mut cache = Cache::new(SHAPE, CacheType::F32, CacheMemory::default());
        cache.write(0, KvPart::Keys, 0, 0, &[0.0; 4]);
    }
}
