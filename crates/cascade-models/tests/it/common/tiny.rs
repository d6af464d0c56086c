//! Tiny checkpoints with random weights.

use std::sync::{Arc, Mutex};

use cascade_core::{Scorer, TokenId};
use cascade_models::{DType, Device, Model, Result, Session, WeightSource};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

pub(crate) const VOCABULARY: TokenId = 11;

/// Settings of T5 v1.1; without them, T5 v1.0.
pub(crate) const GATED: &str =
    r#", "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false"#;

/// A weight that is NaN: the first of a row of the tensors whose names contain `name`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Poison {
    pub(crate) name: &'static str,
    pub(crate) row: usize,
}

/// Random weights by the names that a model asks for.
struct RandomWeights {
    /// One after the other, in the order that they are asked for, or else by name: backends differ
    /// in their order.
    rng: Option<Mutex<StdRng>>,
    poison: Option<Poison>,
}

impl WeightSource for RandomWeights {
    fn has(&self, _: &str) -> bool {
        true
    }

    fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let (centre, width) = if name.contains("norm") {
            (1.0, 0.2)
        } else {
            (0.0, 0.6)
        };
        let by_name = || {
            name.bytes()
                .fold(7, |seed, byte| seed * 31 % 65_537 + u64::from(byte))
        };
        let mut own = StdRng::seed_from_u64(by_name());
        let mut shared = self.rng.as_ref().map(|rng| rng.lock().unwrap());
        let rng = shared.as_deref_mut().unwrap_or(&mut own);
        let mut values: Vec<f32> = (0..shape.iter().product())
            .map(|_| centre + width * rng.random_range(-1.0..1.0))
            .collect();
        match self.poison {
            Some(poison) if name.contains(poison.name) => {
                values[poison.row * shape[1]] = f32::NAN;
            }
            _ => {}
        }
        Ok(values)
    }
}

fn build(seed: u64, json: &str, dtype: DType, poison: Option<Poison>) -> Arc<Model> {
    let weights = RandomWeights {
        rng: Some(Mutex::new(StdRng::seed_from_u64(seed))),
        poison,
    };
    let config = serde_json::from_str(json).unwrap();
    Arc::new(Model::build(config, &weights, &Device::Cpu, dtype).unwrap())
}

/// What every kind of decoder differs from the others in.
pub(crate) fn families() -> Vec<Value> {
    let sizes = json!({"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 32,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "max_position_embeddings": 200});
    let kinds = [
        json!({"model_type": "llama", "attention_bias": true, "mlp_bias": true}),
        json!({"model_type": "llama", "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
            "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16}}),
        json!({"model_type": "mistral", "sliding_window": 5}),
        json!({"model_type": "qwen2"}),
        json!({"model_type": "qwen3", "attention_bias": true, "use_sliding_window": true,
            "sliding_window": 9, "max_window_layers": 1}),
        json!({"model_type": "smollm3", "no_rope_layer_interval": 2, "rope_scaling":
            {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}}),
        json!({"model_type": "phi3", "sliding_window": 7}),
    ];
    let whole = |kind: Value| {
        let mut config = sizes.clone();
        let entries = kind.as_object().unwrap().clone();
        config.as_object_mut().unwrap().extend(entries);
        config
    };
    kinds.into_iter().map(whole).collect()
}

/// A decoder of one of the [`families`], the same weights on every device.
pub(crate) fn decoder_on(device: &Device, config: &Value, dtype: DType) -> Arc<Model> {
    let weights = RandomWeights {
        rng: None,
        poison: None,
    };
    Arc::new(Model::build(config.clone(), &weights, device, dtype).unwrap())
}

pub(crate) fn t5_of(dtype: DType, settings: &str, poison: Option<Poison>) -> Arc<Model> {
    let json = format!(
        r#"{{"model_type": "t5", "vocab_size": {VOCABULARY}, "d_model": 12, "d_kv": 5, "d_ff": 10, "num_layers": 1,
            "num_decoder_layers": 2, "num_heads": 2, "relative_attention_num_buckets": 8,
            "relative_attention_max_distance": 12, "decoder_start_token_id": 3{settings}}}"#
    );
    build(1, &json, dtype, poison)
}

pub(crate) fn t5() -> Arc<Model> {
    t5_of(DType::F32, GATED, None)
}

/// Four heads of queries share `kv_heads` of keys and values.
pub(crate) fn llama_of(kv_heads: usize, poison: Option<Poison>) -> Arc<Model> {
    llama_in(DType::F32, kv_heads, "", poison)
}

pub(crate) fn llama_in(
    dtype: DType,
    kv_heads: usize,
    settings: &str,
    poison: Option<Poison>,
) -> Arc<Model> {
    let json = format!(
        r#"{{"model_type": "llama", "vocab_size": {VOCABULARY}, "hidden_size": 12,
            "intermediate_size": 10, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": {kv_heads}, "head_dim": 6,
            "max_position_embeddings": 700{settings}}}"#
    );
    build(2, &json, dtype, poison)
}

pub(crate) fn llama() -> Arc<Model> {
    llama_of(2, None)
}

/// Models of both architectures, with `source` for the one that has an encoder.
pub(crate) fn both(source: &[TokenId]) -> [(Arc<Model>, Vec<TokenId>); 2] {
    [(t5(), source.to_vec()), (llama(), Vec::new())]
}

/// A session that has seen nothing but the source.
pub(crate) fn cold(model: &Arc<Model>, source: &[TokenId]) -> Session {
    let mut session = model.session();
    session.set_source(source).unwrap();
    session
}

pub(crate) fn random_tokens(rng: &mut StdRng, count: usize) -> Vec<TokenId> {
    (0..count)
        .map(|_| rng.random_range(0..VOCABULARY))
        .collect()
}
