//! Medusa's heads (arXiv:2401.10774): one for each of the next tokens but one.

use candle_core::{Device, Tensor};
use cascade_core::TokenId;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::Text;
use super::tensors::{cross_entropy_of, linear, most_probable};
use super::training::{HeadNetwork, SharedWeights};
use crate::train::Result;

/// Head k has this to the power k as its weight, counted from 1.
const DECAY: f64 = 0.8;

/// Tensors of a head: of its block, and its matrix to logits.
const PARTS: usize = 3;

/// What is trained: heads of one residual block each.
pub(super) struct Medusa {
    pub(super) heads: usize,
    pub(super) size: usize,
    pub(super) vocab_size: usize,
}

/// The states behind which head `head` can be right or wrong, and the tokens that are right: head k
/// says the token k + 2 places behind a state.
fn rows(text: &Text, head: usize) -> Result<Option<(Tensor, &[TokenId])>> {
    let first = text.prompt - 1;
    let right = text.tokens.get(first + head + 2..).unwrap_or_default();
    if right.is_empty() {
        return Ok(None);
    }
    Ok(Some((text.states.narrow(0, first, right.len())?, right)))
}

/// What a head makes of states.
fn logits(parts: &[Tensor], states: &Tensor) -> candle_core::Result<Tensor> {
    let change = linear(states, &parts[0])?.broadcast_add(&parts[1])?;
    linear(&(states + change.silu()?)?, &parts[2])
}

impl HeadNetwork for Medusa {
    fn parts(&self) -> Vec<(String, Vec<usize>)> {
        let (size, vocab_size) = (self.size, self.vocab_size);
        let of = |head: usize| {
            [
                (format!("{head}.0.linear.weight"), vec![size, size]),
                (format!("{head}.0.linear.bias"), vec![size]),
                (format!("{head}.1.weight"), vec![vocab_size, size]),
            ]
        };
        (0..self.heads).flat_map(of).collect()
    }

    /// Blocks that change nothing, and the target's output head.
    fn first_weights(&self, shared: &SharedWeights, _: &mut ChaCha8Rng) -> Result<Vec<Tensor>> {
        let mut weights = Vec::new();
        for (part, (_, shape)) in self.parts().into_iter().enumerate() {
            weights.push(match part % PARTS {
                2 => shared.output.clone(),
                _ => Tensor::zeros(shape, candle_core::DType::F32, &Device::Cpu)?,
            });
        }
        Ok(weights)
    }

    /// The cross-entropy of each head with the recorded tokens, weighted.
    fn loss(
        &self,
        _: &SharedWeights,
        parameters: &[Tensor],
        batch: &[&Text],
        _: Option<&mut ChaCha8Rng>,
    ) -> Result<Option<(Tensor, usize)>> {
        let (mut loss, mut terms) = (None, 0);
        for (head, parts) in parameters.chunks_exact(PARTS).enumerate() {
            let (mut states, mut right) = (Vec::new(), Vec::new());
            for text in batch {
                if let Some((of_text, tokens)) = rows(text, head)? {
                    states.push(of_text);
                    right.extend_from_slice(tokens);
                }
            }
            let count = right.len();
            if count == 0 {
                break;
            }
            let right = Tensor::from_vec(right, count, &Device::Cpu)?;
            let entropy = cross_entropy_of(&logits(parts, &Tensor::cat(&states, 0)?)?, &right)?;
            let weighted = (entropy * (DECAY.powi(head as i32 + 1) / count as f64))?;
            loss = Some(match loss {
                None => weighted,
                Some(loss) => (weighted + loss)?,
            });
            terms = terms.max(count);
        }
        Ok(loss.map(|loss| (loss, terms)))
    }

    fn said(
        &self,
        _: &SharedWeights,
        parameters: &[Tensor],
        text: &Text,
        depth: usize,
    ) -> Result<Vec<Vec<TokenId>>> {
        let mut said = Vec::new();
        for (head, parts) in parameters.chunks_exact(PARTS).take(depth).enumerate() {
            match rows(text, head)? {
                Some((states, _)) => said.push(most_probable(&logits(parts, &states)?)?),
                None => break,
            }
        }
        Ok(said)
    }

    fn config(&self, _: &SharedWeights) -> Value {
        json!({ "medusa_num_heads": self.heads, "medusa_num_layers": 1 })
    }

    fn file(&self) -> &'static str {
        "medusa_lm_head.safetensors"
    }
}
