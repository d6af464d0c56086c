//! Over-acceptance emits from the distribution that it reports, which is as far from the reviewer's
//! as Theorem 4 says, and rejects as rarely as Theorem 5 allows.

use std::collections::HashMap;
use std::sync::Arc;

use cascade_core::toy::outcomes;
use cascade_core::{Distribution, Proposal, TokenId};
use cascade_verify::{sampled, Epsilon, LossBudget, OverAcceptance, Rule};

use crate::exact::drafting::{all_drafts, Drafts, Shape};
use crate::exact::joint::emitted;
use crate::exact::language::{Cast, Language};
use crate::exact::strict::fits;
use crate::exact::{CAUGHT, TOLERANCE};

fn budget(value: f64) -> OverAcceptance {
    LossBudget::new(value).unwrap().into()
}

fn optimal(value: f64) -> OverAcceptance {
    OverAcceptance::Optimal(Epsilon::new(value).unwrap())
}

fn unoptimized(value: f64) -> OverAcceptance {
    OverAcceptance::Unoptimized(Epsilon::new(value).unwrap())
}

/// The most that a token's distribution may be from the target's.
fn most(more: OverAcceptance) -> f64 {
    match more {
        OverAcceptance::Budget(budget) => budget.get(),
        _ => 1.0,
    }
}

/// Everything that a lossy review of `drafts` may do: what it emits, what it says that it lost on
/// the way, and the probability.
fn reviews(
    target: &Language,
    drafts: &Drafts,
    rule: Rule,
    more: OverAcceptance,
    mut visit: impl FnMut(&[TokenId], &[Proposal], f64, f64),
) {
    for (draft, drafted) in drafts {
        let mut rows = target.rows(&[], draft);
        let reviewed = outcomes(|chance| {
            sampled::review_lossy(draft, None, &mut rows[..], rule, more, chance).unwrap()
        });
        for ((verdict, loss), probability) in reviewed {
            let text = emitted(draft, &verdict);
            visit(&text, &verdict.emitted, loss, drafted * probability);
        }
    }
}

fn sampled_from(proposal: &Proposal) -> &Arc<Distribution> {
    match proposal {
        Proposal::Sampled(r) => r,
        other => panic!("{other:?} is no distribution"),
    }
}

/// What is emitted after a text under one reported distribution.
struct Place {
    reported: Arc<Distribution>,
    reached: f64,
    mass: Vec<f64>,
}

fn check(cast: &Cast, shape: Shape, depth: usize, rule: Rule, more: OverAcceptance) {
    let delta = most(more);
    let drafts = all_drafts(|chance| shape.draft(&[&cast.small, &cast.base], &[], depth, chance));
    let mut places: HashMap<(Vec<TokenId>, Vec<u64>), Place> = HashMap::new();
    let vocabulary = cast.target.after(&[]).vocab_size();
    reviews(
        &cast.target,
        &drafts,
        rule,
        more,
        |text, reported, loss, probability| {
            let mut spent = 0.0;
            for (i, r) in reported.iter().enumerate() {
                let r = sampled_from(r);
                let lost = r.total_variation(cast.target.after(&text[..i]));
                assert!(
                    lost <= delta + TOLERANCE,
                    "{lost} > {delta}, {shape:?}, {cast}"
                );
                spent += lost;
                let bits = (0..vocabulary as TokenId).map(|token| r.probability(token).to_bits());
                let place = places
                    .entry((text[..i].to_vec(), bits.collect()))
                    .or_insert_with(|| Place {
                        reported: Arc::clone(r),
                        reached: 0.0,
                        mass: vec![0.0; vocabulary],
                    });
                place.reached += probability;
                place.mass[text[i] as usize] += probability;
            }
            assert!((spent - loss).abs() < TOLERANCE, "{spent} {loss}");
        },
    );
    for place in places.values() {
        for (token, mass) in place.mass.iter().enumerate() {
            let promised = place.reached * place.reported.probability(token as TokenId);
            let error = (mass - promised).abs();
            assert!(
                error < TOLERANCE,
                "{rule}, {more:?}, {shape:?}, {cast}: {error:e}"
            );
        }
    }
}

#[test]
fn tokens_come_from_the_reported_distributions_within_the_budget() {
    let shapes = [
        Shape::CHAIN,
        Shape::Top(1),
        Shape::Mixed,
        Shape::Replaced(2),
        Shape::Distinct(2),
        Shape::Top(2),
        Shape::LeadAndTop(2),
        Shape::Sequences,
    ];
    for shape in shapes {
        for rule in Rule::DRAWN.into_iter().filter(|&rule| fits(rule, shape)) {
            let budgets = [0.02, 0.3, 1.0].map(budget);
            let epsilons = [
                optimal(0.05),
                optimal(0.4),
                unoptimized(0.05),
                unoptimized(0.4),
            ];
            for more in budgets.into_iter().chain(epsilons) {
                for cast in Cast::all(3, 300..301) {
                    check(&cast, shape, 2, rule, more);
                }
            }
        }
    }
}

/// Total variation distance between all that is emitted and the target, over the first token; and
/// the probability that the first draw is rejected.
fn first_token(cast: &Cast, rule: Rule, more: OverAcceptance) -> (f64, f64) {
    let drafts = all_drafts(|chance| Shape::CHAIN.draft(&[&cast.small], &[], 1, chance));
    let p = cast.target.after(&[]);
    let mut mass = vec![0.0; p.vocab_size()];
    let mut kept = 0.0;
    reviews(
        &cast.target,
        &drafts,
        rule,
        more,
        |text, reported, _, probability| {
            mass[text[0] as usize] += probability;
            if reported.len() > 1 {
                kept += probability;
            }
        },
    );
    let bias = mass
        .iter()
        .zip(0..)
        .map(|(m, x)| (m - p.probability(x)).abs());
    (bias.sum::<f64>() / 2.0, 1.0 - kept)
}

#[test]
fn the_bias_is_the_budget_and_rejections_are_on_the_front() {
    for cast in Cast::all(4, 310..314) {
        let distance = cast
            .target
            .after(&[])
            .total_variation(cast.small.after(&[]));
        for delta in [0.01, 0.1, 0.2, 0.4, 0.8, 1.0] {
            let (bias, rejected) = first_token(&cast, Rule::Speculative, budget(delta));
            let expected = distance.min(delta);
            assert!(
                (bias - expected).abs() < TOLERANCE,
                "{cast}: {bias} {expected}"
            );
            // A rejected draw may be replaced by its own token only where nothing is lost, so what
            // is kept is what was accepted.
            let front = distance - expected;
            assert!(
                (rejected - front).abs() < TOLERANCE,
                "{cast}: {rejected} {front}"
            );
        }
    }
}

/// The paper's rules: both reject as often as Σ max(q − p − ε, 0) says, the one with the best
/// replacement is on the front (Theorem 5), and the other, Decoding-UNO, is never better and mostly
/// worse.
#[test]
fn the_papers_rules_reject_alike_and_only_the_best_is_on_the_front() {
    let mut worse = 0;
    for cast in Cast::all(4, 330..334) {
        let (p, q) = (cast.target.after(&[]), cast.small.after(&[]));
        let distance = p.total_variation(q);
        for epsilon in [0.01, 0.1, 0.3] {
            let mut rejections = 0.0;
            q.for_each(|token, q| {
                rejections += (q - p.probability(token) - epsilon).max(0.0);
            });
            let (bias, rejected) = first_token(&cast, Rule::Speculative, optimal(epsilon));
            assert!(
                (rejected - rejections).abs() < TOLERANCE,
                "{cast}: {rejected}"
            );
            assert!(
                (bias + rejected - distance).abs() < TOLERANCE,
                "{cast}: {bias}"
            );
            // A rejected draw may be replaced by the same token, which ends the draft too.
            let (other, rejected) = first_token(&cast, Rule::Speculative, unoptimized(epsilon));
            assert!(rejected <= rejections + TOLERANCE, "{cast}: {rejected}");
            assert!(other >= bias - TOLERANCE, "{cast}: {other} {bias}");
            worse += usize::from(other > bias + CAUGHT);
        }
    }
    assert!(worse > 10, "{worse}");
}

/// The distance over whole sequences is at most what is reported as lost, in expectation.
#[test]
fn what_is_reported_as_lost_bounds_the_distance_of_sequences() {
    for cast in Cast::all(3, 320..323) {
        for delta in [0.05, 0.3] {
            let drafts = all_drafts(|chance| Shape::CHAIN.draft(&[&cast.small], &[], 2, chance));
            let mut sequences: HashMap<Vec<TokenId>, f64> = HashMap::new();
            let mut reported = 0.0;
            let mut reached = 0.0;
            reviews(
                &cast.target,
                &drafts,
                Rule::Iterated,
                budget(delta),
                |text, _, loss, p| {
                    *sequences.entry(text.to_vec()).or_default() += p;
                    reported += p * loss;
                    reached += p;
                },
            );
            assert!((reached - 1.0).abs() < TOLERANCE);
            // Sequences end where a draft is rejected: compare prefixes of one token, and of two
            // where both were reviewed.
            let mut distance = 0.0;
            for first in 0..3 {
                let emitted: f64 = sequences
                    .iter()
                    .filter(|(text, _)| text[0] == first)
                    .map(|(_, p)| p)
                    .sum();
                distance += (emitted - cast.target.after(&[]).probability(first)).abs() / 2.0;
            }
            assert!(
                distance <= reported + TOLERANCE,
                "{cast}: {distance} {reported}"
            );
            assert!(reported <= 2.0 * delta + TOLERANCE);
        }
    }
}
