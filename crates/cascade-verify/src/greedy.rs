//! Greedy review: the reviewer keeps what it would have said itself.

use cascade_core::{Draft, NodeId, Scores};

use crate::{Leniences, Verdict};

/// Walks down the draft as long as the reviewer agrees.
///
/// At each node, the child that carries the reviewer's most probable token is kept. If there is none, the most probable
/// of the children that the lenience excuses is kept: q(x) ≤ λ·p(x) with λ > 1 (Cascade Speculative Drafting, §3.1,
/// greedy decoding). Otherwise the walk ends, and the verdict carries the reviewer's own token.
///
/// With [`Leniences::STRICT`], kept tokens followed by `next` are exactly what the reviewer would have decoded greedily
/// from the same scores, whatever the draft. Cost: one pass over the draft per kept node, no probability is read.
///
/// `scores` must be those of `draft`'s tree. Lenient reviews read [`Scores::picks`]; where they are absent, or not a
/// number, nothing is excused.
pub fn review(draft: &Draft, scores: &Scores, leniences: Leniences) -> Verdict {
    let mut kept = Vec::new();
    let mut at = None;
    while let Some(child) = keep(draft, scores, leniences, at) {
        kept.push(child);
        at = Some(child);
    }
    Verdict {
        kept,
        next: scores.argmax_after(at),
    }
}

fn keep(
    draft: &Draft,
    scores: &Scores,
    leniences: Leniences,
    at: Option<NodeId>,
) -> Option<NodeId> {
    let tree = draft.tree();
    let choice = scores.argmax_after(at);
    let agreed = tree.children(at).find(|&child| tree.token(child) == choice);
    if agreed.is_some() || leniences.is_strict() {
        return agreed;
    }
    let picks = scores.picks.as_ref()?;
    tree.children(at)
        .filter(|&child| leniences.excuse(draft.proposed(child).proposal, picks.nodes[child]))
        // The first of equals: `max_by` would take the last.
        .reduce(|best, child| {
            if picks.nodes[child] > picks.nodes[best] {
                child
            } else {
                best
            }
        })
}
