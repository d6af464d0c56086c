//! Target and drafter over a whole sequence.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use super::pair::BatchOutcome;
use super::Pair;
use crate::theory::{Error, Result};

/// Target and drafter as processes that emit token after token.
///
/// A *state* is all of the past that the next distributions depend on: nothing, the last token, or
/// the whole sequence. The fewer states there are, the cheaper is an expectation over all
/// sequences.
pub trait Process {
    /// A state.
    type State: Ord;

    /// The state before the first token.
    fn start(&self) -> Self::State;

    /// The next distributions of target and drafter, or `None` if the sequence has ended.
    fn pair(&self, state: &Self::State) -> Option<&Pair>;

    /// The state after one more token.
    fn follow(&self, state: &Self::State, token: usize) -> Self::State;
}

/// Expectations over a sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rejections {
    /// Expected number of rejections.
    pub expected: f64,
    /// Expected number of tokens.
    pub tokens: f64,
}

impl Rejections {
    /// Tokens per rejection, the acceleration over plain decoding if drafting costs nothing and
    /// drafts have no end (Theorem 1 and its second remark). Infinite if nothing is ever rejected.
    pub fn acceleration(&self) -> f64 {
        self.tokens / self.expected
    }
}

/// The expected number of rejections of speculative sampling over the first `horizon` tokens
/// (Theorem 1): Σ_n E_{x_{1..n−1} ∼ target} TV(target_n, drafter_n)(· | x_{1..n−1}).
///
/// It is also the least that any rejection-based algorithm can have which leaves the target's
/// distribution unchanged (Theorem 2).
///
/// # Cost
/// `horizon` × states × vocabulary.
pub fn expected_rejections<P: Process>(process: &P, horizon: usize) -> Rejections {
    expected_batch_rejections(process, NonZeroUsize::MIN, horizon)
}

/// The expected number of rejections of batch speculative sampling over the first `horizon` tokens
/// (Theorem 3, Algorithm 4): wherever drafting begins, at the start and after each rejection,
/// `drafts` drafts are drawn; their first tokens are reviewed one after the other, and the draft
/// whose first token is accepted is followed until it is rejected.
///
/// Σ_n E_{x ∼ target} TV(target_n, drafter_n) − Σ_n E_{x ∼ f} (TV(target_n, drafter_n) − Π_m
/// TV(q_n^m, drafter_n)), with q^m as in [`Pair::batch_rejection`], where f(x_{1..n−1}) is the
/// probability that x_{1..n−1} is emitted and drafting begins after it. Only where drafting begins
/// do more drafts help, so the number does not go to 0 with more of them.
///
/// # Cost
/// `horizon` × states × vocabulary × `drafts`.
pub fn expected_batch_rejections<P: Process>(
    process: &P,
    drafts: NonZeroUsize,
    horizon: usize,
) -> Rejections {
    expected(process, horizon, |pair| pair.batch(drafts))
}

/// What [`expected_batch_rejections`] tends to as the number of drafts goes to infinity.
///
/// It is not 0: only where drafting begins do more drafts help, and a token that the drafter never
/// says is never drafted.
///
/// # Cost
/// `horizon` × states × vocabulary.
pub fn expected_batch_limit<P: Process>(process: &P, horizon: usize) -> Rejections {
    expected(process, horizon, Pair::batch_limit)
}

/// The expectations, where `begin` is what happens at a position where drafting begins.
fn expected<P: Process>(
    process: &P,
    horizon: usize,
    begin: impl Fn(&Pair) -> BatchOutcome,
) -> Rejections {
    let mut total = Rejections {
        expected: 0.0,
        tokens: 0.0,
    };
    let start = Weight {
        fresh: 1.0,
        inside: 0.0,
    };
    let mut states = BTreeMap::from([(process.start(), start)]);
    for _ in 0..horizon {
        let mut next = BTreeMap::new();
        for (state, weight) in &states {
            if let Some(pair) = process.pair(state) {
                let mut follow = |token, weight: Weight| {
                    let state = process.follow(state, token);
                    next.entry(state).or_insert(Weight::NONE).add(weight);
                };
                total.tokens += weight.fresh + weight.inside;
                total.expected += weight.advance(pair, &begin(pair), &mut follow);
            }
        }
        states = next;
    }
    total
}

/// The probability of a state, by what the next token is.
#[derive(Clone, Copy)]
struct Weight {
    /// The first of a draft: f.
    fresh: f64,
    /// A later one.
    inside: f64,
}

impl Weight {
    const NONE: Self = Self {
        fresh: 0.0,
        inside: 0.0,
    };

    fn add(&mut self, other: Self) {
        self.fresh += other.fresh;
        self.inside += other.inside;
    }

    /// Spreads this weight over the tokens that follow, and returns the probability of a rejection.
    fn advance(
        self,
        pair: &Pair,
        begun: &BatchOutcome,
        follow: &mut impl FnMut(usize, Self),
    ) -> f64 {
        for (token, (target, drafter)) in pair.tokens().enumerate() {
            let replaced =
                self.fresh * begun.replacement[token] + self.inside * (target - drafter).max(0.0);
            let emitted = (self.fresh + self.inside) * target;
            if emitted > 0.0 {
                let fresh = replaced.min(emitted);
                let inside = emitted - fresh;
                follow(token, Self { fresh, inside });
            }
        }
        self.fresh * begun.rejection + self.inside * pair.rejection()
    }
}

/// Positions whose distributions do not depend on the tokens before, one pair each. The sequence
/// ends after the last.
#[derive(Clone, Debug, PartialEq)]
pub struct Independent(pub Vec<Pair>);

impl Process for Independent {
    /// The position.
    type State = usize;

    fn start(&self) -> usize {
        0
    }

    fn pair(&self, &position: &usize) -> Option<&Pair> {
        self.0.get(position)
    }

    fn follow(&self, &position: &usize, _token: usize) -> usize {
        position + 1
    }
}

/// A Markov chain whose distributions depend on position and last token, as in the paper's
/// simulations.
#[derive(Clone, Debug, PartialEq)]
pub struct Markov {
    pub(super) first: Pair,
    pub(super) later: Vec<Vec<Pair>>,
}

impl Markov {
    /// Number of positions.
    pub fn positions(&self) -> usize {
        self.later.len() + 1
    }

    /// Number of tokens.
    pub fn states(&self) -> usize {
        self.first.target().vocab_size()
    }

    /// The pair of a position after a token, which does not matter at the first position.
    pub(crate) fn pair_at(&self, position: usize, last: usize) -> &Pair {
        match position {
            0 => &self.first,
            position => &self.later[position - 1][last],
        }
    }

    /// All pairs: that of the first position, then position by position one after each token.
    pub fn pairs(&self) -> impl Iterator<Item = &Pair> {
        std::iter::once(&self.first).chain(self.later.iter().flatten())
    }

    /// `first` is the pair of the first position, `later[n][x]` the one of position n + 1 (from 0)
    /// after token x. The sequence ends after the last position.
    ///
    /// # Errors
    /// [`Error::Vocabulary`] if a position has not one pair for each token, or a pair is over
    /// another vocabulary.
    pub fn new(first: Pair, later: Vec<Vec<Pair>>) -> Result<Self> {
        let expected = first.target().vocab_size();
        let check = |what, found| {
            if found == expected {
                Ok(())
            } else {
                Err(Error::Vocabulary {
                    what,
                    expected,
                    found,
                })
            }
        };
        for pairs in &later {
            check("a position of the chain", pairs.len())?;
            for pair in pairs {
                check("a pair of the chain", pair.target().vocab_size())?;
            }
        }
        Ok(Self { first, later })
    }
}

impl Process for Markov {
    /// The position and, but for the first, the last token.
    type State = (usize, Option<usize>);

    fn start(&self) -> Self::State {
        (0, None)
    }

    fn pair(&self, &(position, last): &Self::State) -> Option<&Pair> {
        match last {
            None => Some(&self.first),
            Some(last) => self.later.get(position.checked_sub(1)?)?.get(last),
        }
    }

    fn follow(&self, &(position, _): &Self::State, token: usize) -> Self::State {
        (position + 1, Some(token))
    }
}
