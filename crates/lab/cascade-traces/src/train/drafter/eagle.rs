//! EAGLE's head (arXiv:2401.15077): a layer that predicts the target's next last hidden state.

use candle_core::{Device, Tensor};
use cascade_core::TokenId;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::Text;
use super::layer::{Layer, LayerShape, Span, THETA};
use super::tensors::{cross_entropy, linear, most_probable, smooth_l1, softmax};
use super::training::{HeadNetwork, SharedWeights};
use crate::train::Result;

/// Weight of the cross-entropy; that of the regression is 1.
const ENTROPY_WEIGHT: f64 = 0.1;

/// Positions of a head whose target has no limit.
const UNLIMITED: usize = 1 << 13;

/// What is trained.
pub(super) struct Eagle {
    pub(super) shape: LayerShape,
    /// Steps of a draft that the loss is of: the paper's one reads states of the target alone.
    pub(super) steps: usize,
    /// The greatest noise on the states that are read.
    pub(super) noise: f64,
    pub(super) max_context: Option<usize>,
}

/// What a step gave, of the rows that drafts begin at.
struct Given {
    spans: Vec<Span>,
    /// `[rows, size]`, by text.
    states: Vec<Tensor>,
}

impl Eagle {
    /// What the head gives in up to `steps` steps behind each row of each text that drafts begin
    /// at: those from the last token of the prompt on. A text takes part as long as it goes.
    fn steps(
        &self,
        shared: &SharedWeights,
        parameters: &[Tensor],
        batch: &[&Text],
        (steps, noise): (usize, Option<&mut ChaCha8Rng>),
    ) -> Result<Vec<Given>> {
        let mut layer = Layer::new(self.shape, parameters);
        let states = batch
            .iter()
            .map(|text| text.states.narrow(0, 0, text.tokens.len() - 2));
        let states = Tensor::cat(&states.collect::<candle_core::Result<Vec<_>>>()?, 0)?;
        let mut states = match noise {
            Some(random) => (&states + self.noise_like(&states, random)?)?,
            None => states,
        };
        let mut all: Vec<Given> = Vec::with_capacity(steps);
        for step in 0..steps {
            let spans = spans(batch, step);
            if spans.is_empty() {
                break;
            }
            if let Some(before) = all.last() {
                states = before.of(&spans)?;
            }
            let tokens = spans.iter().flat_map(|span| {
                let read = span.first + step + 1;
                batch[span.text].tokens[read..read + span.rows]
                    .iter()
                    .copied()
            });
            let embedded = shared.embedded(tokens)?;
            let given = layer.step(&spans, &embedded, &states)?;
            all.push(Given::new(&spans, batch, &given)?);
        }
        Ok(all)
    }

    fn noise_like(&self, states: &Tensor, random: &mut ChaCha8Rng) -> Result<Tensor> {
        let most = self.noise as f32;
        let noise = (0..states.elem_count()).map(|_| random.random_range(-most..=most));
        Ok(Tensor::from_vec(
            noise.collect(),
            states.dims(),
            &Device::Cpu,
        )?)
    }
}

/// The rows of a step, from 0: all that there are in the first, and behind it those that drafts
/// begin at.
fn spans(batch: &[&Text], step: usize) -> Vec<Span> {
    let of = |(number, text): (usize, &&Text)| {
        let first = if step == 0 { 0 } else { text.prompt - 1 };
        // The state that a row gives is known of all tokens but the last.
        let rows = (text.tokens.len() - 2).checked_sub(first + step)?;
        (rows > 0).then_some(Span {
            text: number,
            first,
            rows,
        })
    };
    batch.iter().enumerate().filter_map(of).collect()
}

impl Given {
    /// The part of what all rows of a step gave that belongs to the rows where drafts begin.
    fn new(rows: &[Span], batch: &[&Text], given: &Tensor) -> Result<Self> {
        let (mut spans, mut states, mut at) = (Vec::new(), Vec::new(), 0);
        for span in rows {
            let first = batch[span.text].prompt - 1;
            let skipped = first - span.first;
            let kept = span.rows - skipped;
            states.push(given.narrow(0, at + skipped, kept)?);
            spans.push(Span {
                first,
                rows: kept,
                ..*span
            });
            at += span.rows;
        }
        Ok(Self { spans, states })
    }

    /// The numbers of these rows, one below the other.
    fn of(&self, spans: &[Span]) -> Result<Tensor> {
        let mine = |span: &Span| {
            let mut all = self.spans.iter().zip(&self.states);
            let found = all.find(|(own, _)| own.text == span.text);
            found.map(|(_, states)| states.narrow(0, 0, span.rows))
        };
        let states = spans.iter().filter_map(mine);
        Ok(Tensor::cat(
            &states.collect::<candle_core::Result<Vec<_>>>()?,
            0,
        )?)
    }

    fn rows(&self) -> usize {
        self.spans.iter().map(|span| span.rows).sum()
    }
}

impl HeadNetwork for Eagle {
    fn parts(&self) -> Vec<(String, Vec<usize>)> {
        let parts = self.shape.parts().into_iter();
        parts
            .map(|(name, shape)| (name.to_owned(), shape))
            .collect()
    }

    /// Uniform in ±1/√inputs; norms 1, biases 0.
    fn first_weights(&self, _: &SharedWeights, random: &mut ChaCha8Rng) -> Result<Vec<Tensor>> {
        let mut weights = Vec::new();
        for (name, shape) in self.parts() {
            let count = shape.iter().product();
            let numbers: Vec<f32> = match shape[..] {
                [_, inputs] => {
                    let bound = 1.0 / (inputs as f32).sqrt();
                    (0..count)
                        .map(|_| random.random_range(-bound..bound))
                        .collect()
                }
                _ if name.ends_with("norm.weight") => vec![1.0; count],
                _ => vec![0.0; count],
            };
            weights.push(Tensor::from_vec(numbers, shape, &Device::Cpu)?);
        }
        Ok(weights)
    }

    /// Smooth L1 between what is given and the target's states, and a tenth of the cross-entropy
    /// of the distributions that the target's output head makes of both.
    fn loss(
        &self,
        shared: &SharedWeights,
        parameters: &[Tensor],
        batch: &[&Text],
        noise: Option<&mut ChaCha8Rng>,
    ) -> Result<Option<(Tensor, usize)>> {
        let all = self.steps(shared, parameters, batch, (self.steps, noise))?;
        let rows: usize = all.iter().map(Given::rows).sum();
        if rows == 0 {
            return Ok(None);
        }
        let (mut given, mut wanted) = (Vec::new(), Vec::new());
        for (step, of_step) in all.iter().enumerate() {
            for (span, states) in of_step.spans.iter().zip(&of_step.states) {
                given.push(states.clone());
                let next = span.first + step + 1;
                wanted.push(batch[span.text].states.narrow(0, next, span.rows)?);
            }
        }
        let (given, wanted) = (Tensor::cat(&given, 0)?, Tensor::cat(&wanted, 0)?);
        let probabilities = softmax(&linear(&wanted, &shared.output)?)?;
        let entropy = cross_entropy(&linear(&given, &shared.output)?, &probabilities)?;
        let loss = (smooth_l1(&given, &wanted)? + (entropy * ENTROPY_WEIGHT)?)?;
        Ok(Some(((loss / rows as f64)?, rows)))
    }

    fn said(
        &self,
        shared: &SharedWeights,
        parameters: &[Tensor],
        text: &Text,
        depth: usize,
    ) -> Result<Vec<Vec<TokenId>>> {
        let all = self.steps(shared, parameters, &[text], (depth, None))?;
        let of = |given: &Given| -> Result<Vec<TokenId>> {
            match given.states.first() {
                Some(states) => Ok(most_probable(&linear(states, &shared.output)?)?),
                None => Ok(Vec::new()),
            }
        };
        all.iter().map(of).collect()
    }

    fn config(&self, shared: &SharedWeights) -> Value {
        let shape = self.shape;
        json!({
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_act": "silu",
            "hidden_size": shape.size,
            "intermediate_size": shape.inner,
            "num_hidden_layers": 1,
            "num_attention_heads": shape.queries,
            "num_key_value_heads": shape.kv,
            "head_dim": shape.head,
            "max_position_embeddings": self.max_context.unwrap_or(UNLIMITED),
            "rms_norm_eps": shape.epsilon,
            "rope_theta": THETA,
            "vocab_size": shared.vocab_size(),
            "tie_word_embeddings": false,
            "bias": true,
        })
    }

    fn file(&self) -> &'static str {
        "model.safetensors"
    }
}
