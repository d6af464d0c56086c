//! The logits of a tree are those of its paths, each scored as a chain by a session that starts
//! cold.
//!
//! Trees of up to 64 nodes, both architectures, cold and warm caches: to the last bit with our
//! kernels, which are row-invariant, and within 1e-5 of the greatest logit of the row with candle.

use std::sync::Arc;

use cascade_core::{Architecture, Matrix, Scorer, TokenId, TokenTree, Want};
use cascade_models::{DType, Device, LoadOptions, Model, ModelSource, Session, load};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::common::demo;
use crate::common::tiny::{GATED, cold, decoder_on, families, llama_of, t5_of};

const MOST_NODES: usize = 64;
const TOLERANCE: f32 = 1e-5;

/// Draws trees and contexts of few tokens, so that siblings and cousins often carry equal ones.
struct Case {
    rng: StdRng,
    tokens: TokenId,
}

impl Case {
    fn token(&mut self) -> TokenId {
        self.rng.random_range(0..self.tokens)
    }

    fn tokens(&mut self, counts: std::ops::Range<usize>) -> Vec<TokenId> {
        let count = self.rng.random_range(counts);
        (0..count).map(|_| self.token()).collect()
    }

    /// A chain, a star, or random attachments of any bushiness.
    fn tree(&mut self) -> TokenTree {
        let nodes = match self.rng.random_range(0..4) {
            0 => MOST_NODES,
            _ => self.rng.random_range(0..=MOST_NODES),
        };
        let bushiness = match self.rng.random_range(0..5) {
            0 => 0.0,
            1 => return self.star(nodes),
            _ => self.rng.random_range(0.0..=1.0),
        };
        let mut tree = TokenTree::new();
        for next in 0..nodes {
            let parent = if self.rng.random_bool(bushiness) {
                self.rng.random_range(0..=next).checked_sub(1)
            } else {
                next.checked_sub(1)
            };
            tree.push(self.token(), parent);
        }
        tree
    }

    /// All nodes follow the context, or the first node.
    fn star(&mut self, nodes: usize) -> TokenTree {
        let mut tree = TokenTree::new();
        let centre = self.rng.random_bool(0.5).then_some(0);
        for next in 0..nodes {
            tree.push(self.token(), centre.filter(|_| next > 0));
        }
        tree
    }

    /// What a caller might ask for next: mostly the context and a branch of the tree, with a token
    /// of the model's own.
    fn next_context(&mut self, last: &[TokenId], tree: &TokenTree) -> Vec<TokenId> {
        if tree.is_empty() || last.len() > 60 || self.rng.random_bool(0.2) {
            return self.tokens(1..20);
        }
        let node = self.rng.random_range(0..tree.len());
        let mut context = last.to_vec();
        context.extend(tree.path_tokens(Some(node)));
        context.push(self.token());
        context
    }
}

/// A session, and what it has scored last.
struct Warm {
    session: Session,
    context: Vec<TokenId>,
    tree: TokenTree,
    fed: bool,
}

impl Warm {
    fn new(model: &Arc<Model>, source: &[TokenId]) -> Self {
        Self {
            session: cold(model, source),
            context: Vec::new(),
            tree: TokenTree::new(),
            fed: false,
        }
    }

    /// All logits, after checking that no more was computed than one forward over what is new.
    fn score(&mut self, context: &[TokenId], tree: &TokenTree) -> Matrix {
        let scores = self.session.score(context, tree, Want::LOGITS).unwrap();
        assert_eq!(scores.rows_computed, tree.len() + 1 + self.gap(context));
        (self.context, self.tree) = (context.to_vec(), tree.clone());
        self.fed = true;
        scores.logits.unwrap()
    }

    /// How many tokens before the last one have not been fed yet; the decoder start token is one,
    /// too.
    fn gap(&self, context: &[TokenId]) -> usize {
        let start = usize::from(self.session.info().architecture == Architecture::EncoderDecoder);
        let before_last = start + context.len() - 1;
        if !self.fed {
            return before_last;
        }
        let branches = (0..=self.tree.len()).map(|row| row.checked_sub(1));
        let known = branches.map(|node| {
            let path = self.tree.path_tokens(node);
            let fed = self.context.iter().chain(&path);
            fed.zip(context).take_while(|(a, b)| a == b).count()
        });
        before_last - (start + known.max().unwrap_or(0)).min(before_last)
    }
}

/// The last row of a chain in a session that starts cold.
fn last_row(
    model: &Arc<Model>,
    source: &[TokenId],
    context: &[TokenId],
    path: &[TokenId],
) -> Vec<f32> {
    let chain = TokenTree::chain(path.iter().copied());
    let mut session = cold(model, source);
    let scores = session.score(context, &chain, Want::LOGITS).unwrap();
    scores.logits.unwrap().row(path.len()).to_vec()
}

/// Whether rows have the same bits whatever is computed beside them.
#[derive(Clone, Copy, PartialEq)]
enum Rows {
    Invariant,
    #[cfg(feature = "candle")]
    Close,
}

fn assert_row(found: &[f32], expected: &[f32], rows: Rows) {
    let greatest = expected.iter().fold(0f32, |a, b| a.max(b.abs()));
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= TOLERANCE * greatest, "{a} and {b}");
    }
    if rows == Rows::Invariant {
        assert_eq!(found, expected, "bits are the same");
    }
}

fn compare(model: &Arc<Model>, seed: u64, tokens: TokenId, trees: usize) {
    compare_rows(model, seed, tokens, trees, Rows::Invariant);
}

fn compare_rows(model: &Arc<Model>, seed: u64, tokens: TokenId, trees: usize, rows: Rows) {
    let rng = StdRng::seed_from_u64(seed);
    let mut case = Case { rng, tokens };
    let source = match model.info().architecture {
        Architecture::EncoderDecoder => case.tokens(1..12),
        Architecture::DecoderOnly => Vec::new(),
    };
    let mut warm = Warm::new(model, &source);
    let (mut context, mut tree) = (case.tokens(1..20), TokenTree::new());
    for _ in 0..trees {
        context = case.next_context(&context, &tree);
        tree = case.tree();
        if case.rng.random_bool(0.3) {
            let (context, tree) = (case.tokens(1..20), case.tree());
            warm.score(&context, &tree);
        }
        let from_warm = warm.score(&context, &tree);
        let from_cold = Warm::new(model, &source).score(&context, &tree);
        assert_eq!(from_cold.rows(), tree.len() + 1);
        for row in 0..=tree.len() {
            let path = tree.path_tokens(row.checked_sub(1));
            let expected = last_row(model, &source, &context, &path);
            assert_row(from_cold.row(row), &expected, rows);
            assert_row(from_warm.row(row), &expected, rows);
        }
    }
}

#[test]
fn of_t5() {
    let silu = r#", "feed_forward_proj": "gated-silu""#;
    for (settings, seed) in ["", GATED, silu].into_iter().zip(10..) {
        compare(&t5_of(DType::F32, settings, None), seed, 4, 40);
    }
}

#[test]
fn of_llama() {
    for (kv_heads, seed) in [4, 2, 1].into_iter().zip(20..) {
        compare(&llama_of(kv_heads, None), seed, 4, 40);
    }
}

/// Checkpoints that have learnt something: their attention is sharper than that of random weights.
#[test]
fn of_the_demo_models() {
    for (name, seed) in ["demo-t5-base", "demo-llama-base"].into_iter().zip(30..) {
        let source = ModelSource::Folder(demo::folder(name));
        let loaded = load(&source, &LoadOptions::default()).unwrap();
        let tokens = loaded.model.info().vocab_size as TokenId;
        compare(&loaded.model, seed, tokens, 3);
        compare(&loaded.model, seed + 2, 5, 3);
    }
}

#[test]
fn of_every_family() {
    for (config, seed) in families().iter().zip(50..) {
        compare(&decoder_on(&Device::Cpu, config, DType::F32), seed, 4, 12);
    }
}

/// The second engine: contexts, trees and rejections in any order.
#[cfg(feature = "candle")]
#[test]
fn with_candle() {
    let device = cascade_models::DeviceSpec::CandleCpu.open().unwrap();
    for (name, seed) in ["demo-t5-small", "demo-llama-small"].into_iter().zip(60..) {
        let model = demo::load_on(&demo::folder(name), &device, DType::F32);
        compare_rows(&model, seed, 5, 20, Rows::Close);
    }
    for (config, seed) in families().iter().zip(70..) {
        let model = decoder_on(&device, config, DType::F32);
        compare_rows(&model, seed, 4, 6, Rows::Close);
    }
}

/// The second engine says what our kernels say, in each of its types.
#[cfg(feature = "candle")]
#[test]
fn with_candle_in_all_types() {
    let device = cascade_models::DeviceSpec::CandleCpu.open().unwrap();
    let mut tree = TokenTree::chain([40, 41, 42]);
    tree.push(43, Some(0));
    let types = [
        (DType::F32, DType::F32, 1e-5),
        (DType::F16, DType::F16, 2e-2),
        (DType::Q8_0, DType::Q8_0, 3e-2),
        (DType::Q4_0, DType::Q4_0, 5e-2),
        // Numbers of 16 bits are held in f32, in which they are exact.
        (DType::Stored, DType::F32, 1e-5),
    ];
    for name in ["demo-t5-base", "demo-llama-base"] {
        let folder = demo::folder(name);
        for (dtype, ours, tolerance) in types {
            let logits = |device: &Device, dtype| {
                let model = demo::load_on(&folder, device, dtype);
                let source: Vec<TokenId> = match model.info().architecture {
                    Architecture::EncoderDecoder => (5..105).collect(),
                    Architecture::DecoderOnly => Vec::new(),
                };
                let scores = cold(&model, &source).score(&[7, 8, 9], &tree, Want::LOGITS);
                scores.unwrap().logits.unwrap()
            };
            let (found, expected) = (logits(&device, dtype), logits(&Device::Cpu, ours));
            for row in 0..expected.rows() {
                let (found, expected) = (found.row(row), expected.row(row));
                let greatest = expected.iter().fold(0f32, |a, b| a.max(b.abs()));
                let pairs = found.iter().zip(expected);
                let error = pairs.map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
                assert!(
                    error <= tolerance * greatest,
                    "{name} in {dtype:?}: {}",
                    error / greatest
                );
            }
        }
    }
    let source = ModelSource::Folder(demo::folder("demo-llama-small"));
    let options = LoadOptions {
        device,
        dtype: DType::BF16,
        ..LoadOptions::default()
    };
    let message = load(&source, &options).unwrap_err().to_string();
    assert!(message.contains("not in bf16"), "{message}");
}

/// Other types and engines say what the CPU says in f32: in 16 bits, roughly. Contexts are longer
/// than windows, and than what positions are stretched from.
#[test]
fn of_every_family_in_all_types() {
    let mut tree = TokenTree::chain([4, 5, 6]);
    tree.push(8, Some(0));
    let context: Vec<TokenId> = (0..19).map(|i| i * 7 % 11).collect();
    for config in families() {
        let logits = |model: &Arc<Model>, tree: &TokenTree| {
            let scores = cold(model, &[]).score(&context, tree, Want::LOGITS);
            scores.unwrap().logits.unwrap()
        };
        let on_cpu = |dtype| logits(&decoder_on(&Device::Cpu, &config, dtype), &tree);
        let expected = on_cpu(DType::F32);
        let mut others = vec![(on_cpu(DType::BF16), 0.15), (on_cpu(DType::F16), 0.02)];
        if let Ok(candle) = cascade_models::DeviceSpec::CandleCpu.open() {
            let model = decoder_on(&candle, &config, DType::F32);
            others.push((logits(&model, &tree), 2e-5));
        }
        for (found, tolerance) in others {
            for row in 0..expected.rows() {
                let greatest = expected.row(row).iter().fold(0f32, |a, b| a.max(b.abs()));
                for (a, b) in found.row(row).iter().zip(expected.row(row)) {
                    let close = (a - b).abs() <= tolerance * greatest;
                    assert!(close, "{config}, {tolerance}: {a} and {b}");
                }
            }
        }
    }
}
