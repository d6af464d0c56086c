//! The recursion: vertical and horizontal cascade (Cascade Speculative Drafting, Algorithm 1), over
//! trees, for any schedule.

mod neural_drafting;
mod tree_drafting;

use std::sync::Arc;
use std::time::Duration;

use cascade_core::{
    Budget, Candidate, Draft, Guidance, LevelId, NodeId, Proposed, ScoredTree, TokenId,
};

use crate::context_stack::ContextStack;
use crate::decoding::DecodingState;
use crate::draft_builder::DraftBuilder;
use crate::draft_settings::DraftSettings;
use crate::level::{Level, Statistical};
use crate::policy::{
    DraftState, DraftedToken, Outcome, Plan, Schedule, Turn, TurnRecord, TurnStart,
};
use crate::{Clock, Error, Expand, Result};

use neural_drafting::NeuralDrafting;
use tree_drafting::TreeDrafting;

/// A draft for a reviewer, and the turns in which it was drafted.
pub(crate) struct Drafted {
    pub(crate) draft: Draft,
    pub(crate) turns: Vec<TurnRecord>,
}

/// Where and how much a drafter drafts in a turn.
#[derive(Clone, Copy)]
pub(crate) struct DraftSlot {
    pub(crate) reviewer: LevelId,
    pub(crate) drafter: LevelId,
    /// Tokens of the generation before it.
    pub(crate) generated: usize,
    /// Depth of its first token in the draft.
    pub(crate) depth: usize,
    /// Tokens that it should add to the main path.
    pub(crate) quota: usize,
    /// The most that it may add.
    pub(crate) capacity: Budget,
    /// Nodes that branches must leave for later turns.
    pub(crate) reserved: usize,
}

/// The settings and the schedule of a cascade: all that drafting needs besides the models.
pub(crate) struct Recursion {
    pub(crate) settings: DraftSettings,
    pub(crate) schedule: Box<dyn Schedule>,
    pub(crate) plan: Plan,
    pub(crate) clock: Arc<dyn Clock>,
    /// Texts that share forwards with the one that is drafted for.
    pub(crate) texts: usize,
    /// What the drafters that were asked in this turn took to learn from the steps before it.
    pub(crate) learning: Duration,
}

impl Recursion {
    /// The recursion of a text that is decoded alone.
    pub(crate) fn new(
        settings: DraftSettings,
        schedule: Box<dyn Schedule>,
        plan: Plan,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            settings,
            schedule,
            plan,
            clock,
            texts: 1,
            learning: Duration::ZERO,
        }
    }

    /// Drafts for `reviewer` within `budget`: the schedule decides which of `levels`, those below
    /// the reviewer, drafts next and how much (the horizontal cascade), until it considers the
    /// draft complete.
    pub(crate) fn draft(
        &mut self,
        levels: &mut [Level],
        reviewer: LevelId,
        context: &mut ContextStack,
        budget: Budget,
        decoding: &mut DecodingState,
    ) -> Result<Drafted> {
        let mut builder = DraftBuilder::default();
        let mut turns: Vec<TurnRecord> = Vec::new();
        let (mut fruitless, mut granted) = (0, 0);
        while fruitless <= levels.len() {
            let state = DraftState {
                context: context.tokens().len(),
                depth: builder.depth(),
                nodes: builder.draft.len(),
                ended: builder.ended,
                budget,
                drafters: levels.len(),
                texts: self.texts,
                turns: &turns,
            };
            let Some(turn) = self.schedule.next(reviewer, &state) else {
                break;
            };
            let candidates = builder.draft.candidates().len();
            let taken = match turn.start {
                TurnStart::Tip => builder.draft.len(),
                TurnStart::Root => granted,
            };
            let left = Budget {
                nodes: turn.nodes.min(budget.nodes.saturating_sub(taken)),
                ..budget
            };
            granted = granted.saturating_add(left.nodes);
            let drafting = levels_from(levels, reviewer, turn.drafter)?;
            builder.begin(turn.start);
            let slot = slot(&builder, (reviewer, context.generated()), turn, left);
            let (chunk, time) = self.turn(drafting, context, (&builder, slot), &state, decoding)?;
            turns.push(TurnRecord {
                turn,
                stopped: chunk.stopped,
                path: builder.graft(chunk),
                time,
            });
            let grew = builder.draft.candidates().len() > candidates;
            fruitless = if grew { 0 } else { fruitless + 1 };
        }
        let draft = builder.draft;
        Ok(Drafted { draft, turns })
    }

    /// The chunk that the first of `levels` drafts in a turn, after what `builder` holds, and how
    /// long that took. No time if tokens are [drawn](DecodingState::is_drawn): then drafts must not
    /// depend on it.
    fn turn(
        &mut self,
        levels: &mut [Level],
        context: &mut ContextStack,
        (builder, slot): (&DraftBuilder, Option<DraftSlot>),
        state: &DraftState<'_>,
        decoding: &mut DecodingState,
    ) -> Result<(DraftBuilder, Duration)> {
        let started = self.clock.now();
        let chunk = match slot {
            None => DraftBuilder {
                ended: builder.ended,
                ..DraftBuilder::default()
            },
            Some(slot) => context.extended(&builder.main_path(), |context| {
                self.chunk(levels, context, slot, state, decoding)
            })?,
        };
        let learning = std::mem::take(&mut self.learning);
        let time = if decoding.is_drawn() {
            Duration::ZERO
        } else {
            self.clock.now().saturating_sub(started) + learning
        };
        Ok((chunk, time))
    }

    /// Lets the policies learn from a review of a draft by `levels`, those below the reviewer;
    /// without times, if tokens are [drawn](DecodingState::is_drawn).
    pub(crate) fn observe(&mut self, levels: &mut [Level], outcome: &Outcome<'_>, drawn: bool) {
        let outcome = &if drawn {
            outcome.without_times()
        } else {
            *outcome
        };
        self.schedule.observe(outcome);
        for (index, level) in levels.iter_mut().enumerate() {
            level.observe_outcome(LevelId(outcome.reviewer.0 + 1 + index), outcome);
        }
    }

    /// The chunk that the first of `levels` drafts.
    fn chunk(
        &mut self,
        levels: &mut [Level],
        context: &mut ContextStack,
        slot: DraftSlot,
        state: &DraftState<'_>,
        decoding: &mut DecodingState,
    ) -> Result<DraftBuilder> {
        match levels.split_first_mut() {
            None => Ok(DraftBuilder::default()),
            Some((Level::Statistical(statistical), _)) => {
                self.propose(statistical, context.tokens(), slot, state, decoding)
            }
            Some((Level::Neural(neural), below)) => match neural.branching.expand {
                Expand::MostProbable => TreeDrafting::new(self, neural, slot, context.tokens())
                    .run(below, state, decoding),
                expand @ (Expand::MainPath | Expand::AllLeaves) => {
                    let vertical = NeuralDrafting {
                        recursion: self,
                        neural,
                        slot,
                        chunk: DraftBuilder::default(),
                        all_leaves: matches!(expand, Expand::AllLeaves),
                    };
                    vertical.run(below, context, decoding)
                }
            },
        }
    }

    /// The base of the recursion: a statistical drafter proposes directly.
    fn propose(
        &mut self,
        model: &mut Statistical,
        context: &[TokenId],
        slot: DraftSlot,
        state: &DraftState<'_>,
        decoding: &mut DecodingState,
    ) -> Result<DraftBuilder> {
        let depth = slot.quota.min(slot.capacity.nodes);
        let free = slot.capacity.nodes.saturating_sub(slot.reserved);
        let budget = Budget {
            depth,
            nodes: free.max(depth),
        };
        let mut guidance = Guidance::new(decoding.choice());
        let proposed = model.propose(context, budget, &mut guidance, &self.settings)?;
        self.learning += model.take_learning();
        let depth = stopped_depth(model, &proposed, slot);
        let budget = Budget {
            depth: depth.unwrap_or(budget.depth),
            ..budget
        };
        let schedule = &mut self.schedule;
        // Leaving a draw out because of its token would bias what is left.
        let keep = if proposed.is_drawn() {
            None
        } else {
            schedule.trim(slot.reviewer, slot.drafter, state, &proposed)
        };
        let keep = |node: NodeId| match &keep {
            None => true,
            Some(keep) => keep.get(node).is_some_and(|&kept| kept),
        };
        let mut chunk = self.fitting(&proposed, budget, keep, |_| slot.drafter);
        chunk.stopped = depth.is_some();
        Ok(chunk)
    }

    /// The part of a proposal that is kept, within the budget and not after an EOS token, with the
    /// level that proposed each node.
    pub(crate) fn fitting(
        &self,
        proposed: &ScoredTree,
        budget: Budget,
        keep: impl Fn(NodeId) -> bool,
        proposer: impl Fn(NodeId) -> LevelId,
    ) -> DraftBuilder {
        let tree = proposed.tree();
        let mut chunk = DraftBuilder::default();
        // The new node for each node of the tree; `None` if it is left out.
        let mut places: Vec<Option<NodeId>> = vec![None; tree.len()];
        let mut drawn = 0;
        for Candidate { node, proposal } in proposed.candidates() {
            // Draws are counted, not nodes: a token that was drawn before adds no node, so whether
            // a draw fits would depend on its token.
            let within = tree.depth(node) < budget.depth && drawn < budget.nodes;
            let fits = within && keep(node);
            let under = match tree.parent(node) {
                None => Some(None),
                Some(parent) if self.settings.is_eos(tree.token(parent)) => None,
                Some(parent) => places[parent].map(Some),
            };
            if let Some(parent) = under.filter(|_| fits) {
                let proposer = proposer(node);
                let proposed = Proposed { proposal, proposer };
                places[node] = Some(chunk.draft.push(tree.token(node), parent, proposed));
                drawn += 1;
            }
        }
        chunk.follow_first_children(&self.settings.eos);
        chunk
    }
}

/// The levels from `drafter` on.
pub(crate) fn levels_from(
    levels: &mut [Level],
    reviewer: LevelId,
    drafter: LevelId,
) -> Result<&mut [Level]> {
    let last = LevelId(reviewer.0 + levels.len());
    match drafter.0.checked_sub(reviewer.0 + 1) {
        Some(index) if index < levels.len() => Ok(&mut levels[index..]),
        _ => Err(Error::ScheduledDrafter {
            reviewer,
            drafter,
            last,
        }),
    }
}

/// The slot of a turn after so many generated tokens and the draft; `None` if it has nothing to
/// add. `budget` has the depth of the whole draft and the nodes that are left for the turn.
fn slot(
    builder: &DraftBuilder,
    (reviewer, generated): (LevelId, usize),
    turn: Turn,
    budget: Budget,
) -> Option<DraftSlot> {
    let depth = builder.depth();
    let slot = DraftSlot {
        reviewer,
        drafter: turn.drafter,
        generated: generated + depth,
        depth,
        quota: turn.tokens.min(budget.depth.saturating_sub(depth)),
        capacity: Budget {
            depth: budget.depth.saturating_sub(depth),
            nodes: budget.nodes,
        },
        reserved: turn.reserved,
    };
    (!builder.ended && slot.quota > 0 && slot.capacity.nodes > 0).then_some(slot)
}

/// Depth at which the drafter's stop rule ends its proposal, if it does. The rule is consulted
/// along the first children.
fn stopped_depth(model: &mut Statistical, proposed: &ScoredTree, slot: DraftSlot) -> Option<usize> {
    let rule = model.stop_rule.as_mut()?;
    let tree = proposed.tree();
    let mut node = tree.children(None).next();
    while let Some(at) = node.filter(|&at| tree.depth(at) < slot.quota) {
        let turn_position = tree.depth(at);
        let drafted = DraftedToken {
            reviewer: slot.reviewer,
            drafter: slot.drafter,
            position: slot.depth + turn_position,
            turn_position,
            generated: slot.generated,
            token: tree.token(at),
            probability: proposed.probability(at),
            top: &[],
            entropy: None,
            hidden: None,
        };
        if rule.stop(&drafted) {
            return Some(turn_position + 1);
        }
        node = tree.children(Some(at)).next();
    }
    None
}
