//! How one neural drafter drafts: the levels below it draft, it reviews, and its own draft grows by
//! the outcome.

use cascade_core::{
    Budget, Draft, HiddenLayer, LevelId, NodeId, Proposal, Proposed, RowDetail, Scores, TokenId,
    TokenTree, Want,
};
use cascade_verify::Verdict;

use super::{DraftSlot, Drafted, Recursion};
use crate::Result;
use crate::context_stack::ContextStack;
use crate::decoding::{DecodingState, ScoreView};
use crate::draft_builder::DraftBuilder;
use crate::level::{Level, Neural};
use crate::policy::{DraftedToken, ForwardCost, Outcome};

/// A turn of one neural drafter.
pub(crate) struct NeuralDrafting<'a> {
    pub(super) recursion: &'a mut Recursion,
    pub(super) neural: &'a mut Neural,
    pub(super) slot: DraftSlot,
    /// What it has drafted in this turn.
    pub(super) chunk: DraftBuilder,
    /// Whether leaves beside the main path get children too
    /// ([`Expand::AllLeaves`](crate::Expand::AllLeaves)), or the main path alone.
    pub(super) all_leaves: bool,
}

impl NeuralDrafting<'_> {
    /// Drafts after `context` until the main path holds its quota: repeatedly, the levels below
    /// draft, the model reviews, and the chunk grows by the accepted tokens and the model's own
    /// (the vertical cascade). Ends early if the stop rule ends the turn or the model has no
    /// positions left.
    pub(crate) fn run(
        mut self,
        below: &mut [Level],
        context: &mut ContextStack,
        decoding: &mut DecodingState,
    ) -> Result<DraftBuilder> {
        while self.wants_more() {
            let main_path = self.chunk.main_path();
            let Some(positions) = self.neural.positions(context.tokens(), &main_path) else {
                self.neural.say_unread(context.tokens(), &main_path);
                break;
            };
            let budget = self.budget_below(positions);
            let drafter = self.slot.drafter;
            let growth = self.growth(budget.depth + 1, decoding);
            let drafted = context.extended(&main_path, |context| {
                self.recursion
                    .draft(below, drafter, context, budget, decoding)
            })?;
            let reviewed = self.review(drafted, context, &main_path, growth, decoding)?;
            let outcome = reviewed.outcome(drafter);
            self.recursion.observe(below, &outcome, decoding.is_drawn());
        }
        Ok(self.chunk)
    }

    fn wants_more(&self) -> bool {
        let done = self.chunk.ended || self.chunk.stopped;
        !done && self.chunk.depth() < self.slot.quota && self.spare() > 0
    }

    /// Nodes that the chunk may still grow by.
    fn spare(&self) -> usize {
        let capacity = self.slot.capacity.nodes;
        capacity.saturating_sub(self.chunk.draft.len())
    }

    /// Tokens that branches must leave for the main path from now on, if the review adds at most
    /// `most`.
    ///
    /// Normally the path's remaining quota. But where a rule considers siblings in another order,
    /// their number must not depend on how far the path got, which depends on its tokens; then it
    /// is at least `most`.
    fn growth(&self, most: usize, decoding: &DecodingState) -> Growth {
        let owed = self.slot.quota.saturating_sub(self.chunk.depth());
        Growth {
            depth: self.chunk.depth(),
            claimed: if decoding.is_drawn() && self.recursion.settings.reorders {
                owed.max(most)
            } else {
                owed
            },
        }
    }

    /// The budget of the levels below: one token less than there is room for, since the model adds
    /// its own.
    fn budget_below(&self, positions: usize) -> Budget {
        let room = (self.slot.capacity.depth - self.chunk.depth()).min(self.spare());
        let budget = self.recursion.settings.budget((room - 1).min(positions));
        if !self.all_leaves {
            return budget;
        }
        // The chunk is scored together with what is drafted below it.
        let nodes = budget.nodes.saturating_sub(self.chunk.draft.len());
        Budget {
            depth: budget.depth.min(nodes),
            nodes,
        }
    }

    /// Reviews what was drafted after the main path, and extends the chunk by the outcome.
    fn review(
        &mut self,
        drafted: Drafted,
        context: &mut ContextStack,
        main_path: &[TokenId],
        growth: Growth,
        decoding: &mut DecodingState,
    ) -> Result<Reviewed> {
        if self.all_leaves {
            let start = self.chunk.tip;
            let whole = self.behind_chunk(drafted);
            return self.review_from(whole, start, context.tokens(), growth, decoding);
        }
        // Where only the main path has children, the chunk's other nodes need no rows.
        context.extended(main_path, |context| {
            self.review_from(drafted, None, context.tokens(), growth, decoding)
        })
    }

    /// The chunk extended by what was drafted after its main path.
    fn behind_chunk(&self, drafted: Drafted) -> Drafted {
        let mut draft = self.chunk.draft.clone();
        let places = draft.graft(self.chunk.tip, drafted.draft);
        let mut turns = drafted.turns;
        let paths = turns.iter_mut().flat_map(|turn| &mut turn.path);
        paths.for_each(|node| *node = places[*node]);
        Drafted { draft, turns }
    }

    /// Reviews the part of `drafted` that follows `start`.
    fn review_from(
        &mut self,
        drafted: Drafted,
        start: Option<NodeId>,
        context: &[TokenId],
        growth: Growth,
        decoding: &mut DecodingState,
    ) -> Result<Reviewed> {
        let lenience = self.recursion.settings.lenience;
        let want = self.want(decoding);
        let draft = &drafted.draft;
        let (scores, forward) = self.neural.score(context, draft.tree(), want)?;
        let mut view = decoding.view(&scores, context.len());
        let verdict = view
            .review(draft, start, &*self.neural.rule, lenience)
            .map_err(|source| self.neural.failed(source))?;
        let leaves = self.growing_leaves();
        let steps = self.lengthen(draft, start, &verdict, &scores);
        self.branch_out(draft.tree(), steps, leaves, growth, &mut view)
            .map_err(|source| self.neural.failed(source))?;
        Ok(Reviewed {
            drafted,
            start,
            verdict,
            forward,
        })
    }

    /// The scores that the review, the branches and the stop rule read.
    fn want(&self, decoding: &DecodingState) -> Want {
        let lenience = self.recursion.settings.lenience;
        let want = decoding.want(lenience, &self.neural.branching);
        let rule = self.neural.stop_rule.as_ref().map(|rule| rule.want());
        let policies = [Some(self.recursion.plan.want()), rule];
        policies.into_iter().flatten().fold(want, |want, reads| {
            // Policies never see logits, and lenient reviews read the gathered probabilities.
            want.union(reads.with_rows(reads.rows.min(RowDetail::Gathered)))
        })
    }

    /// Extends the main path by the accepted tokens, with the proposals they were emitted from and
    /// their first proposers, and by the model's own token, unless the text ends or the stop rule
    /// ends the turn first.
    fn lengthen(
        &mut self,
        scored: &Draft,
        start: Option<NodeId>,
        verdict: &Verdict,
        scores: &Scores,
    ) -> Vec<PathStep> {
        let kept = verdict
            .kept
            .iter()
            .map(|&node| (scored.tree().token(node), scored.proposer(node), Some(node)));
        let own = (verdict.next, self.slot.drafter, None);
        let mut steps = Vec::with_capacity(verdict.emitted.len());
        let mut at = start;
        for ((token, proposer, node), proposal) in kept.chain([own]).zip(&verdict.emitted) {
            let parent = self.chunk.tip;
            steps.push(PathStep { parent, at, token });
            self.chunk.stopped = self.stops(token, proposal, scores, TokenTree::row(at));
            self.chunk.extend(token, proposal.clone(), proposer);
            self.chunk.ended = self.recursion.settings.is_eos(token);
            if self.chunk.ended || self.chunk.stopped {
                break;
            }
            at = node;
        }
        steps
    }

    /// Asks the stop rule and the schedule about the next token of the main path.
    fn stops(&mut self, token: TokenId, from: &Proposal, scores: &Scores, row: usize) -> bool {
        let turn_position = self.chunk.depth();
        let drafted = DraftedToken {
            reviewer: self.slot.reviewer,
            drafter: self.slot.drafter,
            position: self.slot.depth + turn_position,
            turn_position,
            generated: self.slot.generated,
            token,
            probability: from.probability(token),
            top: scores.top.as_ref().map_or(&[], |top| top.row(row)),
            entropy: scores.entropy.as_ref().map(|entropy| entropy[row]),
            hidden: scores
                .hidden
                .of(HiddenLayer::Last)
                .map(|hidden| hidden.row(row)),
        };
        // Both are asked, since both may learn from what they were asked.
        let by_schedule = self.recursion.schedule.stop(&drafted);
        let rule = self.neural.stop_rule.as_mut();
        rule.is_some_and(|rule| rule.stop(&drafted)) || by_schedule
    }

    /// Leaves beside the main path that get children.
    fn growing_leaves(&self) -> Vec<NodeId> {
        if self.all_leaves {
            self.chunk.other_leaves()
        } else {
            Vec::new()
        }
    }

    /// Branches beside the new tokens of the main path, and under other leaves.
    fn branch_out(
        &mut self,
        scored: &TokenTree,
        steps: Vec<PathStep>,
        leaves: Vec<NodeId>,
        growth: Growth,
        view: &mut ScoreView<'_>,
    ) -> cascade_core::Result<()> {
        let grown = self.chunk.depth() - growth.depth;
        let owed = growth.claimed.saturating_sub(grown);
        for step in steps {
            let row = (scored, step.at);
            self.branch(step.parent, row, Some(step.token), owed, view)?;
        }
        for leaf in leaves {
            let token = self.chunk.draft.tree().token(leaf);
            // No leaf is deeper than the tip was before this review, which had less than its quota.
            if !self.recursion.settings.is_eos(token) {
                self.branch(Some(leaf), (scored, Some(leaf)), None, owed, view)?;
            }
        }
        Ok(())
    }

    /// Gives `parent` children from the row after a node of the scored tree, beside `on_path` if
    /// that is one of them, within the budget that the main path's remaining quota leaves.
    ///
    /// Their number is fixed before any of them is drawn: omitting a child depending on its token
    /// would bias the others.
    fn branch(
        &mut self,
        parent: Option<NodeId>,
        (scored, at): (&TokenTree, Option<NodeId>),
        on_path: Option<TokenId>,
        owed: usize,
        view: &mut ScoreView<'_>,
    ) -> cascade_core::Result<()> {
        let branching = &self.neural.branching;
        let depth = self.slot.depth + self.chunk.depth_after(parent);
        let times = match parent {
            Some(parent) if self.all_leaves => self.chunk.draft.multiplicity(parent),
            _ => 1,
        };
        let draws = view.draws(branching.siblings, branching.width(depth), times, on_path);
        let spare = self.spare().saturating_sub(self.slot.reserved + owed);
        let count = draws.min(spare);
        let children = view.children(scored, at, count, branching.siblings, on_path)?;
        for (token, proposal) in children {
            let proposer = self.slot.drafter;
            let proposed = Proposed { proposal, proposer };
            self.chunk.draft.push(token, parent, proposed);
        }
        Ok(())
    }
}

/// A token added to the main path.
struct PathStep {
    /// The node before it.
    parent: Option<NodeId>,
    /// The node of the scored tree after which its row is.
    at: Option<NodeId>,
    token: TokenId,
}

/// How far the main path may grow.
#[derive(Clone, Copy)]
struct Growth {
    /// Depth of the main path before a review.
    depth: usize,
    /// Tokens from that depth on that branches must leave for the main path.
    claimed: usize,
}

/// A review by the drafter.
struct Reviewed {
    drafted: Drafted,
    start: Option<NodeId>,
    verdict: Verdict,
    forward: ForwardCost,
}

impl Reviewed {
    fn outcome(&self, reviewer: LevelId) -> Outcome<'_> {
        Outcome {
            reviewer,
            draft: &self.drafted.draft,
            turns: &self.drafted.turns,
            start: self.start,
            accepted: &self.verdict.kept,
            next: self.verdict.next,
            forward: self.forward,
        }
    }
}
