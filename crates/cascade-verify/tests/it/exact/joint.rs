//! The joint distribution of the first tokens that are emitted.

use std::sync::Arc;

use cascade_core::toy::outcomes;
use cascade_core::{Distribution, Draft, RandomSource, TokenId};
use cascade_verify::{LeniencePolicy, Rule, Verdict, sampled};

use crate::exact::drafting::Drafts;
use crate::exact::language::Language;

/// Probability of each text of this length.
pub(crate) struct Joint<'a> {
    target: &'a Language,
    length: usize,
    /// In lexicographic order of the texts.
    mass: Vec<f64>,
}

impl<'a> Joint<'a> {
    /// Nothing yet.
    pub(crate) fn new(target: &'a Language, length: usize) -> Self {
        let texts = target.vocab_size().pow(length as u32);
        Self {
            target,
            length,
            mass: vec![0.0; texts],
        }
    }

    fn place(&self, text: &[TokenId]) -> usize {
        let place = |place, &token| place * self.target.vocab_size() + token as usize;
        text.iter().fold(0, place)
    }

    fn text(&self, mut place: usize) -> Vec<TokenId> {
        let mut text = vec![0; self.length];
        for token in text.iter_mut().rev() {
            *token = (place % self.target.vocab_size()) as TokenId;
            place /= self.target.vocab_size();
        }
        text
    }

    /// Adds the outcome that `text` is emitted. If it is too short, the target continues alone;
    /// tokens beyond the length are ignored.
    pub(crate) fn add(&mut self, text: &[TokenId], probability: f64) {
        if let Some(text) = text.get(..self.length) {
            let place = self.place(text);
            self.mass[place] += probability;
            return;
        }
        let target = self.target;
        target.after(text).for_each(|token, conditional| {
            let mut longer = text.to_vec();
            longer.push(token);
            self.add(&longer, probability * conditional);
        });
    }

    /// The largest difference from the target's own probability of a text.
    pub(crate) fn error(&self) -> f64 {
        let difference = |(place, mass): (usize, &f64)| {
            (mass - self.target.probability(&self.text(place))).abs()
        };
        let differences = self.mass.iter().enumerate().map(difference);
        differences.fold(0.0, f64::max)
    }
}

/// The tokens of a verdict.
pub(crate) fn emitted(draft: &Draft, verdict: &Verdict) -> Vec<TokenId> {
    let kept = verdict.kept.iter().map(|&node| draft.tree().token(node));
    kept.chain([verdict.next]).collect()
}

/// How far the first `length` tokens are from the target's if it reviews `drafts` by `review`.
pub(crate) fn error_of(
    target: &Language,
    length: usize,
    drafts: &Drafts,
    mut review: impl FnMut(&Draft, &mut [Arc<Distribution>], &mut dyn RandomSource) -> Vec<TokenId>,
) -> f64 {
    let mut joint = Joint::new(target, length);
    for (draft, drafted) in drafts {
        let mut rows = target.rows(&[], draft);
        for (text, probability) in outcomes(|chance| review(draft, &mut rows, chance)) {
            joint.add(&text, drafted * probability);
        }
    }
    joint.error()
}

/// The error of the production review.
pub(crate) fn strict_error(target: &Language, length: usize, drafts: &Drafts, rule: Rule) -> f64 {
    error_of(target, length, drafts, |draft, rows, chance| {
        let verdict =
            sampled::review(draft, None, rows, &rule, LeniencePolicy::STRICT, chance).unwrap();
        emitted(draft, &verdict)
    })
}
