//! Ways to draft, and all drafts that each can produce.

use std::collections::HashMap;
use std::sync::Arc;

use cascade_core::toy::{Exhaustive, outcomes};
use cascade_core::{
    Distribution, Draft, LevelId, NodeId, Proposal, Proposed, RandomSource, TokenId,
};

use crate::exact::language::{Language, joined};

/// A way to draft from one or several languages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    /// This many draws with replacement; below a node, for each time that it was drawn. One is a
    /// chain.
    Replaced(usize),
    /// This many siblings without replacement, below each node.
    Distinct(usize),
    /// The most probable tokens, below each node.
    Top(usize),
    /// A chain of a neural drafter's most probable tokens.
    GatheredProbs,
    /// A draw and then the most probable tokens, below the draw.
    LeadAndTop(usize),
    /// A draw and then the most probable of the other tokens, below the draw.
    LeadAndOthers(usize),
    /// A chain of draws and most probable tokens in turn.
    Mixed,
    /// A chain of draws that ends with the first draw that is not the drafter's most probable
    /// token.
    Confident,
    /// A chain of draws from each of the languages, merged.
    Sequences,
}

impl Shape {
    pub(crate) const CHAIN: Self = Self::Replaced(1);

    /// Whether siblings are independent of each other.
    pub(crate) fn independent(self) -> bool {
        !matches!(self, Self::Distinct(_) | Self::LeadAndOthers(_))
    }

    /// A draft of at most `depth` tokens after `context`.
    pub(crate) fn draft(
        self,
        languages: &[&Language],
        context: &[TokenId],
        depth: usize,
        chance: &mut dyn RandomSource,
    ) -> Draft {
        let mut drafting = Drafting {
            shape: self,
            language: languages[0],
            context,
            chance,
            draft: Draft::new(),
        };
        if self == Self::Sequences {
            for language in languages {
                drafting.language = language;
                drafting.sequence(depth);
            }
        } else {
            drafting.grow(None, depth);
        }
        drafting.draft
    }
}

/// All drafts, with their probabilities.
pub(crate) type Drafts = Vec<(Draft, f64)>;

/// All outcomes of `draft`; equal drafts are merged.
pub(crate) fn all_drafts(draft: impl FnMut(&mut Exhaustive) -> Draft) -> Drafts {
    let mut places: HashMap<Vec<u64>, usize> = HashMap::new();
    let mut all = Drafts::new();
    for (draft, probability) in outcomes(draft) {
        let place = *places.entry(fingerprint(&draft)).or_insert(all.len());
        match all.get_mut(place) {
            Some((_, sum)) => *sum += probability,
            None => all.push((draft, probability)),
        }
    }
    all
}

/// A key that identifies a draft.
fn fingerprint(draft: &Draft) -> Vec<u64> {
    let mut numbers = Vec::new();
    for draw in draft.candidates() {
        let parent = draft.tree().parent(draw.node);
        numbers.extend([
            parent.map_or(0, |parent| parent as u64 + 1),
            u64::from(draft.tree().token(draw.node)),
        ]);
        match &draw.proposal {
            Proposal::Sampled(q) => q.for_each(|token, p| {
                numbers.extend([u64::from(token), p.to_bits()]);
            }),
            _ => numbers.push(u64::MAX),
        }
    }
    numbers
}

/// A proposal of the smallest drafter.
pub(crate) fn proposed(proposal: Proposal) -> Proposed {
    Proposed {
        proposal,
        proposer: LevelId::drafter(0),
    }
}

struct Drafting<'a> {
    shape: Shape,
    language: &'a Language,
    context: &'a [TokenId],
    chance: &'a mut dyn RandomSource,
    draft: Draft,
}

impl Drafting<'_> {
    fn q(&self, at: Option<NodeId>) -> Arc<Distribution> {
        let context = joined(self.context, self.draft.tree(), at);
        Arc::clone(self.language.after(&context))
    }

    fn push(&mut self, token: TokenId, at: Option<NodeId>, proposal: Proposal) -> NodeId {
        self.draft.push(token, at, proposed(proposal))
    }

    fn draw(&mut self, at: Option<NodeId>, q: Arc<Distribution>) -> NodeId {
        let token = self.chance.draw(&q);
        self.push(token, at, Proposal::Sampled(q))
    }

    fn sequence(&mut self, depth: usize) {
        let mut at = None;
        for _ in 0..depth {
            at = Some(self.draw(at, self.q(at)));
        }
    }

    /// Everything below `at`.
    fn grow(&mut self, at: Option<NodeId>, depth: usize) {
        if depth == 0 {
            return;
        }
        self.expand(at);
        let children: Vec<NodeId> = self.draft.tree().children(at).collect();
        let leading = matches!(self.shape, Shape::LeadAndTop(_) | Shape::LeadAndOthers(_));
        let grown = if leading { 1 } else { children.len() };
        if self.shape == Shape::Confident && self.is_unlikely(at, children[0]) {
            return;
        }
        for &child in &children[..grown] {
            self.grow(Some(child), depth - 1);
        }
    }

    fn is_unlikely(&self, at: Option<NodeId>, child: NodeId) -> bool {
        self.q(at).top(1) != [self.draft.tree().token(child)]
    }

    /// The children of `at`.
    fn expand(&mut self, at: Option<NodeId>) {
        let q = self.q(at);
        match self.shape {
            Shape::Replaced(width) => {
                let width = at.map_or(width, |node| self.draft.multiplicity(node));
                for _ in 0..width {
                    self.draw(at, Arc::clone(&q));
                }
            }
            Shape::Distinct(width) => self.draw_distinct(at, &q, width),
            Shape::Top(width) => self.push_top(at, &q, width),
            Shape::GatheredProbs => {
                let probability = q.probability(q.top(1)[0]) as f32;
                self.push(q.top(1)[0], at, Proposal::Pick { probability });
            }
            Shape::LeadAndTop(width) => {
                self.draw(at, Arc::clone(&q));
                self.push_top(at, &q, width);
            }
            Shape::LeadAndOthers(width) => {
                let lead = self.draw(at, Arc::clone(&q));
                let lead = self.draft.tree().token(lead);
                if let Some(others) = q.without(&[lead]) {
                    self.push_top(at, &others, width);
                }
            }
            Shape::Mixed
                if at.is_some_and(|node| self.draft.tree().depth(node).is_multiple_of(2)) =>
            {
                self.push_top(at, &q, 1);
            }
            Shape::Mixed | Shape::Confident => {
                self.draw(at, q);
            }
            Shape::Sequences => {}
        }
    }

    fn draw_distinct(&mut self, at: Option<NodeId>, q: &Arc<Distribution>, width: usize) {
        let mut earlier = Vec::new();
        for _ in 0..width {
            let Some(left) = q.without(&earlier) else {
                return;
            };
            let node = self.draw(at, Arc::new(left));
            earlier.push(self.draft.tree().token(node));
        }
    }

    fn push_top(&mut self, at: Option<NodeId>, q: &Distribution, width: usize) {
        for token in q.top(width) {
            self.push(token, at, Proposal::PointMass);
        }
    }
}
