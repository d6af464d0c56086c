//! Outcomes of reviews: the feedback that policies learn from.

use std::time::Duration;

use cascade_core::{Draft, LevelId, NodeId, SharedForward, TokenId};

use super::TurnRecord;

/// Rows beyond those of the draft with which a forward is an unusual one.
const UNUSUAL: usize = 8;

/// The outcome of a review of a draft.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Outcome<'a> {
    /// The level that reviewed it.
    pub reviewer: LevelId,
    /// The draft that was scored.
    pub draft: &'a Draft,
    /// The turns in which it was drafted.
    pub turns: &'a [TurnRecord],
    /// The node after which the review began; `None` for the context itself. Only what follows it
    /// was reviewed.
    pub start: Option<NodeId>,
    /// The nodes that the reviewer accepted: a path from there.
    pub accepted: &'a [NodeId],
    /// The reviewer's own token after them.
    pub next: TokenId,
    /// What the reviewer's forward cost. Where samples depend on what is drafted
    /// ([rules that draw](crate::Rule::DRAWN)), its time is 0, as that of [`TurnRecord`]s, or they
    /// would depend on the speed of the machine.
    pub forward: ForwardCost,
}

/// What one forward cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwardCost {
    /// Rows that were computed.
    pub rows: usize,
    /// Time that it took; the text's own part, if several texts shared it.
    pub time: Duration,
    /// Whether it was the first one after a prompt of an encoder-decoder, which encodes it then.
    pub encoded: bool,
    /// The whole forward, if several texts may have shared it.
    pub shared: Option<SharedForward>,
}

impl ForwardCost {
    /// Whether it computed about as many rows as a draft of so many nodes asks for, and no prompt
    /// of another text.
    pub(crate) fn is_usual(&self, nodes: usize) -> bool {
        let no_prompt = self.shared.is_none_or(|shared| !shared.reads_prompt);
        !self.encoded && self.rows <= nodes + 1 + UNUSUAL && no_prompt
    }
}

/// The review's decision on one token of a turn's main path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The level that drafted the token for this reviewer.
    pub drafter: LevelId,
    /// Its position in the draft, 0 for the first token.
    pub position: usize,
    /// Whether the reviewer accepted it. If not, it is the first rejected token on its path.
    pub accepted: bool,
}

impl<'a> Outcome<'a> {
    /// Whether the forward computed about as many rows as the draft asked for, and not a prompt or
    /// much text that others wrote: only then its time says what rows cost.
    pub(crate) fn has_usual_rows(&self) -> bool {
        self.forward.is_usual(self.draft.len())
    }

    /// The outcome without times.
    pub(crate) fn without_times(self) -> Self {
        let forward = ForwardCost {
            time: Duration::ZERO,
            shared: None,
            ..self.forward
        };
        Self { forward, ..self }
    }

    /// The reviewer's decisions on the main paths: for the accepted tokens and the first rejected
    /// one. Tokens after a rejected one were not reviewed, so they are not included.
    pub fn judgements(&self) -> impl Iterator<Item = Judgement> + 'a {
        let Self {
            draft,
            start,
            accepted,
            turns,
            ..
        } = *self;
        let tree = draft.tree();
        let first = start.map_or(0, |start| tree.depth(start) + 1);
        let reached = move |node: NodeId| {
            let parent = tree.parent(node);
            parent == start || parent.is_some_and(|parent| accepted.contains(&parent))
        };
        turns.iter().flat_map(move |record| {
            let drafter = record.turn.drafter;
            let path = record.path.iter().copied();
            path.filter(move |&node| reached(node))
                .map(move |node| Judgement {
                    drafter,
                    position: tree.depth(node) - first,
                    accepted: accepted.contains(&node),
                })
        })
    }
}
