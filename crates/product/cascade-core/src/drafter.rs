//! Statistical drafters.

use crate::{Advice, NodeId, TokenId, TokenTree, Top};

/// The most that a drafter may propose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Tokens on any path from the context.
    pub depth: usize,
    /// Nodes in all.
    pub nodes: usize,
}

impl Budget {
    /// A chain of at most `depth` tokens.
    pub const fn chain(depth: usize) -> Self {
        Self {
            depth,
            nodes: depth,
        }
    }
}

/// A proposed token tree and, if the drafter estimates them, acceptance probabilities.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScoredTree {
    /// The proposed tokens.
    pub tree: TokenTree,
    /// For each node, the estimated probability that it is accepted given that its parent is, in
    /// `[0, 1]`; empty if the drafter has no estimate. The estimates affect how much is drafted
    /// (stop rules, schedules), never what is accepted.
    pub probabilities: Vec<f32>,
}

impl From<TokenTree> for ScoredTree {
    /// A tree without estimates.
    fn from(tree: TokenTree) -> Self {
        Self {
            tree,
            probabilities: Vec::new(),
        }
    }
}

impl ScoredTree {
    /// The estimate for `node`, if there is one.
    pub fn probability(&self, node: NodeId) -> Option<f32> {
        self.probabilities.get(node).copied()
    }
}

/// One step of the target, from which a [`Drafter`] may learn.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Observation<'a> {
    /// The context that the draft continued.
    pub context: &'a [TokenId],
    /// The draft that the target verified, whichever models drafted it.
    pub draft: &'a TokenTree,
    /// The nodes that the target accepted: a path from the root.
    pub accepted: &'a [NodeId],
    /// The tokens that the step emitted: the accepted ones and the bonus token, or fewer if the
    /// text ended among them.
    pub emitted: &'a [TokenId],
    /// The target's most probable token after the context and after each node ([`TokenTree::row`]),
    /// rejected nodes included: `draft.len() + 1` tokens. [`UNKNOWN`](Self::UNKNOWN) where the
    /// target cannot tell, as a recording cannot after tokens that were not recorded. Empty if
    /// [the text alone](Self::of_text) is given.
    pub argmax: &'a [TokenId],
    /// The target's most probable tokens after the context and after each node, with their
    /// probabilities at temperature 1: `draft.len() + 1` rows. Present if a drafter
    /// [asks for them](Drafter::observed_top) and the target can tell; as many as the drafter that
    /// asks for most, so there may be more.
    pub top: Option<&'a Top>,
}

impl<'a> Observation<'a> {
    /// The most probable token of a row that the target cannot tell; outside every vocabulary.
    pub const UNKNOWN: TokenId = TokenId::MAX;

    /// One step of the target, whose most probable tokens beside the first are not known.
    pub const fn new(
        context: &'a [TokenId],
        draft: &'a TokenTree,
        accepted: &'a [NodeId],
        emitted: &'a [TokenId],
        argmax: &'a [TokenId],
    ) -> Self {
        Self {
            context,
            draft,
            accepted,
            emitted,
            argmax,
            top: None,
        }
    }

    /// Text that followed `context`, of which nothing else is known: no draft, and nothing of what
    /// the target would have said in its place. It may be that of several steps.
    pub const fn of_text(context: &'a [TokenId], emitted: &'a [TokenId]) -> Self {
        const NOTHING: &TokenTree = &TokenTree::new();
        Self::new(context, NOTHING, &[], emitted, &[])
    }

    /// Whether it is of [the text alone](Self::of_text).
    pub const fn is_text_alone(&self) -> bool {
        self.argmax.is_empty()
    }

    /// The same with the most probable tokens of each row.
    pub const fn with_top(self, top: Option<&'a Top>) -> Self {
        Self { top, ..self }
    }
}

/// A model that proposes continuations from statistics alone, at negligible cost: Max-Gram, a
/// bigram table, prompt lookup.
///
/// # Purity
/// The result of [`propose`](Self::propose) depends only on the source, the context, the budget and
/// the [observations](Self::observe), not on earlier proposals. Any other state of an
/// implementation only serves speed. Observations change what is drafted, never how it is verified,
/// so they change the speed of a generation and not its output.
pub trait Drafter {
    /// Sets the encoder's tokens that belong to all following contexts; empty for decoder-only
    /// models.
    fn set_source(&mut self, source: &[TokenId]);

    /// Proposes a continuation of `context` within `budget`. Siblings carry different tokens, the
    /// best guess first. The tree is empty if there is nothing worth proposing.
    ///
    /// The best guess at each depth is the first child, so a budget with as many nodes as its depth
    /// gives the best chain.
    fn propose(&mut self, context: &[TokenId], budget: Budget) -> ScoredTree;

    /// Whether [`propose_with`](Self::propose_with) mixes its own estimates with those of a neural
    /// drafter. The same for the lifetime of a drafter.
    fn takes_advice(&self) -> bool {
        false
    }

    /// Proposes as [`propose`](Self::propose) does, by its own estimates and what a neural drafter
    /// says of the same context. Without any advice it proposes the same; so it does if it does not
    /// [take advice](Self::takes_advice).
    fn propose_with(&mut self, context: &[TokenId], budget: Budget, advice: &Advice) -> ScoredTree {
        let _ = advice;
        self.propose(context, budget)
    }

    /// Learns from a step of the target. Called after each step of a generation with speculation
    /// on, whichever models drafted. Of steps in which the schedule let it rest, it is given [the
    /// text alone](Observation::of_text), before it proposes again; never, if the generation ends
    /// before. Does nothing by default.
    fn observe(&mut self, observation: &Observation<'_>) {
        let _ = observation;
    }

    /// Forgets what it has observed. Called before each generation whose samples depend on what was
    /// drafted: a seed would otherwise not give the same answer after others.
    fn forget(&mut self) {}

    /// How many of the target's most probable tokens, with their probabilities, it wants to
    /// [observe](Self::observe) of each row. They cost the target a softmax and a selection for
    /// each row of every step, so the default is 0. The same for the lifetime of a drafter.
    fn observed_top(&self) -> usize {
        0
    }
}

impl<D: Drafter + ?Sized> Drafter for Box<D> {
    fn set_source(&mut self, source: &[TokenId]) {
        (**self).set_source(source);
    }

    fn propose(&mut self, context: &[TokenId], budget: Budget) -> ScoredTree {
        (**self).propose(context, budget)
    }

    fn takes_advice(&self) -> bool {
        (**self).takes_advice()
    }

    fn propose_with(&mut self, context: &[TokenId], budget: Budget, advice: &Advice) -> ScoredTree {
        (**self).propose_with(context, budget, advice)
    }

    fn observe(&mut self, observation: &Observation<'_>) {
        (**self).observe(observation);
    }

    fn forget(&mut self) {
        (**self).forget();
    }

    fn observed_top(&self) -> usize {
        (**self).observed_top()
    }
}
