//! Coupled verification: the reviewer's token at a position is the winner of a race
//! ([`Noise`]), whatever is drafted (Daliri, Musco and Suresh, *Coupling without Communication and
//! Drafter-Invariant Speculative Decoding*, 2024).
//!
//! Exact: given the tokens before it, the winner at a position has the reviewer's distribution p,
//! and noise of different positions is independent. The draft decides how many tokens a forward
//! yields, and nothing else: the text is a function of the noise and of the reviewer's rows. So no
//! proposal is needed, and a draft may be made in any way at all.
//!
//! Drafters race with the same noise among their own q, and agree with probability
//! Σ_v 1 / Σ_u max(p(u)/p(v), q(u)/q(v)) ≥ (1 − TV)/(1 + TV). A point mass is hit with probability
//! p(x), as often as any rule can.

use cascade_core::{Draft, NodeId, Noise, Proposal, Result, TokenId, TokenTree};

use crate::{LeniencePolicy, RowDistributions, Verdict};

/// Walks down the draft from `start` (from the context, if `None`) as long as a child is accepted.
///
/// The row after a node at depth d (0 for those that continue the context) is that of position
/// `context` + d + 1, and that of the context itself is that of position `context`: the number of
/// tokens before it.
///
/// At each node, the child that carries the winner of the race at its position is accepted. If
/// there is none, the first to arrive of the children that pass the lenient test is accepted: those
/// that would win if their probability were λ times as large. Otherwise the walk ends with the
/// winner.
///
/// With [`LeniencePolicy::STRICT`], the accepted tokens followed by `next` are exactly those that
/// the reviewer would draw alone, for any draft. Cost: a race for each accepted node and one.
///
/// `rows` must be those of `draft`'s tree.
///
/// # Errors
/// Those of `rows`.
pub fn review(
    draft: &Draft,
    start: Option<NodeId>,
    rows: &mut (impl RowDistributions + ?Sized),
    noise: &dyn Noise,
    context: usize,
    leniences: LeniencePolicy,
) -> Result<Verdict> {
    Verdict::walk(draft, start, |at| {
        let p = rows.distribution(TokenTree::row(at))?;
        let position = position(draft.tree(), context, at);
        let winner = noise.winner(position, &p);
        let token = match draft.tree().child(at, winner) {
            None if !leniences.is_strict() => {
                let behind = |token| noise.behind(position, &p, token, winner);
                lenient(draft, at, leniences, behind).unwrap_or(winner)
            }
            _ => winner,
        };
        let probability = p.probability(token) as f32;
        Ok((token, Proposal::Pick { probability }))
    })
}

/// The position of the row after a node: the number of tokens before what follows it.
pub fn position(tree: &TokenTree, context: usize, at: Option<NodeId>) -> u64 {
    (context + at.map_or(0, |node| tree.depth(node) + 1)) as u64
}

/// The child of a node that is least behind, among those behind by at most their λ; the first of
/// equals.
fn lenient(
    draft: &Draft,
    at: Option<NodeId>,
    leniences: LeniencePolicy,
    behind: impl Fn(TokenId) -> f64,
) -> Option<TokenId> {
    let children = draft.sibling_candidates(at).map(|draw| {
        let token = draft.tree().token(draw.node);
        (token, behind(token), leniences.of(&draw.proposal))
    });
    children
        .filter(|(_, behind, lenience)| *behind <= f64::from(lenience.get()))
        .reduce(|best, child| if child.1 < best.1 { child } else { best })
        .map(|(token, ..)| token)
}
