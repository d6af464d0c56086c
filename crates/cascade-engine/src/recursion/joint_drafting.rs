//! How a neural and a statistical drafter grow one tree together: the nodes of the most probable
//! paths by both.

use cascade_core::{Advice, Budget, Guidance, ScoredTree, TokenId, Want};

use super::{DraftSlot, Recursion, levels_from};
use crate::decoding::DecodingState;
use crate::draft_builder::DraftBuilder;
use crate::level::{Level, Neural, Statistical};
use crate::policy::{DraftState, Turn};
use crate::{Error, Result};

/// Next tokens that the neural drafter gives of each row.
const TOP: usize = 16;

/// A turn of a neural drafter that [expands](crate::Expand::MostProbable) the most probable nodes.
///
/// The statistical drafter grows the tree, at first by itself. Then the neural drafter scores the
/// tree in one forward, and the tree is grown anew with its probabilities, where it gave any, and
/// the other's own below. All tokens are point masses: chosen by what is known before the review,
/// so every rule is exact.
pub(crate) struct JointDrafting<'a> {
    pub(super) recursion: &'a mut Recursion,
    pub(super) neural: &'a mut Neural,
    pub(super) slot: DraftSlot,
}

impl JointDrafting<'_> {
    /// Drafts after `context`, in as many forwards as the turn's quota at most. Nothing, if the
    /// schedule names no partner or the model has no positions left.
    pub(crate) fn run(
        mut self,
        below: &mut [Level],
        context: &[TokenId],
        decoding: &mut DecodingState,
    ) -> Result<DraftBuilder> {
        let Some((turn, budget)) = self.planned(below.len(), context) else {
            return Ok(DraftBuilder::default());
        };
        let levels = levels_from(below, self.slot.drafter, turn.drafter)?;
        let partner =
            partner(levels).ok_or_else(|| self.not_joint("the schedule names another"))?;
        let (advice, proposed) = self.grow(partner, context, budget, decoding)?;
        let advised = advice.advised(proposed.tree());
        let proposer = |node: usize| {
            if advised[node] {
                self.slot.drafter
            } else {
                turn.drafter
            }
        };
        Ok(self
            .recursion
            .fitting(&proposed, budget, |_| true, proposer))
    }

    /// The partner's turn, in the schedule's opinion, and the budget of the tree; `None` if there
    /// is no partner or no position.
    fn planned(&mut self, drafters: usize, context: &[TokenId]) -> Option<(Turn, Budget)> {
        let nodes = self.slot.capacity.nodes;
        let most = Budget {
            depth: self.slot.capacity.depth.min(nodes),
            nodes: nodes.saturating_sub(self.slot.reserved).max(1),
        };
        let state = DraftState {
            context: context.len(),
            depth: 0,
            nodes: 0,
            ended: false,
            budget: most,
            drafters,
            turns: &[],
        };
        let turn = self.recursion.schedule.next(self.slot.drafter, &state)?;
        let Some(positions) = self.neural.positions(context, &[]) else {
            self.neural.say_unread(context, &[]);
            return None;
        };
        let budget = Budget {
            depth: most.depth.min(turn.tokens).min(positions),
            nodes: most.nodes.min(turn.nodes),
        };
        Some((turn, budget))
    }

    /// The tree after all forwards that are asked for and that could change it, and what they said.
    fn grow(
        &mut self,
        partner: &mut Statistical,
        context: &[TokenId],
        budget: Budget,
        decoding: &mut DecodingState,
    ) -> Result<(Advice, ScoredTree)> {
        let settings = &self.recursion.settings;
        let told = self.neural.info().max_top.unwrap_or(TOP);
        let width = TOP.min(told).min(settings.vocab_size);
        let want = Want::ARGMAX.with_top(width);
        let mut advice = Advice::default();
        let mut propose = |advice: &Advice| {
            let mut guidance = Guidance::new(decoding.choice()).with_advice(advice);
            partner.propose(context, budget, &mut guidance, settings)
        };
        let mut proposed = propose(&advice)?;
        for _ in 0..self.slot.quota {
            if advice.covers(proposed.tree()) {
                break;
            }
            let (scores, _) = self.neural.score(context, proposed.tree(), want)?;
            if let Some(top) = &scores.top {
                advice.add(proposed.tree(), top);
            }
            proposed = propose(&advice)?;
        }
        Ok((advice, proposed))
    }

    fn not_joint(&self, problem: &str) -> Error {
        Error::NotJoint {
            drafter: self.neural.name.clone(),
            problem: problem.to_owned(),
        }
    }
}

/// The first level, if it mixes probabilities.
fn partner(levels: &mut [Level]) -> Option<&mut Statistical> {
    match levels.first_mut() {
        Some(Level::Statistical(partner)) if partner.takes_advice() => Some(partner),
        _ => None,
    }
}
