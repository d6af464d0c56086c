//! Statistical drafters.

use crate::{
    Advice, Candidate, Choice, HiddenLayers, HiddenStates, NodeId, Proposal, TokenId, TokenTree,
    Top,
};

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

/// What a drafter proposes: a token tree in which each node has what it was drawn from and, if the
/// drafter estimates it, the probability that it is accepted.
///
/// Nodes are added by the methods of this type alone, so a node and what is said of it cannot get
/// out of step. Siblings carry different tokens: a token that is [drawn](Self::draw) again adds a
/// draw to the node that carries it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScoredTree {
    tree: TokenTree,
    nodes: Vec<Estimate>,
    /// The candidates in order, if a token among them was drawn from a distribution; empty if all
    /// are point masses.
    draws: Vec<Candidate>,
}

/// What is estimated of a node.
type Estimate = Option<f32>;

impl From<TokenTree> for ScoredTree {
    /// Point masses without estimates.
    fn from(tree: TokenTree) -> Self {
        Self {
            nodes: vec![None; tree.len()],
            tree,
            draws: Vec::new(),
        }
    }
}

impl ScoredTree {
    /// Point masses with an estimate of each node, in `[0, 1]`.
    pub fn estimated(tree: TokenTree, probability: impl FnMut(NodeId) -> f32) -> Self {
        Self {
            nodes: (0..tree.len()).map(probability).map(Some).collect(),
            tree,
            draws: Vec::new(),
        }
    }

    /// Adds a token that is determined by what came before it, and returns its node.
    ///
    /// # Panics
    /// If `parent` is not a node of this tree; the same holds for every method that takes a node.
    pub fn push(&mut self, token: TokenId, parent: Option<NodeId>) -> NodeId {
        self.add(token, parent, None)
    }

    /// Adds a point mass, with an estimate of the probability, in `[0, 1]`, that the token is
    /// accepted given that its parent is. Estimates affect how much is drafted (stop rules,
    /// schedules), never what is accepted.
    pub fn push_estimated(
        &mut self,
        token: TokenId,
        parent: Option<NodeId>,
        probability: f32,
    ) -> NodeId {
        self.add(token, parent, Some(probability))
    }

    /// Adds a draw of a token, and returns the node that carries it: a new one, unless a child of
    /// `parent` already does. `proposal` is what it was really drawn from, given its ancestors and
    /// the draws of its earlier siblings: see [`Proposal`] and [`Choice::draw`](crate::Choice).
    ///
    /// Whether a token is drawn, and how often, must not depend on which token it is. A drafter
    /// that draws keeps within its budget, in which every draw counts as a node.
    pub fn draw(&mut self, token: TokenId, parent: Option<NodeId>, proposal: Proposal) -> NodeId {
        if self.draws.is_empty() {
            let before = (0..self.tree.len()).map(|node| Candidate {
                node,
                proposal: Proposal::PointMass,
            });
            self.draws = before.collect();
        }
        let node = self.tree.child(parent, token).unwrap_or_else(|| {
            self.nodes.push(proposal.probability(token));
            self.tree.push(token, parent)
        });
        self.draws.push(Candidate { node, proposal });
        node
    }

    fn add(&mut self, token: TokenId, parent: Option<NodeId>, estimate: Estimate) -> NodeId {
        let node = self.tree.push(token, parent);
        self.nodes.push(estimate);
        if !self.draws.is_empty() {
            self.draws.push(Candidate {
                node,
                proposal: Proposal::PointMass,
            });
        }
        node
    }

    /// The proposed tokens and their shape.
    pub fn tree(&self) -> &TokenTree {
        &self.tree
    }

    /// The tree alone.
    pub fn into_tree(self) -> TokenTree {
        self.tree
    }

    /// The estimate for `node`: what the drafter said or, of a token that was drawn, its
    /// probability then.
    pub fn probability(&self, node: NodeId) -> Option<f32> {
        self.nodes.get(node).copied().flatten()
    }

    /// Whether a token was drawn, so that leaving it out because of what it is would change the
    /// distribution of the output.
    pub fn is_drawn(&self) -> bool {
        !self.draws.is_empty()
    }

    /// Every draw, in the order in which a review must consider siblings; a token that was not
    /// drawn is a point mass.
    pub fn candidates(&self) -> impl Iterator<Item = Candidate> + '_ {
        let certain = if self.is_drawn() {
            0..0
        } else {
            0..self.tree.len()
        };
        let certain = certain.map(|node| Candidate {
            node,
            proposal: Proposal::PointMass,
        });
        self.draws.iter().cloned().chain(certain)
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
    /// The target's hidden states after the context and after each node, of the layers that the
    /// levels of the cascade [ask for](Drafter::observed_hidden), perhaps more. In the first step
    /// of a generation they begin with those of the prompt, as far as the target [had to read
    /// it](crate::Scorer::cached); where samples depend on what is drafted, of all of it. The
    /// verified ones are those of the context and of `accepted`.
    pub hidden: Option<&'a HiddenStates>,
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
            hidden: None,
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

    /// Adds the most probable tokens of each row.
    pub const fn with_top(self, top: Option<&'a Top>) -> Self {
        Self { top, ..self }
    }

    /// Adds the hidden states of the rows.
    pub const fn with_hidden(self, hidden: Option<&'a HiddenStates>) -> Self {
        Self { hidden, ..self }
    }
}

/// What a drafter may use beside the context.
#[derive(Debug)]
#[non_exhaustive]
pub struct Guidance<'a> {
    /// What a neural drafter says of the same context; nothing unless the drafter [takes
    /// advice](Drafter::takes_advice).
    pub advice: Option<&'a Advice>,
    /// How the tokens of this generation are chosen, for a drafter that draws.
    pub choice: Choice<'a>,
}

impl<'a> Guidance<'a> {
    /// How tokens are chosen, and no advice.
    pub const fn new(choice: Choice<'a>) -> Self {
        Self {
            advice: None,
            choice,
        }
    }

    /// Adds the advice of a neural drafter.
    pub const fn with_advice(mut self, advice: &'a Advice) -> Self {
        self.advice = Some(advice);
        self
    }
}

/// A model that proposes continuations from statistics alone, at negligible cost: Max-Gram, a
/// bigram table, prompt lookup.
///
/// # Purity
/// The result of [`propose_with`](Self::propose_with) depends only on the source, the context, the
/// budget, the guidance and the [observations](Self::observe), not on earlier proposals. Any other
/// state of an implementation only serves speed. Observations change what is drafted, never how it
/// is verified, so they change the speed of a generation and not its output.
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

    /// Proposes as [`propose`](Self::propose) does, with what else a drafter may use. This is what
    /// the engine calls. By default, and without anything to use, it proposes the same.
    ///
    /// A drafter that draws from its own distributions does so by the [`Choice`] it is given, and
    /// its proposal is then a function of that, too.
    fn propose_with(
        &mut self,
        context: &[TokenId],
        budget: Budget,
        guidance: &mut Guidance<'_>,
    ) -> ScoredTree {
        let _ = guidance;
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

    /// Which hidden states of the target it wants to [observe](Self::observe) of each row. A
    /// cascade whose target does not give them is not built. None by default; the same for the
    /// lifetime of a drafter.
    fn observed_hidden(&self) -> HiddenLayers {
        HiddenLayers::NONE
    }
}

impl<D: Drafter + Send + 'static> From<D> for Box<dyn Drafter + Send> {
    fn from(drafter: D) -> Self {
        Box::new(drafter)
    }
}
