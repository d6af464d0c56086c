//! Sampled verification: the reviewer's tokens are draws from its distribution, taken from the
//! draft where a [`ReviewRule`] allows.

use cascade_core::{Draft, NodeId, Proposal, RandomSource, Result, TokenId, TokenTree};

use crate::{CandidateToken, LeniencePolicy, ReviewRule, RowDistributions, Verdict, lenient};

/// Walks down the draft from `start` (from the context, if `None`), drawing the reviewer's token at
/// each node by `rule`, as long as a child carries that token.
///
/// `rows` must be those of `draft`'s tree. With [`LeniencePolicy::STRICT`], the accepted tokens
/// followed by `next` are distributed exactly as the reviewer's own samples, provided that every
/// token was really drawn from its proposal. So whether a draft ends after a draw or grows may
/// depend on what was drawn; but no draw may be omitted depending on its token (as too unlikely, or
/// as a duplicate). A lenient review emits from other distributions, which the verdict reports
/// ([`lenient`]).
///
/// # Errors
/// Those of `rows`.
pub fn review(
    draft: &Draft,
    start: Option<NodeId>,
    rows: &mut (impl RowDistributions + ?Sized),
    rule: &dyn ReviewRule,
    leniences: LeniencePolicy,
    chance: &mut dyn RandomSource,
) -> Result<Verdict> {
    Verdict::walk(draft, start, |at| {
        let p = rows.distribution(TokenTree::row(at))?;
        let draws = draws_after(draft, at);
        let lenience = draws
            .first()
            .map_or_else(Default::default, |first| leniences.of(first.proposal));
        let (token, r): (TokenId, _) = lenient::token(&p, &draws, lenience, rule, chance);
        Ok((token, Proposal::Sampled(r)))
    })
}

/// The draws of the children of a node, in order.
fn draws_after(draft: &Draft, at: Option<NodeId>) -> Vec<CandidateToken<'_>> {
    let draws = draft.sibling_candidates(at);
    draws
        .map(|draw| CandidateToken {
            token: draft.tree().token(draw.node),
            proposal: &draw.proposal,
        })
        .collect()
}
