//! Probability distributions over a vocabulary.

use crate::TokenId;
use crate::vector::{self, BLOCK, Ranked, Scaled, Weight};

/// A probability distribution over the tokens of a vocabulary. Tokens are sampled from it, and
/// verification compares two of them.
///
/// Stores unnormalised weights and their total, dense or sparse as they were given. Probabilities
/// are computed in f64, so a distribution built from f64 weights is exact to about 1e-16.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    vocab_size: usize,
    weights: Weights,
    total: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Weights {
    /// Weights of a softmax, in f32.
    Single(Dense<f32>),
    /// Weights of computations that need f64 precision.
    Double(Dense<f64>),
    /// Tokens in ascending order and their weights, all positive.
    Sparse {
        tokens: Vec<TokenId>,
        weights: Vec<f64>,
    },
}

/// One weight for each token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Dense<T> {
    pub(crate) weights: Vec<T>,
    /// The sum of each block of [`BLOCK`] weights.
    pub(crate) sums: Vec<f64>,
}

impl<T: Weight> Dense<T> {
    fn new(weights: Vec<T>) -> Self {
        Self {
            sums: vector::block_sums(&weights),
            weights,
        }
    }

    fn total(&self) -> f64 {
        self.sums.iter().sum()
    }

    fn get(&self, token: TokenId) -> f64 {
        self.weights
            .get(token as usize)
            .map_or(0.0, |&weight| weight.into())
    }

    /// Changes weights: `changed` yields tokens of the vocabulary and their new weights.
    fn set(&mut self, changed: impl Iterator<Item = (TokenId, T)>) {
        let mut stale = None;
        for (token, weight) in changed {
            let block = token as usize / BLOCK;
            if stale != Some(block) {
                self.sum_again(stale.replace(block));
            }
            self.weights[token as usize] = weight;
        }
        self.sum_again(stale);
    }

    fn sum_again(&mut self, block: Option<usize>) {
        let block = block.and_then(|block| Some((block, self.weights.chunks(BLOCK).nth(block)?)));
        if let Some((block, weights)) = block {
            self.sums[block] = weights.iter().map(|&weight| weight.into()).sum();
        }
    }

    /// The first token whose cumulative weight, its own included, exceeds `mass`.
    fn at(&self, mut mass: f64) -> TokenId {
        let block = locate(self.sums.iter().copied(), &mut mass);
        let start = block * BLOCK;
        let end = self.weights.len().min(start + BLOCK);
        let weights = self.weights[start..end].iter();
        (start + locate(weights.map(|&weight| weight.into()), &mut mass)) as TokenId
    }
}

/// Index of the first weight whose cumulative sum exceeds `mass`; `mass` becomes what remains of it
/// before that weight. If rounding leaves some mass after all weights, it is the last positive one,
/// and the remaining mass exceeds every weight.
fn locate(weights: impl Iterator<Item = f64>, mass: &mut f64) -> usize {
    let mut last = 0;
    for (place, weight) in weights.enumerate() {
        if *mass < weight {
            return place;
        }
        if weight > 0.0 {
            last = place;
        }
        *mass -= weight;
    }
    *mass = f64::INFINITY;
    last
}

/// A distribution is stored sparse if fewer than one in this many tokens has a positive
/// probability.
const SPARSE_SHARE: usize = 8;

/// Weights that do not form a distribution.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ImproperDistribution {
    /// A weight that is negative, infinite or NaN.
    #[error("the weight of token {token} is {weight}, but weights must be finite and at least 0")]
    Weight {
        /// The token.
        token: TokenId,
        /// Weight of the token.
        weight: f64,
    },
    /// Weights whose sum overflows.
    #[error("the {tokens} weights overflow when summed; divide them by the largest")]
    Overflow {
        /// Number of weights.
        tokens: usize,
    },
    /// All weights are 0.
    #[error("all {tokens} weights are 0, so there is no token to draw")]
    Nothing {
        /// Number of weights.
        tokens: usize,
    },
}

impl Distribution {
    /// Normalises a vector with one weight per token.
    ///
    /// # Errors
    /// If a weight is negative or not finite, if the sum is not finite, or if all weights are 0.
    pub fn new(weights: Vec<f64>) -> Result<Self, ImproperDistribution> {
        for (token, &weight) in weights.iter().enumerate() {
            if !(weight >= 0.0 && weight.is_finite()) {
                let token = token as TokenId;
                return Err(ImproperDistribution::Weight { token, weight });
            }
        }
        let tokens = weights.len();
        let mut dense = Dense::new(weights);
        if dense.total().is_infinite() {
            return Err(ImproperDistribution::Overflow { tokens });
        }
        if dense.total() < f64::MIN_POSITIVE / f64::EPSILON {
            // The inverse of such a total might overflow. Scaling by a power of two is exact.
            let scale = 2f64.powi(600);
            dense = Dense::new(dense.weights.iter().map(|weight| weight * scale).collect());
        }
        Self::with_mass(tokens, Weights::Double(dense))
            .ok_or(ImproperDistribution::Nothing { tokens })
    }

    /// Normalises the weights of some tokens, given in ascending order; all other weights are 0.
    /// Stored dense or sparse depending on how many there are.
    ///
    /// # Errors
    /// If no weight is positive.
    ///
    /// # Panics
    /// If a token is outside the vocabulary.
    pub fn from_support(
        vocab_size: usize,
        mut support: Vec<(TokenId, f64)>,
    ) -> Result<Self, ImproperDistribution> {
        support.retain(|&(_, weight)| weight > 0.0);
        if let Some(&(last, _)) = support.last() {
            assert!(
                (last as usize) < vocab_size,
                "token {last} is outside the vocabulary of {vocab_size}"
            );
        }
        let weights = if is_sparse(vocab_size, support.len()) {
            let (tokens, weights) = support.into_iter().unzip();
            Weights::Sparse { tokens, weights }
        } else {
            let mut dense = vec![0.0; vocab_size];
            for (token, weight) in support {
                dense[token as usize] = weight;
            }
            Weights::Double(Dense::new(dense))
        };
        Self::with_mass(vocab_size, weights)
            .ok_or(ImproperDistribution::Nothing { tokens: vocab_size })
    }

    /// The distribution with all its mass on one token.
    ///
    /// # Panics
    /// If the token is outside the vocabulary.
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

    /// A distribution with one weight per token: finite, non-negative, and not all 0.
    pub(crate) fn dense(weights: Vec<f32>) -> Self {
        let dense = Dense::new(weights);
        Self {
            vocab_size: dense.weights.len(),
            total: dense.total(),
            weights: Weights::Single(dense),
        }
    }

    /// A distribution with the weights of some tokens, in ascending order: finite, positive, and at
    /// least one.
    pub(crate) fn from_single(vocab_size: usize, support: &[(TokenId, f32)]) -> Self {
        if !is_sparse(vocab_size, support.len()) {
            let mut dense = vec![0.0; vocab_size];
            for &(token, weight) in support {
                dense[token as usize] = weight;
            }
            return Self::dense(dense);
        }
        let weights: Vec<f64> = support.iter().map(|s| f64::from(s.1)).collect();
        Self {
            vocab_size,
            total: weights.iter().sum(),
            weights: Weights::Sparse {
                tokens: support.iter().map(|s| s.0).collect(),
                weights,
            },
        }
    }

    /// `None` if all weights are 0.
    fn with_mass(vocab_size: usize, weights: Weights) -> Option<Self> {
        let total = match &weights {
            Weights::Single(dense) => dense.total(),
            Weights::Double(dense) => dense.total(),
            Weights::Sparse { weights, .. } => weights.iter().sum(),
        };
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

    pub(crate) fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Probability of a token, in `[0, 1]`; 0 outside the vocabulary.
    pub fn probability(&self, token: TokenId) -> f64 {
        self.weight(token) / self.total
    }

    /// A token's probability before normalisation.
    pub(crate) fn weight(&self, token: TokenId) -> f64 {
        match &self.weights {
            Weights::Single(dense) => dense.get(token),
            Weights::Double(dense) => dense.get(token),
            Weights::Sparse { tokens, weights } => {
                let place = tokens.binary_search(&token);
                place.map_or(0.0, |place| weights[place])
            }
        }
    }

    /// Calls `visit` with each token of positive probability, in ascending order.
    pub fn for_each(&self, mut visit: impl FnMut(TokenId, f64)) {
        self.for_each_weight(|token, weight| visit(token, weight / self.total));
    }

    /// Calls `visit` with each token of positive probability, in ascending order, and its
    /// [weight](Self::weight).
    pub(crate) fn for_each_weight(&self, mut visit: impl FnMut(TokenId, f64)) {
        let mut weigh = |token: TokenId, weight: f64| {
            if weight > 0.0 {
                visit(token, weight);
            }
        };
        match &self.weights {
            Weights::Single(dense) => {
                for (token, &weight) in (0..).zip(&dense.weights) {
                    weigh(token, f64::from(weight));
                }
            }
            Weights::Double(dense) => {
                for (token, &weight) in (0..).zip(&dense.weights) {
                    weigh(token, weight);
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

    /// The token at `quantile`, a value in `[0, 1)`: the first whose cumulative probability exceeds
    /// it. A uniformly distributed quantile samples from the distribution. Never returns a token of
    /// probability 0, and is monotone: a higher quantile never gives a lower token. Cost: reads the
    /// sums of all blocks of tokens, and one block.
    pub fn at_quantile(&self, quantile: f64) -> TokenId {
        let mut mass = quantile.max(0.0) * self.total;
        match &self.weights {
            Weights::Single(dense) => dense.at(mass),
            Weights::Double(dense) => dense.at(mass),
            Weights::Sparse { tokens, weights } => {
                tokens[locate(weights.iter().copied(), &mut mass)]
            }
        }
    }

    /// The `n` most probable tokens, in descending order of probability, ties by lower id; fewer if
    /// fewer have a positive probability.
    pub fn top(&self, n: usize) -> Vec<TokenId> {
        match &self.weights {
            Weights::Single(dense) => top_of_dense(&dense.weights, n),
            Weights::Double(_) | Weights::Sparse { .. } => self.top_of_support(n),
        }
    }

    fn top_of_support(&self, n: usize) -> Vec<TokenId> {
        let mut support = self.support();
        let order =
            |a: &(TokenId, f64), b: &(TokenId, f64)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if n < support.len() {
            support.select_nth_unstable_by(n, order);
        }
        support.truncate(n);
        support.sort_unstable_by(order);
        support.into_iter().map(|(token, _)| token).collect()
    }

    /// The residual distribution after a draw from `proposal` was rejected: max(p(x) − q(x), 0),
    /// normalised (Stratos, *Speculative Decoding*, §1). `None` if no mass is left, which happens
    /// only for equal distributions, where nothing is rejected either.
    pub fn residual(&self, proposal: &Self) -> Option<Self> {
        self.zip(proposal, |p, q| (p - q).max(0.0))
    }

    /// This distribution with the probabilities of `tokens` set to 0, normalised; `None` if no mass
    /// is left.
    pub fn without(&self, tokens: &[TokenId]) -> Option<Self> {
        let inside = || {
            let tokens = tokens.iter().copied();
            tokens.filter(|&token| (token as usize) < self.vocab_size)
        };
        let weights = match &self.weights {
            Weights::Single(dense) => {
                let mut dense = dense.clone();
                dense.set(inside().map(|token| (token, 0.0)));
                Weights::Single(dense)
            }
            Weights::Double(dense) => {
                let mut dense = dense.clone();
                dense.set(inside().map(|token| (token, 0.0)));
                Weights::Double(dense)
            }
            Weights::Sparse { .. } => {
                self.sparse_part(
                    |token, weight| {
                        if tokens.contains(&token) { 0.0 } else { weight }
                    },
                )
            }
        };
        Self::with_mass(self.vocab_size, weights)
    }

    /// Σ min(p(x), q(x)): the probability that speculative sampling accepts a draw from one
    /// distribution when the other is the target.
    pub fn overlap(&self, other: &Self) -> f64 {
        // A closure is inlined into code compiled for vector instructions; a separate function is
        // not.
        let smaller = |p: f64, q: f64| if q < p { q } else { p };
        match other.weights {
            Weights::Sparse { .. } => other.zip_sum(self, smaller),
            _ => self.zip_sum(other, smaller),
        }
    }

    /// Total variation distance, in `[0, 1]`: half the sum of |p(x) − q(x)|.
    pub fn total_variation(&self, other: &Self) -> f64 {
        match other.weights {
            Weights::Sparse { .. } => other.zip_sum(self, |q, p| (q - p).max(0.0)),
            _ => self.zip_sum(other, |p, q| (p - q).max(0.0)),
        }
    }

    /// The distribution whose weight of each token x is f(p(x), q(x)), normalised; `None` if all
    /// weights are 0. f must be finite, non-negative, and 0 where p is 0.
    ///
    /// Cost: a pass over the support of p, and over that of q if both are sparse.
    pub fn zip(&self, other: &Self, f: impl Fn(f64, f64) -> f64 + Copy) -> Option<Self> {
        let weights = match &self.weights {
            Weights::Single(dense) => Weights::Double(other.zip_into(self.scaled(dense), f)),
            Weights::Double(dense) => Weights::Double(other.zip_into(self.scaled(dense), f)),
            Weights::Sparse { .. } => {
                let (factor, mut q) = (self.total.recip(), other.cursor());
                self.sparse_part(|token, weight| f(weight * factor, q.probability(token)))
            }
        };
        Self::with_mass(self.vocab_size, weights)
    }

    /// Σ f(p(x), q(x)), where f must be 0 where p is 0. Cost: as [`Self::zip`], without building
    /// the result.
    pub fn zip_sum(&self, other: &Self, f: impl Fn(f64, f64) -> f64 + Copy) -> f64 {
        match &self.weights {
            Weights::Single(dense) => other.zip_sum_into(self.scaled(dense), f),
            Weights::Double(dense) => other.zip_sum_into(self.scaled(dense), f),
            Weights::Sparse { tokens, weights } => {
                let (factor, mut q) = (self.total.recip(), other.cursor());
                let pairs = tokens.iter().zip(weights);
                pairs
                    .map(|(&token, &weight)| f(weight * factor, q.probability(token)))
                    .sum()
            }
        }
    }

    /// [`Self::zip`] with this as q.
    fn zip_into<T: Weight>(
        &self,
        p: Scaled<'_, T>,
        f: impl Fn(f64, f64) -> f64 + Copy,
    ) -> Dense<f64> {
        let zipped = |(weights, sums)| Dense { weights, sums };
        match &self.weights {
            Weights::Single(q) => zipped(vector::zip(p, self.scaled(q), f)),
            Weights::Double(q) => zipped(vector::zip(p, self.scaled(q), f)),
            Weights::Sparse { .. } => {
                let mut dense = zipped(vector::zip(p, Scaled::<f32>::NOTHING, f));
                let common = self.sparse_pairs(p);
                dense.set(common.map(|(token, p, q)| (token, f(p, q))));
                dense
            }
        }
    }

    /// [`Self::zip_sum`] with this as q.
    fn zip_sum_into<T: Weight>(&self, p: Scaled<'_, T>, f: impl Fn(f64, f64) -> f64 + Copy) -> f64 {
        match &self.weights {
            Weights::Single(q) => vector::zip_sum(p, self.scaled(q), f),
            Weights::Double(q) => vector::zip_sum(p, self.scaled(q), f),
            Weights::Sparse { .. } => {
                let common = self.sparse_pairs(p);
                let changes: f64 = common.map(|(_, p, q)| f(p, q) - f(p, 0.0)).sum();
                vector::zip_sum(p, Scaled::<f32>::NOTHING, f) + changes
            }
        }
    }

    /// The tokens in this sparse distribution's support that `p` has too, with both probabilities.
    fn sparse_pairs<'a, T: Weight>(
        &'a self,
        p: Scaled<'a, T>,
    ) -> impl Iterator<Item = (TokenId, f64, f64)> + 'a {
        let (tokens, weights) = match &self.weights {
            Weights::Sparse { tokens, weights } => (tokens.as_slice(), weights.as_slice()),
            _ => (&[][..], &[][..]),
        };
        let factor = self.total.recip();
        let pairs = tokens.iter().zip(weights);
        pairs.filter_map(move |(&token, &weight)| {
            let p = (*p.weights.get(token as usize)?).into() * p.factor;
            Some((token, p, weight * factor))
        })
    }

    /// The tokens of this sparse distribution whose new weight is positive.
    fn sparse_part(&self, mut reweigh: impl FnMut(TokenId, f64) -> f64) -> Weights {
        let mut kept = (Vec::new(), Vec::new());
        if let Weights::Sparse { tokens, weights } = &self.weights {
            let pairs = tokens
                .iter()
                .zip(weights)
                .map(|(&token, &weight)| (token, reweigh(token, weight)));
            kept = pairs.filter(|&(_, weight)| weight > 0.0).unzip();
        }
        let (tokens, weights) = kept;
        Weights::Sparse { tokens, weights }
    }

    fn scaled<'a, T>(&self, dense: &'a Dense<T>) -> Scaled<'a, T> {
        Scaled {
            weights: &dense.weights,
            factor: self.total.recip(),
        }
    }

    fn cursor(&self) -> Cursor<'_> {
        Cursor {
            weights: &self.weights,
            factor: self.total.recip(),
            place: 0,
        }
    }
}

/// Whether a support of `tokens` tokens is small enough to be stored sparse.
fn is_sparse(vocab_size: usize, tokens: usize) -> bool {
    tokens * SPARSE_SHARE < vocab_size
}

fn top_of_dense(weights: &[f32], n: usize) -> Vec<TokenId> {
    let smallest = f32::from_bits(1);
    let (maxima, _) = vector::maxima(weights);
    let mut top = vector::first(weights, &maxima, n, smallest);
    top.sort_unstable_by(|a, b| b.cmp(a));
    top.into_iter().map(Ranked::token).collect()
}

/// Reads probabilities of tokens in ascending order.
struct Cursor<'a> {
    weights: &'a Weights,
    factor: f64,
    /// In a sparse distribution: all entries before this index belong to lower tokens than those
    /// still to be read.
    place: usize,
}

impl Cursor<'_> {
    fn probability(&mut self, token: TokenId) -> f64 {
        let weight = match self.weights {
            Weights::Single(dense) => dense.get(token),
            Weights::Double(dense) => dense.get(token),
            Weights::Sparse { tokens, weights } => {
                let passed = tokens[self.place..].iter().take_while(|&&t| t < token);
                self.place += passed.count();
                let found = tokens.get(self.place) == Some(&token);
                if found { weights[self.place] } else { 0.0 }
            }
        };
        weight * self.factor
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
        Distribution {
            weights: Weights::Sparse {
                tokens: vec![0, 2, 3],
                weights: vec![1.0, 3.0, 4.0],
            },
            ..dense()
        }
    }

    fn single() -> Distribution {
        Distribution::dense(vec![1.0, 0.0, 3.0, 4.0])
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
            let outside = form.without(&[4, 1000]).unwrap();
            assert_eq!(outside.support(), form.support());
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
            let support: Vec<_> = (0..).zip(weights.iter().copied()).collect();
            for form in [
                Distribution::from_support(60, support).unwrap(),
                Distribution::new(weights).unwrap(),
                Distribution::dense(single),
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
            let form = Distribution::from_support(vocab_size, vec![(0, 0.0), (2, 2.0)]).unwrap();
            assert_eq!(
                form,
                Distribution::from_support(vocab_size, vec![(2, 2.0)]).unwrap()
            );
            assert_eq!(form.support(), [(2, 1.0)]);
        }
    }

    #[test]
    #[should_panic(expected = "token 100 is outside the vocabulary of 100")]
    fn refuses_a_support_outside_the_vocabulary() {
        Distribution::from_support(100, vec![(100, 1.0)]).unwrap();
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
