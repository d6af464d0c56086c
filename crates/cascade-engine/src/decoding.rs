//! How tokens are chosen in one generation, and what is read from a model's scores.

use std::sync::Arc;

use cascade_core::{
    Choice, Decoding, Distribution, Draft, NodeId, Noise, Proposal, RandomSource, Result, Sampling,
    Scores, SeededNoise, SeededRandom, TokenId, TokenTree, Want,
};
use cascade_verify::{
    coupled, greedy, sampled, LeniencePolicy, ReviewRule, RowDistributions, SampledRows, Verdict,
};

use crate::{Branching, Siblings};

/// How the tokens of one generation are chosen, by the target and by its drafters.
pub(crate) enum DecodingState {
    /// The most probable ones.
    Greedy,
    /// The winners of races with noise that depends on positions alone.
    Coupled(Sampling, Box<dyn Noise + Send>),
    /// Drawn from a source of randomness, in the order in which draws are needed: what a seed's
    /// tokens are depends on what is drafted.
    Drawn(Sampling, Box<dyn RandomSource + Send>),
}

impl DecodingState {
    pub(crate) fn new(decoding: Decoding, seed: u64, coupled: bool) -> Self {
        match (decoding, coupled) {
            (Decoding::Greedy, _) => Self::Greedy,
            (Decoding::Sampled(sampling), true) => {
                Self::Coupled(sampling, Box::new(SeededNoise::new(seed)))
            }
            (Decoding::Sampled(sampling), false) => {
                Self::Drawn(sampling, Box::new(SeededRandom::new(seed)))
            }
        }
    }

    /// Races with this noise, if tokens are sampled.
    pub(crate) fn with_noise(self, noise: impl Noise + Send + 'static) -> Self {
        match self {
            Self::Greedy => Self::Greedy,
            Self::Coupled(sampling, _) | Self::Drawn(sampling, _) => {
                Self::Coupled(sampling, Box::new(noise))
            }
        }
    }

    /// Draws from this source, if tokens are sampled.
    pub(crate) fn with_random(self, random: impl RandomSource + Send + 'static) -> Self {
        match self {
            Self::Greedy => Self::Greedy,
            Self::Coupled(sampling, _) | Self::Drawn(sampling, _) => {
                Self::Drawn(sampling, Box::new(random))
            }
        }
    }

    /// What must be computed of each row for a review with this lenience and for branching.
    pub(crate) fn want(&self, lenience: LeniencePolicy, branching: &Branching) -> Want {
        match self {
            Self::Coupled(..) | Self::Drawn(..) => Want::LOGITS,
            Self::Greedy => {
                let want = if lenience.is_strict() {
                    Want::ARGMAX
                } else {
                    Want::GATHERED
                };
                match branching.widest() {
                    1 => want,
                    width => want.with_top(width),
                }
            }
        }
    }

    /// Whether the text depends on what is drafted. If so, what is drafted must not depend on the
    /// clock or on earlier generations, or a seed would not give the same text twice.
    pub(crate) fn is_drawn(&self) -> bool {
        matches!(self, Self::Drawn(..))
    }

    /// What a drafter chooses its tokens by.
    pub(crate) fn choice(&mut self) -> Choice<'_> {
        match self {
            Self::Greedy => Choice::Greedy,
            Self::Coupled(sampling, noise) => Choice::Coupled {
                sampling,
                noise: &**noise,
            },
            Self::Drawn(sampling, random) => Choice::Drawn {
                sampling,
                random: &mut **random,
            },
        }
    }

    /// Reads the `scores` of a tree after `context` tokens, according to the decoding mode.
    pub(crate) fn view<'s>(&'s mut self, scores: &'s Scores, context: usize) -> ScoreView<'s> {
        match (self, &scores.logits) {
            (Self::Coupled(sampling, noise), Some(logits)) => ScoreView::Coupled {
                rows: SampledRows::new(logits, sampling),
                sampling,
                noise: &**noise,
                context,
            },
            (Self::Drawn(sampling, random), Some(logits)) => ScoreView::Drawn {
                rows: SampledRows::new(logits, sampling),
                sampling,
                random: &mut **random,
            },
            _ => ScoreView::Greedy(scores),
        }
    }
}

/// A model's scores, read according to the decoding mode.
pub(crate) enum ScoreView<'s> {
    Greedy(&'s Scores),
    Coupled {
        rows: SampledRows<'s>,
        sampling: &'s Sampling,
        noise: &'s dyn Noise,
        /// Tokens before the tree.
        context: usize,
    },
    Drawn {
        rows: SampledRows<'s>,
        sampling: &'s Sampling,
        random: &'s mut dyn RandomSource,
    },
}

impl ScoreView<'_> {
    pub(crate) fn review(
        &mut self,
        draft: &Draft,
        start: Option<NodeId>,
        rule: &dyn ReviewRule,
        lenience: LeniencePolicy,
    ) -> Result<Verdict> {
        match self {
            Self::Greedy(scores) => Ok(greedy::review(draft, start, scores, lenience)),
            Self::Coupled {
                rows,
                noise,
                context,
                ..
            } => coupled::review(draft, start, rows, *noise, *context, lenience),
            Self::Drawn { rows, random, .. } => {
                sampled::review(draft, start, rows, rule, lenience, *random)
            }
        }
    }

    /// At most `count` tokens after a node of `tree`, by its row, in the order in which the
    /// reviewer probably has them, with an estimate of the probability that each is the reviewer's.
    pub(crate) fn likely(
        &mut self,
        tree: &TokenTree,
        at: Option<NodeId>,
        count: usize,
    ) -> Result<Vec<(TokenId, f32)>> {
        let row = TokenTree::row(at);
        match self {
            Self::Greedy(scores) => {
                let top = scores.top.as_ref().map_or(&[][..], |top| top.row(row));
                let some = top.iter().filter(|(_, probability)| *probability > 0.0);
                Ok(some.take(count).copied().collect())
            }
            Self::Coupled {
                rows,
                noise,
                context,
                ..
            } => {
                let p = rows.distribution(row)?;
                let position = coupled::position(tree, *context, at);
                let first = noise.first(position, &p, count).into_iter().enumerate();
                let estimated = first
                    .map(|(place, token)| (token, coupled_estimate(p.probability(token), place)));
                Ok(estimated.collect())
            }
            Self::Drawn { rows, .. } => {
                let p = rows.distribution(row)?;
                let top = p.top(count).into_iter();
                Ok(top
                    .map(|token| (token, p.probability(token) as f32))
                    .collect())
            }
        }
    }

    /// Number of draws that give a node of multiplicity `times` its `width` children, in addition
    /// to the token on the main path if there is one.
    pub(crate) fn draws(
        &self,
        siblings: Siblings,
        width: usize,
        times: usize,
        on_path: Option<TokenId>,
    ) -> usize {
        let beside = usize::from(on_path.is_some());
        match (self, siblings) {
            (Self::Drawn { .. }, Siblings::WithReplacement) => width * times - beside,
            // The token on the main path is a sample and does not replace any of the most probable
            // tokens.
            (Self::Drawn { .. }, Siblings::TopK) if width > beside => width,
            _ => width - beside,
        }
    }

    /// Draws `count` children after a node of `tree` from its row, in addition to a token of the
    /// main path that has already been drawn, if there is one. Coupled ones are the next to arrive
    /// in the race, whatever `siblings` says.
    pub(crate) fn children(
        &mut self,
        tree: &TokenTree,
        at: Option<NodeId>,
        count: usize,
        siblings: Siblings,
        on_path: Option<TokenId>,
    ) -> Result<Vec<(TokenId, Proposal)>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let row = TokenTree::row(at);
        match self {
            Self::Greedy(scores) => Ok(top_of(scores, row, count, on_path)),
            Self::Coupled {
                rows,
                noise,
                sampling,
                context,
            } => {
                let position = coupled::position(tree, *context, at);
                let (p, noise) = (rows.distribution(row)?, *noise);
                Ok(Choice::Coupled { sampling, noise }.draw(&p, position, count, on_path))
            }
            Self::Drawn {
                rows,
                sampling,
                random,
            } => {
                let p = rows.distribution(row)?;
                let random = &mut **random;
                let mut choice = Choice::Drawn { sampling, random };
                Ok(match siblings {
                    Siblings::TopK => point_masses(&p, count),
                    Siblings::WithReplacement => with_replacement(&p, count, random),
                    Siblings::WithoutReplacement => choice.draw(&p, 0, count, on_path),
                })
            }
        }
    }
}

/// How likely a token is the reviewer's that comes in at `place` of a race that both see, by a
/// drafter that gives it this probability: if both are of one mind it is the first one's, and else
/// as likely as it is. What shows to be true corrects it.
fn coupled_estimate(probability: f64, place: usize) -> f32 {
    const OF_ONE_MIND: f64 = 0.5;
    let alone = (1.0 - OF_ONE_MIND) * probability;
    (alone + if place == 0 { OF_ONE_MIND } else { 0.0 }) as f32
}

/// The most probable tokens of a row other than that of the main path.
fn top_of(
    scores: &Scores,
    row: usize,
    count: usize,
    on_path: Option<TokenId>,
) -> Vec<(TokenId, Proposal)> {
    let top = scores.top.as_ref().map_or(&[][..], |top| top.row(row));
    top.iter()
        .filter(|&&(token, probability)| Some(token) != on_path && probability > 0.0)
        .take(count)
        .map(|&(token, probability)| (token, Proposal::Pick { probability }))
        .collect()
}

/// The most probable tokens as point masses. They do not depend on the token of the main path,
/// which may be one of them, so a review may consider them in any order.
fn point_masses(p: &Distribution, count: usize) -> Vec<(TokenId, Proposal)> {
    let top = p.top(count).into_iter();
    top.map(|token| (token, Proposal::PointMass)).collect()
}

fn with_replacement(
    p: &Arc<Distribution>,
    count: usize,
    random: &mut dyn RandomSource,
) -> Vec<(TokenId, Proposal)> {
    let draw = |_| (random.draw(p), Proposal::Sampled(Arc::clone(p)));
    (0..count).map(draw).collect()
}
