//! How tokens are chosen in one generation, and what is read off a model's scores for it.

use std::sync::Arc;

use cascade_core::{
    Decoding, Distribution, Draft, NodeId, Proposal, RandomSource, Result, Scores, TokenId, Want,
};
use cascade_verify::{
    greedy, sampled, LeniencePolicy, ReviewRule, RowDistributions, SampledRows, Verdict,
};

use crate::{Branching, Siblings};

/// Greedy or sampled, and the chance that samples are drawn by.
pub(crate) struct Choosing<'c> {
    pub(crate) decoding: Decoding,
    pub(crate) chance: &'c mut dyn RandomSource,
}

impl Choosing<'_> {
    /// What must be known of each row to review leniently or not, and to branch.
    pub(crate) fn want(&self, leniences: LeniencePolicy, branching: &Branching) -> Want {
        match self.decoding {
            Decoding::Sampled(_) => Want::LOGITS,
            Decoding::Greedy => {
                let want = if leniences.is_strict() {
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

    /// Looks at `scores` in the way of this generation.
    pub(crate) fn read<'s>(&'s mut self, scores: &'s Scores) -> Reading<'s> {
        match (&self.decoding, &scores.logits) {
            (Decoding::Sampled(sampling), Some(logits)) => Reading::Sampled {
                rows: SampledRows::new(logits, sampling),
                chance: self.chance,
            },
            _ => Reading::Greedy(scores),
        }
    }
}

/// A model's scores, read in one of the two ways.
pub(crate) enum Reading<'s> {
    Greedy(&'s Scores),
    Sampled {
        rows: SampledRows<'s>,
        chance: &'s mut dyn RandomSource,
    },
}

impl Reading<'_> {
    pub(crate) fn review(
        &mut self,
        draft: &Draft,
        start: Option<NodeId>,
        rule: &dyn ReviewRule,
        leniences: LeniencePolicy,
    ) -> Result<Verdict> {
        match self {
            Self::Greedy(scores) => Ok(greedy::review(draft, start, scores, leniences)),
            Self::Sampled { rows, chance } => {
                sampled::review(draft, start, rows, rule, leniences, *chance)
            }
        }
    }

    /// How many draws give a node of multiplicity `times` its `width` children, beside the lead if there is one.
    pub(crate) fn draws(
        &self,
        siblings: Siblings,
        width: usize,
        times: usize,
        lead: Option<TokenId>,
    ) -> usize {
        let beside = usize::from(lead.is_some());
        match (self, siblings) {
            (Self::Sampled { .. }, Siblings::WithReplacement) => width * times - beside,
            // The lead is a sample, and none of the most probable tokens makes way for it.
            (Self::Sampled { .. }, Siblings::TopK) if width > beside => width,
            _ => width - beside,
        }
    }

    /// Draws `count` children from a row, beside a lead that has been drawn already if there is one.
    pub(crate) fn children(
        &mut self,
        row: usize,
        count: usize,
        siblings: Siblings,
        lead: Option<TokenId>,
    ) -> Result<Vec<(TokenId, Proposal)>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        match self {
            Self::Greedy(scores) => Ok(top_of(scores, row, count, lead)),
            Self::Sampled { rows, chance } => {
                let p = rows.distribution(row)?;
                Ok(match siblings {
                    Siblings::TopK => point_masses(&p, count),
                    Siblings::WithReplacement => with_replacement(&p, count, *chance),
                    Siblings::WithoutReplacement => without_replacement(p, count, lead, *chance),
                })
            }
        }
    }
}

/// The most probable tokens of a row beside the lead.
fn top_of(
    scores: &Scores,
    row: usize,
    count: usize,
    lead: Option<TokenId>,
) -> Vec<(TokenId, Proposal)> {
    let top = scores.top.as_ref().map_or(&[][..], |top| top.row(row));
    top.iter()
        .filter(|&&(token, _)| Some(token) != lead)
        .take(count)
        .map(|&(token, probability)| (token, Proposal::Pick { probability }))
        .collect()
}

/// They do not depend on the lead, which may be one of them: a review may look at them in any order.
fn point_masses(p: &Distribution, count: usize) -> Vec<(TokenId, Proposal)> {
    let top = p.top(count).into_iter();
    top.map(|token| (token, Proposal::PointMass)).collect()
}

fn with_replacement(
    p: &Arc<Distribution>,
    count: usize,
    chance: &mut dyn RandomSource,
) -> Vec<(TokenId, Proposal)> {
    let draw = |_| (chance.draw(p), Proposal::Sampled(Arc::clone(p)));
    (0..count).map(draw).collect()
}

fn without_replacement(
    p: Arc<Distribution>,
    count: usize,
    lead: Option<TokenId>,
    chance: &mut dyn RandomSource,
) -> Vec<(TokenId, Proposal)> {
    let mut left = match lead {
        None => Some(p),
        Some(lead) => p.without(&[lead]).map(Arc::new),
    };
    let mut children = Vec::with_capacity(count);
    while let Some(q) = left.filter(|_| children.len() < count) {
        let token = chance.draw(&q);
        left = q.without(&[token]).map(Arc::new);
        children.push((token, Proposal::Sampled(q)));
    }
    children
}
