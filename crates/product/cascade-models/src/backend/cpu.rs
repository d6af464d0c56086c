//! The CPU: row-invariant, with the kernels of `cascade-cpu`. Weights are in any of their formats;
//! what passes from operation to operation is f32, and so are keys and values unless another type
//! is asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use cascade_checkpoint::Rows;
use cascade_core::{HiddenLayer, HiddenLayers, Matrix};
use cascade_cpu::{
    attend, start_threads, Cache, CacheShape, CacheType, Isa, KeysValues, Linear, Packed, Part,
    ScoreBias,
};

use super::host::{Answer, HostBias, HostInput, HostRows, HostSequence, PerWindow, RelativeBias};
use super::{
    Activation, AttentionSpan, Backend, BackendNetwork, BiasTable, Forward, Heads, LinearSpec,
    Loader, ModelInfo, Outputs, QkTransform,
};
use crate::dtype::Types;
use crate::network::Sequence;
use crate::weights::{Provider, Role};
use crate::{DType, Error, Result};

#[derive(Debug)]
pub(super) struct Cpu {
    /// What keys and values are held in.
    cache: CacheType,
    /// Matrices that were loaded.
    held: WeightTotals,
    /// How many matrices are held in another way than was asked for, by what is said of them.
    notes: BTreeMap<String, usize>,
}

/// Number of the weights, and the bytes that they take.
#[derive(Clone, Copy, Debug, Default)]
struct WeightTotals {
    weights: usize,
    bytes: usize,
}

/// An embedding `[rows, size]`.
#[derive(Debug)]
pub(super) enum Table {
    /// In memory: the head's, too, or of another type than the file's.
    Packed(Arc<Packed>),
    /// In the file.
    InFile(Rows),
}

impl Table {
    fn size(&self) -> usize {
        match self {
            Self::Packed(matrix) => matrix.inputs(),
            Self::InFile(rows) => rows.inputs(),
        }
    }

    fn read_row(&self, row: usize, values: &mut [f32]) {
        match self {
            Self::Packed(matrix) => matrix.read_row(row, values),
            Self::InFile(rows) => rows.read(row, values),
        }
    }
}

/// A root-mean-square norm.
#[derive(Debug)]
pub(super) struct Norm {
    weight: Vec<f32>,
    epsilon: f32,
}

/// A linear map, whose outputs may be a gate and what it gates.
#[derive(Debug)]
pub(super) struct Map {
    linear: Linear,
    gated: bool,
}

/// Cosines and sines, `[positions][half a head]`.
#[derive(Debug)]
pub(super) struct Rotary {
    cosines: Vec<f32>,
    sines: Vec<f32>,
    half: usize,
}

/// How a head is changed before it is compared with others.
#[derive(Clone, Copy)]
struct HeadTransform<'a> {
    norm: Option<&'a Norm>,
    rotary: Option<&'a Rotary>,
}

impl HeadTransform<'_> {
    const NONE: Self = Self {
        norm: None,
        rotary: None,
    };

    /// Changes a head of a row at `position`.
    fn apply(self, head: &mut [f32], position: u32) {
        if let Some(norm) = self.norm {
            cascade_cpu::rms_norm_in_place(head, &norm.weight, norm.epsilon);
        }
        if let Some(rotary) = self.rotary {
            rotary.rotate(head, position);
        }
    }
}

/// How heads of queries are changed, and those of keys.
fn head_transforms<'a>(transform: &QkTransform<'a, Cpu>) -> [HeadTransform<'a>; 2] {
    match transform {
        QkTransform::None => [HeadTransform::NONE; 2],
        QkTransform::Rotated(rotary) => {
            [HeadTransform {
                norm: None,
                rotary: Some(rotary),
            }; 2]
        }
        QkTransform::NormedAndRotated(norms, rotary) => {
            [&norms.queries, &norms.keys].map(|norm| HeadTransform {
                norm: Some(norm),
                rotary: Some(rotary),
            })
        }
    }
}

impl Rotary {
    /// Rotates a head of a row at `position`.
    fn rotate(&self, head: &mut [f32], position: u32) {
        let angles = position as usize * self.half..(position as usize + 1) * self.half;
        cascade_cpu::rotate(head, &self.cosines[angles.clone()], &self.sines[angles]);
    }
}

impl Backend for Cpu {
    type Table = Table;
    type Norm = Norm;
    type Linear = Map;
    type Rotary = Rotary;
    type RelativeBias = RelativeBias;

    fn weight_bytes(&self, weights: usize) -> usize {
        let WeightTotals {
            weights: all,
            bytes,
        } = self.held;
        (weights as f64 * bytes as f64 / all.max(1) as f64) as usize
    }

    fn hidden(&self, layers: usize) -> HiddenLayers {
        HiddenLayers::up_to(layers)
    }

    fn notes(&self) -> Vec<String> {
        let say = |(note, count): (&String, &usize)| match count {
            1 => format!("a matrix of weights is held in {note}"),
            count => format!("{count} matrices of weights are held in {note}"),
        };
        self.notes.iter().map(say).collect()
    }

    fn bytes_per_slot(&self, shape: CacheShape) -> usize {
        shape.elements_per_slot() * self.cache.bytes()
    }

    fn sequence(model: Arc<BackendNetwork<Self>>) -> Box<dyn Sequence> {
        Box::new(HostSequence::new(model))
    }
}

/// Loads weights of any type in the formats of one.
pub(super) struct CpuLoader<'a> {
    info: ModelInfo,
    weights: &'a dyn Provider,
    dtype: DType,
    loaded: Cpu,
}

impl<'a> CpuLoader<'a> {
    /// Refuses instructions that the environment names and the CPU does not have, and starts the
    /// threads that compute.
    pub(super) fn new(info: ModelInfo, weights: &'a dyn Provider, types: Types) -> Result<Self> {
        Isa::chosen().map_err(|problem| Error::Instructions { problem })?;
        start_threads().map_err(|problem| Error::Threads { problem })?;
        let loaded = Cpu {
            cache: types.cache.unwrap_or_default(),
            held: WeightTotals::default(),
            notes: BTreeMap::new(),
        };
        Ok(Self {
            info,
            weights,
            dtype: types.weights,
            loaded,
        })
    }

    /// What carries out forwards, once everything is loaded.
    pub(super) fn backend(self) -> Cpu {
        self.loaded
    }

    fn read(&self, name: &str, shape: &[usize], role: Role) -> Result<Vec<f32>> {
        self.weights.read(name, shape, role)
    }

    fn matrix(&mut self, name: &str, shape: [usize; 2]) -> Result<Arc<Packed>> {
        let held = self
            .weights
            .pack(&format!("{name}.weight"), shape, self.dtype)?;
        if let Some(note) = held.note {
            *self.loaded.notes.entry(note).or_default() += 1;
        }
        self.loaded.held.weights += shape[0] * shape[1];
        self.loaded.held.bytes += held.matrix.bytes();
        Ok(Arc::new(held.matrix))
    }

    fn norm_of(&self, name: &str, size: usize) -> Result<Norm> {
        let name = format!("{name}.weight");
        Ok(Norm {
            weight: self.read(&name, &[size], Role::Norm)?,
            epsilon: self.info.epsilon as f32,
        })
    }
}

impl Loader<Cpu> for CpuLoader<'_> {
    fn has(&self, name: &str) -> bool {
        self.weights.has(&format!("{name}.weight"))
    }

    fn table(&mut self, name: &str, tied: bool) -> Result<Table> {
        let shape = [self.info.vocab_size, self.info.size];
        if !tied {
            let name = format!("{name}.weight");
            if let Some(rows) = self.weights.rows(&name, shape, self.dtype)? {
                return Ok(Table::InFile(rows));
            }
        }
        self.matrix(name, shape).map(Table::Packed)
    }

    fn norm(&mut self, name: &str) -> Result<Norm> {
        self.norm_of(name, self.info.size)
    }

    fn head_norm(&mut self, name: &str) -> Result<Norm> {
        self.norm_of(name, self.info.heads.size)
    }

    fn linear(&mut self, spec: LinearSpec<'_>) -> Result<Map> {
        let (mut weight, mut bias) = (Vec::new(), Vec::new());
        for (name, outputs) in spec.parts {
            weight.push(self.matrix(name, [*outputs, spec.inputs])?);
            if spec.bias {
                let name = format!("{name}.bias");
                bias.append(&mut self.read(&name, &[*outputs], Role::Bias)?);
            }
        }
        let mut linear = Linear::of_parts(weight);
        if spec.bias {
            linear = linear.with_bias(bias);
        }
        Ok(Map {
            linear,
            gated: spec.outputs == Outputs::Gated,
        })
    }

    fn head(&mut self, name: &str, tied: Option<&Table>) -> Result<Map> {
        let weight = match tied {
            Some(Table::Packed(table)) => Arc::clone(table),
            _ => self.matrix(name, [self.info.vocab_size, self.info.size])?,
        };
        Ok(Map {
            linear: Linear::of_parts(vec![weight]),
            gated: false,
        })
    }

    fn rotary(&mut self, cosines: Vec<f32>, sines: Vec<f32>) -> Result<Rotary> {
        Ok(Rotary {
            cosines,
            sines,
            half: self.info.heads.size / 2,
        })
    }

    fn relative_bias(&mut self, table: BiasTable<'_>) -> Result<RelativeBias> {
        Ok(RelativeBias::new(table))
    }

    fn on_host(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        self.read(&format!("{name}.weight"), shape, Role::Matrix)
    }
}

impl Cpu {
    /// A cache that holds nothing.
    pub(super) fn cache(&self, shape: CacheShape) -> Cache {
        Cache::of_type(shape, self.cache)
    }

    /// Runs what `write` writes down. Keys and values of the rows are left behind the committed
    /// slots of the caches, which have room for them.
    pub(super) fn run(
        &self,
        info: &ModelInfo,
        input: HostInput<'_>,
        write: &mut (dyn FnMut(&mut dyn Forward<Self>) + Send),
    ) -> Answer {
        let run = || run(info, input, write);
        match self.held.bytes >= WITHIN_THE_POOL && compute_threads() > 1 {
            true => rayon::scope(|_| run()),
            false => run(),
        }
    }
}

/// Threads that compute forwards on the CPU. If it is one, it is the thread that asks for them.
pub fn compute_threads() -> usize {
    rayon::current_num_threads()
}

/// Bytes of weights from which on a forward as a whole is run by a thread of the pool. From any
/// other thread, each of its products would wake one and then wait for it, which takes as long as
/// reading some 500 kB of weights; a forward that needs one thread only is better off without
/// waking any.
const WITHIN_THE_POOL: usize = 1 << 25;

fn run(
    info: &ModelInfo,
    input: HostInput<'_>,
    write: &mut dyn FnMut(&mut dyn Forward<Cpu>),
) -> Answer {
    let mut forward = CpuForward {
        info,
        positions: input.rows.positions(),
        rows: input.rows,
        sequence: input.sequence,
        source: input.source,
        wanted: input.wanted,
        hidden: input.hidden,
        hidden_rows: input.hidden_rows,
        biases: PerWindow::new(),
        stream: Vec::new(),
        normed: Vec::new(),
        queries: Vec::new(),
        attended: Vec::new(),
        inner: Vec::new(),
        answer: Answer::default(),
    };
    write(&mut forward);
    forward.answer
}

/// Rows on their way through the layers, row-major.
struct CpuForward<'a> {
    info: &'a ModelInfo,
    rows: HostRows<'a>,
    positions: Vec<u32>,
    sequence: &'a mut Cache,
    source: &'a mut Cache,
    wanted: usize,
    hidden: HiddenLayers,
    hidden_rows: usize,
    /// Of self-attention, once a layer has asked for it.
    biases: PerWindow<HostBias>,
    stream: Vec<f32>,
    normed: Vec<f32>,
    /// `[heads, rows, head size]`.
    queries: Vec<f32>,
    attended: Vec<f32>,
    inner: Vec<f32>,
    answer: Answer,
}

impl CpuForward<'_> {
    fn norm(&mut self, norm: &Norm) {
        self.normed = cascade_cpu::rms_norm(&self.stream, &norm.weight, norm.epsilon);
    }

    fn add(&mut self, delta: &[f32], norm: &Norm) {
        let sums = self.stream.iter_mut().zip(delta);
        sums.for_each(|(sum, delta)| *sum += delta);
        self.norm(norm);
    }

    /// The rows of which hidden states are wanted.
    fn last_rows<'v>(&self, values: &'v [f32]) -> &'v [f32] {
        &values[values.len() - self.hidden_rows * self.info.size..]
    }

    /// Takes the queries, which come first in each row of `features`.
    fn take_queries(&mut self, features: &[f32], transform: HeadTransform<'_>) {
        let (Heads { queries, size, .. }, rows) = (self.info.heads, self.rows.count());
        let width = features.len() / rows;
        self.queries = Vec::with_capacity(queries * rows * size);
        for head in 0..queries {
            for (row, &position) in features.chunks_exact(width).zip(&self.positions) {
                let start = self.queries.len();
                self.queries
                    .extend_from_slice(&row[head * size..(head + 1) * size]);
                transform.apply(&mut self.queries[start..], position);
            }
        }
    }
}

fn attend_with(
    heads: Heads,
    queries: &[f32],
    keys_values: KeysValues<'_>,
    bias: ScoreBias<'_>,
) -> Vec<f32> {
    attend(queries, heads.queries, heads.size, keys_values, bias)
}

/// Writes keys and values, side by side in each row, behind the committed slots of a cache; keys as
/// `transform` leaves those of a row.
fn store<'r>(
    cache: &mut Cache,
    layer: usize,
    size: usize,
    rows: impl Iterator<Item = &'r [f32]>,
    transform: impl Fn(&mut [f32], usize),
) {
    let mut changed = vec![0.0; size];
    for (number, row) in rows.enumerate() {
        let (keys, values) = row.split_at(row.len() / 2);
        let heads = keys.chunks_exact(size).zip(values.chunks_exact(size));
        for (head, (keys, values)) in heads.enumerate() {
            changed.copy_from_slice(keys);
            transform(&mut changed, number);
            cache.write(layer, Part::Keys, head, number, &changed);
            cache.write(layer, Part::Values, head, number, values);
        }
    }
}

impl Forward<Cpu> for CpuForward<'_> {
    fn embed(&mut self, table: &Table, norm: &Norm) {
        let tokens = self.rows.tokens();
        self.stream = vec![0.0; tokens.len() * table.size()];
        let rows = self.stream.chunks_exact_mut(table.size());
        for (row, token) in rows.zip(tokens) {
            table.read_row(token as usize, row);
        }
        self.norm(norm);
    }

    fn enter(&mut self, layer: usize) {
        let layer = HiddenLayer::Entering(layer);
        if self.hidden.contains(layer) {
            let size = self.info.size;
            let rows = self.last_rows(&self.stream).to_vec();
            self.answer.hidden.push((layer, Matrix::new(size, rows)));
        }
    }

    fn project(&mut self, linear: &Map, transform: QkTransform<'_, Cpu>, layer: usize) {
        let features = linear.linear.forward(&self.normed);
        let [of_queries, of_keys] = head_transforms(&transform);
        self.take_queries(&features, of_queries);
        let Heads { queries, size, .. } = self.info.heads;
        let rows = features.chunks_exact(features.len() / self.rows.count());
        let rows = rows.map(|row| &row[queries * size..]);
        let positions = &self.positions;
        store(self.sequence, layer, size, rows, |keys, row| {
            of_keys.apply(keys, positions[row]);
        });
    }

    fn project_queries(&mut self, linear: &Map) {
        let features = linear.linear.forward(&self.normed);
        self.take_queries(&features, HeadTransform::NONE);
    }

    fn project_source(&mut self, linear: &Map, layer: usize) {
        let features = linear.linear.forward(&self.normed);
        let rows = features.chunks_exact(features.len() / self.rows.count());
        store(self.source, layer, self.info.heads.size, rows, |_, _| ());
    }

    fn attend(&mut self, span: AttentionSpan<'_, Cpu>, layer: usize) {
        let rows = self.rows;
        let bias = self.biases.of(span.window(), || rows.score_bias(&span));
        let bias = match bias {
            HostBias::None => ScoreBias::None,
            HostBias::Shared(bias) => ScoreBias::Shared(bias),
            HostBias::PerHead(bias) => ScoreBias::PerHead(bias),
        };
        let keys_values = self.sequence.keys_values(layer, rows.keys());
        self.attended = attend_with(self.info.heads, &self.queries, keys_values, bias);
    }

    fn attend_source(&mut self, layer: usize) {
        let keys_values = self.source.keys_values(layer, self.source.len());
        let heads = self.info.heads;
        self.attended = attend_with(heads, &self.queries, keys_values, ScoreBias::None);
    }

    fn add_attended(&mut self, linear: &Map, norm: &Norm) {
        let delta = linear.linear.forward(&self.attended);
        self.add(&delta, norm);
    }

    fn activate(&mut self, linear: &Map, activation: Activation) {
        self.inner = match linear.gated {
            true => linear.linear.forward_gated(&self.normed, activation),
            false => {
                let mut inner = linear.linear.forward(&self.normed);
                cascade_cpu::activate(&mut inner, activation);
                inner
            }
        };
    }

    fn add_inner(&mut self, linear: &Map, norm: &Norm) {
        let delta = linear.linear.forward(&self.inner);
        self.add(&delta, norm);
    }

    fn logits(&mut self, head: &Map, scale: Option<f64>) {
        if self.hidden.contains(HiddenLayer::Last) {
            let rows = self.last_rows(&self.normed).to_vec();
            let states = Matrix::new(self.info.size, rows);
            self.answer.hidden.push((HiddenLayer::Last, states));
        }
        if self.wanted == 0 {
            return;
        }
        let hidden = self.normed.len() - self.wanted * self.info.size;
        let hidden = self.normed.split_off(hidden);
        self.answer.logits = match scale {
            None => head.linear.forward(&hidden),
            Some(scale) => {
                let scaled: Vec<f32> = hidden.iter().map(|x| x * scale as f32).collect();
                head.linear.forward(&scaled)
            }
        };
    }
}
