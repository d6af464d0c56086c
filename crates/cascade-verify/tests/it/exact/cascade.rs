//! Cascades: a small drafter drafts, a larger one reviews, leniently or not, and what it accepts
//! goes to the next reviewer with the proposals of the verdict. The target's output stays exact.

use std::sync::Arc;

use cascade_core::{Distribution, Draft, NodeId, Proposal, RandomSource, TokenId, TokenTree};
use cascade_verify::{Lenience, LeniencePolicy, Rule, Verdict, sampled};

use crate::exact::TOLERANCE;
use crate::exact::drafting::{Drafts, Shape, all_drafts, proposed};
use crate::exact::joint::{emitted, strict_error};
use crate::exact::language::{Cast, Language};
use crate::exact::strict::fits;

/// The proposals that the larger drafter reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum PassedOn {
    /// The proposals of the verdict.
    Emitted,
    /// Its own distribution, which is wrong after a lenient review.
    OwnRows,
}

/// A drafter that reviews the drafts of a smaller one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reviewing<'a> {
    /// The level that drafts for it: another reviewing drafter, or one that drafts in a shape.
    pub(crate) below: Below<'a>,
    /// How deep its drafts are.
    pub(crate) depth: usize,
    pub(crate) rule: Rule,
    pub(crate) leniences: LeniencePolicy,
    pub(crate) passed_on: PassedOn,
    /// How many tokens the drafter below adds by itself in the end (the horizontal cascade).
    pub(crate) tail: usize,
    /// How many of its most probable tokens it adds as siblings of each token that it passes on.
    pub(crate) siblings: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Below<'a> {
    Shape(Shape),
    Reviewing(&'a Reviewing<'a>),
}

impl<'a> Reviewing<'a> {
    /// With drafts of depth 1 in a shape, reviewed in turn.
    pub(crate) fn new(shape: Shape, leniences: LeniencePolicy) -> Self {
        Self {
            below: Below::Shape(shape),
            depth: 1,
            rule: Rule::Iterated,
            leniences,
            passed_on: PassedOn::Emitted,
            tail: 0,
            siblings: 0,
        }
    }
}

pub(crate) fn leniences(neural: f32, statistical: f32) -> LeniencePolicy {
    LeniencePolicy {
        neural: Lenience::new(neural).unwrap(),
        statistical: Lenience::new(statistical).unwrap(),
    }
}

/// A draft that grows at the end of its main path.
struct Growing {
    draft: Draft,
    text: Vec<TokenId>,
    last: Option<NodeId>,
}

impl Growing {
    fn push(&mut self, token: TokenId, proposal: Proposal) {
        self.text.push(token);
        self.last = Some(self.draft.push(token, self.last, proposed(proposal)));
    }

    /// Extends the draft's main path, with the most probable tokens of `row` as siblings.
    fn push_beside(&mut self, token: TokenId, proposal: Proposal, row: &Distribution, n: usize) {
        let parent = self.last;
        self.push(token, proposal);
        for sibling in row.top(n) {
            let fixed = proposed(Proposal::PointMass);
            self.draft.push(sibling, parent, fixed);
        }
    }
}

impl Reviewing<'_> {
    /// A draft of `depth` tokens after `context`, chunk by chunk; `levels` are this drafter and
    /// those below.
    pub(crate) fn draft(
        &self,
        levels: &[&Language],
        context: &[TokenId],
        depth: usize,
        chance: &mut dyn RandomSource,
    ) -> Draft {
        let mut growing = Growing {
            draft: Draft::new(),
            text: context.to_vec(),
            last: None,
        };
        let end = context.len() + depth;
        while growing.text.len() + self.tail < end {
            let room = end - self.tail - growing.text.len() - 1;
            let context = growing.text.clone();
            let inner = self.draft_below(levels, &context, self.depth.min(room), chance);
            let mut rows = levels[0].rows(&context, &inner);
            let rows = &mut rows[..];
            let verdict =
                sampled::review(&inner, None, rows, &self.rule, self.leniences, chance).unwrap();
            self.pass_on(&mut growing, &inner, &verdict, rows);
        }
        while growing.text.len() < end {
            let q = Arc::clone(levels[1].after(&growing.text));
            let token = chance.draw(&q);
            growing.push(token, Proposal::Sampled(q));
        }
        growing.draft
    }

    fn draft_below(
        &self,
        levels: &[&Language],
        context: &[TokenId],
        depth: usize,
        chance: &mut dyn RandomSource,
    ) -> Draft {
        match self.below {
            Below::Shape(shape) => shape.draft(&[levels[1], levels[0]], context, depth, chance),
            Below::Reviewing(below) => below.draft(&levels[1..], context, depth, chance),
        }
    }

    fn pass_on(
        &self,
        growing: &mut Growing,
        inner: &Draft,
        verdict: &Verdict,
        rows: &[Arc<Distribution>],
    ) {
        let tokens = emitted(inner, verdict).into_iter();
        let parents = std::iter::once(None).chain(verdict.kept.iter().copied().map(Some));
        for ((token, parent), emitted) in tokens.zip(parents).zip(&verdict.emitted) {
            let row = &rows[TokenTree::row(parent)];
            let proposal = match self.passed_on {
                PassedOn::Emitted => emitted.clone(),
                PassedOn::OwnRows => Proposal::Sampled(Arc::clone(row)),
            };
            growing.push_beside(token, proposal, row, self.siblings);
        }
    }

    /// Every draft of `depth` tokens.
    fn drafts(&self, cast: &Cast, depth: usize) -> Drafts {
        let levels = [&cast.base, &cast.small, &cast.tiny];
        all_drafts(|chance| self.draft(&levels, &[], depth, chance))
    }

    /// The error of the target's output.
    pub(crate) fn error(&self, cast: &Cast, depth: usize, rule: Rule) -> f64 {
        strict_error(&cast.target, depth + 1, &self.drafts(cast, depth), rule)
    }

    /// Checks the output of the target under all rules.
    fn check(&self, cast: &Cast, depth: usize) {
        let drafts = self.drafts(cast, depth);
        for rule in Rule::DRAWN {
            let error = strict_error(&cast.target, depth + 1, &drafts, rule);
            assert!(error < TOLERANCE, "{rule} over {self:?}, {cast}: {error:e}");
        }
    }
}

const LENIENCES: [(f32, f32); 5] = [(1.0, 1.0), (1.5, 1.0), (3.0, 1.0), (1.5, 3.0), (3.0, 1.5)];

/// Checks the output of the target, with all rules and leniences of a drafter whose drafts have
/// depth `inner`.
fn check(cast: &Cast, shape: Shape, inner: usize, depth: usize, tail: usize) {
    for rule in Rule::DRAWN.into_iter().filter(|&rule| fits(rule, shape)) {
        for (neural, statistical) in LENIENCES {
            let reviewing = Reviewing {
                depth: inner,
                rule,
                tail,
                ..Reviewing::new(shape, leniences(neural, statistical))
            };
            reviewing.check(cast, depth);
        }
    }
}

#[test]
fn chains_of_draws() {
    for cast in Cast::all(3, 100..102) {
        check(&cast, Shape::CHAIN, 1, 3, 0);
        check(&cast, Shape::CHAIN, 2, 3, 0);
        check(&cast, Shape::CHAIN, 1, 3, 1);
    }
    for cast in Cast::all(5, 102..103) {
        check(&cast, Shape::CHAIN, 1, 2, 0);
    }
}

#[test]
fn chains_without_draws() {
    for cast in Cast::all(3, 110..112) {
        for shape in [Shape::Top(1), Shape::GatheredProbs, Shape::Mixed] {
            check(&cast, shape, 2, 3, 0);
            check(&cast, shape, 2, 3, 1);
        }
    }
}

#[test]
fn trees_of_draws() {
    for cast in Cast::all(3, 120..122) {
        for shape in [
            Shape::Replaced(2),
            Shape::Distinct(2),
            Shape::Distinct(3),
            Shape::Sequences,
        ] {
            check(&cast, shape, 1, 2, 0);
        }
    }
    for cast in Cast::all(2, 121..122) {
        check(&cast, Shape::Distinct(2), 2, 3, 0);
        check(&cast, Shape::Replaced(2), 2, 3, 0);
    }
}

#[test]
fn trees_around_a_lead() {
    for cast in Cast::all(3, 130..131) {
        for shape in [Shape::Top(2), Shape::LeadAndTop(2), Shape::LeadAndOthers(2)] {
            check(&cast, shape, 1, 3, 0);
            check(&cast, shape, 2, 3, 0);
        }
    }
}

/// The tree of the paper: the main path of a cascade, and a drafter's most probable tokens as
/// siblings.
#[test]
fn siblings_beside_a_cascade() {
    for cast in Cast::all(3, 140..142) {
        for shape in [Shape::CHAIN, Shape::Top(1), Shape::Mixed] {
            for (neural, statistical) in LENIENCES {
                let reviewing = Reviewing {
                    depth: 2,
                    siblings: 2,
                    ..Reviewing::new(shape, leniences(neural, statistical))
                };
                reviewing.check(&cast, 2);
            }
        }
    }
}

/// The output of a lenient review is reviewed leniently once more.
#[test]
fn lenience_upon_lenience() {
    for cast in Cast::all(3, 150..151) {
        for shape in [Shape::CHAIN, Shape::Top(1), Shape::Distinct(2)] {
            for (neural, statistical) in LENIENCES {
                let below = Reviewing::new(shape, leniences(neural, statistical));
                for rule in Rule::DRAWN {
                    let reviewing = Reviewing {
                        below: Below::Reviewing(&below),
                        depth: 2,
                        rule,
                        ..Reviewing::new(shape, leniences(1.5, 1.5))
                    };
                    reviewing.check(&cast, 3);
                }
            }
        }
    }
}
