//! Greedy verification: accepts the tokens that the reviewer would have decoded itself.

use std::convert::Infallible;

use cascade_core::{Draft, NodeId, Proposal, Scores, TokenId, TokenTree};

use crate::{LeniencePolicy, Verdict};

/// Walks down the draft from `start` (from the context, if `None`) as long as a child is accepted.
///
/// At each node, the child that carries the reviewer's most probable token is accepted: over a tree
/// this is SpecInfer's greedy verification (Stratos, *Speculative Decoding*, App. A), over a chain
/// greedy speculative decoding. If there is none, the most probable of the children that pass the
/// lenient test is accepted: q(x) ≤ λ·p(x) with λ > 1 (Cascade Speculative Drafting, §3.1, greedy
/// decoding). Otherwise the walk ends with the reviewer's own token.
///
/// With [`LeniencePolicy::STRICT`], the accepted tokens followed by `next` are exactly what the
/// reviewer would have decoded greedily from the same scores, for any draft. Cost: one pass over
/// the children of each accepted node; no probability is read.
///
/// `scores` must be those of `draft`'s tree. Lenient reviews read [`Scores::gathered`]; where
/// probabilities are absent or NaN, no token is accepted leniently.
pub fn review(
    draft: &Draft,
    start: Option<NodeId>,
    scores: &Scores,
    leniences: LeniencePolicy,
) -> Verdict {
    let walked = Verdict::walk(draft, start, |at| {
        let child = choose(draft, scores, leniences, at);
        Ok::<_, Infallible>(emitted(draft, scores, at, child))
    });
    match walked {
        Ok(verdict) => verdict,
        Err(never) => match never {},
    }
}

/// The reviewer's token after `at`, with its probability if it was computed; only lenient reviews
/// read it.
fn emitted(
    draft: &Draft,
    scores: &Scores,
    at: Option<NodeId>,
    child: Option<NodeId>,
) -> (TokenId, Proposal) {
    let gathered = scores.gathered.as_ref();
    let (token, probability) = match child {
        Some(child) => (
            draft.tree().token(child),
            gathered.map(|gathered| gathered.nodes[child]),
        ),
        None => (
            scores.argmax_after(at),
            gathered.map(|gathered| gathered.argmax[TokenTree::row(at)]),
        ),
    };
    let proposal = probability.map_or(Proposal::PointMass, |probability| Proposal::Pick {
        probability,
    });
    (token, proposal)
}

/// The accepted child of `at`, if any.
fn choose(
    draft: &Draft,
    scores: &Scores,
    leniences: LeniencePolicy,
    at: Option<NodeId>,
) -> Option<NodeId> {
    let tree = draft.tree();
    let agreed = tree.child(at, scores.argmax_after(at));
    if agreed.is_some() || leniences.is_strict() {
        return agreed;
    }
    let gathered = scores.gathered.as_ref()?;
    draft
        .sibling_candidates(at)
        .filter(|draw| leniences.accepts_leniently(&draw.proposal, gathered.nodes[draw.node]))
        .map(|draw| draw.node)
        // Of equal probabilities the first wins; `max_by` would take the last.
        .reduce(|best, child| {
            if gathered.nodes[child] > gathered.nodes[best] {
                child
            } else {
                best
            }
        })
}
