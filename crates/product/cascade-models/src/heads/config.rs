//! config.json of heads, and what the headers of their weights add to it.

use cascade_checkpoint::Checkpoint;
use cascade_core::Architecture;
use cascade_hub::ModelFile;
use serde_json::Value;

use crate::backend::{Heads, ModelInfo};
use crate::checks::{product, sum};
use crate::config::in_file;
use crate::decoder::LayerKind;
use crate::settings::unsupported;
use crate::{DecoderConfig, Error, Model, Result};

/// A head of EAGLE, as its files describe it.
#[derive(Clone, Debug)]
pub(super) struct HeadConfig {
    /// Its layer, in the words of the model that it is a layer of.
    pub(super) layer: DecoderConfig,
    /// Whether the map of embeddings and states has a bias.
    pub(super) fuse_bias: bool,
    /// Whether the files have an embedding.
    pub(super) own_embedding: bool,
}

impl HeadConfig {
    /// Reads the content of `file`, and which tensors there are.
    ///
    /// # Errors
    /// [`Error::Head`] for tensors of no known kind of head; [`Error::Config`] for the first
    /// setting that no forward can be built from, or that changes one in a way there is no code
    /// for.
    pub(super) fn read(config: &Value, weights: &Checkpoint, file: &ModelFile) -> Result<Self> {
        check_kind(weights)?;
        Self::of_settings(config, weights.has("embed_tokens.weight"))
            .map_err(|error| in_file(file, error))
    }

    fn of_settings(config: &Value, own_embedding: bool) -> Result<Self> {
        let (mut layer, (fuse_bias, qkv_bias)) = DecoderConfig::read_with(config, |settings| {
            let fuse_bias = settings.flag("bias", true)?;
            Ok((fuse_bias, settings.flag("qkv_bias", false)?))
        })?;
        match layer.layers[..] {
            [LayerKind::PLAIN] => {}
            [kind] => {
                return Err(unsupported(format!("a head whose layer is {kind:?}")));
            }
            _ => {
                let layers = layer.layers.len();
                return Err(unsupported(format!("a head of {layers} layers (one is)")));
            }
        }
        if layer.head_norms || layer.biases.output || layer.biases.mlp {
            let what = "a head with norms of heads, or biases but of queries, keys and values";
            return Err(unsupported(what.to_owned()));
        }
        // Whatever class the target is of, heads say themselves whether they have biases.
        layer.biases.qkv = qkv_bias;
        Ok(Self {
            layer,
            fuse_bias,
            own_embedding,
        })
    }

    /// Refuses a target of another width or vocabulary.
    ///
    /// # Errors
    /// [`Error::Head`].
    pub(super) fn check_target(&self, target: &Model, file: &ModelFile) -> Result<()> {
        let rows = target.info().vocab_size;
        let pairs = [
            (
                "hidden_size",
                self.layer.size,
                target.hidden_size(),
                "width",
            ),
            ("vocab_size", self.layer.vocab_size, rows, "vocabulary"),
        ];
        match pairs.iter().find(|(_, own, of_target, _)| own != of_target) {
            None => Ok(()),
            Some((key, own, of_target, what)) => Err(Error::Head {
                file: file.to_string(),
                problem: format!("its {key} is {own}, and the target's {what} is {of_target}"),
                cure: "take the head that was trained for this very target".to_owned(),
            }),
        }
    }

    /// What follows from the settings, with positions as the target has them: angles are computed
    /// for any.
    pub(super) fn info(&self, target: &Model) -> ModelInfo {
        let DecoderConfig {
            vocab_size,
            size,
            epsilon,
            heads,
            ..
        } = self.layer;
        let own = self.own_parameters();
        ModelInfo {
            architecture: Architecture::DecoderOnly,
            vocab_size,
            size,
            epsilon,
            heads,
            layers: 1,
            parameters: own,
            parameters_of_all_rows: sum(&[own, product(&[vocab_size, size])]),
            max_context: Some(target.info().max_context.unwrap_or(self.layer.positions)),
            start: None,
        }
    }

    /// Parameters of the map of embeddings and states, and of the layer.
    pub(super) fn own_parameters(&self) -> usize {
        let DecoderConfig { size, inner, .. } = self.layer;
        let Heads {
            queries,
            kv,
            size: head,
        } = self.layer.heads;
        let (queries, keys_values) = (product(&[queries, head]), product(&[2, kv, head]));
        let biases = match self.layer.biases.qkv {
            true => sum(&[queries, keys_values]),
            false => 0,
        };
        sum(&[
            product(&[2, size, size]),
            if self.fuse_bias { size } else { 0 },
            product(&[size, sum(&[queries, queries, keys_values])]),
            biases,
            size,
            product(&[3, size, inner]),
        ])
    }
}

/// Refuses tensors of other kinds of heads, and of what is no head.
fn check_kind(weights: &Checkpoint) -> Result<()> {
    let eagle = ["fc.weight", "layers.0.self_attn.q_proj.weight"];
    if eagle.iter().all(|name| weights.has(name)) {
        return Ok(());
    }
    let (problem, cure) = match weights.has("midlayer.self_attn.q_proj.weight") {
        true => (
            "it is a head of EAGLE-3, which is not read yet",
            "take one of EAGLE-1 or EAGLE-2 for the same target",
        ),
        false => (
            "it has no fc.weight and layers.0.self_attn.q_proj.weight, which heads of EAGLE-1 and EAGLE-2 have",
            "give the folder of such a head; a model with a tokenizer of its own is a `model`",
        ),
    };
    Err(Error::Head {
        file: weights.files(),
        problem: problem.to_owned(),
        cure: cure.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(settings: Value) -> Result<HeadConfig> {
        let mut config = json!({"model_type": "llama", "vocab_size": 10, "hidden_size": 8,
            "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4});
        let entries = settings.as_object().unwrap().clone();
        config.as_object_mut().unwrap().extend(entries);
        HeadConfig::of_settings(&config, true)
    }

    #[test]
    fn biases_are_what_heads_say() {
        let plain = read(json!({})).unwrap();
        assert!(plain.fuse_bias && !plain.layer.biases.qkv);
        let none = read(json!({"bias": false})).unwrap();
        assert_eq!(plain.own_parameters() - none.own_parameters(), 8);
        // fc, q k v o, norm, feed-forward.
        assert_eq!(none.own_parameters(), 128 + 4 * 64 + 8 + 3 * 8 * 16);
        let qwen = json!({"model_type": "qwen2", "num_key_value_heads": 2});
        assert!(!read(qwen.clone()).unwrap().layer.biases.qkv);
        let mut biased = qwen;
        biased["qkv_bias"] = true.into();
        assert!(read(biased).unwrap().layer.biases.qkv);
    }

    #[test]
    fn shares_of_a_forward() {
        for (name, own, head, share) in [
            ("vicuna-7b", 235_937_792, 131_072_000, 0.0555),
            ("llama-3.1-8b", 251_666_432, 525_336_576, 0.1035),
        ] {
            let mut config = crate::shape(name).unwrap();
            let target = DecoderConfig::read(&config).unwrap();
            config["num_hidden_layers"] = 1.into();
            let found = HeadConfig::of_settings(&config, true).unwrap();
            assert_eq!(found.own_parameters(), own, "{name}");
            assert_eq!(target.vocab_size * target.size, head, "{name}");
            let of_target = target.parameters_per_forward() as f64;
            let found = (own + head) as f64 / of_target;
            assert!((found - share).abs() < 1e-4, "{name}: {found}");
        }
    }

    #[test]
    fn what_changes_a_forward_is_refused_by_name() {
        for (settings, word) in [
            (json!({"num_hidden_layers": 2}), "2 layers"),
            (json!({"model_type": "qwen3"}), "norms of heads"),
            (json!({"attention_bias": true}), "biases"),
            (
                json!({"model_type": "mistral", "num_key_value_heads": 4, "sliding_window": 3}),
                "window",
            ),
            (json!({"logits_scaling": 8}), "logits_scaling"),
        ] {
            let message = read(settings).unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
        let unknown = read(json!({"mine": 3})).unwrap();
        assert!(unknown.layer.warnings()[0].contains(": mine;"));
    }
}
