//! Linear maps, against sums in f64 of what the kernels multiply.
#![allow(clippy::unwrap_used)]

use crate::common::batch::Batch;
use crate::common::store::Store;
use crate::common::{
    assert_close, bits, cache, devices, numbers, on_all, on_each, EPSILON, ONE_HEAD,
};
use std::borrow::Cow;

use cascade_gpu::{
    DType, Device, Heads, Linear, Loader, Result, Runner, StorageDType, TensorSource, Weights,
    WorkspaceSizes, BLOCK,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Tokens that the table has.
const TOKENS: usize = 80;

/// A table, a norm, and a linear map `head` on top.
struct Case {
    inputs: usize,
    outputs: usize,
    batch: Batch,
    store: Store,
}

impl Case {
    fn new(seed: u64, rows: usize, inputs: usize, outputs: usize, stored: StorageDType) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut store = Store::default();
        store.random(&mut rng, "table", &[TOKENS, inputs], stored, 1.0);
        store.random(&mut rng, "norm", &[inputs], stored, 1.0);
        store.random(&mut rng, "head", &[outputs, inputs], stored, 0.5);
        let tokens: Vec<u32> = (0..rows)
            .map(|_| rng.random_range(0..TOKENS as u32))
            .collect();
        Self {
            inputs,
            outputs,
            batch: Batch::chain(&tokens, 0),
            store,
        }
    }

    /// What the map `load` loads reads and gives, of the wanted rows.
    fn run(
        &self,
        (device, dtype): (&Device, DType),
        load: impl FnOnce(&mut Loader<'_>) -> Linear,
    ) -> (Vec<f32>, Vec<f32>) {
        let mut loader = Loader::new(device, dtype, &self.store);
        let table = loader.table("table", TOKENS, self.inputs).unwrap();
        let norm = loader.norm("norm", self.inputs).unwrap();
        let head = load(&mut loader);
        let mut sizes = WorkspaceSizes::new(self.inputs, EPSILON, ONE_HEAD, self.outputs);
        sizes.cover(&head);
        let mut runner = Runner::new(device, dtype, sizes).unwrap();
        let rows = self.batch.tokens.len();
        let cache = cache(device, dtype, ONE_HEAD, rows);
        let forward = runner.forward(&self.batch.rows(), &cache, None, |f| {
            f.embed(&table, &norm);
            f.logits(&head, 1.0);
        });
        forward.unwrap();
        let wanted = self.batch.wanted;
        let input = runner.hidden(rows - wanted, wanted).unwrap();
        (input, runner.logits(wanted).unwrap())
    }

    fn plain(&self, device: &Device, dtype: DType) -> (Vec<f32>, Vec<f32>) {
        self.run((device, dtype), |loader| {
            let parts = [("head", self.outputs)];
            loader.linear(self.inputs, &parts).unwrap()
        })
    }

    /// Asserts that `output` is what `weight`, kept in `dtype`, makes of `input`.
    fn check(&self, dtype: DType, weight: &[f32], input: &[f32], output: &[f32]) {
        let weight = numbers::kept(weight, dtype);
        let rows = input.chunks(self.inputs);
        let want = rows.flat_map(|x| weight.chunks(self.inputs).map(|w| product(w, x)));
        let what = (dtype, self.batch.tokens.len(), self.inputs, self.outputs);
        assert_close(output, want, &what);
    }
}

/// The exact product, and how far one summed up in f32 may be off.
fn product(w: &[f32], x: &[f32]) -> (f64, f64) {
    let terms = w.iter().zip(x).map(|(&w, &x)| f64::from(w) * f64::from(x));
    let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term| {
        (sum + term, size + term.abs())
    });
    // A thread adds up every sixteenth or thirty-second term; then come lanes and parts.
    let additions = w.len() as f64 / 16.0 + 24.0;
    (sum, additions * f64::from(f32::EPSILON) * size)
}

#[test]
fn linear_maps_are_sums_of_products() {
    let mut rng = StdRng::seed_from_u64(1);
    let stored = [StorageDType::F32, StorageDType::BF16, StorageDType::F16];
    let corners = [(1, 32, 16), (64, 1504, 48), (3, 4128, 16), (33, 160, 272)];
    let random: Vec<_> = (0..6)
        .map(|_| {
            let inputs = 32 * rng.random_range(1..=24);
            let outputs = 16 * rng.random_range(1..=12);
            (rng.random_range(1..=64), inputs, outputs)
        })
        .collect();
    for (seed, &(rows, inputs, outputs)) in corners.iter().chain(&random).enumerate() {
        let case = Case::new(seed as u64, rows, inputs, outputs, stored[seed % 3]);
        on_all(|device, dtype| {
            let (input, output) = case.plain(device, dtype);
            case.check(dtype, case.store.values("head"), &input, &output);
            output
        });
    }
}

#[test]
fn biases_are_added_to_the_sums() {
    let mut rng = StdRng::seed_from_u64(9);
    for (seed, rows, inputs, outputs) in [(1, 3, 64, 48), (2, 40, 1056, 16), (3, 1, 32, 144)] {
        let mut case = Case::new(seed, rows, inputs, outputs, StorageDType::F32);
        let stored = StorageDType::BF16;
        case.store.random(&mut rng, "bias", &[outputs], stored, 4.0);
        let bias = case.store.values("bias").to_vec();
        on_all(|device, dtype| {
            let (input, plain) = case.plain(device, dtype);
            let (same, biased) = case.run((device, dtype), |loader| {
                let mut linear = loader.linear(inputs, &[("head", outputs)]).unwrap();
                loader.bias(&mut linear, &[("bias", outputs)]).unwrap();
                linear
            });
            assert_eq!(input, same);
            let rows = plain.chunks(outputs);
            let want = rows.flat_map(|row| row.iter().zip(&bias).map(|(x, b)| x + b));
            assert!(
                want.eq(biased.iter().copied()),
                "{dtype:?} {inputs} {outputs}"
            );
            biased
        });
    }
}

#[test]
fn only_wanted_rows_are_computed() {
    for (seed, rows, wanted) in [(1, 5, 1), (2, 8, 7), (3, 23, 9), (4, 40, 33)] {
        let mut case = Case::new(seed, rows, 288, 48, StorageDType::F32);
        let [device, ..] = devices();
        let (_, all) = case.plain(&device, DType::BF16);
        case.batch.wanted = wanted;
        on_all(|device, dtype| {
            let (input, output) = case.plain(device, dtype);
            case.check(dtype, case.store.values("head"), &input, &output);
            output
        });
        let (_, some) = case.plain(&device, DType::BF16);
        assert_eq!(some, all[(rows - wanted) * 48..]);
    }
}

#[test]
fn maps_of_the_same_input_lie_side_by_side() {
    let sizes = [16, 64, 32, 112];
    let inputs = 544;
    let mut case = Case::new(5, 11, inputs, sizes.iter().sum(), StorageDType::BF16);
    let mut rng = StdRng::seed_from_u64(6);
    let stored = [
        StorageDType::F32,
        StorageDType::F16,
        StorageDType::BF16,
        StorageDType::F32,
    ];
    let names = ["a", "b", "c", "d"];
    for ((name, size), stored) in names.into_iter().zip(sizes).zip(stored) {
        let shape = [size, inputs];
        case.store.random(&mut rng, name, &shape, stored, 1.0);
    }
    let weight = names.map(|name| case.store.values(name)).concat();
    on_all(|device, dtype| {
        let parts: Vec<_> = names.into_iter().zip(sizes).collect();
        let (input, output) = case.run((device, dtype), |l| l.linear(inputs, &parts).unwrap());
        case.check(dtype, &weight, &input, &output);
        output
    });
}

#[test]
fn gates_alternate_with_what_they_gate_in_eights() {
    for (seed, inner) in [(7, 8), (8, 88), (9, 128)] {
        let inputs = 96;
        let mut case = Case::new(seed, 9, inputs, 2 * inner, StorageDType::F32);
        let mut rng = StdRng::seed_from_u64(seed);
        for name in ["gate", "up"] {
            let shape = [inner, inputs];
            case.store
                .random(&mut rng, name, &shape, StorageDType::F16, 1.0);
        }
        let eight = 8 * inputs;
        let gates = case.store.values("gate").chunks(eight);
        let ups = case.store.values("up").chunks(eight);
        let weight = gates.zip(ups).flat_map(|(g, u)| [g, u]).collect::<Vec<_>>();
        on_all(|device, dtype| {
            let (input, output) = case.run((device, dtype), |l| {
                l.gated(inputs, "gate", "up", inner).unwrap()
            });
            case.check(dtype, &weight.concat(), &input, &output);
            output
        });
    }
}

#[test]
fn sizes_that_tiles_do_not_divide_are_refused() {
    let mut rng = StdRng::seed_from_u64(10);
    let mut store = Store::default();
    for (name, shape) in [("narrow", [16, 48]), ("odd", [24, 64]), ("four", [4, 64])] {
        store.random(&mut rng, name, &shape, StorageDType::F32, 1.0);
    }
    let [device, ..] = devices();
    let mut bf16 = Loader::new(&device, DType::BF16, &store);
    assert!(bf16.linear(48, &[("narrow", 16)]).is_err());
    assert!(bf16.linear(64, &[("odd", 24)]).is_err());
    assert!(bf16.gated(64, "four", "four", 4).is_err());
    let mut f32 = Loader::new(&device, DType::F32, &store);
    assert!(f32.linear(48, &[("narrow", 16)]).is_ok());
    assert!(f32.linear(64, &[("odd", 24)]).is_err());
    assert!(f32.head(64, "odd", 24).is_ok());
    let heads = Heads {
        queries: 1,
        kv: 1,
        size: 24,
    };
    let refused = f32.rotated(64, heads, ["odd"; 3]).unwrap_err();
    assert!(refused.to_string().contains("head"), "{refused}");
    // Gates come in eights whatever the type.
    assert!(f32.gated(64, "four", "four", 4).is_err());
}

/// Weights in blocks whose products with what the norm gives are sums of few bits: a table of ones
/// and minus ones, a norm of powers of two, a head of any integers and scales.
struct Exact {
    rng: StdRng,
    inputs: usize,
    outputs: usize,
}

impl Exact {
    /// Those of the head: scales, integers.
    fn head(&self) -> Vec<(f32, Vec<i8>)> {
        let mut rng = self.rng.clone();
        let blocks = self.outputs * self.inputs / BLOCK;
        let block = |_| {
            // Eleven bits: an f16 as it is. Some are negative, as in files that others wrote.
            let scale = rng.random_range(-2047i32..2048) as f32 / 65536.0;
            (scale, (0..BLOCK).map(|_| rng.random()).collect())
        };
        (0..blocks).map(block).collect()
    }

    fn sign(token: usize, i: usize) -> i8 {
        [1, -1][(token * 31 + i * i / 7) % 2]
    }

    fn norm(i: usize) -> f32 {
        [0.5, 1.0, 2.0][i % 3]
    }

    /// What the definition says, part by part: the sum of a block times its scale is added to that
    /// of the blocks before by one fused multiplication and addition.
    fn logit(&self, head: &[(f32, Vec<i8>)], token: usize, output: usize, parts: usize) -> f32 {
        let chunks = self.inputs / BLOCK;
        let of_part = |part: usize| {
            let chunks_of_part = chunks * part / parts..chunks * (part + 1) / parts;
            chunks_of_part.fold(0f32, |sum, chunk| {
                let (scale, integers) = &head[output * chunks + chunk];
                let products = integers.iter().enumerate().map(|(i, &integer)| {
                    let i = chunk * BLOCK + i;
                    f32::from(integer) * f32::from(Self::sign(token, i)) * Self::norm(i)
                });
                scale.mul_add(products.sum(), sum)
            })
        };
        (1..parts).fold(of_part(0), |sum, part| sum + of_part(part))
    }
}

impl Weights for Exact {
    fn tensor(&self, _: &str, shape: &[usize]) -> Result<TensorSource<'_>> {
        let values = (0..shape[0]).flat_map(|i| Self::norm(i).to_le_bytes());
        Ok(TensorSource::Values {
            stored: StorageDType::F32,
            bytes: Cow::Owned(values.collect()),
        })
    }

    fn blocks(&self, name: &str, shape: [usize; 2]) -> Result<TensorSource<'_>> {
        let blocks = match name {
            "table" => (0..shape[0] * shape[1] / BLOCK)
                .map(|block| {
                    let at = |i| (block * BLOCK + i) / shape[1];
                    let sign = |i| Self::sign(at(i), (block * BLOCK + i) % shape[1]);
                    (1.0, (0..BLOCK).map(sign).collect())
                })
                .collect(),
            _ => self.head(),
        };
        let bytes = blocks
            .iter()
            .flat_map(|(scale, integers)| numbers::stored_block(*scale, integers));
        Ok(TensorSource::Values {
            stored: StorageDType::Q8,
            bytes: Cow::Owned(bytes.collect()),
        })
    }
}

#[test]
fn blocks_are_summed_as_defined_to_the_last_bit() {
    // One part, and as many as there are; rings of stages that end anywhere.
    for (seed, inputs, outputs, parts) in [(1, 96, 48, 1), (2, 1056, 16, 8), (3, 224, 32, 1)] {
        let weights = Exact {
            rng: StdRng::seed_from_u64(seed),
            inputs,
            outputs,
        };
        let head = weights.head();
        for rows in [1, 9, 17, 33, 64] {
            let tokens: Vec<u32> = (0..rows).collect();
            let want: Vec<f32> = (0..rows as usize)
                .flat_map(|token| (0..outputs).map(move |output| (token, output)))
                .map(|(token, output)| weights.logit(&head, token, output, parts))
                .collect();
            on_each(&[DType::Q8], |device, dtype| {
                let mut loader = Loader::new(device, dtype, &weights);
                let table = loader.table("table", 64, inputs).unwrap();
                let norm = loader.norm("norm", inputs).unwrap();
                let map = loader.linear(inputs, &[("head", outputs)]).unwrap();
                // Squares have the mean 1, whose root is exact.
                let mut sizes = WorkspaceSizes::new(inputs, 0.0, ONE_HEAD, outputs);
                sizes.cover(&map);
                let mut runner = Runner::new(device, dtype, sizes).unwrap();
                let batch = Batch::chain(&tokens, 0);
                let cache = cache(device, dtype, ONE_HEAD, tokens.len());
                let forward = runner.forward(&batch.rows(), &cache, None, |f| {
                    f.embed(&table, &norm);
                    f.logits(&map, 1.0);
                });
                forward.unwrap();
                let logits = runner.logits(tokens.len()).unwrap();
                assert!(bits(&logits) == bits(&want), "{inputs} {outputs} {rows}");
                logits
            });
        }
    }
}

/// In f16 a number that is too large makes all that it enters no number, so that the readout finds
/// it; an infinity might vanish. In bf16 it is one like others.
#[test]
fn what_is_too_large_for_f16_is_noticed() {
    for factor in [300.0, -300.0] {
        let mut case = Case::new(11, 2, 64, 32, StorageDType::F32);
        let mut table = vec![0.5; TOKENS * 64];
        let second = case.batch.tokens[1] as usize;
        case.batch.tokens[0] = ((second + 1) % TOKENS) as u32;
        table[second * 64 + 5] = factor;
        case.store
            .put("table", &[TOKENS, 64], StorageDType::F32, &table);
        case.store
            .put("norm", &[64], StorageDType::F32, &[300.0; 64]);
        on_each(&[DType::F16, DType::BF16], |device, dtype| {
            let (_, logits) = case.plain(device, dtype);
            let (first, second) = logits.split_at(32);
            assert!(first.iter().all(|x| x.is_finite()), "{dtype:?}");
            let lost = second.iter().all(|x| x.is_nan());
            let whole = second.iter().all(|x| x.is_finite());
            assert!(if dtype == DType::F16 { lost } else { whole }, "{dtype:?}");
            Vec::new()
        });
    }
    let mut store = Store::default();
    let mut weights = [1.0; 16 * 32];
    weights[77] = -65520.0;
    store.put("head", &[16, 32], StorageDType::F32, &weights);
    let [device, ..] = devices();
    let load = |dtype| Loader::new(&device, dtype, &store).linear(32, &[("head", 16)]);
    let refused = load(DType::F16).unwrap_err().to_string();
    assert!(
        refused.contains("head") && refused.contains("-65520") && refused.contains("bf16"),
        "{refused}"
    );
    load(DType::BF16).unwrap();
}
