//! How well a model predicts recorded outputs.

use cascade_core::{Error, Result, Scorer, TokenId, Want};

use super::Record;
use super::along::{along, at_once, logits};
use crate::ratio::ByRecord;

/// Probabilities that a model gives the tokens of recorded outputs, each after the prompt and the
/// recorded tokens before it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Predicted {
    /// By record, the sum of the negative logarithms of its tokens' probabilities, and their
    /// number.
    nats: ByRecord,
    /// Tokens that are the model's most probable ones.
    agreed: usize,
}

impl Predicted {
    /// Adds what a model says of a record.
    ///
    /// Takes a forward for every 128 tokens.
    ///
    /// # Errors
    /// As [`Scorer::score`], which refuses tokens that the model does not have;
    /// [`Error::ImproperLogits`].
    pub fn add(&mut self, model: &mut dyn Scorer, record: &Record) -> Result<()> {
        let (mut nats, mut agreed) = (0.0, 0);
        let how = (at_once(model), Want::LOGITS);
        along(
            model,
            &record.prompt(),
            &record.output,
            how,
            |tokens, scores| {
                for (row, (logits, &token)) in logits(scores)?.zip(tokens).enumerate() {
                    nats += surprise(logits, token)?;
                    agreed += usize::from(scores.argmax[row] == token);
                }
                Result::Ok(())
            },
        )?;
        self.nats.0.push((nats, record.output.len() as f64));
        self.agreed += agreed;
        Ok(())
    }

    /// All tokens.
    pub fn tokens(&self) -> usize {
        self.nats.sums().1 as usize
    }

    /// The exponential of the mean negative logarithm of a token's probability; `None` without
    /// tokens.
    pub fn perplexity(&self) -> Option<f64> {
        (self.tokens() > 0).then(|| self.nats.ratio().exp())
    }

    /// The share of the tokens that are the model's most probable ones; `None` without tokens.
    pub fn agreement(&self) -> Option<f64> {
        (self.tokens() > 0).then(|| self.agreed as f64 / self.tokens() as f64)
    }

    /// The perplexity's 95% interval, by resampling records.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.nats.interval(|nats, tokens| (nats / tokens).exp())
    }
}

/// The negative logarithm of a token's probability, the softmax of its logit. In f64, as a
/// probability may be too small for f32.
fn surprise(logits: &[f32], token: TokenId) -> Result<f64> {
    let greatest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let above = |logit: f32| f64::from(logit) - f64::from(greatest);
    let sum: f64 = logits.iter().map(|&logit| above(logit).exp()).sum();
    match logits.get(token as usize) {
        _ if !sum.is_finite() => Err(Error::improper_logits(logits)),
        Some(&logit) => Ok(sum.ln() - above(logit)),
        None => Err(Error::TokenOutOfVocabulary {
            token,
            vocab_size: logits.len(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_distribution_is_an_error() {
        assert!((surprise(&[0.0, 0.0], 1).unwrap() - 2f64.ln()).abs() < 1e-12);
        // A probability that f32 has no number for.
        assert_eq!(surprise(&[200.0, 0.0], 1).unwrap(), 200.0);
        for logits in [
            [0.0, f32::NAN],
            [f32::INFINITY, 0.0],
            [f32::NEG_INFINITY; 2],
        ] {
            let found = surprise(&logits, 0);
            assert!(
                matches!(found, Err(Error::ImproperLogits { .. })),
                "{logits:?}"
            );
        }
        let found = surprise(&[0.0, 0.0], 2);
        assert!(matches!(found, Err(Error::TokenOutOfVocabulary { .. })));
    }
}
