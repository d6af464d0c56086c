//! Our kernels and candle's, operation by operation, on random models of every family: two
//! implementations that share nothing but the description of layers.
//!
//! A forward is cut off after each operation that leaves rows behind, on each backend, and the rows
//! are compared. Differences add up from one operation to the next. The table of docs/candle.md:
//!
//! ```text
//! cargo nextest run --cargo-profile ci -p cascade-models -E 'test(by_operation)' --no-capture
//! ```

use std::sync::{Arc, Mutex, PoisonError};

use cascade_core::{Architecture, HiddenLayer, Matrix, Scorer, TokenId, TokenTree, Want};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{json, Value};

use super::{
    network, AttentionSpan, Backend, Describe, Forward, Layers, Loader, QkTransform, Vocabulary,
};
use crate::config::ModelConfig;
use crate::info::ModelInfo;
use crate::weights::CallerWeights;
use crate::{parse_device, DType, Device, Model, ModelFile, Result, WeightSource};

/// What a forward did.
type Done = Arc<Mutex<Vec<&'static str>>>;

/// A description whose forwards end after some operations, but for the head.
#[derive(Clone, Debug)]
struct Until<D> {
    of: D,
    operations: usize,
    done: Done,
}

#[derive(Debug)]
struct LayersUntil<B: Backend> {
    of: Box<dyn Layers<B>>,
    operations: usize,
    done: Done,
}

impl<D: Describe> Describe for Until<&D> {
    fn info(&self) -> ModelInfo {
        self.of.info()
    }

    fn layers<B: Backend>(&self, loader: &mut dyn Loader<B>) -> Result<Box<dyn Layers<B>>> {
        Ok(Box::new(LayersUntil {
            of: self.of.layers(loader)?,
            operations: self.operations,
            done: Arc::clone(&self.done),
        }))
    }
}

impl<B: Backend> Layers<B> for LayersUntil<B> {
    fn decode(&self, forward: &mut dyn Forward<B>, logits: bool) {
        let mut counted = Counted {
            forward,
            left: self.operations,
            done: Vec::new(),
        };
        self.of.decode(&mut counted, logits);
        if logits {
            *self.done.lock().unwrap_or_else(PoisonError::into_inner) = counted.done;
        }
    }

    fn vocabulary(&self) -> Vocabulary<'_, B> {
        self.of.vocabulary()
    }

    fn encoder_stages(&self) -> usize {
        self.of.encoder_stages()
    }

    fn encode(&self, stage: usize, forward: &mut dyn Forward<B>) {
        self.of.encode(stage, forward);
    }
}

struct Counted<'a, 'f, B: Backend> {
    forward: &'a mut (dyn Forward<B> + 'f),
    left: usize,
    done: Vec<&'static str>,
}

impl<'f, B: Backend> Counted<'_, 'f, B> {
    fn next(&mut self, operation: &'static str) -> Option<&mut (dyn Forward<B> + 'f)> {
        self.left = self.left.checked_sub(1)?;
        self.done.push(operation);
        Some(&mut *self.forward)
    }
}

impl<B: Backend> Forward<B> for Counted<'_, '_, B> {
    fn embed(&mut self, table: &B::Table, norm: &B::Norm) {
        if let Some(forward) = self.next("embed") {
            forward.embed(table, norm);
        }
    }

    fn project(&mut self, linear: &B::Linear, transform: QkTransform<'_, B>, layer: usize) {
        if let Some(forward) = self.next("project") {
            forward.project(linear, transform, layer);
        }
    }

    fn project_queries(&mut self, linear: &B::Linear) {
        if let Some(forward) = self.next("project_queries") {
            forward.project_queries(linear);
        }
    }

    fn project_source(&mut self, linear: &B::Linear, layer: usize) {
        if let Some(forward) = self.next("project_source") {
            forward.project_source(linear, layer);
        }
    }

    fn attend(&mut self, span: AttentionSpan<'_, B>, layer: usize) {
        if let Some(forward) = self.next("attend") {
            forward.attend(span, layer);
        }
    }

    fn attend_source(&mut self, layer: usize) {
        if let Some(forward) = self.next("attend_source") {
            forward.attend_source(layer);
        }
    }

    fn add_attended(&mut self, linear: &B::Linear, norm: &B::Norm) {
        if let Some(forward) = self.next("add_attended") {
            forward.add_attended(linear, norm);
        }
    }

    fn activate(&mut self, linear: &B::Linear, activation: B::Activation) {
        if let Some(forward) = self.next("activate") {
            forward.activate(linear, activation);
        }
    }

    fn add_inner(&mut self, linear: &B::Linear, norm: &B::Norm) {
        if let Some(forward) = self.next("add_inner") {
            forward.add_inner(linear, norm);
        }
    }

    /// Always, because the last states are read here.
    fn logits(&mut self, head: &B::Linear, scale: Option<f64>) {
        self.forward.logits(head, scale);
    }
}

/// Operations that leave rows behind, by what was done since the ones before.
fn steps(done: &[&'static str]) -> Vec<(usize, &'static str)> {
    let of = |at: usize| match (done[at], at.checked_sub(1).map(|before| done[before])) {
        ("embed", _) => Some("embedding, norm"),
        ("add_attended", Some("attend")) => Some("self-attention, sum, norm"),
        ("add_attended", _) => Some("encoder, cross-attention, sum, norm"),
        ("add_inner", _) => Some("feed-forward, sum, norm"),
        _ => None,
    };
    (0..done.len())
        .filter_map(|at| Some((at + 1, of(at)?)))
        .collect()
}

const VOCABULARY: TokenId = 96;

/// Every kind of model, in sizes that all kernels take.
fn families() -> Vec<(&'static str, Value)> {
    let t5 = json!({"model_type": "t5", "vocab_size": VOCABULARY, "d_model": 64, "d_kv": 32, "d_ff": 96,
        "num_layers": 2, "num_decoder_layers": 3, "num_heads": 2, "decoder_start_token_id": 0});
    let decoder = json!({"vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 96,
        "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
        "max_position_embeddings": 200});
    let with = |base: &Value, more: Value| {
        let mut config = base.clone();
        let entries = more.as_object().unwrap().clone();
        config.as_object_mut().unwrap().extend(entries);
        config
    };
    let yarn = json!({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16});
    vec![
        ("T5 v1.0", t5.clone()),
        (
            "T5 v1.1, FLAN-T5",
            with(
                &t5,
                json!({"feed_forward_proj": "gated-gelu", "tie_word_embeddings": false}),
            ),
        ),
        ("LLaMA", with(&decoder, json!({"model_type": "llama"}))),
        (
            "Mistral",
            with(
                &decoder,
                json!({"model_type": "mistral", "sliding_window": 5}),
            ),
        ),
        ("Qwen2", with(&decoder, json!({"model_type": "qwen2"}))),
        ("Qwen3", with(&decoder, json!({"model_type": "qwen3"}))),
        (
            "SmolLM3",
            with(
                &decoder,
                json!({"model_type": "smollm3", "no_rope_layer_interval": 2, "rope_scaling": yarn}),
            ),
        ),
        (
            "Phi-3",
            with(&decoder, json!({"model_type": "phi3", "sliding_window": 7})),
        ),
    ]
}

/// Weights by name, of the size that keeps activations as large as they are in trained models.
struct ByName;

impl WeightSource for ByName {
    fn has(&self, name: &str) -> bool {
        name != "lm_head.weight"
    }

    fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let seed = name
            .bytes()
            .fold(7u64, |seed, byte| seed * 31 % 65_537 + u64::from(byte));
        let mut rng = StdRng::seed_from_u64(seed);
        let inputs = shape.last().copied().unwrap_or(1) as f32;
        let (centre, width) = if name.contains("norm") {
            (1.0, 0.2)
        } else {
            (0.0, (3.0 / inputs).sqrt())
        };
        let mut value = || centre + width * rng.random_range(-1.0..1.0);
        Ok((0..shape.iter().product()).map(|_| value()).collect())
    }
}

/// What a model's first `operations` leave behind over a context and a tree, and its logits.
fn run(config: &ModelConfig, device: &Device, dtype: DType, operations: usize) -> Ran {
    fn of<D: Describe>(of: &D, operations: usize, device: &Device, dtype: DType) -> Ran {
        let done = Done::default();
        let cut = Until {
            of,
            operations,
            done: Arc::clone(&done),
        };
        let network = network(&cut, &CallerWeights(&ByName), device, dtype.into()).unwrap();
        let model = Arc::new(Model::of_network(network));
        let mut session = model.session();
        if model.info().architecture == Architecture::EncoderDecoder {
            session
                .set_source(&(5..45).collect::<Vec<TokenId>>())
                .unwrap();
        }
        let context: Vec<TokenId> = (0..19).map(|i| i * 7 % 61).collect();
        let mut tree = TokenTree::chain([4, 5, 6]);
        tree.push(8, Some(0));
        let want = Want::LOGITS.with_last_hidden();
        let scores = session.score(&context, &tree, want).unwrap();
        let hidden = scores.hidden.of(HiddenLayer::Last).unwrap().clone();
        let done = done.lock().unwrap().clone();
        Ran {
            hidden,
            logits: scores.logits.unwrap(),
            done,
        }
    }
    match config {
        ModelConfig::T5(config) => of(&**config, operations, device, dtype),
        ModelConfig::Decoder(config) => of(&**config, operations, device, dtype),
    }
}

struct Ran {
    hidden: Matrix,
    logits: Matrix,
    done: Vec<&'static str>,
}

/// The greatest difference of a row relative to its greatest number.
fn distance(found: &Matrix, expected: &Matrix) -> f32 {
    assert_eq!(found.rows(), expected.rows());
    let of_row = |row| {
        let (found, expected) = (found.row(row), expected.row(row));
        let greatest = expected.iter().fold(0f32, |most, x| most.max(x.abs()));
        let pairs = found.iter().zip(expected);
        // What is not a number is as far as can be.
        let far = |(a, b): (&f32, &f32)| match (a - b).abs() {
            far if far.is_nan() => f32::INFINITY,
            far => far,
        };
        pairs.map(far).fold(0f32, f32::max) / greatest
    };
    (0..expected.rows()).map(of_row).fold(0f32, f32::max)
}

/// Operations in the order that they come first, the greatest difference of each, and of whom.
#[derive(Default)]
struct Differences(Vec<(&'static str, f32, &'static str)>);

impl Differences {
    fn note(&mut self, operation: &'static str, far: f32, family: &'static str) {
        match self.0.iter_mut().find(|(of, ..)| *of == operation) {
            Some(known) if known.1 >= far => {}
            Some(known) => *known = (operation, far, family),
            None => self.0.push((operation, far, family)),
        }
    }
}

/// Our kernels on a device beside candle on the CPU: all families.
fn differences(device: &Device, dtype: DType) -> Differences {
    let candle = parse_device("candle:cpu").unwrap();
    let mut all = Differences::default();
    for (family, config) in families() {
        let file = ModelFile::Embedded {
            name: family.to_owned(),
            bytes: &[],
        };
        let config = ModelConfig::parse(&file, &config).unwrap();
        let until =
            |operations| [device, &candle].map(|device| run(&config, device, dtype, operations));
        let [ours, theirs] = until(usize::MAX);
        assert_eq!(ours.done, theirs.done);
        for (operations, name) in steps(&ours.done) {
            let [ours, theirs] = until(operations);
            all.note(name, distance(&ours.hidden, &theirs.hidden), family);
        }
        all.note("head", distance(&ours.logits, &theirs.logits), family);
    }
    all
}

/// Types that are judged, and with `CASCADE_TEST_ALL_TYPES` those of which it is only told how far
/// they are apart: in fewer bits rows are rounded in different places, and the scores of T5's
/// attention, which are not scaled, turn that into other weights.
fn types() -> &'static [DType] {
    match std::env::var_os("CASCADE_TEST_ALL_TYPES") {
        None => &[DType::F32],
        Some(_) => &[DType::F32, DType::F16, DType::Q8_0],
    }
}

#[test]
fn kernels_and_candle_agree_by_operation() {
    let emulated = cascade_gpu_emulator::emulated(cascade_gpu_emulator::ExecutionOrder::Forward);
    for (at, device) in [("a GPU", Device::Gpu(emulated)), ("the CPU", Device::Cpu)] {
        let columns: Vec<_> = types()
            .iter()
            .map(|&dtype| differences(&device, dtype).0)
            .collect();
        let names: String = types().iter().map(|dtype| format!(" {dtype} |")).collect();
        let rule = "---|".repeat(types().len());
        println!("\n| our kernels for {at}, candle on the CPU |{names}\n|---|{rule}");
        for (row, (operation, ..)) in columns[0].iter().enumerate() {
            let cells = columns
                .iter()
                .map(|column| column[row])
                .map(|(_, far, family)| format!(" {far:.1e} ({family}) |"));
            println!("| {operation} |{}", cells.collect::<String>());
        }
        for (operation, far, family) in &columns[0] {
            assert!(*far <= 2e-5, "{family} on {at}: {operation} {far}");
        }
    }
}
