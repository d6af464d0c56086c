//! A small decoder with rotary attention and gated feed-forwards.

use cascade_gpu::{
    Activation, AttentionKind, Cache, CacheShape, DType, Device, Error, Forward, Heads, Linear,
    Loader, Norm, QkvParts, Rotary, Runner, StorageDType, Table, WorkspaceSizes,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::batch::Batch;
use super::store::Store;
use super::EPSILON;

/// What decoders differ in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) heads: Heads,
    pub(crate) vocabulary: usize,
}

impl Shape {
    /// The smallest that there is.
    pub(crate) const SMALL: Self = Self {
        heads: Heads {
            queries: 2,
            kv: 1,
            size: 16,
        },
        vocabulary: 48,
    };
}

/// In bf16 maps of the stream have two parts.
pub(crate) const STREAM: usize = 256;
pub(crate) const LAYERS: usize = 2;
pub(crate) const SLOTS: usize = 300;

pub(crate) struct Layer {
    pub(crate) norms: [Norm; 2],
    pub(crate) qkv: Linear,
    pub(crate) out: Linear,
    pub(crate) gated: Linear,
    pub(crate) down: Linear,
}

/// A decoder on a device.
pub(crate) struct Decoder {
    shape: Shape,
    device: Device,
    dtype: DType,
    pub(crate) table: Table,
    pub(crate) layers: Vec<Layer>,
    pub(crate) norm: Norm,
    pub(crate) head: Linear,
    /// Of queries and keys, if heads are normed before they are rotated.
    head_norms: Option<[Norm; 2]>,
    rotary: Rotary,
    sizes: WorkspaceSizes,
}

/// Inner size of feed-forwards: in bf16 the second map has four parts.
pub(crate) fn inner(dtype: DType) -> usize {
    match dtype {
        DType::F32 => 64,
        DType::BF16 | DType::F16 | DType::Q8 => 512,
    }
}

fn weights(shape: Shape, dtype: DType) -> Store {
    let Shape { heads, vocabulary } = shape;
    let inner = inner(dtype);
    let mut rng = StdRng::seed_from_u64(1);
    let mut store = Store::default();
    let mut random = |name: &str, shape: &[usize]| {
        store.random(&mut rng, name, shape, StorageDType::BF16, 0.4);
    };
    random("table", &[vocabulary, STREAM]);
    random("norm", &[STREAM]);
    random("head", &[vocabulary, STREAM]);
    random("q", &[heads.queries * heads.size, STREAM]);
    random("k", &[heads.kv * heads.size, STREAM]);
    random("v", &[heads.kv * heads.size, STREAM]);
    random("out", &[STREAM, heads.queries * heads.size]);
    random("gate", &[inner, STREAM]);
    random("up", &[inner, STREAM]);
    random("down", &[STREAM, inner]);
    random("q_norm", &[heads.size]);
    random("k_norm", &[heads.size]);
    store
}

impl Decoder {
    pub(crate) fn new(device: &Device, dtype: DType, shape: Shape) -> Self {
        Self::with(device, dtype, shape, false)
    }

    /// One whose heads are normed before they are rotated.
    pub(crate) fn with_normed_heads(device: &Device, dtype: DType, shape: Shape) -> Self {
        Self::with(device, dtype, shape, true)
    }

    fn with(device: &Device, dtype: DType, shape: Shape, normed: bool) -> Self {
        let Shape { heads, vocabulary } = shape;
        let weights = weights(shape, dtype);
        let inner = inner(dtype);
        let mut loader = Loader::new(device, dtype, &weights);
        let mut sizes = WorkspaceSizes::new(STREAM, EPSILON, heads, vocabulary);
        let attended = heads.queries * heads.size;
        let layers: Vec<Layer> = (0..LAYERS)
            .map(|_| {
                let mut norm = || loader.norm("norm", STREAM).unwrap();
                let norms = [norm(), norm()];
                let [q, k, v] = [heads.queries, heads.kv, heads.kv].map(|count| count * heads.size);
                let qkv = if normed {
                    loader.linear(STREAM, &[("q", q), ("k", k), ("v", v)])
                } else {
                    loader.rotated(STREAM, heads, ["q", "k", "v"])
                };
                let qkv = qkv.unwrap();
                let mut map = |inputs, name, outputs| loader.linear(inputs, &[(name, outputs)]);
                Layer {
                    norms,
                    qkv,
                    out: map(attended, "out", STREAM).unwrap(),
                    down: map(inner, "down", STREAM).unwrap(),
                    gated: loader.gated(STREAM, "gate", "up", inner).unwrap(),
                }
            })
            .collect();
        let head = loader.head(STREAM, "head", vocabulary).unwrap();
        let maps = layers
            .iter()
            .flat_map(|layer| [&layer.qkv, &layer.out, &layer.gated, &layer.down]);
        maps.chain([&head]).for_each(|map| sizes.cover(map));
        let half = heads.size / 2;
        let angles: Vec<f32> = (0..SLOTS * half)
            .map(|i| (i / half) as f32 / (1 + i % half) as f32)
            .collect();
        let table = |f: fn(f32) -> f32| angles.iter().map(|&a| 0.4 * f(a)).collect::<Vec<_>>();
        let mut head_norm = |name| loader.norm(name, heads.size).unwrap();
        let head_norms = normed.then(|| ["q_norm", "k_norm"].map(&mut head_norm));
        Self {
            shape,
            head_norms,
            table: loader.table("table", vocabulary, STREAM).unwrap(),
            norm: loader.norm("norm", STREAM).unwrap(),
            rotary: Rotary::new(device, &table(f32::cos), &table(f32::sin)).unwrap(),
            device: device.clone(),
            dtype,
            layers,
            head,
            sizes,
        }
    }

    pub(crate) fn cache(&self) -> Cache {
        let shape = CacheShape {
            layers: LAYERS,
            kv_heads: self.shape.heads.kv,
            head_dim: self.shape.heads.size,
        };
        let mut cache = Cache::new(&self.device, shape, self.dtype).unwrap();
        cache.reserve(SLOTS).unwrap();
        cache
    }

    pub(crate) fn forward(&self, f: &mut Forward<'_>) {
        f.embed(&self.table, &self.layers[0].norms[0]);
        for (i, layer) in self.layers.iter().enumerate() {
            let next = self.layers.get(i + 1);
            let next_norm = next.map_or(&self.norm, |next| &next.norms[0]);
            match &self.head_norms {
                Some([queries, keys]) => {
                    f.project(&layer.qkv, QkvParts::All(None), i);
                    f.norm_heads([queries, keys], &self.rotary, i);
                }
                None => f.project(&layer.qkv, QkvParts::All(Some(&self.rotary)), i),
            }
            f.attention(AttentionKind::SelfAttn(None), i);
            f.add_attended(&layer.out, &layer.norms[1]);
            f.activate(&layer.gated, Activation::Silu);
            f.add_inner(&layer.down, next_norm);
        }
        f.logits(&self.head, 1.0);
    }

    /// Logits of every row of `batch`.
    pub(crate) fn logits(&self, runner: &mut Runner, batch: &Batch, cache: &Cache) -> Vec<f32> {
        self.run(runner, batch, cache).unwrap();
        runner.logits(batch.wanted).unwrap()
    }

    pub(crate) fn run(
        &self,
        runner: &mut Runner,
        batch: &Batch,
        cache: &Cache,
    ) -> Result<(), Error> {
        runner.forward(&batch.rows(), cache, None, |f| self.forward(f))
    }

    pub(crate) fn runner(&self) -> Runner {
        Runner::new(&self.device, self.dtype, self.sizes).unwrap()
    }

    /// Logits of every token of `text` behind `past` slots, as many at once as `sizes` says, the
    /// last again and again.
    pub(crate) fn read(
        &self,
        cache: &Cache,
        past: usize,
        text: &[u32],
        sizes: &[usize],
    ) -> Vec<f32> {
        let mut runner = self.runner();
        let mut logits = Vec::new();
        let mut done = 0;
        for i in 0.. {
            let size = sizes[i.min(sizes.len() - 1)].min(text.len() - done);
            if size == 0 {
                break;
            }
            let batch = Batch::chain(&text[done..done + size], past + done);
            logits.extend(self.logits(&mut runner, &batch, cache));
            done += size;
        }
        assert!(logits.iter().all(|x| x.is_finite()));
        logits
    }
}

/// Tokens of a vocabulary at random.
pub(crate) fn random_text(seed: u64, length: usize, vocabulary: usize) -> Vec<u32> {
    let mut rng = StdRng::seed_from_u64(seed);
    (0..length)
        .map(|_| rng.random_range(0..vocabulary as u32))
        .collect()
}
