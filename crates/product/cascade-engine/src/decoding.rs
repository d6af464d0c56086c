//! How tokens are chosen in one generation, and what is read from a model's scores.

use std::sync::Arc;

use cascade_core::{
    Decoding, Distribution, Draft, NodeId, Proposal, RandomSource, Result, Scores, TokenId, Want,
};
use cascade_verify::{
    greedy, sampled, LeniencePolicy, LossBudget, ReviewRule, RowDistributions, SampledRows, Verdict,
};

use crate::{Branching, Siblings};

/// Greedy or sampled, and the random source that samples are drawn from.
pub(crate) struct DecodingState<'r> {
    pub(crate) decoding: Decoding,
    pub(crate) random: &'r mut dyn RandomSource,
}

impl DecodingState<'_> {
    /// What must be computed of each row for a review with this lenience and for branching.
    pub(crate) fn want(&self, lenience: LeniencePolicy, branching: &Branching) -> Want {
        match self.decoding {
            Decoding::Sampled(_) => Want::LOGITS,
            Decoding::Greedy => {
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

    /// Whether tokens are sampled.
    pub(crate) fn is_sampled(&self) -> bool {
        !self.decoding.is_greedy()
    }

    /// Reads `scores` according to the decoding mode.
    pub(crate) fn view<'s>(&'s mut self, scores: &'s Scores) -> ScoreView<'s> {
        match (&self.decoding, &scores.logits) {
            (Decoding::Sampled(sampling), Some(logits)) => ScoreView::Sampled {
                rows: SampledRows::new(logits, sampling),
                random: self.random,
            },
            _ => ScoreView::Greedy(scores),
        }
    }
}

/// A model's scores, read according to the decoding mode.
pub(crate) enum ScoreView<'s> {
    Greedy(&'s Scores),
    Sampled {
        rows: SampledRows<'s>,
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
            Self::Sampled { rows, random } => {
                sampled::review(draft, start, rows, rule, lenience, *random)
            }
        }
    }

    /// The target's review with over-acceptance, and what it lost.
    pub(crate) fn review_lossy(
        &mut self,
        draft: &Draft,
        rule: &dyn ReviewRule,
        budget: LossBudget,
    ) -> Result<(Verdict, f64)> {
        match self {
            Self::Greedy(scores) => {
                let strict = LeniencePolicy::STRICT;
                Ok((greedy::review(draft, None, scores, strict), 0.0))
            }
            Self::Sampled { rows, random } => {
                sampled::review_lossy(draft, None, rows, rule, budget, *random)
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
            (Self::Sampled { .. }, Siblings::WithReplacement) => width * times - beside,
            // The token on the main path is a sample and does not replace any of the most probable
            // tokens.
            (Self::Sampled { .. }, Siblings::TopK) if width > beside => width,
            _ => width - beside,
        }
    }

    /// Draws `count` children from a row, in addition to a token of the main path that has already
    /// been drawn, if there is one.
    pub(crate) fn children(
        &mut self,
        row: usize,
        count: usize,
        siblings: Siblings,
        on_path: Option<TokenId>,
    ) -> Result<Vec<(TokenId, Proposal)>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        match self {
            Self::Greedy(scores) => Ok(top_of(scores, row, count, on_path)),
            Self::Sampled { rows, random } => {
                let p = rows.distribution(row)?;
                Ok(match siblings {
                    Siblings::TopK => point_masses(&p, count),
                    Siblings::WithReplacement => with_replacement(&p, count, *random),
                    Siblings::WithoutReplacement => without_replacement(p, count, on_path, *random),
                })
            }
        }
    }
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
        .filter(|&&(token, _)| Some(token) != on_path)
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

fn without_replacement(
    p: Arc<Distribution>,
    count: usize,
    on_path: Option<TokenId>,
    random: &mut dyn RandomSource,
) -> Vec<(TokenId, Proposal)> {
    let mut left = match on_path {
        None => Some(p),
        Some(on_path) => p.without(&[on_path]).map(Arc::new),
    };
    let mut children = Vec::with_capacity(count);
    while let Some(q) = left.filter(|_| children.len() < count) {
        let token = random.draw(&q);
        left = q.without(&[token]).map(Arc::new);
        children.push((token, Proposal::Sampled(q)));
    }
    children
}
