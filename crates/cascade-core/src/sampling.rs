//! From logits to the distribution that tokens are sampled from.

use std::fmt;

use crate::vector::{self, Exponential, Ranked};
use crate::{Distribution, Error, Penalties, TokenId};

/// How the next token is chosen, by the target and by its drafters alike.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Decoding {
    /// The most probable token: the limit of sampling as the temperature goes to 0.
    #[default]
    Greedy,
    /// A token drawn from the model's distribution after these transforms.
    Sampled(Sampling),
}

/// Transforms of a model's distribution before a token is drawn, applied in the order of the
/// fields: the order of Hugging Face transformers.
///
/// They define the distribution that a cascade reproduces exactly: that of its target after the
/// same transforms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    temperature: f32,
    top_k: Option<usize>,
    top_p: Option<f32>,
    min_p: Option<f32>,
}

/// Settings of sampling and penalties as somebody states them: those that are there.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StatedSampling {
    /// 0 is greedy decoding.
    pub temperature: Option<f32>,
    /// How many of the most probable tokens are kept.
    pub top_k: Option<usize>,
    /// The probability to which the tokens that are kept sum up at least.
    pub top_p: Option<f32>,
    /// The share of the highest probability that tokens must have to be kept.
    pub min_p: Option<f32>,
    /// See [`Penalties`], as for the next two.
    pub repetition_penalty: Option<f32>,
    /// 0 is none.
    pub presence_penalty: Option<f32>,
    /// 0 is none.
    pub frequency_penalty: Option<f32>,
}

impl StatedSampling {
    /// Whether nothing is stated.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// These settings, and others where they say nothing.
    pub fn or(self, other: Self) -> Self {
        Self {
            temperature: self.temperature.or(other.temperature),
            top_k: self.top_k.or(other.top_k),
            top_p: self.top_p.or(other.top_p),
            min_p: self.min_p.or(other.min_p),
            repetition_penalty: self.repetition_penalty.or(other.repetition_penalty),
            presence_penalty: self.presence_penalty.or(other.presence_penalty),
            frequency_penalty: self.frequency_penalty.or(other.frequency_penalty),
        }
    }

    /// How tokens are chosen: greedily where nothing is stated.
    ///
    /// # Errors
    /// As [`Decoding::new`].
    pub fn decoding(&self) -> Result<Decoding, InvalidSampling> {
        let temperature = self.temperature.unwrap_or(0.0);
        Decoding::new(temperature, self.top_k, self.top_p, self.min_p)
    }

    /// What tokens lose that the text has already.
    ///
    /// # Errors
    /// As [`Penalties::new`].
    pub fn penalties(&self) -> Result<Penalties, InvalidSampling> {
        let or_none = Option::unwrap_or_default;
        let repetition = self.repetition_penalty.unwrap_or(1.0);
        Penalties::new(
            repetition,
            or_none(self.presence_penalty),
            or_none(self.frequency_penalty),
        )
    }
}

impl fmt::Display for StatedSampling {
    /// In one line: `temperature 0.7, top-p 0.8, repetition penalty 1.05`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stated = [
            ("temperature", self.temperature),
            ("top-k", self.top_k.map(|k| k as f32)),
            ("top-p", self.top_p),
            ("min-p", self.min_p),
            ("repetition penalty", self.repetition_penalty),
            ("presence penalty", self.presence_penalty),
            ("frequency penalty", self.frequency_penalty),
        ];
        let stated = stated
            .iter()
            .filter_map(|(name, value)| Some((name, (*value)?)));
        let words: Vec<String> = stated
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        f.write_str(&words.join(", "))
    }
}

/// An invalid sampling parameter.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum InvalidSampling {
    /// A temperature that is negative, infinite or NaN.
    #[error("the temperature is {0}; give a number above 0, or 0 for greedy decoding")]
    Temperature(f32),
    /// A top_k of 0.
    #[error("top_k is 0, which leaves no token to draw; leave it out to keep all tokens")]
    TopK,
    /// A probability outside (0, 1].
    #[error("top_p is {0}; give a number above 0 and at most 1 (1 keeps all tokens)")]
    TopP(f32),
    /// A share outside [0, 1].
    #[error("min_p is {0}; give a number from 0 (keeps all tokens) to 1")]
    MinP(f32),
    /// A repetition penalty that is not finite and above 0.
    #[error("the repetition penalty is {0}; give a number above 0 (1 is none)")]
    RepetitionPenalty(f32),
    /// A presence penalty outside [−2, 2].
    #[error("the presence penalty is {0}; give a number from -2 to 2 (0 is none)")]
    PresencePenalty(f32),
    /// A frequency penalty outside [−2, 2].
    #[error("the frequency penalty is {0}; give a number from -2 to 2 (0 is none)")]
    FrequencyPenalty(f32),
}

impl Decoding {
    /// Greedy decoding for a temperature of 0, sampling for any higher one. The transforms are
    /// validated in both cases, though greedy decoding ignores them: none of them removes the most
    /// probable token.
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

    /// Whether decoding is greedy.
    pub fn is_greedy(self) -> bool {
        self == Self::Greedy
    }

    /// The temperature; 0 if it is greedy.
    pub fn temperature(self) -> f32 {
        match self {
            Self::Greedy => 0.0,
            Self::Sampled(sampling) => sampling.temperature,
        }
    }
}

impl Sampling {
    /// Softmax of the logits and nothing else: temperature 1.
    pub const PLAIN: Self = Self {
        temperature: 1.0,
        top_k: None,
        top_p: None,
        min_p: None,
    };

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
            ..Self::PLAIN
        })
    }

    /// The divisor of logits.
    pub fn temperature(&self) -> f32 {
        self.temperature
    }

    /// How many of the most probable tokens are kept, if not all.
    pub fn top_k(&self) -> Option<usize> {
        self.top_k
    }

    /// The probability that the tokens that are kept reach together, if not all are kept.
    pub fn top_p(&self) -> Option<f32> {
        self.top_p
    }

    /// What share of the highest probability is kept at least, if not all tokens are.
    pub fn min_p(&self) -> Option<f32> {
        self.min_p
    }

    /// Keeps the `k` most probable tokens, ties by lower id. A `k` above the vocabulary size keeps
    /// them all.
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

    /// Keeps the fewest most probable tokens whose probabilities, after top-k, sum to at least `p`
    /// (nucleus sampling).
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
    /// [`Error::ImproperLogits`] if a logit is NaN or +∞, or if all are −∞. A single −∞ is a
    /// probability of 0.
    pub fn distribution(&self, logits: &[f32]) -> crate::Result<Distribution> {
        let row = LogitRow::new(logits, self.temperature)?;
        let min_p = self.min_p.filter(|&p| p > 0.0);
        let top_p = self.top_p.filter(|&p| p < 1.0).map(f64::from);
        let kept = match (self.top_k, top_p, min_p) {
            (Some(k), None, _) => row.top_k(k),
            (Some(k), Some(p), _) => row.nucleus_of(row.top_k(k), p),
            (None, Some(p), _) => row.nucleus(p),
            (None, None, Some(p)) => row.at_least(f64::from(p)),
            (None, None, None) => return Ok(Distribution::dense(row.softmax.all(logits))),
        };
        Ok(row.distribution(&kept, min_p.unwrap_or(0.0)))
    }
}

/// A row of logits, from which the most probable tokens are selected.
///
/// Tokens are ranked by logit, ties by lower id, and stored in ascending order of ids. To find the
/// top ranks, one pass over the row gives a bound, and only blocks that reach it are searched.
struct LogitRow<'a> {
    logits: &'a [f32],
    maxima: Vec<f32>,
    softmax: Exponential,
}

/// How many blocks are searched before falling back to a bound that is guaranteed to be low enough.
const FEW_BLOCKS: usize = 32;

impl<'a> LogitRow<'a> {
    fn new(logits: &'a [f32], temperature: f32) -> crate::Result<Self> {
        let (maxima, proper) = vector::maxima(logits);
        let max = maxima.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        if !proper || max == f32::NEG_INFINITY {
            return Err(Error::improper_logits(logits));
        }
        // The inverse of a tiny temperature would be infinite.
        let scale = temperature.recip().min(f32::MAX);
        Ok(Self {
            logits,
            maxima,
            softmax: Exponential { max, scale },
        })
    }

    fn weight(&self, token: Ranked) -> f32 {
        self.softmax.of(token.value())
    }

    fn top_k(&self, k: usize) -> Vec<Ranked> {
        vector::first(self.logits, &self.maxima, k, f32::MIN)
    }

    /// The tokens with at least `share` of the weight of the most probable one, and perhaps some
    /// with less.
    fn at_least(&self, share: f64) -> Vec<Ranked> {
        vector::at_least(self.logits, &self.maxima, self.logit_of(share))
    }

    /// A lower bound on the logits of tokens with this share of the weight of the most probable
    /// token.
    fn logit_of(&self, share: f64) -> f32 {
        let max = f64::from(self.softmax.max);
        let below = share.ln() / f64::from(self.softmax.scale);
        // Exceeds the rounding errors of the exponent, the exponential and the sum.
        let slack = 1e-5 * (max.abs() + below.abs()) + f64::from(f32::MIN_POSITIVE);
        ((max + below - slack) as f32).max(f32::MIN)
    }

    /// The nucleus of the whole row: the fewest top-ranked tokens that hold a share of `top_p` of
    /// the total mass.
    fn nucleus(&self, top_p: f64) -> Vec<Ranked> {
        let total = self.softmax.total(self.logits);
        let goal = top_p * total;
        // The tokens below this logit hold less than 1 − top_p in total, however many there are.
        let sure = self.logit_of((1.0 - top_p) * total / self.logits.len() as f64);
        let bound = vector::reached_by(&self.maxima, FEW_BLOCKS, sure);
        let mut tokens = vector::at_least(self.logits, &self.maxima, bound);
        if bound > sure && self.softmax.mass(&tokens) < goal {
            tokens = vector::at_least(self.logits, &self.maxima, sure);
        }
        self.cut(tokens, goal)
    }

    /// The nucleus of some tokens.
    fn nucleus_of(&self, tokens: Vec<Ranked>, top_p: f64) -> Vec<Ranked> {
        let goal = top_p * self.softmax.mass(&tokens);
        self.cut(tokens, goal)
    }

    /// The fewest top-ranked tokens whose weights sum to `goal`.
    fn cut(&self, mut tokens: Vec<Ranked>, goal: f64) -> Vec<Ranked> {
        if let Some(last) = self.last_needed(&mut tokens.clone(), goal) {
            tokens.retain(|&token| token >= last);
        }
        tokens
    }

    /// The lowest-ranked token that is needed for `goal`, found by repeated selection (as in
    /// quickselect), in time linear in the number of tokens.
    fn last_needed(&self, mut tokens: &mut [Ranked], goal: f64) -> Option<Ranked> {
        let mut sum = 0.0;
        while tokens.len() > 32 {
            let half = tokens.len() / 2;
            tokens.select_nth_unstable_by(half, |a, b| b.cmp(a));
            let (upper, lower) = tokens.split_at_mut(half);
            let mass = self.softmax.mass(upper);
            tokens = if sum + mass < goal {
                sum += mass;
                lower
            } else {
                upper
            };
        }
        tokens.sort_unstable_by(|a, b| b.cmp(a));
        let mut needed = tokens.iter().take_while(|&&token| {
            let short = sum < goal;
            sum += f64::from(self.weight(token));
            short
        });
        needed.by_ref().last().copied()
    }

    /// The distribution over those of `tokens` whose weight is at least `min_p` times that of the
    /// most probable one, which is 1.
    fn distribution(&self, tokens: &[Ranked], min_p: f32) -> Distribution {
        let weighted = tokens
            .iter()
            .map(|&token| (token.token(), self.weight(token)));
        let kept: Vec<(TokenId, f32)> = weighted.filter(|&(_, w)| w > 0.0 && w >= min_p).collect();
        Distribution::from_single(self.logits.len(), &kept)
    }
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
        assert!(Decoding::new(0.1, None, None, None).is_ok_and(|sampled| !sampled.is_greedy()));
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
    fn a_nucleus_of_everything_is_everything() {
        let all = Sampling::PLAIN.with_top_p(1.0).unwrap();
        let crumb = all.distribution(&[0.0, -40.0]).unwrap();
        assert_eq!(crumb.support().len(), 2, "4e-18, which is lost in the sum");
    }

    /// Equal tokens whose weights add up to the share exactly are kept, and none beyond them.
    #[test]
    fn a_nucleus_ends_where_its_share_is_reached() {
        for (top_p, kept) in [(0.25, 32), (0.3125, 40), (0.5, 64), (0.75, 96)] {
            let nucleus = Sampling::PLAIN.with_top_p(top_p).unwrap();
            let found = nucleus.distribution(&[3.0; 128]).unwrap().support();
            let ids: Vec<TokenId> = found.iter().map(|s| s.0).collect();
            assert_eq!(ids, Vec::from_iter(0..kept), "the lower ids of equals");
        }
    }

    /// A token that has the share of the most probable one to the last bit, wherever the row lies
    /// and however it is scaled.
    #[test]
    fn min_p_keeps_what_reaches_it_exactly() {
        for max in [0.0f32, 5.0, -3.0, 1e6] {
            for temperature in [1.0, 0.7] {
                let sampling = Sampling::new(temperature).unwrap();
                for step in 0..400 {
                    let logit = max - step as f32 * 0.2;
                    let weight = Exponential {
                        max,
                        scale: temperature.recip(),
                    }
                    .of(logit);
                    let exactly = sampling.with_min_p(weight).unwrap();
                    let found = exactly.distribution(&[logit, max]).unwrap();
                    let kept = 1 + usize::from(weight > 0.0);
                    assert_eq!(found.support().len(), kept, "{logit} of {max}: {weight}");
                }
            }
        }
    }

    #[test]
    fn refuses_improper_logits() {
        let one = Sampling::new(1.0).unwrap();
        for (bad, at) in [
            ([0.0, f32::NAN], (1, "NaN")),
            ([f32::INFINITY, 0.0], (0, "inf")),
            ([f32::NEG_INFINITY, f32::INFINITY], (1, "inf")),
            ([f32::NEG_INFINITY; 2], (0, "-inf")),
        ] {
            match one.distribution(&bad) {
                Err(Error::ImproperLogits { token, logit }) => {
                    assert_eq!((token, logit.to_string().as_str()), at);
                }
                other => panic!("{bad:?}: {other:?}"),
            }
        }
    }
}
