//! Embedding, norms and nonlinearities, against formulas in f64.
#![allow(clippy::unwrap_used)]

use crate::common::batch::Batch;
use crate::common::store::Store;
use crate::common::{assert_close, cache, numbers, on_all, EPSILON, ONE_HEAD};
use cascade_gpu::{
    Activation, DType, Device, Forward, Loader, Runner, StorageDType, WorkspaceSizes,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const TOKENS: usize = 30;

/// Weights of one residual sublayer.
struct Case {
    size: usize,
    tokens: Vec<u32>,
    store: Store,
}

impl Case {
    fn new(seed: u64, rows: usize, size: usize, stored: StorageDType) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut store = Store::default();
        store.random(&mut rng, "table", &[TOKENS, size], stored, 2.0);
        store.random(&mut rng, "norm", &[size], stored, 1.5);
        store.random(&mut rng, "map", &[size, size], stored, 0.2);
        let tokens = (0..rows).map(|_| rng.random_range(0..TOKENS as u32));
        Self {
            size,
            tokens: tokens.collect(),
            store,
        }
    }

    fn run(
        &self,
        device: &Device,
        dtype: DType,
        sizes: WorkspaceSizes,
        f: impl Fn(&mut Forward<'_>),
    ) -> Runner {
        let mut runner = Runner::new(device, dtype, sizes).unwrap();
        let mut batch = Batch::chain(&self.tokens, 0);
        batch.wanted = 0;
        let cache = cache(device, dtype, ONE_HEAD, self.tokens.len());
        let forward = runner.forward(&batch.rows(), &cache, None, f);
        forward.unwrap();
        runner
    }

    /// What the norm gives when `sublayers` feed-forwards have been added to the embedding, and the
    /// inner layer of the last.
    fn norm_after(
        &self,
        sublayers: usize,
        (device, dtype): (&Device, DType),
    ) -> (Vec<f32>, Option<Vec<f32>>) {
        let mut loader = Loader::new(device, dtype, &self.store);
        let table = loader.table("table", TOKENS, self.size).unwrap();
        let norm = loader.norm("norm", self.size).unwrap();
        let map = loader.linear(self.size, &[("map", self.size)]).unwrap();
        let mut sizes = WorkspaceSizes::new(self.size, EPSILON, ONE_HEAD, 16);
        sizes.cover(&map);
        let runner = self.run(device, dtype, sizes, |f| {
            f.embed(&table, &norm);
            for _ in 0..sublayers {
                f.activate(&map, Activation::Relu);
                f.add_inner(&map, &norm);
            }
        });
        let rows = self.tokens.len();
        let inner = (sublayers > 0).then(|| runner.inner(rows * self.size).unwrap());
        (runner.hidden(0, rows).unwrap(), inner)
    }

    /// The values of a weight in a model of this type.
    fn kept(&self, name: &str, dtype: DType) -> Vec<f64> {
        let kept = numbers::kept(self.store.values(name), dtype);
        kept.into_iter().map(f64::from).collect()
    }

    /// The embeddings of the rows, one after the other.
    fn embedded(&self, dtype: DType) -> Vec<f64> {
        let table = self.kept("table", dtype);
        let tokens = self.tokens.iter();
        let rows = tokens.map(|&token| &table[token as usize * self.size..][..self.size]);
        rows.flatten().copied().collect()
    }

    /// The norm of each row, whose weight is f32 always, and how far off it may be.
    fn normed(&self, stream: &[f64], dtype: DType) -> Vec<(f64, f64)> {
        let weight = self.store.values("norm");
        let rows = stream.chunks(self.size).flat_map(|row| {
            let squares: f64 = row.iter().map(|x| x * x).sum();
            let scale = (squares / self.size as f64 + EPSILON).sqrt().recip();
            let numbers = row.iter().zip(weight);
            numbers.map(move |(x, &w)| {
                let number = x * scale * f64::from(w);
                (
                    number,
                    1.01 * numbers::rounding(dtype) * number.abs() + 1e-5,
                )
            })
        });
        rows.collect()
    }
}

/// A linear map of rows, in f64.
fn map(weight: &[f64], inputs: usize, rows: &[f32]) -> Vec<f64> {
    let outputs = rows.chunks(inputs).flat_map(|x| {
        let product = move |w: &[f64]| w.iter().zip(x).map(|(w, &x)| w * f64::from(x)).sum();
        weight.chunks(inputs).map(product)
    });
    outputs.collect()
}

#[test]
fn norms_add_what_is_pending_to_the_residual_stream() {
    let cases = [
        (1, 64, 32, StorageDType::F32),
        (2, 1, 96, StorageDType::BF16),
        (3, 19, 160, StorageDType::F16),
        (4, 3, 1056, StorageDType::F32),
    ];
    for (seed, rows, size, stored) in cases {
        let case = Case::new(seed, rows, size, stored);
        on_all(|device, dtype| {
            let weight = case.kept("map", dtype);
            let mut stream = case.embedded(dtype);
            let mut last = Vec::new();
            for sublayers in 0..3 {
                let (got, inner) = case.norm_after(sublayers, (device, dtype));
                let added = inner.map_or_else(Vec::new, |inner| map(&weight, size, &inner));
                stream.iter_mut().zip(added).for_each(|(x, y)| *x += y);
                assert_close(&got, case.normed(&stream, dtype), &(dtype, size, sublayers));
                last = got;
            }
            last
        });
    }
}

fn activate(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Relu => x.max(0.0),
        Activation::Gelu => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
            0.5 * x * (1.0 + inner.tanh())
        }
        Activation::Silu => x / (1.0 + (-x).exp()),
    }
}

/// Numbers of the inner layer: more than a block has, and not in whole blocks.
const INNER: usize = 144;

impl Case {
    fn activated(
        &self,
        (device, dtype): (&Device, DType),
        (activation, gated): (Activation, bool),
    ) -> Vec<f32> {
        let mut loader = Loader::new(device, dtype, &self.store);
        let table = loader.table("table", TOKENS, self.size).unwrap();
        let norm = loader.norm("norm", self.size).unwrap();
        let map = if gated {
            loader.gated(self.size, "gate", "up", INNER)
        } else {
            loader.linear(self.size, &[("gate", INNER)])
        };
        let map = map.unwrap();
        let mut sizes = WorkspaceSizes::new(self.size, EPSILON, ONE_HEAD, 16);
        sizes.cover(&map);
        sizes.input = INNER;
        let runner = self.run(device, dtype, sizes, |f| {
            f.embed(&table, &norm);
            f.activate(&map, activation);
        });
        runner.inner(self.tokens.len() * INNER).unwrap()
    }

    fn check_nonlinearities(&self) {
        let all = [Activation::Relu, Activation::Gelu, Activation::Silu];
        for (activation, gated) in all.into_iter().flat_map(|one| [(one, false), (one, true)]) {
            on_all(|device, dtype| {
                let (normed, _) = self.norm_after(0, (device, dtype));
                let [gate, up] = ["gate", "up"].map(|w| map(&self.kept(w, dtype), 512, &normed));
                let got = self.activated((device, dtype), (activation, gated));
                let want = gate.iter().zip(&up).map(|(&gate, &up)| {
                    let factor = if gated { up } else { 1.0 };
                    let number = activate(activation, gate) * factor;
                    let rounded = 1.01 * numbers::rounding(dtype) * number.abs();
                    (number, rounded + 3e-5 * (1.0 + factor.abs()))
                });
                assert_close(&got, want, &(dtype, activation, gated));
                got
            });
        }
    }
}

#[test]
fn nonlinearities_are_what_their_formulas_say() {
    // In bf16 the map has two parts, and a kernel for each of these numbers of rows.
    for (seed, rows) in (5..).zip([3, 11, 20, 40]) {
        let mut case = Case::new(seed, rows, 512, StorageDType::F32);
        let mut rng = StdRng::seed_from_u64(6);
        for name in ["gate", "up"] {
            let shape = [INNER, 512];
            case.store
                .random(&mut rng, name, &shape, StorageDType::BF16, 0.2);
        }
        case.check_nonlinearities();
    }
}
