//! The CPU: row-invariant, with the kernels of `cascade-cpu`. Weights are in any of their formats;
//! what passes from operation to operation is f32, and so are keys and values unless another type
//! is asked for.

mod fed;

use std::sync::Arc;

use cascade_checkpoint::Rows;
use cascade_core::{HiddenLayer, Matrix};
use cascade_cpu::{
    Cache, CacheMemory, CacheShape, CacheType, Isa, KvPart, Linear, PAGE_SLOTS, Packed, ScoreBias,
    TextAttention, attend_texts, lead, start_threads,
};

use super::host::{HostBias, HostInput, HostOutput, PerWindow, SourceCache};
use super::{
    Activation, AttentionSpan, Backend, Forward, Heads, HeldWeights, ModelInfo, QkTransform,
    RelativeBias, Tensor,
};
use crate::{Error, Result};

#[derive(Debug)]
pub(crate) struct Cpu {
    /// What keys and values are held in.
    cache: CacheType,
    /// Where those of all sequences are counted.
    memory: CacheMemory,
    held: HeldWeights,
}

/// An embedding `[rows, size]`.
#[derive(Debug)]
pub(crate) enum Table {
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

    pub(crate) fn read_row(&self, row: usize, values: &mut [f32]) {
        match self {
            Self::Packed(matrix) => matrix.read_row(row, values),
            Self::InFile(rows) => rows.read(row, values),
        }
    }
}

/// A root-mean-square norm.
#[derive(Debug)]
pub(crate) struct Norm {
    weight: Vec<f32>,
    epsilon: f32,
}

/// A linear map, whose outputs may be a gate and what it gates.
#[derive(Debug)]
pub(crate) struct Map {
    linear: Linear,
    gated: bool,
}

/// Cosines and sines, `[positions][half a head]`.
#[derive(Debug)]
pub(crate) struct Rotary {
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

impl Rotary {
    /// Rotates a head of a row at `position`.
    fn rotate(&self, head: &mut [f32], position: u32) {
        let angles = position as usize * self.half..(position as usize + 1) * self.half;
        cascade_cpu::rotate(head, &self.cosines[angles.clone()], &self.sines[angles]);
    }
}

impl Backend for Cpu {
    type Matrix = Arc<Packed>;
    type Table = Table;
    type Norm = Norm;
    type Linear = Map;
    type Rotary = Rotary;
    type RelativeBias = RelativeBias;

    fn held(&self) -> &HeldWeights {
        &self.held
    }

    fn bytes_per_slot(&self, shape: CacheShape) -> usize {
        shape.elements_per_slot() * self.cache.bytes()
    }

    fn matrix(&mut self, tensor: &Tensor<'_>, shape: [usize; 2]) -> Result<Arc<Packed>> {
        let held = tensor.weights.pack(&tensor.name, shape, tensor.dtype)?;
        self.held.add(shape, held.matrix.bytes(), held.note);
        Ok(Arc::new(held.matrix))
    }

    fn table(&mut self, tensor: &Tensor<'_>, shape: [usize; 2], tied: bool) -> Result<Table> {
        if !tied {
            let rows = tensor.weights.rows(&tensor.name, shape, tensor.dtype)?;
            if let Some(rows) = rows {
                return Ok(Table::InFile(rows));
            }
        }
        self.matrix(tensor, shape).map(Table::Packed)
    }

    fn matrix_of(table: &Table) -> Option<Arc<Packed>> {
        match table {
            Table::Packed(matrix) => Some(Arc::clone(matrix)),
            Table::InFile(_) => None,
        }
    }

    fn norm(&self, weight: Vec<f32>, epsilon: f32) -> Result<Norm> {
        Ok(Norm { weight, epsilon })
    }

    fn linear(&self, parts: Vec<Arc<Packed>>, bias: Option<Vec<f32>>, gated: bool) -> Result<Map> {
        let linear = Linear::of_parts(parts);
        Ok(Map {
            linear: match bias {
                Some(bias) => linear.with_bias(bias),
                None => linear,
            },
            gated,
        })
    }

    fn rotary(&self, cosines: Vec<f32>, sines: Vec<f32>, half: usize) -> Result<Rotary> {
        Ok(Rotary {
            cosines,
            sines,
            half,
        })
    }

    fn relative_bias(&self, bias: RelativeBias) -> Result<RelativeBias> {
        Ok(bias)
    }
}

impl Cpu {
    /// Refuses instructions that the environment names and the CPU does not have, and starts the
    /// threads that compute.
    pub(crate) fn new(cache: Option<CacheType>) -> Result<Self> {
        Isa::chosen().map_err(|problem| Error::Instructions { problem })?;
        start_threads().map_err(|problem| Error::Threads { problem })?;
        Ok(Self {
            cache: cache.unwrap_or_default(),
            memory: CacheMemory::default(),
            held: HeldWeights::default(),
        })
    }

    /// Bytes of the keys and values of all sequences at present.
    pub(crate) fn cache_bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// Bytes of the pages of so many positions.
    pub(crate) fn page_bytes(&self, shape: CacheShape, positions: usize) -> usize {
        let page = PAGE_SLOTS * self.bytes_per_slot(shape);
        page.saturating_mul(positions.div_ceil(PAGE_SLOTS))
    }

    /// A cache that holds nothing.
    pub(crate) fn cache(&self, shape: CacheShape) -> Cache {
        Cache::new(shape, self.cache, self.memory.clone())
    }

    /// Runs what computes with these weights, by several threads if they are so many.
    pub(crate) fn scope<T>(&self, run: impl FnOnce() -> T) -> T {
        if self.held.bytes >= SHARED {
            lead(run)
        } else {
            run()
        }
    }
}

/// Threads that compute forwards on the CPU. If it is one, it is the thread that asks for them.
pub fn compute_threads() -> usize {
    rayon::current_num_threads()
}

/// Bytes of weights from which on other threads stay awake for a forward. One that needs a single
/// thread is better off without waking any.
const SHARED: usize = 1 << 25;

/// Runs what `write` writes down over the rows of all texts, and answers each. Keys and values of
/// the rows are left behind the committed slots of the caches, which have room for them.
pub(super) fn run(
    info: &ModelInfo,
    texts: Vec<HostInput<'_>>,
    write: impl FnOnce(&mut CpuForward<'_>),
) -> Vec<HostOutput> {
    let mut forward = CpuForward {
        info,
        texts: texts.into_iter().map(Text::new).collect(),
        stream: Vec::new(),
        normed: Vec::new(),
        attended: Vec::new(),
        inner: Vec::new(),
    };
    write(&mut forward);
    let texts = forward.texts.into_iter();
    texts.map(|text| text.answer).collect()
}

/// Rows of some texts on their way through the layers, row-major, text after text. What every row
/// goes through alone is done for all of them at once, so that weights are read once; what depends
/// on the rows before a row, text by text.
pub(crate) struct CpuForward<'a> {
    info: &'a ModelInfo,
    texts: Vec<Text<'a>>,
    stream: Vec<f32>,
    normed: Vec<f32>,
    attended: Vec<f32>,
    inner: Vec<f32>,
}

/// The rows of one text, and what they see.
struct Text<'a> {
    input: HostInput<'a>,
    positions: Vec<u32>,
    /// What is added to the scores of self-attention, once a layer has asked for it.
    biases: PerWindow<HostBias>,
    /// `[heads, rows, head size]`.
    queries: Vec<f32>,
    answer: HostOutput,
}

impl<'a> Text<'a> {
    fn new(input: HostInput<'a>) -> Self {
        Self {
            positions: input.rows.positions(),
            input,
            biases: PerWindow::default(),
            queries: Vec::new(),
            answer: HostOutput::default(),
        }
    }

    fn rows(&self) -> usize {
        self.positions.len()
    }

    /// Takes the queries, which come first in each row of `features`.
    fn take_queries(&mut self, heads: Heads, features: &[f32], transform: HeadTransform<'_>) {
        let Heads { queries, size, .. } = heads;
        let width = features.len() / self.rows();
        self.queries = Vec::with_capacity(queries * self.rows() * size);
        for head in 0..queries {
            for (row, &position) in features.chunks_exact(width).zip(&self.positions) {
                let start = self.queries.len();
                self.queries
                    .extend_from_slice(&row[head * size..(head + 1) * size]);
                transform.apply(&mut self.queries[start..], position);
            }
        }
    }

    /// Keeps the rows of `values` of which hidden states are wanted.
    fn keep_hidden(&mut self, layer: HiddenLayer, values: &[f32], size: usize) {
        let wanted = self.input.wanted;
        if wanted.hidden.contains(layer) {
            let rows = values[values.len() - wanted.hidden_rows * size..].to_vec();
            self.answer.hidden.push((layer, Matrix::new(size, rows)));
        }
    }
}

impl<'a> CpuForward<'a> {
    fn norm(&mut self, norm: &Norm) {
        self.normed = cascade_cpu::rms_norm(&self.stream, &norm.weight, norm.epsilon);
    }

    fn add_to_stream(&mut self, delta: &[f32]) {
        let sums = self.stream.iter_mut().zip(delta);
        sums.for_each(|(sum, delta)| *sum += delta);
    }

    fn add(&mut self, delta: &[f32], norm: &Norm) {
        self.add_to_stream(delta);
        self.norm(norm);
    }

    fn rows(&self) -> usize {
        self.texts.iter().map(Text::rows).sum()
    }

    /// Embeddings of the tokens.
    pub(crate) fn embeddings(&self, table: &Table) -> Vec<f32> {
        let size = table.size();
        let mut embeddings = vec![0.0; self.rows() * size];
        let tokens = self.texts.iter().flat_map(|text| text.input.rows.tokens());
        for (row, token) in embeddings.chunks_exact_mut(size).zip(tokens) {
            table.read_row(token as usize, row);
        }
        embeddings
    }

    /// Calls `each` with every text and its rows of `values`.
    fn each_text(&mut self, values: &[f32], mut each: impl FnMut(&mut Text<'a>, &[f32])) {
        let (width, mut rest) = (values.len() / self.rows(), values);
        for text in &mut self.texts {
            let (own, others) = rest.split_at(text.rows() * width);
            each(text, own);
            rest = others;
        }
    }

    fn keep_hidden(&mut self, layer: HiddenLayer, values: &[f32]) {
        let size = self.info.size;
        self.each_text(values, |text, rows| text.keep_hidden(layer, rows, size));
    }

    /// The rows of which logits are wanted.
    fn wanted(&mut self) -> Vec<f32> {
        let (size, normed) = (self.info.size, std::mem::take(&mut self.normed));
        let mut wanted = Vec::new();
        self.each_text(&normed, |text, rows| {
            wanted.extend_from_slice(&rows[rows.len() - text.input.wanted.logits * size..]);
        });
        wanted
    }
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
            cache.write(layer, KvPart::Keys, head, number, &changed);
            cache.write(layer, KvPart::Values, head, number, values);
        }
    }
}

impl Forward<Cpu> for CpuForward<'_> {
    fn embed(&mut self, table: &Table, norm: &Norm) {
        self.stream = self.embeddings(table);
        self.norm(norm);
    }

    fn enter(&mut self, layer: usize) {
        let stream = std::mem::take(&mut self.stream);
        self.keep_hidden(HiddenLayer::Entering(layer), &stream);
        self.stream = stream;
    }

    fn project(&mut self, linear: &Map, transform: Option<QkTransform<'_, Cpu>>, layer: usize) {
        let features = linear.linear.forward(&self.normed);
        let transform = transform.as_ref();
        let norms = transform.and_then(|transform| transform.norms);
        let [of_queries, of_keys] = [0, 1].map(|i| HeadTransform {
            norm: norms.map(|norms| &norms[i]),
            rotary: transform.map(|transform| transform.rotary),
        });
        let heads @ Heads { queries, size, .. } = self.info.heads;
        self.each_text(&features, |text, features| {
            text.take_queries(heads, features, of_queries);
            let rows = features
                .chunks_exact(features.len() / text.rows())
                .map(|row| &row[queries * size..]);
            let positions = &text.positions;
            store(text.input.sequence, layer, size, rows, |keys, row| {
                of_keys.apply(keys, positions[row]);
            });
        });
    }

    fn project_queries(&mut self, linear: &Map) {
        let (features, heads) = (linear.linear.forward(&self.normed), self.info.heads);
        self.each_text(&features, |text, features| {
            text.take_queries(heads, features, HeadTransform::NONE);
        });
    }

    fn project_source(&mut self, linear: &Map, layer: usize) {
        let (features, size) = (linear.linear.forward(&self.normed), self.info.heads.size);
        self.each_text(&features, |text, features| {
            let rows = features.chunks_exact(features.len() / text.rows());
            if let SourceCache::Written(cache) = &mut text.input.source {
                store(cache, layer, size, rows, |_, _| ());
            }
        });
    }

    fn attend(&mut self, span: AttentionSpan<'_, Cpu>, layer: usize) {
        let heads = self.info.heads;
        let texts = self.texts.iter_mut().map(|text| {
            let rows = text.input.rows;
            let bias = text.biases.of(span.window, || rows.score_bias(&span));
            TextAttention {
                queries: &text.queries,
                keys_values: text.input.sequence.keys_values(layer, rows.keys()),
                bias: bias.view(),
            }
        });
        self.attended = attend_texts(texts.collect(), heads.queries, heads.size);
    }

    fn attend_source(&mut self, layer: usize) {
        let heads = self.info.heads;
        let texts = self.texts.iter().map(|text| {
            let source = text.input.source.cache();
            TextAttention {
                queries: &text.queries,
                keys_values: source.keys_values(layer, source.len()),
                bias: ScoreBias::None,
            }
        });
        self.attended = attend_texts(texts.collect(), heads.queries, heads.size);
    }

    fn add_attended(&mut self, linear: &Map, norm: &Norm) {
        let delta = linear.linear.forward(&self.attended);
        self.add(&delta, norm);
    }

    fn activate(&mut self, linear: &Map, activation: Activation) {
        self.inner = if linear.gated {
            linear.linear.forward_gated(&self.normed, activation)
        } else {
            let mut inner = linear.linear.forward(&self.normed);
            cascade_cpu::activate(&mut inner, activation);
            inner
        };
    }

    fn add_inner(&mut self, linear: &Map, norm: &Norm) {
        let delta = linear.linear.forward(&self.inner);
        self.add(&delta, norm);
    }

    fn logits(&mut self, head: &Map, scale: Option<f64>) {
        let normed = std::mem::take(&mut self.normed);
        self.keep_hidden(HiddenLayer::Last, &normed);
        self.normed = normed;
        let mut wanted = self.wanted();
        if wanted.is_empty() {
            return;
        }
        if let Some(scale) = scale {
            wanted.iter_mut().for_each(|x| *x *= scale as f32);
        }
        let mut logits = head.linear.forward(&wanted);
        // From the last text, so that the logits of a single one are not copied.
        for text in self.texts.iter_mut().rev() {
            let own = text.input.wanted.logits * self.info.vocab_size;
            text.answer.logits = logits.split_off(logits.len() - own);
        }
    }
}
