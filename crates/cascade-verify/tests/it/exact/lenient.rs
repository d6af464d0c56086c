//! A lenient review emits from the distribution that its verdict reports.

use std::collections::HashMap;
use std::sync::Arc;

use cascade_core::toy::outcomes;
use cascade_core::{Distribution, Proposal, TokenId};
use cascade_verify::{LeniencePolicy, Rule, sampled};

use crate::exact::cascade::leniences;
use crate::exact::drafting::{Drafts, Shape, all_drafts};
use crate::exact::joint::{emitted, error_of};
use crate::exact::language::{Cast, Family, Language};
use crate::exact::strict::fits;
use crate::exact::{CAUGHT, TOLERANCE};

/// How much probability each token has to be emitted after a text, beside the distribution that
/// was reported for it.
struct NextTokenMass {
    promised: Arc<Distribution>,
    reached: f64,
    mass: Vec<f64>,
}

impl NextTokenMass {
    /// The distance of the emitted distribution from the reported one.
    fn error(&self) -> f64 {
        let difference = |(token, mass): (usize, &f64)| {
            (mass - self.reached * self.promised.probability(token as TokenId)).abs()
        };
        let differences = self.mass.iter().enumerate().map(difference);
        differences.fold(0.0, f64::max)
    }
}

/// Each text, with each distribution that was reported for the token after it: the token must be
/// drawn from that one, not only on average over all reported ones.
#[derive(Default)]
struct NextTokenMasses(HashMap<(Vec<TokenId>, Vec<u64>), NextTokenMass>);

impl NextTokenMasses {
    fn add(&mut self, text: &[TokenId], promised: &Proposal, token: TokenId, probability: f64) {
        let Proposal::Sampled(promised) = promised else {
            panic!("{promised:?} is no distribution");
        };
        let vocabulary = 0..promised.vocab_size() as TokenId;
        let bits = vocabulary.map(|token| promised.probability(token).to_bits());
        let key = (text.to_vec(), bits.collect());
        let place = self.0.entry(key).or_insert_with(|| NextTokenMass {
            promised: Arc::clone(promised),
            reached: 0.0,
            mass: vec![0.0; promised.vocab_size()],
        });
        place.reached += probability;
        place.mass[token as usize] += probability;
    }
}

fn error(base: &Language, drafts: &Drafts, rule: Rule, leniences: LeniencePolicy) -> f64 {
    let mut places = NextTokenMasses::default();
    for (draft, drafted) in drafts {
        let mut rows = base.rows(&[], draft);
        let reviewed = outcomes(|chance| {
            sampled::review(draft, None, &mut rows[..], &rule, leniences, chance).unwrap()
        });
        for (verdict, probability) in reviewed {
            let text = emitted(draft, &verdict);
            for (i, promised) in verdict.emitted.iter().enumerate() {
                places.add(&text[..i], promised, text[i], drafted * probability);
            }
        }
    }
    places
        .0
        .values()
        .map(NextTokenMass::error)
        .fold(0.0, f64::max)
}

fn check(cast: &Cast, shape: Shape, depth: usize) {
    let languages = [&cast.small, &cast.target];
    let drafts = all_drafts(|chance| shape.draft(&languages, &[], depth, chance));
    for rule in Rule::DRAWN.into_iter().filter(|&rule| fits(rule, shape)) {
        for (neural, statistical) in [(1.0, 1.0), (1.5, 1.0), (3.0, 3.0), (1.0, 1.5), (1.5, 3.0)] {
            let error = error(&cast.base, &drafts, rule, leniences(neural, statistical));
            assert!(
                error < TOLERANCE,
                "{rule}, λ {neural}/{statistical}, {shape:?}, {cast}: {error:e}"
            );
        }
    }
}

#[test]
fn chains_come_from_the_distributions_that_are_returned() {
    for shape in [
        Shape::CHAIN,
        Shape::Top(1),
        Shape::GatheredProbs,
        Shape::Mixed,
    ] {
        for cast in Cast::all(5, 200..205) {
            check(&cast, shape, 1);
        }
        for cast in Cast::all(3, 205..208) {
            check(&cast, shape, 3);
        }
    }
}

#[test]
fn trees_come_from_the_distributions_that_are_returned() {
    let shapes = [
        Shape::Replaced(2),
        Shape::Distinct(2),
        Shape::Distinct(3),
        Shape::Top(2),
        Shape::LeadAndTop(2),
        Shape::LeadAndOthers(2),
        Shape::Sequences,
    ];
    for shape in shapes {
        for cast in Cast::all(5, 210..211) {
            check(&cast, shape, 1);
        }
        for cast in Cast::all(3, 211..212) {
            check(&cast, shape, 2);
        }
    }
}

/// Lenience has an effect: the emitted distribution is not the reviewer's own.
#[test]
fn a_lenient_review_does_not_emit_its_own_distribution() {
    for seed in 220..230 {
        let cast = Cast::new(Family::Random, 4, seed);
        for shape in [Shape::CHAIN, Shape::Top(1), Shape::Distinct(2)] {
            let drafts = all_drafts(|chance| shape.draft(&[&cast.small], &[], 2, chance));
            let loose = leniences(3.0, 3.0);
            let error = error_of(&cast.base, 2, &drafts, |draft, rows, chance| {
                let verdict = sampled::review(draft, None, rows, &Rule::Iterated, loose, chance);
                emitted(draft, &verdict.unwrap())
            });
            assert!(error > CAUGHT, "{shape:?}, {cast}: {error}");
        }
    }
}
