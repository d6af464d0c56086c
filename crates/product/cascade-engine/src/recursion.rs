//! The recursion: vertical and horizontal cascade (Cascade Speculative Drafting, Algorithm 1), over trees.

use cascade_core::{Budget, Draft, Drafter, LevelId, NodeId, Proposal, Proposed, TokenId};
use cascade_verify::LeniencePolicy;

use crate::choosing::Choosing;
use crate::drafting::{Drafting, Place};
use crate::growing::Growing;
use crate::level::Level;
use crate::{KMatrix, Placement, Result};

/// How a cascade drafts: everything about the recursion that is not a model.
pub(crate) struct Recursion {
    pub(crate) k: KMatrix,
    /// For reviews by drafters. The target's is strict.
    pub(crate) leniences: LeniencePolicy,
    pub(crate) placement: Placement,
    /// Nodes of a draft at most, whoever reviews it.
    pub(crate) max_nodes: usize,
    /// Nothing is drafted after one of these.
    pub(crate) eos: Vec<TokenId>,
}

impl Recursion {
    /// Drafts for the reviewer of row `row`, whose drafters are `levels`: each of them, in order, until the leading path
    /// holds `k[row][row] + … + k[row][j]` tokens (the horizontal cascade), within `budget`.
    ///
    /// A chunk may overshoot its drafter's share, since a review keeps what it accepts; the drafters after it then add so
    /// much less. `context` is extended while drafting and given back as it was.
    pub(crate) fn draft(
        &self,
        levels: &mut [Level],
        row: usize,
        context: &mut Vec<TokenId>,
        budget: Budget,
        choosing: &mut Choosing<'_>,
    ) -> Result<Draft> {
        let context_len = context.len();
        let mut growing = Growing::default();
        let mut sum = 0;
        for index in 0..levels.len() {
            let added = self.k.added(row, row + index);
            sum += added;
            let goal = match self.placement {
                Placement::Sequential => sum,
                Placement::Merged => {
                    growing.restart();
                    added
                }
            };
            let Some(place) = self.place(&growing, row, index, goal, budget) else {
                continue;
            };
            context.extend(growing.lead_tokens());
            let chunk = self.chunk(&mut levels[index..], context, place, choosing);
            context.truncate(context_len);
            growing.append(chunk?);
        }
        Ok(growing.draft)
    }

    /// The most that a draft may hold if it may be `depth` tokens deep.
    pub(crate) fn budget(&self, depth: usize) -> Budget {
        Budget {
            depth: depth.min(self.max_nodes),
            nodes: self.max_nodes,
        }
    }

    /// Where drafter `row + index` drafts, until the leading path holds `goal` tokens; `None` if it has nothing to add.
    fn place(
        &self,
        growing: &Growing,
        row: usize,
        index: usize,
        goal: usize,
        budget: Budget,
    ) -> Option<Place> {
        let drafter = row + index;
        let depth = growing.depth();
        let place = Place {
            drafter,
            depth,
            share: goal.min(budget.depth).saturating_sub(depth),
            room: Budget {
                depth: budget.depth - depth,
                nodes: budget.nodes - growing.draft.len(),
            },
            reserved: (drafter + 1..self.k.size())
                .map(|j| self.k.added(row, j))
                .sum(),
        };
        let idle = self.k.added(row, drafter) == 0 || growing.ended;
        (!idle && place.share > 0 && place.room.nodes > 0).then_some(place)
    }

    /// What the first of `levels` drafts.
    fn chunk(
        &self,
        levels: &mut [Level],
        context: &mut Vec<TokenId>,
        place: Place,
        choosing: &mut Choosing<'_>,
    ) -> Result<Growing> {
        match levels.split_first_mut() {
            None => Ok(Growing::default()),
            Some((Level::Statistical { drafter, .. }, _)) => {
                Ok(self.propose(drafter, context, place))
            }
            Some((Level::Neural(neural), below)) => {
                Drafting::new(self, neural, place).run(below, context, choosing)
            }
        }
    }

    /// The base of the recursion: a statistical drafter proposes directly.
    fn propose(&self, model: &mut impl Drafter, context: &[TokenId], place: Place) -> Growing {
        let depth = place.share.min(place.room.nodes);
        let budget = Budget {
            depth,
            nodes: place.room.nodes.saturating_sub(place.reserved).max(depth),
        };
        let tree = model.propose(context, budget).tree;
        let mut chunk = Growing::default();
        // Where each node of the tree went: nowhere, if it follows an EOS token or is beyond the budget.
        let mut places: Vec<Option<NodeId>> = Vec::with_capacity(tree.len());
        for node in 0..tree.len() {
            let fits = tree.depth(node) < budget.depth && chunk.draft.len() < budget.nodes;
            let under = match tree.parent(node) {
                None => Some(None),
                Some(parent) if self.eos.contains(&tree.token(parent)) => None,
                Some(parent) => places[parent].map(Some),
            };
            places.push(under.filter(|_| fits).map(|parent| {
                let proposed = Proposed {
                    proposal: Proposal::PointMass,
                    proposer: LevelId::drafter(place.drafter),
                };
                chunk.draft.push(tree.token(node), parent, proposed)
            }));
        }
        chunk.follow_first_children(&self.eos);
        chunk
    }
}
