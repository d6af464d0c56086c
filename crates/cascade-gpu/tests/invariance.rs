//! A row's numbers do not depend on the rows beside it: a whole small model, to the last bit.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::HashMap;

use cascade_gpu::{
    Activation, Cache, CacheShape, Device, Forward, Heads, Kind, Linear, Loader, Looks, Norm,
    Projected, Rotary, Runner, Sizes, Stored, Table,
};
use common::batch::Batch;
use common::store::Store;
use common::{bits, on_both, EPSILON};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const HEADS: Heads = Heads {
    queries: 2,
    kv: 1,
    size: 16,
};
/// In bf16 maps of the stream have two parts.
const STREAM: usize = 256;
const VOCABULARY: usize = 48;
const LAYERS: usize = 2;
const SLOTS: usize = 300;

struct Layer {
    norms: [Norm; 2],
    qkv: Linear,
    out: Linear,
    gated: Linear,
    down: Linear,
}

/// A decoder with rotary attention and a gated feed-forward.
struct Model {
    device: Device,
    kind: Kind,
    table: Table,
    layers: Vec<Layer>,
    norm: Norm,
    head: Linear,
    rotary: Rotary,
    sizes: Sizes,
}

/// Inner size of feed-forwards: in bf16 the second map has four parts.
fn inner(kind: Kind) -> usize {
    match kind {
        Kind::F32 => 64,
        Kind::Bf16 => 512,
    }
}

fn weights(kind: Kind) -> Store {
    let inner = inner(kind);
    let mut rng = StdRng::seed_from_u64(1);
    let mut store = Store::default();
    let mut random = |name: &str, shape: &[usize]| {
        store.random(&mut rng, name, shape, Stored::Bf16, 0.4);
    };
    random("table", &[VOCABULARY, STREAM]);
    random("norm", &[STREAM]);
    random("head", &[VOCABULARY, STREAM]);
    random("q", &[HEADS.queries * HEADS.size, STREAM]);
    random("k", &[HEADS.kv * HEADS.size, STREAM]);
    random("v", &[HEADS.kv * HEADS.size, STREAM]);
    random("out", &[STREAM, HEADS.queries * HEADS.size]);
    random("gate", &[inner, STREAM]);
    random("up", &[inner, STREAM]);
    random("down", &[STREAM, inner]);
    store
}

impl Model {
    fn new(device: &Device, kind: Kind) -> Self {
        let weights = weights(kind);
        let inner = inner(kind);
        let mut loader = Loader::new(device, kind, &weights);
        let mut sizes = Sizes::new(STREAM, EPSILON, HEADS, VOCABULARY);
        let heads = HEADS.queries * HEADS.size;
        let layers = (0..LAYERS).map(|_| {
            let mut norm = || loader.norm("norm", STREAM).unwrap();
            let norms = [norm(), norm()];
            let qkv = loader.rotated(STREAM, HEADS, ["q", "k", "v"]).unwrap();
            let mut map = |inputs, name, outputs| loader.linear(inputs, &[(name, outputs)]);
            Layer {
                norms,
                qkv,
                out: map(heads, "out", STREAM).unwrap(),
                down: map(inner, "down", STREAM).unwrap(),
                gated: loader.gated(STREAM, "gate", "up", inner).unwrap(),
            }
        });
        let layers: Vec<Layer> = layers.collect();
        let head = loader.head(STREAM, "head", VOCABULARY).unwrap();
        let maps = layers.iter();
        let maps = maps.flat_map(|layer| [&layer.qkv, &layer.out, &layer.gated, &layer.down]);
        maps.chain([&head]).for_each(|map| sizes.cover(map));
        let half = HEADS.size / 2;
        let angles: Vec<f32> = (0..SLOTS * half)
            .map(|i| (i / half) as f32 / (1 + i % half) as f32)
            .collect();
        let table = |f: fn(f32) -> f32| angles.iter().map(|&a| 0.4 * f(a)).collect::<Vec<_>>();
        Self {
            table: loader.table("table", VOCABULARY, STREAM).unwrap(),
            norm: loader.norm("norm", STREAM).unwrap(),
            rotary: Rotary::new(device, &table(f32::cos), &table(f32::sin)).unwrap(),
            device: device.clone(),
            kind,
            layers,
            head,
            sizes,
        }
    }

    fn cache(&self) -> Cache {
        let shape = CacheShape {
            layers: LAYERS,
            kv_heads: HEADS.kv,
            head_dim: HEADS.size,
        };
        let mut cache = Cache::new(&self.device, shape, self.kind).unwrap();
        cache.reserve(SLOTS).unwrap();
        cache
    }

    fn forward(&self, f: &mut Forward<'_>) {
        f.embed(&self.table, &self.layers[0].norms[0]);
        for (i, layer) in self.layers.iter().enumerate() {
            let next = self.layers.get(i + 1);
            let next_norm = next.map_or(&self.norm, |next| &next.norms[0]);
            f.project(&layer.qkv, Projected::All(Some(&self.rotary)), i);
            f.attention(Looks::AtSequence(None), i);
            f.add_attended(&layer.out, &layer.norms[1]);
            f.activate(&layer.gated, Activation::Silu);
            f.add_inner(&layer.down, next_norm);
        }
        f.logits(&self.head, 1.0);
    }

    /// Logits of every row of `batch`.
    fn logits(&self, runner: &mut Runner, batch: &Batch, cache: &Cache) -> Vec<f32> {
        let forward = runner.forward(&batch.rows(), cache, None, |f| self.forward(f));
        forward.unwrap();
        runner.logits(batch.wanted).unwrap()
    }

    fn runner(&self) -> Runner {
        Runner::new(&self.device, self.kind, self.sizes).unwrap()
    }

    /// Logits of every token of `text` behind `past` slots, as many at once as `sizes` says, the last again and again.
    fn read(&self, cache: &Cache, past: usize, text: &[u32], sizes: &[usize]) -> Vec<f32> {
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

fn random_text(seed: u64, length: usize) -> Vec<u32> {
    let mut rng = StdRng::seed_from_u64(seed);
    (0..length)
        .map(|_| rng.random_range(0..VOCABULARY as u32))
        .collect()
}

#[test]
fn rows_of_a_chain_say_the_same_alone_and_in_any_company() {
    let text = random_text(2, 262);
    on_both(|device, kind| {
        let model = Model::new(device, kind);
        let cache = model.cache();
        // What follows comes to lie in two splits of the keys.
        let (start, rest) = text.split_at(244);
        model.read(&cache, 0, start, &[64]);
        let alone = model.read(&cache, start.len(), rest, &[1]);
        for sizes in [&[5][..], &[2, 16], &[18]] {
            let logits = model.read(&cache, start.len(), rest, sizes);
            assert!(bits(&logits) == bits(&alone), "{kind:?} {sizes:?}");
        }
        alone
    });
}

#[test]
fn short_texts_say_the_same_in_chunks_of_any_size() {
    let text = random_text(3, 64);
    on_both(|device, kind| {
        let model = Model::new(device, kind);
        let at_once = model.read(&model.cache(), 0, &text, &[64]);
        for sizes in [&[1, 8, 32][..], &[33, 31]] {
            let logits = model.read(&model.cache(), 0, &text, sizes);
            assert!(bits(&logits) == bits(&at_once), "{kind:?} {sizes:?}");
        }
        at_once
    });
}

/// A chain says the same where others stand beside it, and its slots are looked up.
#[test]
fn strangers_beside_a_chain_do_not_matter() {
    let text = random_text(4, 20);
    on_both(|device, kind| {
        let mut rng = StdRng::seed_from_u64(4);
        let model = Model::new(device, kind);
        let plain = model.read(&model.cache(), 0, &text, &[20]);
        let mut runner = model.runner();
        for strangers in [1, 44] {
            // Behind the chain stand siblings of its nodes: they see a part of it and themselves.
            let mut batch = Batch::chain(&text, 0);
            let mut paths: Vec<Vec<usize>> = (0..20).map(|row| (0..=row).collect()).collect();
            for row in 20..20 + strangers {
                let parent = rng.random_range(0..20);
                batch.tokens.push(rng.random_range(0..VOCABULARY as u32));
                batch.positions.push(parent as u32 + 1);
                paths.push((0..=parent).chain([row]).collect());
            }
            batch.paths = Some(paths);
            batch.wanted = batch.tokens.len();
            let logits = model.logits(&mut runner, &batch, &model.cache());
            assert!(bits(&logits[..plain.len()]) == bits(&plain), "{kind:?}");
        }
        plain
    });
}

/// What depends on its token alone says the same in any batch of any tokens at any place.
#[test]
fn rows_without_attention_say_the_same_at_any_place() {
    let mut rng = StdRng::seed_from_u64(5);
    let batches: Vec<Vec<u32>> = [1, 2, 5, 8, 9, 16, 31, 32, 50, 64]
        .map(|size| random_text(rng.random(), size))
        .to_vec();
    on_both(|device, kind| {
        let model = Model::new(device, kind);
        let layer = &model.layers[0];
        let (mut runner, cache) = (model.runner(), model.cache());
        let mut said: HashMap<u32, Vec<f32>> = HashMap::new();
        for tokens in &batches {
            let forward = runner.forward(&Batch::chain(tokens, 0).rows(), &cache, None, |f| {
                f.embed(&model.table, &layer.norms[0]);
                f.activate(&layer.gated, Activation::Gelu);
                f.add_inner(&layer.down, &model.norm);
                f.logits(&model.head, 0.5);
            });
            forward.unwrap();
            let logits = runner.logits(tokens.len()).unwrap();
            for (&token, row) in tokens.iter().zip(logits.chunks(VOCABULARY)) {
                let first = said.entry(token).or_insert_with(|| row.to_vec());
                assert!(bits(first) == bits(row), "{kind:?}: {}", tokens.len());
            }
        }
        (0..VOCABULARY as u32)
            .filter_map(|token| said.remove(&token))
            .collect::<Vec<_>>()
            .concat()
    });
}

#[test]
fn a_profile_counts_every_launch_and_leaves_the_runner_as_it_was() {
    let text = random_text(6, 3);
    on_both(|device, kind| {
        let model = Model::new(device, kind);
        let (mut runner, cache) = (model.runner(), model.cache());
        assert!(runner.profile(1).unwrap().is_empty());
        let batch = Batch::chain(&text, 0);
        let logits = model.logits(&mut runner, &batch, &cache);
        let costs = runner.profile(2).unwrap();
        let launches = |purpose| {
            costs
                .iter()
                .find(|c| c.purpose == purpose)
                .unwrap()
                .launches
        };
        // A layer is five launches: these, and the maps beside them.
        assert_eq!(launches("nothing"), 5 * LAYERS + 3);
        assert_eq!(launches("attention"), LAYERS);
        assert_eq!(runner.launches(4, true), Some(5 * LAYERS + 3));
        let of_forward = costs[1..].iter();
        assert_eq!(
            of_forward.clone().map(|c| c.launches).sum::<usize>(),
            5 * LAYERS + 3
        );
        let numbers = LAYERS * STREAM * (4 * HEADS.size + 2 * HEADS.size + 3 * inner(kind));
        let weights = (numbers + VOCABULARY * STREAM) * kind.bytes();
        assert_eq!(of_forward.map(|c| c.weights).sum::<usize>(), weights);
        assert!(costs.iter().all(|c| c.seconds > 0.0));
        let again = model.logits(&mut runner, &batch, &cache);
        assert!(bits(&again) == bits(&logits));
        logits
    });
}
