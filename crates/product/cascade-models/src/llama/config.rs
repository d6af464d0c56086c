//! The settings of LLaMA.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::checks::bad;
use crate::Result;

/// The settings of a LLaMA checkpoint's config.json that its forward pass depends on. Unknown
/// settings are ignored.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct LlamaConfig {
    /// Rows of the embedding, and columns of the logits.
    pub vocab_size: usize,
    /// Size of the residual stream.
    pub hidden_size: usize,
    /// Inner size of the feed-forward layers.
    pub intermediate_size: usize,
    /// Number of layers.
    pub num_hidden_layers: usize,
    /// Heads of queries.
    pub num_attention_heads: usize,
    /// Heads of keys and values; as many as of queries if absent.
    #[serde(default)]
    pub num_key_value_heads: Option<usize>,
    /// Size of one head; `hidden_size / num_attention_heads` if absent.
    #[serde(default)]
    pub head_dim: Option<usize>,
    /// Positions the model was trained for.
    #[serde(default = "default_positions")]
    pub max_position_embeddings: usize,
    /// Added to the mean square in norms.
    #[serde(default = "default_epsilon")]
    pub rms_norm_eps: f64,
    /// Base of the rotary frequencies; 10,000 if absent here and in `rope_parameters`.
    #[serde(default)]
    pub rope_theta: Option<f64>,
    /// Stretching of positions, as transformers 4 writes it.
    #[serde(default)]
    pub rope_scaling: Option<RopeScaling>,
    /// Base and stretching in one, as transformers 5 writes them.
    #[serde(default)]
    pub rope_parameters: Option<RopeScaling>,
    /// Whether the embedding is the output head too.
    #[serde(default)]
    pub tie_word_embeddings: bool,
    /// Whether the linear maps of attention have biases. Not supported on GPUs.
    #[serde(default)]
    pub attention_bias: bool,
    /// Whether the linear maps of feed-forward layers have biases. Not supported on GPUs.
    #[serde(default)]
    pub mlp_bias: bool,
    /// The gate's nonlinearity. Only "silu" is supported.
    #[serde(default = "default_activation")]
    pub hidden_act: String,
}

/// How positions are stretched, as config.json says it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct RopeScaling {
    /// "default" or "linear"; nothing else is supported.
    #[serde(default)]
    pub rope_type: Option<String>,
    /// The same under its older name, which counts if the newer is absent.
    #[serde(default, rename = "type")]
    pub legacy_type: Option<String>,
    /// What positions are divided by, if linear.
    #[serde(default)]
    pub factor: Option<f64>,
    /// Base of the rotary frequencies; only in `rope_parameters`.
    #[serde(default)]
    pub rope_theta: Option<f64>,
    /// Everything else, which is refused by name: it would change the forward pass.
    #[serde(flatten)]
    pub other: BTreeMap<String, serde_json::Value>,
}

fn default_positions() -> usize {
    2048
}

fn default_epsilon() -> f64 {
    1e-6
}

/// Base of the rotary frequencies if config.json has none.
const DEFAULT_THETA: f64 = 10_000.0;

fn default_activation() -> String {
    "silu".into()
}

impl LlamaConfig {
    /// Weights that one forward reads, embeddings of single tokens aside.
    pub fn parameters_per_forward(&self) -> usize {
        let size = self.hidden_size;
        let queries = self.num_attention_heads * self.head_dim();
        let keys_values = self.kv_heads() * self.head_dim();
        let attention = 2 * size * queries + 2 * size * keys_values;
        let attention_biases = match self.attention_bias {
            true => queries + 2 * keys_values + size,
            false => 0,
        };
        let mlp_biases = match self.mlp_bias {
            true => 2 * self.intermediate_size + size,
            false => 0,
        };
        let biases = attention_biases + mlp_biases;
        let layer = attention + 3 * size * self.intermediate_size + 2 * size + biases;
        self.num_hidden_layers * layer + size + size * self.vocab_size
    }

    /// Weights of the whole model; a tied head counts once.
    pub fn parameters(&self) -> usize {
        let embedding = self.hidden_size * self.vocab_size;
        self.parameters_per_forward()
            + if self.tie_word_embeddings {
                0
            } else {
                embedding
            }
    }

    /// Heads of keys and values.
    pub fn kv_heads(&self) -> usize {
        self.num_key_value_heads.unwrap_or(self.num_attention_heads)
    }

    /// Size of one head.
    pub fn head_dim(&self) -> usize {
        self.head_dim
            .unwrap_or(self.hidden_size / self.num_attention_heads.max(1))
    }

    /// Refuses settings that no forward pass can be built from, or that are not supported.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) for the first such setting.
    pub fn validate(&self) -> Result<()> {
        let sizes = [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("num_key_value_heads", self.kv_heads()),
            ("head_dim", self.head_dim()),
            ("max_position_embeddings", self.max_position_embeddings),
        ];
        crate::checks::refuse_zeros(&sizes)?;
        crate::checks::check_vocabulary(self.vocab_size)?;
        self.check_heads()?;
        self.check_supported()?;
        self.check_rope()?;
        self.position_scale().map(drop)
    }

    fn check_heads(&self) -> Result<()> {
        let (heads, kv_heads) = (self.num_attention_heads, self.kv_heads());
        if !heads.is_multiple_of(kv_heads) {
            return Err(bad(format!(
                "{heads} attention heads cannot share {kv_heads} key-value heads evenly"
            )));
        }
        if !self.head_dim().is_multiple_of(2) {
            return Err(bad(format!(
                "heads of the odd size {} cannot be rotated",
                self.head_dim()
            )));
        }
        Ok(())
    }

    fn check_supported(&self) -> Result<()> {
        if self.hidden_act != "silu" {
            return Err(unsupported(format!("hidden_act {:?}", self.hidden_act)));
        }
        Ok(())
    }

    /// Refuses rotary settings that contradict each other or are not known.
    fn check_rope(&self) -> Result<()> {
        let stated = [
            self.rope_theta,
            self.rope_scaling.as_ref().and_then(|rope| rope.rope_theta),
            self.rope_parameters
                .as_ref()
                .and_then(|rope| rope.rope_theta),
        ];
        let mut thetas = stated.into_iter().flatten();
        let theta = thetas.next().unwrap_or(DEFAULT_THETA);
        if let Some(other) = thetas.find(|&other| other != theta) {
            return Err(bad(format!(
                "rope_theta is {theta} in one place and {other} in another"
            )));
        }
        if !(theta.is_finite() && theta > 0.0) {
            return Err(bad(format!(
                "rope_theta is {theta}, which is not a positive number"
            )));
        }
        if let (Some(a), Some(b)) = (&self.rope_scaling, &self.rope_parameters) {
            if (a.kind(), a.factor) != (b.kind(), b.factor) {
                let problem = "rope_scaling and rope_parameters contradict each other";
                return Err(bad(problem.to_owned()));
            }
        }
        Ok(())
    }

    /// The rotary settings, under their newer or older name.
    fn rope(&self) -> Option<&RopeScaling> {
        self.rope_parameters.as_ref().or(self.rope_scaling.as_ref())
    }

    /// Base of the rotary frequencies.
    pub fn theta(&self) -> f64 {
        let nested = self.rope().and_then(|rope| rope.rope_theta);
        nested.or(self.rope_theta).unwrap_or(DEFAULT_THETA)
    }

    /// Cosines and sines by position, `[positions][head_dim / 2]`, times head_dim^-1/4: with that
    /// in queries and keys, scores have their 1/sqrt(head_dim).
    pub(crate) fn rotations(&self) -> Result<(Vec<f32>, Vec<f32>)> {
        let head_dim = self.head_dim();
        let (theta, stretch) = (self.theta() as f32, self.position_scale()? as f32);
        // In f32, as the reference implementation has it: rounding of angles grows with the
        // position.
        let frequencies: Vec<f32> = (0..head_dim)
            .step_by(2)
            .map(|i| stretch / theta.powf(i as f32 / head_dim as f32))
            .collect();
        let scale = (head_dim as f32).powf(-0.25);
        let table = |f: fn(f32) -> f32| {
            let positions = 0..self.max_position_embeddings;
            let angles = positions.flat_map(|p| frequencies.iter().map(move |w| p as f32 * w));
            angles.map(|angle| f(angle) * scale).collect()
        };
        Ok((table(f32::cos), table(f32::sin)))
    }

    /// What positions are multiplied with.
    fn position_scale(&self) -> Result<f64> {
        self.rope().map_or(Ok(1.0), RopeScaling::position_scale)
    }
}

impl RopeScaling {
    fn kind(&self) -> &str {
        let kind = self.rope_type.as_ref().or(self.legacy_type.as_ref());
        kind.map_or("", String::as_str)
    }

    fn position_scale(&self) -> Result<f64> {
        let scale = match (self.kind(), self.factor) {
            // transformers 5 may state the base alone.
            ("default", _) => 1.0,
            ("", None) if self.rope_theta.is_some() => 1.0,
            ("linear", Some(factor)) if factor > 0.0 && factor.is_finite() => factor.recip(),
            ("linear", _) => {
                return Err(bad("linear rope_scaling without a positive factor".into()))
            }
            (other, _) => {
                return Err(unsupported(format!(
                    "rope_scaling of type {other:?} (only \"linear\" is)"
                )))
            }
        };
        match self.other.keys().next() {
            None => Ok(scale),
            Some(key) => Err(unsupported(format!("`{key}` in the rotary settings"))),
        }
    }
}

fn unsupported(what: String) -> crate::Error {
    crate::Error::Config {
        file: "config.json".into(),
        problem: format!("{what} is not supported"),
        cure: "take a model without it".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(settings: &str) -> LlamaConfig {
        let json = format!(
            r#"{{"vocab_size": 10, "hidden_size": 8, "intermediate_size": 16,
                "num_hidden_layers": 1, "num_attention_heads": 4{settings}}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn what_is_absent_follows_from_the_rest() {
        let config = config("");
        assert_eq!((config.kv_heads(), config.head_dim()), (4, 2));
        assert_eq!(config.position_scale().unwrap(), 1.0);
        config.validate().unwrap();
    }

    #[test]
    fn positions_stretch_linearly() {
        for name in ["type", "rope_type"] {
            let scaling = format!(r#", "rope_scaling": {{"{name}": "linear", "factor": 4.0}}"#);
            assert_eq!(config(&scaling).position_scale().unwrap(), 0.25);
        }
    }

    #[test]
    fn rotary_settings_of_transformers_5_count() {
        let five = r#", "rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}"#;
        assert_eq!(config(five).theta(), 500_000.0);
        config(five).validate().unwrap();
        let base_alone = r#", "rope_parameters": {"rope_theta": 250000}"#;
        assert_eq!(config(base_alone).theta(), 250_000.0);
        config(base_alone).validate().unwrap();
        let linear = r#", "rope_parameters":
            {"rope_theta": 10000.0, "rope_type": "linear", "factor": 2.0}"#;
        assert_eq!(config(linear).position_scale().unwrap(), 0.5);
        assert_eq!(config(r#", "rope_theta": 1000.0"#).theta(), 1000.0);
        assert_eq!(config("").theta(), DEFAULT_THETA);
        let older = r#", "rope_scaling": {"rope_theta": 5e5, "rope_type": "default"}"#;
        assert_eq!(config(older).theta(), 500_000.0);
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        for (settings, word) in [
            (r#", "hidden_act": "gelu""#, "gelu"),
            (r#", "num_key_value_heads": 3"#, "3 key-value heads"),
            (r#", "head_dim": 3"#, "odd size 3"),
            (r#", "rope_scaling": {"type": "linear"}"#, "factor"),
            (
                r#", "rope_scaling": {"rope_type": "llama3", "factor": 8.0}"#,
                "llama3",
            ),
            (
                r#", "rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0}"#,
                "yarn",
            ),
            (
                r#", "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}"#,
                "partial_rotary_factor",
            ),
            (
                r#", "rope_theta": 1e4, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}"#,
                "500000 in another",
            ),
            (
                r#", "rope_scaling": {"type": "linear", "factor": 2.0},
                   "rope_parameters": {"rope_type": "default"}"#,
                "contradict",
            ),
            (r#", "rope_theta": 0"#, "rope_theta is 0"),
            (
                r#", "max_position_embeddings": 0"#,
                "max_position_embeddings",
            ),
        ] {
            let message = config(settings).validate().unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
    }
}
