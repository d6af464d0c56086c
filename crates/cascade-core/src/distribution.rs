//! Probability distributions over a vocabulary.

use crate::TokenId;

/// A probability distribution over the tokens of a vocabulary: what a token is drawn from, and what a review compares.
///
/// Weights are kept unnormalised next to their total, dense or sparse, whichever they came as. Probabilities are computed
/// in f64, so that a distribution made of f64 weights is exact to about 1e-16.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    vocab_size: usize,
    weights: Weights,
    total: f64,
}

#[derive(Clone, Debug, PartialEq)]
enum Weights {
    /// One for each token, as softmax leaves them.
    Single(Vec<f32>),
    /// One for each token.
    Double(Vec<f64>),
    /// Tokens in ascending order and their weights, all positive.
    Sparse {
        tokens: Vec<TokenId>,
        weights: Vec<f64>,
    },
}

/// A distribution is kept sparse if less than one in so many tokens has a probability.
const SPARSE_SHARE: usize = 8;

/// Numbers that are no distribution.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ImproperDistribution {
    /// A weight below zero, infinite, or not a number.
    #[error("the weight of token {token} is {weight}, and weights are finite and at least 0")]
    Weight {
        /// The token.
        token: TokenId,
        /// Its weight.
        weight: f64,
    },
    /// Weights whose sum overflows.
    #[error("the {tokens} weights sum to more than a number can hold; divide them by the largest")]
    Overflow {
        /// Number of weights.
        tokens: usize,
    },
    /// Nothing to draw.
    #[error("all {tokens} weights are 0, so there is no token to draw")]
    Nothing {
        /// Number of weights.
        tokens: usize,
    },
}

impl Distribution {
    /// Normalises one weight for each token.
    ///
    /// # Errors
    /// A weight that is negative or not finite; a sum that is not; nothing but zeros.
    pub fn new(weights: Vec<f64>) -> Result<Self, ImproperDistribution> {
        for (token, &weight) in weights.iter().enumerate() {
            if !(weight >= 0.0 && weight.is_finite()) {
                let token = token as TokenId;
                return Err(ImproperDistribution::Weight { token, weight });
            }
        }
        let tokens = weights.len();
        let total: f64 = weights.iter().sum();
        if total.is_infinite() {
            return Err(ImproperDistribution::Overflow { tokens });
        }
        Self::with_mass(tokens, Weights::Double(weights), total)
            .ok_or(ImproperDistribution::Nothing { tokens })
    }

    /// Normalises the weights of some tokens, given in ascending order; all others have none. Dense or sparse, whichever
    /// suits their number.
    ///
    /// # Panics
    /// If nothing has a positive weight, or a token is outside the vocabulary.
    pub fn from_support(vocab_size: usize, mut support: Vec<(TokenId, f64)>) -> Self {
        support.retain(|&(_, weight)| weight > 0.0);
        if let Some(&(last, _)) = support.last() {
            assert!(
                (last as usize) < vocab_size,
                "token {last} is outside the vocabulary of {vocab_size}"
            );
        }
        let weights = if support.len() * SPARSE_SHARE < vocab_size {
            let (tokens, weights) = support.into_iter().unzip();
            Weights::Sparse { tokens, weights }
        } else {
            let mut dense = vec![0.0; vocab_size];
            for (token, weight) in support {
                dense[token as usize] = weight;
            }
            Weights::Double(dense)
        };
        let total = match &weights {
            Weights::Double(weights) | Weights::Sparse { weights, .. } => weights.iter().sum(),
            Weights::Single(_) => 0.0,
        };
        assert!(
            total > 0.0,
            "a distribution of {vocab_size} tokens without mass"
        );
        Self {
            vocab_size,
            weights,
            total,
        }
    }

    /// Everything on one token.
    ///
    /// # Panics
    /// If the vocabulary does not have the token.
    pub fn point(vocab_size: usize, token: TokenId) -> Self {
        assert!(
            (token as usize) < vocab_size,
            "token {token} is outside the vocabulary of {vocab_size}"
        );
        Self {
            vocab_size,
            weights: Weights::Sparse {
                tokens: vec![token],
                weights: vec![1.0],
            },
            total: 1.0,
        }
    }

    /// Weights that the caller knows to be finite and not negative; `total` is their sum.
    pub(crate) fn dense(weights: Vec<f32>, total: f64) -> Self {
        Self {
            vocab_size: weights.len(),
            weights: Weights::Single(weights),
            total,
        }
    }

    /// The same for tokens in ascending order with positive weights.
    pub(crate) fn sparse(vocab_size: usize, tokens: Vec<TokenId>, weights: Vec<f64>) -> Self {
        Self {
            vocab_size,
            total: weights.iter().sum(),
            weights: Weights::Sparse { tokens, weights },
        }
    }

    fn with_mass(vocab_size: usize, weights: Weights, total: f64) -> Option<Self> {
        (total > 0.0).then_some(Self {
            vocab_size,
            weights,
            total,
        })
    }

    /// Number of tokens of the vocabulary.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// Probability of a token, in `[0, 1]`; 0 outside the vocabulary.
    pub fn probability(&self, token: TokenId) -> f64 {
        let weight = match &self.weights {
            Weights::Single(weights) => weights.get(token as usize).map(|&w| f64::from(w)),
            Weights::Double(weights) => weights.get(token as usize).copied(),
            Weights::Sparse { tokens, weights } => tokens
                .binary_search(&token)
                .ok()
                .map(|place| weights[place]),
        };
        weight.unwrap_or(0.0) / self.total
    }

    /// Calls `visit` with each token of positive probability, in ascending order.
    pub fn for_each(&self, mut visit: impl FnMut(TokenId, f64)) {
        let mut weigh = |token: TokenId, weight: f64| {
            if weight > 0.0 {
                visit(token, weight / self.total);
            }
        };
        match &self.weights {
            Weights::Single(weights) => {
                for (token, &weight) in weights.iter().enumerate() {
                    weigh(token as TokenId, f64::from(weight));
                }
            }
            Weights::Double(weights) => {
                for (token, &weight) in weights.iter().enumerate() {
                    weigh(token as TokenId, weight);
                }
            }
            Weights::Sparse { tokens, weights } => {
                for (&token, &weight) in tokens.iter().zip(weights) {
                    weigh(token, weight);
                }
            }
        }
    }

    /// The tokens of positive probability, in ascending order, with their probabilities.
    pub fn support(&self) -> Vec<(TokenId, f64)> {
        let mut support = Vec::new();
        self.for_each(|token, probability| support.push((token, probability)));
        support
    }

    /// The token at `quantile`, a number in `[0, 1)`: the first whose cumulative probability exceeds it. A uniform
    /// quantile gives a token drawn from the distribution. Never a token of probability 0.
    pub fn at_quantile(&self, quantile: f64) -> TokenId {
        let mut left = quantile * self.total;
        let mut last = 0;
        let mut passed = |token: TokenId, weight: f64| {
            if weight > 0.0 {
                last = token;
                left -= weight;
            }
            left < 0.0
        };
        let found = match &self.weights {
            Weights::Single(weights) => (0..)
                .zip(weights)
                .find(|&(t, &w)| passed(t, f64::from(w)))
                .map(|f| f.0),
            Weights::Double(weights) => (0..)
                .zip(weights)
                .find(|&(t, &w)| passed(t, w))
                .map(|f| f.0),
            Weights::Sparse { tokens, weights } => {
                let mut pairs = tokens.iter().zip(weights);
                pairs.find(|&(&t, &w)| passed(t, w)).map(|f| *f.0)
            }
        };
        // Rounding may leave a crumb behind the last token.
        found.unwrap_or(last)
    }

    /// The `n` most probable tokens, the most probable first, the lower id first among equals; fewer if fewer have a
    /// positive probability.
    pub fn top(&self, n: usize) -> Vec<TokenId> {
        let mut support = self.support();
        let order =
            |a: &(TokenId, f64), b: &(TokenId, f64)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if n < support.len() && n > 0 {
            support.select_nth_unstable_by(n - 1, order);
        }
        support.truncate(n);
        support.sort_unstable_by(order);
        support.into_iter().map(|(token, _)| token).collect()
    }

    /// What is left of this distribution after `proposal` was given its chance: max(p(x) − q(x), 0), normalised (Stratos,
    /// *Speculative Decoding*, §1). `None` if nothing is left, which happens to equal distributions only, where nothing is
    /// rejected either.
    pub fn residual(&self, proposal: &Self) -> Option<Self> {
        self.map_weights(|weights| {
            weights.subtract(proposal);
        })
    }

    /// This distribution without `tokens`, normalised; `None` if nothing is left.
    pub fn without(&self, tokens: &[TokenId]) -> Option<Self> {
        self.map_weights(|weights| {
            for &token in tokens {
                weights.remove(token);
            }
        })
    }

    /// A copy whose probabilities are worked on in f64.
    fn map_weights(&self, work: impl FnOnce(&mut Exact)) -> Option<Self> {
        let mut exact = self.exact();
        work(&mut exact);
        let total = exact.weights.iter().sum();
        let weights = match exact.tokens {
            None => Weights::Double(exact.weights),
            Some(tokens) => {
                let kept = tokens
                    .into_iter()
                    .zip(exact.weights)
                    .filter(|&(_, w)| w > 0.0);
                let (tokens, weights) = kept.unzip();
                Weights::Sparse { tokens, weights }
            }
        };
        Self::with_mass(self.vocab_size, weights, total)
    }

    fn exact(&self) -> Exact {
        // As `probability` divides: what is left of a distribution after itself is nothing, to the last bit.
        match &self.weights {
            Weights::Single(weights) => Exact {
                tokens: None,
                weights: weights.iter().map(|&w| f64::from(w) / self.total).collect(),
            },
            Weights::Double(weights) => Exact {
                tokens: None,
                weights: weights.iter().map(|&w| w / self.total).collect(),
            },
            Weights::Sparse { tokens, weights } => Exact {
                tokens: Some(tokens.clone()),
                weights: weights.iter().map(|&w| w / self.total).collect(),
            },
        }
    }

    /// Σ min(p(x), q(x)): the probability that speculative sampling accepts a draw from one for the other.
    pub fn overlap(&self, other: &Self) -> f64 {
        let mut sum = 0.0;
        self.for_each(|token, probability| sum += probability.min(other.probability(token)));
        sum
    }

    /// Total variation distance, in `[0, 1]`: half the sum of |p(x) − q(x)|.
    pub fn total_variation(&self, other: &Self) -> f64 {
        let mut sum = 0.0;
        self.for_each(|token, p| sum += (p - other.probability(token)).max(0.0));
        sum
    }
}

/// Probabilities on the way to another distribution.
struct Exact {
    /// In ascending order; `None` stands for the whole vocabulary.
    tokens: Option<Vec<TokenId>>,
    weights: Vec<f64>,
}

impl Exact {
    fn subtract(&mut self, other: &Distribution) {
        match &self.tokens {
            None => {
                let weights = &mut self.weights;
                other.for_each(|token, probability| {
                    if let Some(weight) = weights.get_mut(token as usize) {
                        *weight = (*weight - probability).max(0.0);
                    }
                });
            }
            Some(tokens) => {
                for (&token, weight) in tokens.iter().zip(&mut self.weights) {
                    *weight = (*weight - other.probability(token)).max(0.0);
                }
            }
        }
    }

    fn remove(&mut self, token: TokenId) {
        let place = match &self.tokens {
            None => Some(token as usize),
            Some(tokens) => tokens.binary_search(&token).ok(),
        };
        if let Some(weight) = place.and_then(|place| self.weights.get_mut(place)) {
            *weight = 0.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-15, "{a} {b}");
    }

    fn dense() -> Distribution {
        Distribution::new(vec![1.0, 0.0, 3.0, 4.0]).unwrap()
    }

    fn sparse() -> Distribution {
        Distribution::sparse(4, vec![0, 2, 3], vec![1.0, 3.0, 4.0])
    }

    fn single() -> Distribution {
        Distribution::dense(vec![1.0, 0.0, 3.0, 4.0], 8.0)
    }

    #[test]
    fn all_forms_agree() {
        let other = Distribution::new(vec![0.5, 0.25, 0.25, 0.0]).unwrap();
        for form in [dense(), sparse(), single()] {
            close(form.probability(2), 0.375);
            close(form.probability(1), 0.0);
            close(form.probability(9), 0.0);
            assert_eq!(form.top(2), [3, 2]);
            assert_eq!(form.support(), [(0, 0.125), (2, 0.375), (3, 0.5)]);
            let residual = form.residual(&other).unwrap();
            close(residual.probability(2), 0.2);
            close(residual.probability(3), 0.8);
            close(other.residual(&form).unwrap().probability(0), 0.6);
            close(form.without(&[3, 1]).unwrap().probability(0), 0.25);
            close(form.total_variation(&other), 0.625);
            close(form.overlap(&other), 0.375);
            assert!(form.residual(&form).is_none());
            assert!(form.without(&[0, 2, 3]).is_none());
        }
    }

    #[test]
    fn quantiles_cover_each_token_by_its_probability() {
        for form in [dense(), sparse(), single()] {
            let drawn: Vec<TokenId> = (0..8)
                .map(|i| form.at_quantile(f64::from(i) / 8.0))
                .collect();
            assert_eq!(drawn, [0, 2, 2, 2, 3, 3, 3, 3]);
            assert_eq!(form.at_quantile(1.0), 3, "a crumb of rounding");
        }
    }

    #[test]
    fn nothing_is_left_of_a_distribution_after_itself() {
        for divisor in 1..200 {
            let weights: Vec<f64> = (1..7).map(|w| f64::from(w) / f64::from(divisor)).collect();
            let single: Vec<f32> = weights.iter().map(|&w| w as f32).collect();
            let total = single.iter().map(|&w| f64::from(w)).sum();
            let tokens: Vec<TokenId> = (0..6).collect();
            for form in [
                Distribution::sparse(6, tokens, weights.clone()),
                Distribution::new(weights).unwrap(),
                Distribution::dense(single, total),
            ] {
                assert!(form.residual(&form).is_none(), "{form:?}");
            }
        }
    }

    #[test]
    fn tiny_weights_are_weights() {
        let tiny = Distribution::new(vec![1e-310, 3e-310, 0.0]).unwrap();
        assert!((tiny.probability(1) - 0.75).abs() < 1e-9);
        assert_eq!(tiny.without(&[1]).unwrap().support(), [(0, 1.0)]);
    }

    #[test]
    fn a_support_may_name_tokens_without_weight() {
        for vocab_size in [3, 100] {
            let form = Distribution::from_support(vocab_size, vec![(0, 0.0), (2, 2.0)]);
            assert_eq!(form, Distribution::from_support(vocab_size, vec![(2, 2.0)]));
            assert_eq!(form.support(), [(2, 1.0)]);
        }
    }

    #[test]
    #[should_panic(expected = "token 100 is outside the vocabulary of 100")]
    fn refuses_a_support_outside_the_vocabulary() {
        Distribution::from_support(100, vec![(100, 1.0)]);
    }

    #[test]
    fn refuses_what_is_no_distribution() {
        let negative = Distribution::new(vec![0.5, -0.1]).unwrap_err();
        assert!(
            negative.to_string().contains("token 1 is -0.1"),
            "{negative}"
        );
        for bad in [f64::NAN, f64::INFINITY] {
            assert!(Distribution::new(vec![bad]).is_err());
        }
        let overflow = Distribution::new(vec![f64::MAX; 2]).unwrap_err();
        assert!(overflow.to_string().contains("the 2 weights"), "{overflow}");
        let nothing = Distribution::new(vec![0.0; 3]).unwrap_err();
        assert!(nothing.to_string().contains("all 3 weights"), "{nothing}");
    }
}
