//! The recursion: vertical and horizontal cascade (Cascade Speculative Drafting, Algorithm 1).

use cascade_core::{
    Draft, Drafter, LevelId, NodeId, Proposal, Proposed, Scorer, Scores, TokenId, TokenTree, Want,
};
use cascade_verify::{greedy, Leniences, Verdict};

use crate::level::{Level, Neural};
use crate::{KMatrix, Result};

/// How a cascade drafts: everything about the recursion that is not a model.
pub(crate) struct Recursion {
    pub(crate) k: KMatrix,
    /// For reviews by drafters. The target's is strict.
    pub(crate) leniences: Leniences,
    /// Nothing is drafted after one of these.
    pub(crate) eos: Vec<TokenId>,
}

/// A draft that grows at its leading path: the one along which each chunk continues the chunk before.
#[derive(Default)]
struct Growing {
    draft: Draft,
    lead: Option<NodeId>,
    len: usize,
    ended: bool,
}

impl Recursion {
    /// Drafts for the reviewer of row `row`, whose drafters are `levels`: each of them, in order, until the draft holds
    /// `k[row][row] + … + k[row][j]` tokens (the horizontal cascade), at most `limit`.
    ///
    /// A chunk may overshoot its drafter's share, since a review keeps what it accepts; the drafters after it then add so
    /// much less. `context` is extended while drafting and given back as it was.
    pub(crate) fn draft(
        &self,
        levels: &mut [Level],
        row: usize,
        context: &mut Vec<TokenId>,
        limit: usize,
    ) -> Result<Draft> {
        let context_len = context.len();
        let mut growing = Growing::default();
        let grown = self.grow(&mut growing, levels, row, context, limit);
        context.truncate(context_len);
        grown.map(|()| growing.draft)
    }

    fn grow(
        &self,
        growing: &mut Growing,
        levels: &mut [Level],
        row: usize,
        context: &mut Vec<TokenId>,
        limit: usize,
    ) -> Result<()> {
        let mut share = 0;
        for index in 0..levels.len() {
            let drafter = row + index;
            let added = self.k.added(row, drafter);
            share += added;
            let Some((level, below)) = levels[index..].split_first_mut() else {
                break;
            };
            while added > 0 && !growing.ended && growing.len < share.min(limit) {
                let quota = share.min(limit) - growing.len;
                let chunk = match level {
                    Level::Statistical { drafter: model, .. } => {
                        self.propose(model, LevelId::drafter(drafter), context, quota)
                    }
                    Level::Neural(neural) => {
                        let limit = limit - growing.len;
                        self.draft_and_review(neural, below, drafter, context, limit)?
                    }
                };
                let lead = growing.append(&chunk, &self.eos);
                if lead.is_empty() {
                    break;
                }
                context.extend(lead);
                if !level.is_neural() {
                    break; // It has said all it has to say.
                }
            }
        }
        Ok(())
    }

    /// The base of the recursion: a statistical drafter proposes directly.
    fn propose(
        &self,
        model: &mut impl Drafter,
        proposer: LevelId,
        context: &[TokenId],
        budget: usize,
    ) -> Draft {
        let tree = model.propose(context, budget);
        let proposed = Proposed {
            proposal: Proposal::PointMass,
            proposer,
        };
        cut_after(&tree, &self.eos, proposed)
    }

    /// The vertical cascade: the levels below draft, `neural` reviews, and the chunk is what it keeps with the token it
    /// adds. At most `limit` tokens; none if the model has no position left.
    fn draft_and_review(
        &self,
        neural: &mut Neural,
        below: &mut [Level],
        drafter: usize,
        context: &mut Vec<TokenId>,
        limit: usize,
    ) -> Result<Draft> {
        let Some(room) = neural.room(context.len()) else {
            return Ok(Draft::new());
        };
        let draft = self.draft(below, drafter + 1, context, (limit - 1).min(room))?;
        let want = if self.leniences.is_strict() {
            Want::ARGMAX
        } else {
            Want::PICKS
        };
        let scores = neural
            .scorer
            .score(context, draft.tree(), want)
            .map_err(|source| neural.failed(source))?;
        let verdict = greedy::review(&draft, &scores, self.leniences);
        Ok(self.passed_on(&draft, &scores, &verdict, LevelId::drafter(drafter)))
    }

    /// What a drafter passes on after its review: the kept tokens, with its own probabilities and their first
    /// proposers, and its next token, unless the kept ones end the text.
    fn passed_on(
        &self,
        draft: &Draft,
        scores: &Scores,
        verdict: &Verdict,
        reviewer: LevelId,
    ) -> Draft {
        let mut chain = Draft::new();
        let mut parent = None;
        for &node in &verdict.kept {
            let token = draft.tree().token(node);
            let proposed = Proposed {
                proposal: proposal(scores.picks.as_ref().map(|picks| picks.nodes[node])),
                proposer: draft.proposed(node).proposer,
            };
            parent = Some(chain.push(token, parent, proposed));
        }
        let ended = verdict
            .last()
            .is_some_and(|last| self.eos.contains(&draft.tree().token(last)));
        if !ended {
            let row = TokenTree::row(verdict.last());
            let proposed = Proposed {
                proposal: proposal(scores.picks.as_ref().map(|picks| picks.argmax[row])),
                proposer: reviewer,
            };
            chain.push(verdict.next, parent, proposed);
        }
        chain
    }
}

/// Without lenience nobody reads a probability, and none is computed.
fn proposal(probability: Option<f32>) -> Proposal {
    probability.map_or(Proposal::PointMass, |probability| Proposal::Pick {
        probability,
    })
}

/// The tree without what follows an EOS token.
fn cut_after(tree: &TokenTree, eos: &[TokenId], proposed: Proposed) -> Draft {
    let mut draft = Draft::new();
    let mut kept: Vec<Option<NodeId>> = Vec::with_capacity(tree.len());
    for node in 0..tree.len() {
        let parent = match tree.parent(node) {
            None => Some(None),
            Some(parent) if eos.contains(&tree.token(parent)) => None,
            Some(parent) => kept[parent].map(Some),
        };
        kept.push(parent.map(|parent| draft.push(tree.token(node), parent, proposed)));
    }
    draft
}

impl Growing {
    /// Hangs `chunk` under the leading node and returns the tokens by which the leading path grew: those along the first
    /// children.
    fn append(&mut self, chunk: &Draft, eos: &[TokenId]) -> Vec<TokenId> {
        let offset = self.draft.len();
        let root = self.lead;
        for node in 0..chunk.len() {
            let parent = chunk.tree().parent(node).map_or(root, |p| Some(p + offset));
            self.draft
                .push(chunk.tree().token(node), parent, chunk.proposed(node));
        }
        let mut grown = Vec::new();
        let mut at = None;
        while let Some(child) = chunk.tree().children(at).next() {
            grown.push(chunk.tree().token(child));
            self.lead = Some(child + offset);
            at = Some(child);
        }
        self.len += grown.len();
        self.ended = grown.last().is_some_and(|last| eos.contains(last));
        grown
    }
}
