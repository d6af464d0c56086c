//! Runs forwards: gives them their input, keeps what was recorded, and reads their answers.

use std::collections::HashMap;
use std::mem::offset_of;

use bytemuck::Zeroable;

use crate::arguments::{Answer, KeepArguments, Step, TopArguments, MAX_PICKS, MAX_ROWS, SPLIT};
use crate::device::Program;
use crate::launch::{Kernel, Launch};
use crate::workspace::Workspace;
use crate::{padded, Address, Buffer, Cache, DType, Device, Forward, Result, WorkspaceSizes};

/// Input of one forward: [`MAX_ROWS`] rows at most.
#[derive(Clone, Debug)]
pub struct Rows<'a> {
    /// Their tokens.
    pub tokens: &'a [u32],
    /// Their positions.
    pub positions: &'a [u32],
    /// Keys before this position are in the slots of their positions, and every row sees them.
    pub past: usize,
    /// The slot that row 0 is written to, the others behind it.
    pub first: usize,
    /// For each row, the slots of the positions from `past` to its own, if those are not the
    /// positions themselves: [`WINDOW`](crate::WINDOW) of them at most.
    pub paths: Option<&'a [Vec<usize>]>,
    /// How many rows, from the last one, logits are wanted of.
    pub wanted: usize,
    /// Wanted rows (counted from the first wanted) and tokens whose probabilities are looked up:
    /// [`MAX_PICKS`] at most.
    pub picks: &'a [(u32, u32)],
}

impl Rows<'_> {
    /// Positions that any row sees.
    fn keys(&self) -> usize {
        let last = self.positions.iter().max();
        last.map_or(0, |&last| last as usize + 1).max(self.past)
    }
}

/// Outputs of the requested rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Readout {
    /// The most probable token of each row, the lowest of equals.
    pub argmax: Vec<u32>,
    /// Its probability.
    pub greatest: Vec<f32>,
    /// The first row that is not a valid distribution, if any.
    pub improper: Option<usize>,
    /// Probabilities of the picks.
    pub picks: Vec<f32>,
}

/// What a recorded forward was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Room {
    rows: usize,
    splits: [usize; 2],
    logits: bool,
}

/// Runs the forwards of one model, one at a time.
#[derive(Debug)]
pub struct Runner {
    device: Device,
    dtype: DType,
    sizes: WorkspaceSizes,
    padded: usize,
    workspace: Workspace,
    programs: HashMap<Room, Program>,
    /// What the last forward was recorded for.
    last: Option<Room>,
}

/// What the launches of a forward that are for one purpose take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LaunchCost {
    /// What they are for.
    pub purpose: &'static str,
    /// How many there are in a forward.
    pub launches: usize,
    /// Seconds that they take one after the other, without those for other purposes between them.
    pub seconds: f64,
    /// Bytes of weights that they read.
    pub weights: usize,
}

/// An encoder at work: its rows in chunks of [`MAX_ROWS`], with a residual stream and queries each.
#[derive(Debug)]
pub struct Encoding {
    steps: Buffer,
    stream: Buffer,
    queries: Buffer,
    chunks: usize,
    splits: usize,
}

impl Encoding {
    /// Number of chunks.
    pub fn chunks(&self) -> usize {
        self.chunks
    }
}

impl Runner {
    /// A runner for a model that computes in `dtype`.
    ///
    /// # Errors
    /// If there is no memory, or heads are too large.
    pub fn new(device: &Device, dtype: DType, sizes: WorkspaceSizes) -> Result<Self> {
        Ok(Self {
            padded: padded(sizes.heads.size)?,
            workspace: Workspace::new(device, dtype, &sizes, 1)?,
            programs: HashMap::new(),
            last: None,
            device: device.clone(),
            dtype,
            sizes,
        })
    }

    /// Runs what `build` writes down over `rows`, and writes their keys and values to `cache`,
    /// which has room for them. What `build` writes must depend on nothing but whether logits are
    /// wanted (`rows.wanted > 0`): it is recorded and run again.
    ///
    /// # Errors
    /// What launching fails with.
    ///
    /// # Panics
    /// If there are more rows, positions or picks than there may be.
    pub fn forward(
        &mut self,
        rows: &Rows<'_>,
        cache: &Cache,
        source: Option<&Cache>,
        build: impl FnOnce(&mut Forward<'_>),
    ) -> Result<()> {
        let keys = rows.keys();
        let source_keys = source.map_or(0, Cache::len);
        let splits = [keys, source_keys].map(|keys| keys.div_ceil(SPLIT).next_power_of_two());
        self.reserve(splits[0].max(splits[1]))?;
        let step = step(rows, cache, source);
        let bytes = match step.scattered {
            0 => offset_of!(Step, path),
            _ => size_of::<Step>(),
        };
        let step = bytemuck::bytes_of(&step);
        self.workspace.step.write(0, &step[..bytes])?;
        let room = Room {
            rows: rows.tokens.len().next_power_of_two(),
            splits,
            logits: rows.wanted > 0,
        };
        if !self.programs.contains_key(&room) {
            let program = self.record(room, build)?;
            self.programs.insert(room, program);
        }
        self.last = Some(room);
        self.device.run(&self.programs[&room])
    }

    /// Records the forwards of every number of rows over contexts of `keys` keys and source keys
    /// at most (each power of two times [`SPLIT`](crate::SPLIT) below), so that the first
    /// generation does not have to. `build` is what [`forward`](Self::forward) gets, and whether
    /// logits are wanted.
    ///
    /// # Errors
    /// What recording fails with.
    pub fn prepare(
        &mut self,
        keys: [usize; 2],
        build: impl Fn(&mut Forward<'_>, bool),
    ) -> Result<()> {
        let most = keys.map(|keys| keys.div_ceil(SPLIT).next_power_of_two());
        self.reserve(most[0].max(most[1]))?;
        let powers = |most: usize| (0..=most.ilog2()).map(|power| 1 << power);
        for splits in
            powers(most[0]).flat_map(|own| powers(most[1]).map(move |source| [own, source]))
        {
            // Without logits only whole pieces of a prompt run.
            let rooms = powers(MAX_ROWS)
                .map(|rows| (rows, true))
                .chain([(MAX_ROWS, false)]);
            for (rows, logits) in rooms {
                let room = Room {
                    rows,
                    splits,
                    logits,
                };
                if !self.programs.contains_key(&room) {
                    let program = self.record(room, |forward| build(forward, logits))?;
                    self.programs.insert(room, program);
                }
            }
        }
        Ok(())
    }

    /// Forwards that have been recorded.
    pub fn recorded(&self) -> usize {
        self.programs.len()
    }

    /// What the launches of the last forward take, by purpose, and (first) as many that do nothing.
    /// Each is the median of `repeats` times. The last forward is repeated: its answer, and what
    /// its rows left behind, are lost.
    ///
    /// # Errors
    /// What launching fails with.
    pub fn profile(&self, repeats: usize) -> Result<Vec<LaunchCost>> {
        let last = self.last.and_then(|room| self.programs.get(&room));
        let Some(launches) = last.map(Program::launches) else {
            return Ok(Vec::new());
        };
        let nothing =
            Launch::new(Kernel::Keep, [1; 3], 32, KeepArguments::zeroed()).reading("nothing", 0);
        let mut costs = vec![self.cost(vec![nothing; launches.len()], repeats)?];
        for launch in launches {
            if costs.iter().all(|cost| cost.purpose != launch.purpose) {
                let same = launches.iter().filter(|l| l.purpose == launch.purpose);
                costs.push(self.cost(same.cloned().collect(), repeats)?);
            }
        }
        Ok(costs)
    }

    /// What launches for the same purpose take.
    fn cost(&self, launches: Vec<Launch>, repeats: usize) -> Result<LaunchCost> {
        let cost = LaunchCost {
            purpose: launches[0].purpose,
            launches: launches.len(),
            seconds: 0.0,
            weights: launches.iter().map(|launch| launch.weights).sum(),
        };
        let program = self.device.record(launches)?;
        // The first run loads what later ones find.
        self.device.run(&program)?;
        let mut times = (0..repeats.max(1))
            .map(|_| self.device.time(|| self.device.run(&program)))
            .collect::<Result<Vec<_>>>()?;
        times.sort_by(f64::total_cmp);
        Ok(LaunchCost {
            seconds: times[times.len() / 2],
            ..cost
        })
    }

    /// Kernels that the last forward like this one launched: rows, and whether logits were wanted.
    /// For reports.
    pub fn launches(&self, rows: usize, logits: bool) -> Option<usize> {
        let mut programs = self.programs.iter();
        let found = programs.find(|(room, _)| room.rows == rows && room.logits == logits);
        found.map(|(_, program)| program.launches().len())
    }

    fn record(&self, room: Room, build: impl FnOnce(&mut Forward<'_>)) -> Result<Program> {
        let workspace = &self.workspace;
        let places = [&workspace.step, &workspace.stream, &workspace.queries];
        let mut forward = self.begin(room.rows, room.splits, places.map(Buffer::address));
        build(&mut forward);
        self.device.record(forward.launches)
    }

    /// A forward without launches, with room for the given rows and splits, whose step, residual
    /// stream and queries lie in `places`.
    fn begin(&self, rows: usize, splits: [usize; 2], places: [Address; 3]) -> Forward<'_> {
        let [step, stream, queries] = places;
        Forward {
            workspace: &self.workspace,
            dtype: self.dtype,
            heads: self.sizes.heads,
            padded: self.padded,
            epsilon: self.sizes.epsilon as f32,
            rows,
            splits,
            step,
            stream,
            queries,
            launches: Vec::new(),
        }
    }

    /// Makes room for attention over `splits` splits.
    fn reserve(&mut self, splits: usize) -> Result<()> {
        if splits > self.workspace.splits {
            // Recorded forwards know the old addresses.
            self.programs.clear();
            let shape = (self.sizes.heads.queries, self.padded);
            self.workspace.widen(&self.device, shape, splits)?;
        }
        Ok(())
    }

    /// What the last forward found in its `wanted` rows, and the probabilities of its `picks`.
    /// Waits for it.
    ///
    /// # Errors
    /// What the forward failed with.
    pub fn readout(&self, wanted: usize, picks: usize) -> Result<Readout> {
        let mut answer = [Answer::zeroed()];
        self.workspace.answer.read(0, &mut answer)?;
        let [answer] = answer;
        Ok(Readout {
            argmax: answer.argmax[..wanted].to_vec(),
            greatest: answer.sum[..wanted].iter().map(|sum| sum.recip()).collect(),
            improper: answer.improper[..wanted].iter().position(|&flag| flag != 0),
            picks: answer.picks[..picks].to_vec(),
        })
    }

    /// Logits of the last forward's `wanted` rows, row-major. Waits for it.
    ///
    /// # Errors
    /// What the forward failed with.
    pub fn logits(&self, wanted: usize) -> Result<Vec<f32>> {
        let mut logits = vec![0.0; wanted * self.sizes.vocabulary];
        self.workspace.logits.read(0, &mut logits)?;
        Ok(logits)
    }

    /// The `width` greatest logits of each of the last forward's `wanted` rows with their tokens,
    /// greatest first. Waits for it.
    ///
    /// # Errors
    /// What the forward failed with.
    pub fn top(&self, wanted: usize, width: usize) -> Result<Vec<(u32, f32)>> {
        // Partial sums are used up by now.
        let (tokens, values) = (0, wanted * width * 4);
        let arguments = TopArguments {
            step: self.workspace.step.address(),
            logits: self.workspace.logits.address(),
            tokens: self.workspace.partials.address() + tokens,
            values: self.workspace.partials.address() + values as Address,
            vocabulary: self.sizes.vocabulary as u32,
            width: width as u32,
        };
        self.device
            .launch(&Launch::new(Kernel::Top, [wanted, 1, 1], 1024, arguments))?;
        let mut both = vec![0u32; 2 * wanted * width];
        self.workspace.partials.read(0, &mut both)?;
        let (tokens, values) = both.split_at(wanted * width);
        let values = values.iter().map(|&bits| f32::from_bits(bits));
        Ok(tokens.iter().copied().zip(values).collect())
    }

    /// What the head read of the last forward's rows from `first` on, `count` of them, row-major.
    /// Waits for it.
    ///
    /// # Errors
    /// What the forward failed with.
    pub fn hidden(&self, first: usize, count: usize) -> Result<Vec<f32>> {
        let size = self.sizes.stream;
        let mut hidden = self.elements(&self.workspace.normed, first * size, count * size)?;
        let sums = size / 16;
        let mut squares = vec![0f32; count * sums];
        self.workspace
            .squares
            .read(first * sums * 4, &mut squares)?;
        for (row, squares) in hidden.chunks_mut(size).zip(squares.chunks(sums)) {
            let mean = squares.iter().sum::<f32>() / size as f32;
            let scale = (mean + self.sizes.epsilon as f32).sqrt().recip();
            row.iter_mut().for_each(|element| *element *= scale);
        }
        Ok(hidden)
    }

    /// The first `count` elements of what attention gave last, row-major.
    pub fn attended(&self, count: usize) -> Result<Vec<f32>> {
        self.elements(&self.workspace.attended, 0, count)
    }

    /// The first `count` elements of the last feed-forward's inner layer, row-major.
    pub fn inner(&self, count: usize) -> Result<Vec<f32>> {
        self.elements(&self.workspace.inner, 0, count)
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn sizes(&self) -> WorkspaceSizes {
        self.sizes
    }

    pub(crate) fn queries(&self) -> &Buffer {
        &self.workspace.queries
    }

    pub(crate) fn attended_buffer(&self) -> &Buffer {
        &self.workspace.attended
    }

    /// Elements of `buffer` in f32.
    fn elements(&self, buffer: &Buffer, at: usize, count: usize) -> Result<Vec<f32>> {
        buffer.activations(self.dtype, at, count)
    }

    /// Prepares to encode `tokens`, all of which see each other in `scratch`, and whose keys and
    /// values go to `source`. Both have room for them; they are committed when the encoder is done.
    ///
    /// # Errors
    /// If there is no memory.
    ///
    /// # Panics
    /// If they have no room.
    pub fn encode(&mut self, tokens: &[u32], scratch: &Cache, source: &Cache) -> Result<Encoding> {
        let room = scratch.capacity().min(source.capacity());
        assert!(
            tokens.len() <= room,
            "a source without a place in the cache"
        );
        let splits = tokens.len().div_ceil(SPLIT);
        self.reserve(splits.next_power_of_two())?;
        let chunks = tokens.chunks(MAX_ROWS).zip((0..).step_by(MAX_ROWS));
        let steps: Vec<Step> = chunks
            .map(|(chunk, first)| encoder_step(chunk, first, tokens.len(), scratch, source))
            .collect();
        let rows = steps.len() * MAX_ROWS;
        let queries = self.sizes.heads.queries * self.padded * self.dtype.bytes();
        Ok(Encoding {
            steps: self.device.upload(&steps)?,
            stream: self.device.allocate(rows * self.sizes.stream * 4)?,
            // Heads are padded with zeros that nobody writes again.
            queries: self.device.zeroed(rows * queries)?,
            chunks: steps.len(),
            splits,
        })
    }

    /// Runs what `build` writes down over a chunk of an encoder's rows.
    ///
    /// # Errors
    /// What launching fails with.
    pub fn run_chunk(
        &self,
        encoding: &Encoding,
        chunk: usize,
        build: impl FnOnce(&mut Forward<'_>),
    ) -> Result<()> {
        let row = chunk * MAX_ROWS;
        let queries = self.sizes.heads.queries * self.padded * self.dtype.bytes();
        let places = [
            encoding.steps.address() + (chunk * size_of::<Step>()) as Address,
            encoding.stream.address() + (row * self.sizes.stream * 4) as Address,
            encoding.queries.address() + (row * queries) as Address,
        ];
        let mut forward = self.begin(MAX_ROWS, [encoding.splits; 2], places);
        build(&mut forward);
        let mut launches = forward.launches.iter();
        launches.try_for_each(|launch| self.device.launch(launch))
    }
}

fn step(rows: &Rows<'_>, cache: &Cache, source: Option<&Cache>) -> Step {
    let count = rows.tokens.len();
    assert!((1..=MAX_ROWS).contains(&count), "a forward of {count} rows");
    let slots = rows.first + count;
    assert!(
        slots <= cache.capacity(),
        "rows without a place in the cache"
    );
    assert_eq!(rows.positions.len(), count);
    assert!(rows.wanted <= count && rows.picks.len() <= MAX_PICKS);
    let mut step = Step {
        rows: count as u32,
        past: rows.past as u32,
        first: rows.first as u32,
        keys: rows.keys() as u32,
        cache: cache.address(),
        capacity: cache.capacity() as u32,
        first_wanted: (count - rows.wanted) as u32,
        picks: rows.picks.len() as u32,
        scattered: u32::from(rows.paths.is_some()),
        ..Step::zeroed()
    };
    if let Some(source) = source {
        step.source = source.address();
        step.source_capacity = source.capacity() as u32;
        step.source_keys = source.len() as u32;
    }
    step.tokens[..count].copy_from_slice(rows.tokens);
    step.positions[..count].copy_from_slice(rows.positions);
    for (i, &(row, token)) in rows.picks.iter().enumerate() {
        step.pick_row[i] = row;
        step.pick_token[i] = token;
    }
    for (to, path) in step.path.iter_mut().zip(rows.paths.into_iter().flatten()) {
        for (to, slot) in to[..path.len()].iter_mut().zip(path) {
            *to = (slot - rows.past) as u16;
        }
    }
    step
}

/// Rows of an encoder see everything: all is past.
fn encoder_step(chunk: &[u32], first: usize, all: usize, scratch: &Cache, source: &Cache) -> Step {
    let mut step = Step {
        rows: chunk.len() as u32,
        past: all as u32,
        first: first as u32,
        keys: all as u32,
        cache: scratch.address(),
        source: source.address(),
        capacity: scratch.capacity() as u32,
        source_capacity: source.capacity() as u32,
        ..Step::zeroed()
    };
    step.tokens[..chunk.len()].copy_from_slice(chunk);
    for (position, row) in step.positions[..chunk.len()].iter_mut().zip(first..) {
        *position = row as u32;
    }
    step
}
