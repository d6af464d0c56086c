//! Tiny checkpoints with random weights.

#![allow(dead_code)] // Each test uses a part.

use std::sync::{Arc, Mutex};

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use cascade_core::{Scorer, TokenId};
use cascade_models::{Llama, LlamaConfig, Model, Session, T5Config, T5};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

pub(crate) const VOCABULARY: TokenId = 11;

/// Settings of T5 v1.1; without them, T5 v1.0.
pub(crate) const GATED: &str =
    r#", "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false"#;

/// A weight that is not a number: the first of a row of the tensors whose names contain `name`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Poison {
    pub(crate) name: &'static str,
    pub(crate) row: usize,
}

/// Random weights by the names that a model asks for.
struct RandomWeights {
    rng: Mutex<StdRng>,
    poison: Option<Poison>,
}

impl candle_nn::var_builder::SimpleBackend for RandomWeights {
    fn get(
        &self,
        shape: candle_core::Shape,
        name: &str,
        _: candle_nn::Init,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Tensor> {
        let (centre, width) = match name.contains("norm") {
            true => (1.0, 0.2),
            false => (0.0, 0.6),
        };
        let mut rng = self.rng.lock().unwrap();
        let mut values: Vec<f32> = (0..shape.elem_count())
            .map(|_| centre + width * rng.random_range(-1.0..1.0))
            .collect();
        match self.poison {
            Some(poison) if name.contains(poison.name) => {
                values[poison.row * shape.dims()[1]] = f32::NAN;
            }
            _ => {}
        }
        Tensor::from_vec(values, shape, device)?.to_dtype(dtype)
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> candle_core::Result<Tensor> {
        candle_core::bail!("{name} without a shape")
    }

    fn contains_tensor(&self, _: &str) -> bool {
        true
    }
}

fn weights(seed: u64, dtype: DType, poison: Option<Poison>) -> VarBuilder<'static> {
    let weights = RandomWeights {
        rng: Mutex::new(StdRng::seed_from_u64(seed)),
        poison,
    };
    VarBuilder::from_backend(Box::new(weights), dtype, Device::Cpu)
}

pub(crate) fn t5_of(dtype: DType, settings: &str, poison: Option<Poison>) -> Arc<Model> {
    let json = format!(
        r#"{{"vocab_size": {VOCABULARY}, "d_model": 12, "d_kv": 5, "d_ff": 10, "num_layers": 1,
            "num_decoder_layers": 2, "num_heads": 2, "relative_attention_num_buckets": 8,
            "relative_attention_max_distance": 12, "decoder_start_token_id": 3{settings}}}"#
    );
    let config: T5Config = serde_json::from_str(&json).unwrap();
    let t5 = T5::load(config, weights(1, dtype, poison)).unwrap();
    Arc::new(Model::t5(t5))
}

pub(crate) fn t5() -> Arc<Model> {
    t5_of(DType::F32, GATED, None)
}

/// Four heads of queries share `kv_heads` of keys and values.
pub(crate) fn llama_of(kv_heads: usize, poison: Option<Poison>) -> Arc<Model> {
    let json = format!(
        r#"{{"vocab_size": {VOCABULARY}, "hidden_size": 12, "intermediate_size": 10,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": {kv_heads},
            "head_dim": 6, "max_position_embeddings": 700}}"#
    );
    let config: LlamaConfig = serde_json::from_str(&json).unwrap();
    let llama = Llama::load(config, weights(2, DType::F32, poison)).unwrap();
    Arc::new(Model::llama(llama))
}

pub(crate) fn llama() -> Arc<Model> {
    llama_of(2, None)
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
