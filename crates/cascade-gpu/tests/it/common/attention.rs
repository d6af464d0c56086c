//! A model that is nothing but attention, whose queries, keys and values are known exactly; and
//! attention as it is written.

use std::num::NonZeroUsize;

use cascade_gpu::{
    AttentionKind, Cache, DType, Device, Forward, Heads, Linear, Loader, Norm, QkvParts,
    RelativeBias, Rotary, Runner, StorageDType, Table, WorkspaceSizes,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::batch::Batch;
use super::store::Store;
use super::{cache, numbers, EPSILON};

/// Tokens that the table has.
pub(crate) const TOKENS: usize = 32;
/// Positions that rotations have.
pub(crate) const POSITIONS: usize = 128;
/// Numbers of a row of the residual stream.
const STREAM: usize = 64;

/// Which of a row's numbers a number of a head is, and times what.
type Pick = (usize, f32);

/// Weights of which each output is one input, up to sign: queries, keys and values are the norm's
/// elements themselves.
pub(crate) struct Scene {
    pub(crate) heads: Heads,
    picks: Vec<Pick>,
    store: Store,
    /// `[heads][2 * reach + 1]`
    pub(crate) bias: Option<(Vec<f32>, usize)>,
    /// `[positions][size / 2]` cosines and sines.
    rotary: Option<(Vec<f32>, Vec<f32>)>,
    /// How many positions a row sees at most.
    window: Option<NonZeroUsize>,
}

/// A scene's weights on a device.
pub(crate) struct Model {
    device: Device,
    dtype: DType,
    heads: Heads,
    sizes: WorkspaceSizes,
    table: Table,
    norm: Norm,
    all: Linear,
    queries: Linear,
    keys_values: Linear,
    bias: Option<RelativeBias>,
    rotary: Option<Rotary>,
    window: Option<NonZeroUsize>,
    /// What the norm gives for each token.
    pub(crate) rows: Vec<Vec<f32>>,
}

impl Scene {
    pub(crate) fn new(seed: u64, heads: Heads) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut store = Store::default();
        store.random(&mut rng, "table", &[TOKENS, STREAM], StorageDType::F32, 1.0);
        store.put("norm", &[STREAM], StorageDType::F32, &[1.0; STREAM]);
        let Heads { queries, kv, size } = heads;
        let count = (queries + 2 * kv) * size;
        let picks: Vec<Pick> = (0..count)
            .map(|i| {
                let sign = [-1.0, 1.0][rng.random_range(0..2)];
                let scale = if i < queries * size { 0.25 } else { 1.0 };
                (rng.random_range(0..STREAM), sign * scale)
            })
            .collect();
        let mut weight = vec![0.0; count * STREAM];
        for (output, &(input, scale)) in picks.iter().enumerate() {
            weight[output * STREAM + input] = scale;
        }
        let (q, kv_weight) = weight.split_at(queries * size * STREAM);
        store.put("all", &[count, STREAM], StorageDType::BF16, &weight);
        store.put("q", &[queries * size, STREAM], StorageDType::F32, q);
        store.put("kv", &[2 * kv * size, STREAM], StorageDType::F16, kv_weight);
        let (k, v) = kv_weight.split_at(kv * size * STREAM);
        store.put("k", &[kv * size, STREAM], StorageDType::BF16, k);
        store.put("v", &[kv * size, STREAM], StorageDType::F32, v);
        Self {
            heads,
            picks,
            store,
            bias: None,
            rotary: None,
            window: None,
        }
    }

    pub(crate) fn with_window(mut self, window: usize) -> Self {
        self.window = NonZeroUsize::new(window);
        self
    }

    pub(crate) fn with_bias(mut self, seed: u64, reach: usize) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let count = self.heads.queries * (2 * reach + 1);
        let table = (0..count).map(|_| rng.random_range(-3.0..3.0)).collect();
        self.bias = Some((table, reach));
        self
    }

    /// The queries of head 0 are NaN.
    pub(crate) fn with_a_broken_head(mut self) -> Self {
        let mut weight = self.store.values("all").to_vec();
        weight[0] = f32::NAN;
        let outputs = weight.len() / STREAM;
        self.store
            .put("all", &[outputs, STREAM], StorageDType::F32, &weight);
        self
    }

    pub(crate) fn with_rotary(mut self) -> Self {
        let half = self.heads.size / 2;
        let angle = |i: usize| (i / half) as f64 / 100f64.powf((i % half) as f64 / half as f64);
        // Scores are scaled here.
        let table = |f: fn(f64) -> f64| {
            let angles = 0..POSITIONS * half;
            angles.map(|i| (0.75 * f(angle(i))) as f32).collect()
        };
        self.rotary = Some((table(f64::cos), table(f64::sin)));
        self
    }

    pub(crate) fn load(&self, device: &Device, dtype: DType) -> Model {
        let Heads { queries, kv, size } = self.heads;
        let mut loader = Loader::new(device, dtype, &self.store);
        let all = match self.rotary {
            None => loader.linear(STREAM, &[("all", (queries + 2 * kv) * size)]),
            Some(_) => loader.rotated(STREAM, self.heads, ["q", "k", "v"]),
        };
        let all = all.unwrap();
        let mut map = |name, outputs| loader.linear(STREAM, &[(name, outputs)]).unwrap();
        let q = map("q", queries * size);
        let keys_values = map("kv", 2 * kv * size);
        let mut sizes = WorkspaceSizes::new(STREAM, EPSILON, self.heads, 32);
        sizes.cover(&all);
        let bias = self.bias.as_ref();
        let rotary = self.rotary.as_ref();
        let mut model = Model {
            table: loader.table("table", TOKENS, STREAM).unwrap(),
            norm: loader.norm("norm", STREAM).unwrap(),
            bias: bias.map(|(table, reach)| RelativeBias::new(device, table, *reach).unwrap()),
            rotary: rotary.map(|(cos, sin)| Rotary::new(device, cos, sin).unwrap()),
            window: self.window,
            device: device.clone(),
            dtype,
            heads: self.heads,
            sizes,
            all,
            queries: q,
            keys_values,
            rows: Vec::new(),
        };
        model.rows = model.normed();
        model
    }

    /// Numbers `first..first + size` of what the weights pick for a token at a position, kept in
    /// `dtype`.
    fn picked(&self, model: &Model, first: usize, (token, position): (u32, u32)) -> Vec<f32> {
        let size = self.heads.size;
        let row = &model.rows[token as usize];
        let picks = &self.picks[first..first + size];
        let head: Vec<f32> = picks.iter().map(|&(at, scale)| row[at] * scale).collect();
        let is_value = first >= (self.heads.queries + self.heads.kv) * size;
        match &self.rotary {
            Some(tables) if !is_value => rotate(&head, tables, position),
            _ => head,
        }
    }

    fn query(&self, model: &Model, head: usize, at: (u32, u32)) -> Vec<f32> {
        let head = self.picked(model, head * self.heads.size, at);
        kept(&head, model.dtype)
    }

    fn key(&self, model: &Model, head: usize, at: (u32, u32)) -> Vec<f32> {
        let head = self.heads.queries + head;
        let head = self.picked(model, head * self.heads.size, at);
        kept(&head, model.dtype)
    }

    fn value(&self, model: &Model, head: usize, at: (u32, u32)) -> Vec<f32> {
        let head = self.heads.queries + self.heads.kv + head;
        self.picked(model, head * self.heads.size, at)
    }

    fn bias_of(&self, head: usize, query: u32, key: u32) -> f64 {
        let Some((table, reach)) = &self.bias else {
            return 0.0;
        };
        let reach = *reach as i64;
        let distance = (i64::from(query) - i64::from(key)).clamp(-reach, reach);
        f64::from(table[head * (2 * reach as usize + 1) + (reach + distance) as usize])
    }

    /// What a row at `query` gets from the tokens it sees, head by head: numbers, and how far off
    /// they may be.
    pub(crate) fn attend(
        &self,
        model: &Model,
        query: (u32, u32),
        seen: &[(u32, u32)],
    ) -> Vec<(f64, f64)> {
        let Heads { queries, kv, .. } = self.heads;
        let heads = 0..queries;
        heads
            .flat_map(|head| {
                let q = self.query(model, head, query);
                let group = head / (queries / kv);
                let keys = seen.iter().map(|&at| {
                    let bias = self.bias_of(head, query.1, at.1);
                    bias + dot(&q, &self.key(model, group, at))
                });
                let scores: Vec<f64> = keys.collect();
                let values = seen.iter().map(|&at| self.value(model, group, at));
                self.mix(model.dtype, &scores, &values.collect::<Vec<_>>())
            })
            .collect()
    }

    /// Softmax of the scores, and values mixed by it.
    fn mix(&self, dtype: DType, scores: &[f64], values: &[Vec<f32>]) -> Vec<(f64, f64)> {
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
        let sum: f64 = weights.iter().sum();
        let number = |i: usize| {
            let terms = weights
                .iter()
                .zip(values)
                .map(|(weight, value)| weight * f64::from(value[i]) / sum);
            let (value, size) = terms.fold((0.0, 0.0), |(value, size), term| {
                (value + term, size + f64::abs(term))
            });
            (value, self.tolerance(dtype, value, size))
        };
        (0..self.heads.size).map(number).collect()
    }

    /// Weights are rounded before values are mixed, and so is the result. Rotated queries and keys
    /// may have been rounded the other way, and in f16, whose numbers are so close together that
    /// the last bits of sums decide, others too.
    fn tolerance(&self, dtype: DType, value: f64, size: f64) -> f64 {
        let rotated = if self.rotary.is_some() || dtype == DType::F16 {
            4.0
        } else {
            1.0
        };
        let rounding = numbers::rounding(dtype);
        // Exponentials and sums in f32.
        let f32 = 64.0 * f64::from(f32::EPSILON);
        1.01 * rounding * (rotated * size + value.abs()) + f32 * size + 1e-30
    }

    /// What attention must give for the rows of `batch`, when `slots` holds the tokens and
    /// positions of the cache.
    pub(crate) fn expect(
        &self,
        model: &Model,
        batch: &Batch,
        slots: &[(u32, u32)],
    ) -> Vec<(f64, f64)> {
        let rows = batch.tokens.iter().zip(&batch.positions).enumerate();
        rows.flat_map(|(row, (&token, &position))| {
            let path = batch.path(row);
            let within = |at: &(u32, u32)| {
                let window = self.window.map_or(usize::MAX, NonZeroUsize::get);
                ((position - at.1) as usize) < window
            };
            let seen: Vec<_> = (0..batch.past)
                .chain(path)
                .map(|slot| slots[slot])
                .filter(within)
                .collect();
            self.attend(model, (token, position), &seen)
        })
        .collect()
    }
}

impl Model {
    pub(crate) fn runner(&self) -> Runner {
        Runner::new(&self.device, self.dtype, self.sizes).unwrap()
    }

    pub(crate) fn cache(&self, slots: usize) -> Cache {
        cache(&self.device, self.dtype, self.heads, slots)
    }

    /// What the norm gives for every token.
    fn normed(&self) -> Vec<Vec<f32>> {
        let tokens: Vec<u32> = (0..TOKENS as u32).collect();
        let mut batch = Batch::chain(&tokens, 0);
        batch.wanted = 0;
        let mut runner = self.runner();
        let forward = runner.forward(&batch.rows(), &self.cache(TOKENS), None, |f| {
            f.embed(&self.table, &self.norm);
        });
        forward.unwrap();
        let rows = runner.hidden(0, TOKENS).unwrap();
        rows.chunks(STREAM).map(<[f32]>::to_vec).collect()
    }

    /// Rows to queries, keys and values.
    pub(crate) fn project(&self, f: &mut Forward<'_>) {
        f.embed(&self.table, &self.norm);
        f.project(&self.all, QkvParts::All(self.rotary.as_ref()), 0);
    }

    pub(crate) fn look(&self, f: &mut Forward<'_>) {
        let whole = AttentionKind::SelfAttn(self.bias.as_ref());
        f.attention(self.window.map_or(whole, AttentionKind::Windowed), 0);
    }

    /// Rows to queries alone, which look at the source.
    pub(crate) fn look_at_source(&self, f: &mut Forward<'_>) {
        f.embed(&self.table, &self.norm);
        f.project(&self.queries, QkvParts::Queries, 0);
        f.attention(AttentionKind::CrossAttn, 0);
    }

    /// Rows to keys and values of the source.
    pub(crate) fn project_source(&self, f: &mut Forward<'_>) {
        f.embed(&self.table, &self.norm);
        f.project(&self.keys_values, QkvParts::SourceKeysValues, 0);
    }

    /// Writes the slots from 0 on.
    pub(crate) fn fill(&self, cache: &Cache, slots: &[(u32, u32)]) {
        let mut runner = self.runner();
        for (chunk, first) in slots.chunks(64).zip((0..).step_by(64)) {
            let tokens: Vec<u32> = chunk.iter().map(|&(token, _)| token).collect();
            let mut batch = Batch::chain(&tokens, first);
            batch.positions = chunk.iter().map(|&(_, position)| position).collect();
            batch.wanted = 0;
            let forward = runner.forward(&batch.rows(), cache, None, |f| self.project(f));
            forward.unwrap();
        }
    }

    /// What attention gives for `batch`.
    pub(crate) fn attention(&self, batch: &Batch, cache: &Cache) -> Vec<f32> {
        let mut batch = batch.clone();
        batch.wanted = 0;
        let mut runner = self.runner();
        let forward = runner.forward(&batch.rows(), cache, None, |f| {
            self.project(f);
            self.look(f);
        });
        forward.unwrap();
        self.mixed(&runner, batch.tokens.len())
    }

    /// What attention gave for the first `rows` rows.
    pub(crate) fn mixed(&self, runner: &Runner, rows: usize) -> Vec<f32> {
        let width = self.heads.queries * self.heads.size;
        runner.attended(rows * width).unwrap()
    }
}

fn rotate(head: &[f32], (cosines, sines): &(Vec<f32>, Vec<f32>), position: u32) -> Vec<f32> {
    let half = head.len() / 2;
    let at = position as usize * half;
    let number = |i: usize| {
        let turned = if i < half {
            -head[i + half]
        } else {
            head[i - half]
        };
        head[i] * cosines[at + i % half] + turned * sines[at + i % half]
    };
    (0..head.len()).map(number).collect()
}

fn kept(values: &[f32], dtype: DType) -> Vec<f32> {
    let kept = values.iter().map(|&value| numbers::in_kind(value, dtype));
    kept.collect()
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    let products = a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b));
    products.sum()
}
