//! Languages: functions from the tokens so far to the distribution of the next token.

use std::fmt;
use std::sync::Arc;

use cascade_core::{Distribution, Draft, RandomSource, Sampling, SeededRandom, TokenId, TokenTree};

/// No text of these tests is longer, drafts included.
const LONGEST: usize = 4;

/// A distribution for each context of up to [`LONGEST`] tokens.
#[derive(Clone, Debug)]
pub(crate) struct Language {
    vocab_size: usize,
    rows: Vec<Arc<Distribution>>,
}

impl Language {
    fn new(vocab_size: usize, mut row: impl FnMut() -> Distribution) -> Self {
        let contexts = (0..=LONGEST as u32).map(|n| vocab_size.pow(n)).sum();
        let rows = (0..contexts).map(|_| Arc::new(row())).collect();
        Self { vocab_size, rows }
    }

    pub(crate) fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// The distribution of the token after `context`.
    pub(crate) fn after(&self, context: &[TokenId]) -> &Arc<Distribution> {
        let place = |place, &token| place * self.vocab_size + token as usize + 1;
        &self.rows[context.iter().fold(0, place)]
    }

    /// Probability of `text` from the start.
    pub(crate) fn probability(&self, text: &[TokenId]) -> f64 {
        let conditional = |i: usize| self.after(&text[..i]).probability(text[i]);
        (0..text.len()).map(conditional).product()
    }

    /// The rows of a draft that continues `context`.
    pub(crate) fn rows(&self, context: &[TokenId], draft: &Draft) -> Vec<Arc<Distribution>> {
        let nodes = std::iter::once(None).chain((0..draft.len()).map(Some));
        nodes
            .map(|node| Arc::clone(self.after(&joined(context, draft.tree(), node))))
            .collect()
    }
}

/// `context` and the tokens of `tree` down to `node`.
pub(crate) fn joined(context: &[TokenId], tree: &TokenTree, node: Option<usize>) -> Vec<TokenId> {
    let mut text = context.to_vec();
    text.extend(tree.path_tokens(node));
    text
}

/// How the languages of a cast relate to each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Family {
    /// Nothing is impossible.
    Random,
    /// About half of the tokens are impossible, others in each language.
    Sparse,
    /// The supports of a drafter and the next larger model are disjoint.
    Disjoint,
    /// All models are the same.
    Equal,
    /// All models are the same up to differences of 1e-9.
    Near,
    /// Softmax of f32 logits.
    Softmax,
    /// Softmax of f32 logits, cut by top-k and top-p.
    Truncated,
}

impl Family {
    pub(crate) const ALL: [Self; 7] = [
        Self::Random,
        Self::Sparse,
        Self::Disjoint,
        Self::Equal,
        Self::Near,
        Self::Softmax,
        Self::Truncated,
    ];

    fn language(self, vocab_size: usize, seed: u64, level: u64) -> Language {
        let alike = matches!(self, Self::Equal | Self::Near);
        let mut chance = SeededRandom::new(seed * 16 + if alike { 0 } else { level });
        Language::new(vocab_size, || self.row(vocab_size, level, &mut chance))
    }

    fn row(self, vocab_size: usize, level: u64, chance: &mut SeededRandom) -> Distribution {
        match self {
            Self::Softmax => softmax(vocab_size, Sampling::new(0.7).unwrap(), chance),
            Self::Truncated => {
                let sampling = Sampling::new(1.3)
                    .unwrap()
                    .with_top_k(3)
                    .unwrap()
                    .with_top_p(0.9)
                    .unwrap();
                softmax(vocab_size, sampling, chance)
            }
            _ => self.weighted(vocab_size, level, chance),
        }
    }

    fn weighted(self, vocab_size: usize, level: u64, chance: &mut SeededRandom) -> Distribution {
        let mut weights: Vec<f64> = (0..vocab_size)
            .map(|_| (1 + chance.below(999)) as f64)
            .collect();
        let spared = chance.below(vocab_size);
        for (token, weight) in weights.iter_mut().enumerate() {
            *weight *= match self {
                Self::Sparse if token != spared => chance.below(2) as f64,
                Self::Disjoint => f64::from(u8::from(token as u64 % 2 == level % 2)),
                Self::Near => 1.0 + 1e-9 * (level as f64) * (token as f64),
                _ => 1.0,
            };
        }
        Distribution::new(weights).unwrap()
    }
}

fn softmax(vocab_size: usize, sampling: Sampling, chance: &mut SeededRandom) -> Distribution {
    let logit = |_| chance.below(1000) as f32 / 300.0;
    let logits: Vec<f32> = (0..vocab_size).map(logit).collect();
    sampling.distribution(&logits).unwrap()
}

/// A target and its drafters, largest first.
pub(crate) struct Cast {
    pub(crate) target: Language,
    pub(crate) base: Language,
    pub(crate) small: Language,
    pub(crate) tiny: Language,
    name: String,
}

impl Cast {
    pub(crate) fn new(family: Family, vocab_size: usize, seed: u64) -> Self {
        let language = |level| family.language(vocab_size, seed, level);
        Self {
            target: language(0),
            base: language(1),
            small: language(2),
            tiny: language(3),
            name: format!("{family:?} languages of {vocab_size} tokens, seed {seed}"),
        }
    }

    /// Casts of all families.
    pub(crate) fn all(vocab_size: usize, seeds: std::ops::Range<u64>) -> Vec<Self> {
        let of = |family| {
            seeds
                .clone()
                .map(move |seed| Self::new(family, vocab_size, seed))
        };
        Family::ALL.into_iter().flat_map(of).collect()
    }
}

impl fmt::Display for Cast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
