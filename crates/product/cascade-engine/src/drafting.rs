//! How one neural drafter drafts: the levels below it guess, it reviews, and its draft grows.

use cascade_core::{Budget, Draft, LevelId, NodeId, Proposed, Scorer, TokenId, TokenTree};
use cascade_verify::Verdict;

use crate::choosing::{Choosing, Reading};
use crate::growing::Growing;
use crate::level::{Level, Neural};
use crate::recursion::Recursion;
use crate::{Expand, Result};

/// Where and how much a drafter drafts.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) drafter: usize,
    /// Depth of its first token in the draft.
    pub(crate) depth: usize,
    /// Tokens that it should add to the leading path.
    pub(crate) share: usize,
    /// What it may add at most.
    pub(crate) room: Budget,
    /// Nodes that are meant for the drafters after it.
    pub(crate) reserved: usize,
}

/// One neural drafter at work.
pub(crate) struct Drafting<'a> {
    recursion: &'a Recursion,
    neural: &'a mut Neural,
    place: Place,
    chunk: Growing,
}

impl<'a> Drafting<'a> {
    pub(crate) fn new(recursion: &'a Recursion, neural: &'a mut Neural, place: Place) -> Self {
        Self {
            recursion,
            neural,
            place,
            chunk: Growing::default(),
        }
    }

    /// Drafts until the leading path holds its share, after `context`: again and again, the levels below draft, the model
    /// reviews, and what it keeps grows the chunk, with the token it adds (the vertical cascade). Ends early if the model
    /// has no position left.
    pub(crate) fn run(
        mut self,
        below: &mut [Level],
        context: &mut Vec<TokenId>,
        choosing: &mut Choosing<'_>,
    ) -> Result<Growing> {
        let root = context.len();
        while !self.chunk.ended && self.chunk.depth() < self.place.share && self.spare() > 0 {
            context.truncate(root);
            context.extend(self.chunk.lead_tokens());
            let Some(positions) = self.neural.room(context.len()) else {
                break;
            };
            let budget = self.budget_below(positions);
            let row = self.place.drafter + 1;
            let draft = self
                .recursion
                .draft(below, row, context, budget, choosing)?;
            self.review(&draft, context, root, choosing)?;
        }
        Ok(self.chunk)
    }

    /// Nodes that the chunk may still grow by.
    fn spare(&self) -> usize {
        self.place.room.nodes.saturating_sub(self.chunk.draft.len())
    }

    /// What the levels below may draft: one token less than there is room for, since the model adds its own.
    fn budget_below(&self, positions: usize) -> Budget {
        let room = (self.place.room.depth - self.chunk.depth()).min(self.spare());
        let budget = self.recursion.budget((room - 1).min(positions));
        match self.neural.branching.expand {
            Expand::MainPath => budget,
            // The chunk is scored together with what is drafted below it.
            Expand::AllLeaves => {
                let nodes = budget.nodes.saturating_sub(self.chunk.draft.len());
                Budget {
                    depth: budget.depth.min(nodes),
                    nodes,
                }
            }
        }
    }

    /// Reviews `draft`, which follows the leading path, and grows the chunk by the outcome. `context` ends with the leading
    /// path, which begins at `root`.
    fn review(
        &mut self,
        draft: &Draft,
        context: &[TokenId],
        root: usize,
        choosing: &mut Choosing<'_>,
    ) -> Result<()> {
        match self.neural.branching.expand {
            // Where only the lead has children, nothing else of the chunk is worth a row.
            Expand::MainPath => self.review_from(draft, None, context, choosing),
            Expand::AllLeaves => {
                let whole = self.chunk.with(draft);
                self.review_from(&whole, self.chunk.lead, &context[..root], choosing)
            }
        }
    }

    /// Reviews the part of `scored` that follows `start`.
    fn review_from(
        &mut self,
        scored: &Draft,
        start: Option<NodeId>,
        context: &[TokenId],
        choosing: &mut Choosing<'_>,
    ) -> Result<()> {
        let leniences = self.recursion.leniences;
        let want = choosing.want(leniences, &self.neural.branching);
        let scores = self
            .neural
            .scorer
            .score(context, scored.tree(), want)
            .map_err(|source| self.neural.failed(source))?;
        let mut reading = choosing.read(&scores);
        reading
            .review(scored, start, &*self.neural.rule, leniences)
            .and_then(|verdict| self.grow(scored, start, &verdict, &mut reading))
            .map_err(|source| self.neural.failed(source))
    }

    fn grow(
        &mut self,
        scored: &Draft,
        start: Option<NodeId>,
        verdict: &Verdict,
        reading: &mut Reading<'_>,
    ) -> cascade_core::Result<()> {
        let leaves = match self.neural.branching.expand {
            Expand::MainPath => Vec::new(),
            Expand::AllLeaves => self.chunk.other_leaves(),
        };
        for step in self.lengthen(scored, start, verdict) {
            self.branch(step.parent, step.row, Some(step.token), reading)?;
        }
        for leaf in leaves {
            let ends = self.is_eos(self.chunk.draft.tree().token(leaf));
            if !ends && self.chunk.depth_after(Some(leaf)) < self.place.share {
                self.branch(Some(leaf), TokenTree::row(Some(leaf)), None, reading)?;
            }
        }
        Ok(())
    }

    /// Lengthens the leading path by the kept tokens, with what they were emitted from and their first proposers, and by the
    /// model's next token, unless the kept ones end the text.
    fn lengthen(
        &mut self,
        scored: &Draft,
        start: Option<NodeId>,
        verdict: &Verdict,
    ) -> Vec<LeadStep> {
        let kept = verdict
            .kept
            .iter()
            .map(|&node| (scored.tree().token(node), scored.proposer(node), Some(node)));
        let own = (verdict.next, LevelId::drafter(self.place.drafter), None);
        let mut steps = Vec::with_capacity(verdict.emitted.len());
        let mut at = start;
        for ((token, proposer, node), proposal) in kept.chain([own]).zip(&verdict.emitted) {
            let parent = self.chunk.lead;
            let row = TokenTree::row(at);
            steps.push(LeadStep { parent, row, token });
            let proposal = proposal.clone();
            let proposed = Proposed { proposal, proposer };
            self.chunk.lead = Some(self.chunk.draft.push(token, parent, proposed));
            self.chunk.ended = self.is_eos(token);
            if self.chunk.ended {
                break;
            }
            at = node;
        }
        steps
    }

    /// Gives `parent` children from a row, beside `lead` if that is one of them, as far as the budget goes after what the
    /// leading path still needs.
    ///
    /// How many is settled before any of them is drawn: a child left out because of what it is would bias the others.
    fn branch(
        &mut self,
        parent: Option<NodeId>,
        row: usize,
        lead: Option<TokenId>,
        reading: &mut Reading<'_>,
    ) -> cascade_core::Result<()> {
        let branching = &self.neural.branching;
        let depth = self.place.depth + self.chunk.depth_after(parent);
        let times = match (branching.expand, parent) {
            (Expand::AllLeaves, Some(parent)) => self.chunk.draft.multiplicity(parent),
            _ => 1,
        };
        let draws = reading.draws(branching.siblings, branching.width(depth), times, lead);
        let wanted_by_lead = self.place.share.saturating_sub(self.chunk.depth());
        let spare = self
            .spare()
            .saturating_sub(self.place.reserved + wanted_by_lead);
        let children = reading.children(row, draws.min(spare), branching.siblings, lead)?;
        for (token, proposal) in children {
            let proposer = LevelId::drafter(self.place.drafter);
            let proposed = Proposed { proposal, proposer };
            self.chunk.draft.push(token, parent, proposed);
        }
        Ok(())
    }

    fn is_eos(&self, token: TokenId) -> bool {
        self.recursion.eos.contains(&token)
    }
}

/// A token by which the leading path grew.
struct LeadStep {
    /// The node before it.
    parent: Option<NodeId>,
    /// The row that it comes from.
    row: usize,
    token: TokenId,
}
