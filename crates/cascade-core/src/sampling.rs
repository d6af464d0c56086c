//! From logits to the distribution that tokens are drawn from.

use crate::{Distribution, Error, TokenId};

/// How the next token is chosen, by the target and by its drafters alike.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Decoding {
    /// The most probable token: the limit of sampling as the temperature goes to 0.
    #[default]
    Greedy,
    /// A token drawn from the model's distribution after these transforms.
    Sampled(Sampling),
}

/// Transforms of a model's distribution before a token is drawn, applied in the order of the fields: the order of
/// Hugging Face transformers.
///
/// They define the distribution that a cascade reproduces exactly: that of its target after the same transforms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    temperature: f32,
    top_k: Option<usize>,
    top_p: Option<f32>,
    min_p: Option<f32>,
}

/// A setting of sampling that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum InvalidSampling {
    /// A temperature below 0, infinite, or not a number.
    #[error("the temperature is {0}; give a number above 0, or 0 for greedy decoding")]
    Temperature(f32),
    /// No token may be drawn.
    #[error("top_k is 0, which leaves no token to draw; leave it out to keep them all")]
    TopK,
    /// A probability outside (0, 1].
    #[error("top_p is {0}; give a number above 0 and at most 1 (1 keeps all tokens)")]
    TopP(f32),
    /// A share outside [0, 1].
    #[error("min_p is {0}; give a number from 0 (keeps all tokens) to 1")]
    MinP(f32),
}

impl Decoding {
    /// Greedy decoding for a temperature of 0, sampling for any above. The transforms are checked in both cases, though
    /// greedy decoding does not use them: none of them removes the most probable token.
    ///
    /// # Errors
    /// As the setters of [`Sampling`].
    pub fn new(
        temperature: f32,
        top_k: Option<usize>,
        top_p: Option<f32>,
        min_p: Option<f32>,
    ) -> Result<Self, InvalidSampling> {
        let greedy = temperature == 0.0;
        let mut sampling = Sampling::new(if greedy { 1.0 } else { temperature })?;
        if let Some(k) = top_k {
            sampling = sampling.with_top_k(k)?;
        }
        if let Some(p) = top_p {
            sampling = sampling.with_top_p(p)?;
        }
        if let Some(p) = min_p {
            sampling = sampling.with_min_p(p)?;
        }
        Ok(if greedy {
            Self::Greedy
        } else {
            Self::Sampled(sampling)
        })
    }

    /// Whether the most probable token is taken.
    pub fn is_greedy(self) -> bool {
        self == Self::Greedy
    }
}

impl Sampling {
    /// Softmax of the logits over `temperature`, and nothing else.
    ///
    /// # Errors
    /// A temperature that is not finite and above 0.
    pub fn new(temperature: f32) -> Result<Self, InvalidSampling> {
        if !(temperature > 0.0 && temperature.is_finite()) {
            return Err(InvalidSampling::Temperature(temperature));
        }
        Ok(Self {
            temperature,
            top_k: None,
            top_p: None,
            min_p: None,
        })
    }

    /// Keeps the `k` most probable tokens, the lower id first among equals. More than the vocabulary has keeps them all.
    ///
    /// # Errors
    /// If `k` is 0.
    pub fn with_top_k(self, k: usize) -> Result<Self, InvalidSampling> {
        if k == 0 {
            return Err(InvalidSampling::TopK);
        }
        Ok(Self {
            top_k: Some(k),
            ..self
        })
    }

    /// Keeps the fewest most probable tokens whose probabilities, after top-k, sum to at least `p` (nucleus sampling).
    ///
    /// # Errors
    /// If `p` is not in (0, 1].
    pub fn with_top_p(self, p: f32) -> Result<Self, InvalidSampling> {
        if !(p > 0.0 && p <= 1.0) {
            return Err(InvalidSampling::TopP(p));
        }
        Ok(Self {
            top_p: Some(p),
            ..self
        })
    }

    /// Keeps the tokens with at least `p` times the probability of the most probable one.
    ///
    /// # Errors
    /// If `p` is not in [0, 1].
    pub fn with_min_p(self, p: f32) -> Result<Self, InvalidSampling> {
        if !(0.0..=1.0).contains(&p) {
            return Err(InvalidSampling::MinP(p));
        }
        Ok(Self {
            min_p: Some(p),
            ..self
        })
    }

    /// The distribution of a row of logits.
    ///
    /// # Errors
    /// [`Error::ImproperLogits`] if a logit is not a number or +∞, or if all are −∞. Single −∞ are probabilities of 0.
    pub fn distribution(&self, logits: &[f32]) -> crate::Result<Distribution> {
        let max = checked_maximum(logits)?;
        let inverse = self.temperature.recip();
        let weights: Vec<f32> = logits.iter().map(|l| ((l - max) * inverse).exp()).collect();
        if self.top_k.is_none() && self.top_p.is_none() && self.min_p.is_none() {
            let total = weights.iter().map(|&w| f64::from(w)).sum();
            return Ok(Distribution::dense(weights, total));
        }
        Ok(self.truncated(&weights))
    }

    fn truncated(&self, weights: &[f32]) -> Distribution {
        let mut kept: Vec<(TokenId, f64)> = (0..)
            .zip(weights.iter().map(|&w| f64::from(w)))
            .filter(|&(_, w)| w > 0.0)
            .collect();
        kept.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        kept.truncate(self.top_k.unwrap_or(usize::MAX));
        if let Some(top_p) = self.top_p {
            kept.truncate(nucleus(&kept, f64::from(top_p)));
        }
        if let Some(min_p) = self.min_p {
            let least = f64::from(min_p) * kept[0].1;
            kept.retain(|&(_, w)| w >= least);
        }
        kept.sort_unstable_by_key(|&(token, _)| token);
        let (tokens, kept_weights) = kept.into_iter().unzip();
        Distribution::sparse(weights.len(), tokens, kept_weights)
    }
}

/// How many of the descending weights are needed to make up a share of `top_p` of them all.
fn nucleus(descending: &[(TokenId, f64)], top_p: f64) -> usize {
    let goal = top_p * descending.iter().map(|&(_, w)| w).sum::<f64>();
    let mut sum = 0.0;
    let needed = descending.iter().take_while(|&&(_, w)| {
        let short = sum < goal;
        sum += w;
        short
    });
    needed.count()
}

fn checked_maximum(logits: &[f32]) -> crate::Result<f32> {
    let mut max = f32::NEG_INFINITY;
    for (token, &logit) in logits.iter().enumerate() {
        if logit.is_nan() || logit == f32::INFINITY {
            let token = token as TokenId;
            return Err(Error::ImproperLogits { token, logit });
        }
        max = max.max(logit);
    }
    if max == f32::NEG_INFINITY {
        return Err(Error::ImproperLogits {
            token: 0,
            logit: max,
        });
    }
    Ok(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 5] = [0.0, 2.0, 1.0, f32::NEG_INFINITY, 1.0];

    fn tokens(sampling: Sampling) -> Vec<TokenId> {
        let distribution = sampling.distribution(&LOGITS).unwrap();
        distribution.support().iter().map(|s| s.0).collect()
    }

    #[test]
    fn softmax_over_temperature() {
        let distribution = Sampling::new(0.5).unwrap().distribution(&LOGITS).unwrap();
        let weights = [(-4f64).exp(), 1.0, (-2f64).exp(), 0.0, (-2f64).exp()];
        let total: f64 = weights.iter().sum();
        for (token, weight) in weights.iter().enumerate() {
            let found = distribution.probability(token as TokenId);
            assert!((found - weight / total).abs() < 1e-7, "{token}: {found}");
        }
    }

    #[test]
    fn truncations_keep_what_they_say() {
        let one = Sampling::new(1.0).unwrap();
        assert_eq!(tokens(one), [0, 1, 2, 4]);
        assert_eq!(
            tokens(one.with_top_k(2).unwrap()),
            [1, 2],
            "the lower id of equals"
        );
        assert_eq!(tokens(one.with_top_k(99).unwrap()), [0, 1, 2, 4]);
        // 0.534, 0.197, 0.197, 0.072
        assert_eq!(tokens(one.with_top_p(0.5).unwrap()), [1]);
        assert_eq!(tokens(one.with_top_p(0.6).unwrap()), [1, 2]);
        assert_eq!(tokens(one.with_top_p(1.0).unwrap()), [0, 1, 2, 4]);
        assert_eq!(tokens(one.with_min_p(0.3).unwrap()), [1, 2, 4]);
        // After top-k, the nucleus is one of what is left: 0.731, 0.269.
        let both = one.with_top_k(2).unwrap().with_top_p(0.7).unwrap();
        assert_eq!(tokens(both), [1]);
    }

    #[test]
    fn refuses_settings_without_sense() {
        for bad in [-1.0, f32::NAN, f32::INFINITY] {
            assert!(Decoding::new(bad, None, None, None).is_err(), "{bad}");
        }
        assert!(Decoding::new(0.0, None, None, None).is_ok_and(Decoding::is_greedy));
        assert_eq!(
            Decoding::new(0.0, Some(0), None, None),
            Err(InvalidSampling::TopK)
        );
        assert_eq!(
            Decoding::new(1.0, None, Some(0.0), None),
            Err(InvalidSampling::TopP(0.0))
        );
        assert_eq!(
            Decoding::new(1.0, None, None, Some(1.5)),
            Err(InvalidSampling::MinP(1.5))
        );
    }

    #[test]
    fn refuses_improper_logits() {
        let one = Sampling::new(1.0).unwrap();
        for bad in [
            [0.0, f32::NAN],
            [f32::INFINITY, 0.0],
            [f32::NEG_INFINITY; 2],
        ] {
            let error = one.distribution(&bad).unwrap_err().to_string();
            assert!(error.contains("logit"), "{error}");
        }
    }
}
