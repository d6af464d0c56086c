//! Keys and values of one sequence on a device.

use crate::arguments::{GrowArguments, KeepArguments};
use crate::launch::{Kernel, Launch};
use crate::{padded, Address, Buffer, DType, Device, Result};

/// Sizes of a cache that do not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheShape {
    /// Layers that have keys and values.
    pub layers: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Elements of a head; padded as [`padded`] says.
    pub head_dim: usize,
}

impl CacheShape {
    /// Bytes of the keys and values in one slot, in all layers, padding included.
    ///
    /// # Errors
    /// For heads that are too large.
    pub fn bytes_per_slot(&self, dtype: DType) -> Result<usize> {
        Ok(2 * self.layers * self.kv_heads * padded(self.head_dim)? * dtype.bytes())
    }
}

/// Keys and values of one sequence. Slots `..len` are committed; whatever lies behind is garbage.
///
/// Keys lie slot by slot, values element by element, as tensor cores read them. Rolling back is an
/// integer; keeping a branch of a tree is one kernel for all layers. Memory grows by doubling and
/// never shrinks.
#[derive(Debug)]
pub struct Cache {
    device: Device,
    shape: CacheShape,
    padded: usize,
    dtype: DType,
    buffer: Option<Buffer>,
    /// Slots to keep, on their way to the kernel.
    slots: Option<Buffer>,
    capacity: usize,
    len: usize,
}

impl Cache {
    /// Slots allocated at least. Capacities are multiples of eight, which is what attention loads
    /// at once.
    const MIN_CAPACITY: usize = 256;
    /// Slots that one kernel moves.
    const MOVED: usize = 512;

    /// A cache that holds nothing, and takes no memory yet.
    ///
    /// # Errors
    /// For heads that are too large.
    pub fn new(device: &Device, shape: CacheShape, dtype: DType) -> Result<Self> {
        Ok(Self {
            device: device.clone(),
            padded: padded(shape.head_dim)?,
            shape,
            dtype,
            buffer: None,
            slots: None,
            capacity: 0,
            len: 0,
        })
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

    pub(crate) fn buffer(&self) -> Option<&Buffer> {
        self.buffer.as_ref()
    }

    pub(crate) fn address(&self) -> Address {
        self.buffer.as_ref().map_or(0, Buffer::address)
    }

    fn planes(&self) -> usize {
        2 * self.shape.layers * self.shape.kv_heads
    }

    /// Makes room for `rows` slots behind the committed ones. Costs a copy when it grows.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory); what is there stays there.
    pub fn reserve(&mut self, rows: usize) -> Result<()> {
        let needed = self.len + rows;
        if needed <= self.capacity {
            return Ok(());
        }
        let capacity = needed.next_power_of_two().max(Self::MIN_CAPACITY);
        let bytes = self.planes() * capacity * self.padded * self.dtype.bytes();
        let grown = if self.padded == self.shape.head_dim {
            self.device.allocate(bytes)?
        } else {
            // Heads are padded with zeros that nobody writes again.
            self.device.zeroed(bytes)?
        };
        if let (Some(old), 1..) = (&self.buffer, self.len) {
            let arguments = GrowArguments {
                from: old.address(),
                to: grown.address(),
                heads: self.shape.kv_heads as u32,
                padded: self.padded as u32,
                from_capacity: self.capacity as u32,
                to_capacity: capacity as u32,
                count: self.len as u32,
                kind: self.dtype.number(),
            };
            let grid = [self.planes(), 1, 1];
            self.device
                .launch(&Launch::new(Kernel::Grow, grid, 256, arguments))?;
        }
        self.buffer = Some(grown);
        self.capacity = capacity;
        Ok(())
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
    ///
    /// # Errors
    /// If the driver fails; then slots `..at` are left.
    pub fn retain(&mut self, at: usize, slots: &[u32]) -> Result<()> {
        debug_assert!(slots.windows(2).all(|pair| pair[0] < pair[1]));
        let mut places = slots.iter().zip(at..);
        if !places.all(|(&slot, place)| slot as usize == place) {
            self.truncate(at);
            for (first, slots) in (at..).step_by(Self::MOVED).zip(slots.chunks(Self::MOVED)) {
                self.move_slots(first, slots)?;
            }
        }
        self.len = at + slots.len();
        Ok(())
    }

    fn move_slots(&mut self, at: usize, slots: &[u32]) -> Result<()> {
        let buffer = match self.slots.take() {
            Some(buffer) => buffer,
            None => self.device.allocate(Self::MOVED * 4)?,
        };
        let buffer = self.slots.insert(buffer);
        buffer.write(0, slots)?;
        let arguments = KeepArguments {
            cache: self.buffer.as_ref().map_or(0, Buffer::address),
            slots: buffer.address(),
            heads: self.shape.kv_heads as u32,
            padded: self.padded as u32,
            capacity: self.capacity as u32,
            at: at as u32,
            count: slots.len() as u32,
            kind: self.dtype.number(),
        };
        let grid = [self.planes(), 1, 1];
        let launch = Launch::new(Kernel::Keep, grid, self.padded, arguments);
        self.device.launch(&launch)
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::emulator::{emulated, ExecutionOrder};

    const SHAPE: CacheShape = CacheShape {
        layers: 2,
        kv_heads: 3,
        head_dim: 16,
    };
    const PADDED: usize = 32;
    const PLANES: usize = 12;

    /// A cache, and the rows that it holds: each is a number from which all its keys and values
    /// follow.
    struct Twin {
        cache: Cache,
        rows: Vec<u32>,
        made: u32,
    }

    /// Element `i` of a row in a plane. Any bits will do.
    fn number(row: u32, plane: usize, i: usize) -> u16 {
        let mixed = (row as usize * PLANES + plane) * PADDED + i;
        (mixed.wrapping_mul(0x9e37_79b9) >> 8) as u16
    }

    impl Twin {
        fn new(device: &Device, dtype: DType) -> Self {
            Self {
                cache: Cache::new(device, SHAPE, dtype).unwrap(),
                rows: Vec::new(),
                made: 0,
            }
        }

        /// Where element `i` of a slot lies: keys of all heads of a layer come before their values.
        fn place(&self, plane: usize, slot: usize, i: usize) -> usize {
            let start = plane * self.cache.capacity * PADDED;
            if plane % (2 * SHAPE.kv_heads) < SHAPE.kv_heads {
                start + slot * PADDED + i
            } else {
                start + i * self.cache.capacity + slot
            }
        }

        fn each(&self, slot: usize, mut visit: impl FnMut(usize, u16)) {
            for (plane, i) in (0..PLANES).flat_map(|plane| (0..PADDED).map(move |i| (plane, i))) {
                visit(
                    self.place(plane, slot, i),
                    number(self.rows[slot], plane, i),
                );
            }
        }

        /// Writes `rows` new rows behind the committed ones, as a forward does.
        fn write(&mut self, rows: usize) {
            let first = self.cache.len();
            self.rows.truncate(first);
            self.rows
                .extend((0..rows as u32).map(|row| self.made + row));
            self.made += rows as u32;
            let mut numbers = self.numbers();
            (first..first + rows).for_each(|slot| self.each(slot, |at, n| numbers[at] = n));
            let buffer = self.cache.buffer.as_ref().unwrap();
            match self.cache.dtype {
                DType::F32 => {
                    let wide: Vec<u32> = numbers.iter().map(|&n| u32::from(n) * 3).collect();
                    buffer.write(0, &wide).unwrap();
                }
                _ => buffer.write(0, &numbers).unwrap(),
            }
        }

        /// Everything in memory.
        fn numbers(&self) -> Vec<u16> {
            let count = PLANES * self.cache.capacity * PADDED;
            let buffer = self.cache.buffer.as_ref().unwrap();
            let mut halves = vec![0u16; count];
            match self.cache.dtype {
                DType::F32 => {
                    let mut words = vec![0u32; count];
                    buffer.read(0, &mut words).unwrap();
                    halves = words.iter().map(|word| (word / 3) as u16).collect();
                }
                _ => buffer.read(0, &mut halves).unwrap(),
            }
            halves
        }

        fn check(&self) {
            let numbers = self.numbers();
            assert!(self.cache.len() <= self.rows.len());
            for slot in 0..self.cache.len() {
                self.each(slot, |at, n| assert_eq!(numbers[at], n, "slot {slot}"));
            }
        }

        fn retain(&mut self, at: usize, slots: &[u32]) {
            self.cache.retain(at, slots).unwrap();
            let kept: Vec<u32> = slots.iter().map(|&slot| self.rows[slot as usize]).collect();
            self.rows.truncate(at);
            self.rows.extend(kept);
            assert_eq!(self.cache.len(), at + slots.len());
        }

        fn append(&mut self, rows: usize) {
            self.cache.reserve(rows).unwrap();
            self.write(rows);
            self.cache.commit(rows);
        }
    }

    fn on_all(test: impl Fn(Twin)) {
        for dtype in [DType::F32, DType::BF16] {
            for order in [
                ExecutionOrder::Forward,
                ExecutionOrder::Backward,
                ExecutionOrder::Random(2),
            ] {
                test(Twin::new(&emulated(order), dtype));
            }
        }
    }

    #[test]
    fn branches_are_kept_and_the_rest_forgotten() {
        on_all(|mut twin| {
            let mut rng = StdRng::seed_from_u64(1);
            for round in 0..12 {
                let rows = rng.random_range(1..=64);
                twin.cache.reserve(rows).unwrap();
                twin.write(rows);
                let at = twin.cache.len();
                let density = [0.0, 0.2, 0.8, 1.0][round % 4];
                let slots: Vec<u32> = (at..at + rows)
                    .filter(|_| rng.random_bool(density))
                    .map(|slot| slot as u32)
                    .collect();
                twin.retain(at, &slots);
                twin.check();
            }
            let half = twin.cache.len() / 2;
            twin.cache.truncate(half);
            twin.check();
            twin.cache.truncate(half + 1);
            assert_eq!(twin.cache.len(), half);
        });
    }

    #[test]
    fn growing_keeps_what_is_committed() {
        on_all(|mut twin| {
            assert!(twin.cache.is_empty());
            twin.append(3);
            assert_eq!(twin.cache.capacity(), 256);
            twin.append(253);
            assert_eq!(twin.cache.capacity(), 256);
            twin.append(2);
            assert_eq!(twin.cache.capacity(), 512);
            twin.check();
        });
    }

    #[test]
    fn more_slots_move_than_one_kernel_takes() {
        on_all(|mut twin| {
            twin.append(4);
            twin.cache.reserve(700).unwrap();
            twin.write(700);
            let slots: Vec<u32> = (5..704).filter(|slot| slot % 31 != 0).collect();
            assert!(slots.len() > Cache::MOVED);
            twin.retain(4, &slots);
            twin.check();
        });
    }
}
