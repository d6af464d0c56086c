//! Rejection theory against the algorithms themselves, enumerated outcome by outcome.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use cascade_core::Distribution;
use cascade_reproduce::theory::rejection::{
    expected_batch_rejections, expected_rejections, Independent, Markov, Pair, Process,
};
use cascade_reproduce::theory::{AcceptanceRate, Drafter, Speculative, System};
use proptest::prelude::*;

const EXACT: f64 = 1e-12;

fn distribution(weights: &[f64]) -> Distribution {
    Distribution::new(weights.to_vec()).unwrap()
}

fn pair(target: &[f64], drafter: &[f64]) -> Pair {
    Pair::new(distribution(target), distribution(drafter)).unwrap()
}

fn drafts(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap()
}

/// Weights of a distribution: zeros are common, and all zero does not occur.
fn weights(vocabulary: usize) -> impl Strategy<Value = Vec<f64>> {
    let weight = prop_oneof![1 => Just(0.0), 4 => 0.01..1.0];
    prop::collection::vec(weight, vocabulary).prop_map(|mut weights| {
        if weights.iter().all(|w| *w == 0.0) {
            weights[0] = 1.0;
        }
        weights
    })
}

fn any_pair(vocabulary: usize) -> impl Strategy<Value = Pair> {
    (weights(vocabulary), weights(vocabulary)).prop_map(|(q, p)| pair(&q, &p))
}

fn any_rule(vocabulary: usize) -> impl Strategy<Value = Vec<AcceptanceRate>> {
    let rate = prop_oneof![1 => Just(0.0), 1 => Just(1.0), 4 => 0.0..=1.0];
    prop::collection::vec(
        rate.prop_map(|b| AcceptanceRate::new(b).unwrap()),
        vocabulary,
    )
}

/// A process that depends on all of the past.
#[derive(Debug)]
struct History {
    pairs: BTreeMap<Vec<usize>, Pair>,
}

impl Process for History {
    type State = Vec<usize>;

    fn start(&self) -> Vec<usize> {
        vec![]
    }

    fn pair(&self, past: &Vec<usize>) -> Option<&Pair> {
        self.pairs.get(past)
    }

    fn follow(&self, past: &Vec<usize>, token: usize) -> Vec<usize> {
        [past.as_slice(), &[token]].concat()
    }
}

/// All sequences shorter than `horizon`.
fn pasts(vocabulary: usize, horizon: usize) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    let mut last = all.clone();
    for _ in 1..horizon {
        last = last
            .iter()
            .flat_map(|past: &Vec<usize>| (0..vocabulary).map(|x| [past.as_slice(), &[x]].concat()))
            .collect();
        all.extend(last.iter().cloned());
    }
    all
}

fn any_history(vocabulary: usize, horizon: usize) -> impl Strategy<Value = History> {
    let pasts = pasts(vocabulary, horizon);
    prop::collection::vec(any_pair(vocabulary), pasts.len()).prop_map(move |pairs| History {
        pairs: pasts.iter().cloned().zip(pairs).collect(),
    })
}

/// What batch speculative sampling does, enumerated: every draw of the drafter, every verdict,
/// every replacement.
struct Enumeration<'a> {
    process: &'a History,
    drafts: usize,
    rejections: f64,
    outputs: BTreeMap<Vec<usize>, f64>,
}

impl<'a> Enumeration<'a> {
    fn of(process: &'a History, drafts: usize) -> Self {
        let mut all = Self {
            process,
            drafts,
            rejections: 0.0,
            outputs: BTreeMap::new(),
        };
        all.emit(vec![], 1.0, true);
        all
    }

    /// Goes on from `past`, which has probability `weight`, and where drafting begins or goes on.
    fn emit(&mut self, past: Vec<usize>, weight: f64, begins: bool) {
        let Some(pair) = self.process.pairs.get(&past) else {
            *self.outputs.entry(past).or_default() += weight;
            return;
        };
        let (target, drafter): (Vec<f64>, Vec<f64>) = pair.tokens().unzip();
        let tries = if begins { self.drafts } else { 1 };
        self.review(&past, weight, target, &drafter, tries);
    }

    /// Draws once from the drafter and reviews by what is left of the target; if rejected, tries
    /// again or replaces.
    fn review(
        &mut self,
        past: &[usize],
        weight: f64,
        left: Vec<f64>,
        drafter: &[f64],
        tries: usize,
    ) {
        if weight == 0.0 {
            return;
        }
        let then = |token: usize| [past, &[token]].concat();
        if tries == 0 {
            self.rejections += weight;
            for (token, q) in left.iter().enumerate().filter(|(_, q)| **q > 0.0) {
                self.emit(then(token), weight * q, true);
            }
            return;
        }
        let mut rejected = 0.0;
        for (token, p) in drafter.iter().enumerate().filter(|(_, p)| **p > 0.0) {
            let accept = (left[token] / p).min(1.0);
            rejected += p * (1.0 - accept);
            if accept > 0.0 {
                self.emit(then(token), weight * p * accept, false);
            }
        }
        let residual: Vec<f64> = left
            .iter()
            .zip(drafter)
            .map(|(q, p)| (q - p).max(0.0))
            .collect();
        let sum: f64 = residual.iter().sum();
        if sum > 1e-14 {
            let normalised = residual.iter().map(|r| r / sum).collect();
            self.review(past, weight * rejected, normalised, drafter, tries - 1);
        }
    }
}

/// The target's probability of each whole sequence.
fn target_outputs(process: &History, horizon: usize) -> BTreeMap<Vec<usize>, f64> {
    let mut outputs = BTreeMap::from([(vec![], 1.0)]);
    for _ in 0..horizon {
        let mut next = BTreeMap::new();
        for (past, weight) in outputs {
            for (token, (q, _)) in process.pairs[&past].tokens().enumerate() {
                next.insert([past.as_slice(), &[token]].concat(), weight * q);
            }
        }
        outputs = next;
    }
    outputs
}

proptest! {
    #[test]
    fn theorems_1_and_3_are_what_the_algorithm_does(process in any_history(3, 3), m in 1usize..4) {
        let enumerated = Enumeration::of(&process, m);
        let theory = expected_batch_rejections(&process, drafts(m), 3);
        prop_assert!((enumerated.rejections - theory.expected).abs() < EXACT,
            "{} enumerated, {} by theory", enumerated.rejections, theory.expected);
        prop_assert!((theory.tokens - 3.0).abs() < EXACT);
        for (sequence, weight) in target_outputs(&process, 3) {
            let emitted = enumerated.outputs.get(&sequence).copied().unwrap_or_default();
            prop_assert!((emitted - weight).abs() < EXACT, "{:?}", sequence);
        }
    }

    #[test]
    fn theorem_1_is_a_sum_of_distances(process in any_history(2, 4)) {
        let mut expected = 0.0;
        for length in 0..4 {
            for (past, weight) in target_outputs(&process, length) {
                let pair = &process.pairs[&past];
                expected += weight * pair.tokens().map(|(q, p)| (q - p).abs()).sum::<f64>() / 2.0;
            }
        }
        prop_assert!((expected_rejections(&process, 4).expected - expected).abs() < EXACT);
    }

    #[test]
    fn no_unbiased_rule_rejects_less_over_a_sequence(
        process in any_history(2, 3), scale in prop::collection::vec(0.0..=1.0, 14),
    ) {
        // Theorem 2. Rules that leave the target's distribution unchanged accept x with at most
        // target(x)/drafter(x), which may depend on the past; `scale` makes them accept less.
        let (mut rejections, mut scale) = (0.0, scale.into_iter());
        for length in 0..3 {
            for (past, weight) in target_outputs(&process, length) {
                let pair = &process.pairs[&past];
                let rule: Vec<_> = pair.tokens().map(|(q, p)| {
                    let most = if p > 0.0 { (q / p).min(1.0) } else { 1.0 };
                    AcceptanceRate::new(most * scale.next().unwrap()).unwrap()
                }).collect();
                prop_assert!(pair.least_bias(&rule).unwrap() < EXACT);
                rejections += weight * pair.rejection_by(&rule).unwrap();
            }
        }
        prop_assert!(rejections >= expected_rejections(&process, 3).expected - EXACT);
    }

    #[test]
    fn least_bias_is_reached_and_not_undercut(
        pair in any_pair(4), rule in any_rule(4), other in weights(4),
    ) {
        // Theorem 4: emit draws that are accepted, and replacements for the others.
        let rejection = pair.rejection_by(&rule).unwrap();
        let kept: Vec<f64> = pair.tokens().zip(&rule)
            .map(|((_, p), b)| p * b.get()).collect();
        let bias = |replacement: &Distribution| {
            let emitted = (0..).zip(&kept).map(|(x, k)| k + rejection * replacement.probability(x));
            let differences = emitted.zip(pair.tokens()).map(|(e, (q, _))| (e - q).abs());
            differences.sum::<f64>() / 2.0
        };
        let least = pair.least_bias(&rule).unwrap();
        prop_assert!(bias(&distribution(&other)) >= least - EXACT);
        let missing: Vec<f64> = pair.tokens().zip(&kept)
            .map(|((q, _), k)| (q - k).max(0.0)).collect();
        if missing.iter().sum::<f64>() > 1e-9 {
            prop_assert!((bias(&distribution(&missing)) - least).abs() < EXACT);
        }
        // Nothing lies below the Pareto front.
        let front = pair.pareto_bias(AcceptanceRate::new(rejection).unwrap());
        prop_assert!(least >= front - EXACT);
    }

    #[test]
    fn accepting_more_than_speculative_sampling_walks_along_the_front(
        pair in any_pair(4), more in 0.0..=1.0f64,
    ) {
        let rule: Vec<_> = pair.tokens().map(|(q, p)| {
            let b = if p > 0.0 { (q / p).min(1.0) } else { 1.0 };
            AcceptanceRate::new(b + (1.0 - b) * more).unwrap()
        }).collect();
        let rejection = pair.rejection_by(&rule).unwrap();
        prop_assert!((rejection - (1.0 - more) * pair.rejection()).abs() < EXACT);
        let front = pair.pareto_bias(AcceptanceRate::new(rejection).unwrap());
        prop_assert!((pair.least_bias(&rule).unwrap() - front).abs() < EXACT);
    }

    #[test]
    fn a_chain_is_its_histories(first in any_pair(3), later in prop::collection::vec(
        prop::collection::vec(any_pair(3), 3), 2), m in 1usize..4,
    ) {
        let chain = Markov::new(first.clone(), later.clone()).unwrap();
        let history = History {
            pairs: pasts(3, 3).into_iter().map(|past| {
                let pair = match past.last() {
                    None => first.clone(),
                    Some(&last) => later[past.len() - 1][last].clone(),
                };
                (past, pair)
            }).collect(),
        };
        let of_chain = expected_batch_rejections(&chain, drafts(m), 9);
        let of_history = expected_batch_rejections(&history, drafts(m), 9);
        prop_assert!((of_chain.expected - of_history.expected).abs() < EXACT);
        prop_assert!((of_chain.tokens - 3.0).abs() < EXACT);
    }

    #[test]
    fn distance_and_overlap_are_one(pair in any_pair(5)) {
        let overlap: f64 = pair.tokens().map(|(q, p)| q.min(p)).sum();
        prop_assert!((pair.acceptance().get() - overlap).abs() < EXACT);
        prop_assert!((pair.batch_rejection(drafts(1)) - pair.rejection()).abs() < EXACT);
    }

    #[test]
    fn more_drafts_reject_less(pair in any_pair(4), m in 1usize..6) {
        prop_assert!(pair.batch_rejection(drafts(m + 1)) <= pair.batch_rejection(drafts(m)) + EXACT);
    }
}

#[test]
fn drafts_without_end_emit_what_the_rejections_say() {
    // The paper's second remark on Theorem 1: with equal rates, tokens per rejection are tokens per
    // step with k = ∞.
    let pair = pair(&[0.5, 0.3, 0.2], &[0.2, 0.4, 0.4]);
    let system = Speculative {
        drafter: Drafter::new(pair.acceptance().get(), 0.0).unwrap(),
        tokens: 1_000,
    };
    let rejections = expected_rejections(&Independent(vec![pair; 40]), 40);
    assert!((rejections.acceleration() - system.expected_tokens()).abs() < 1e-9);
}

#[test]
fn many_drafts_do_not_do_away_with_rejections() {
    // Two equal positions. More drafts help where they begin, and after an acceptance one draft is
    // all there is.
    let pair = pair(&[0.5, 0.5], &[0.9, 0.1]);
    let process = Independent(vec![pair; 2]);
    let of = |m| expected_batch_rejections(&process, drafts(m), 2).expected;
    assert!((of(1) - 0.8).abs() < EXACT);
    // TV(q², p) = TV((0, 1), (0.9, 0.1)) = 0.9, and so for all later ones: 0.4·0.9^{M−1} at the
    // start.
    let two = 0.4 * 0.9;
    assert!((of(2) - (two + two * two + (1.0 - two) * 0.4)).abs() < EXACT);
    assert!((of(1_000) - 0.4).abs() < EXACT);
}

#[test]
fn equal_models_and_models_with_nothing_in_common() {
    let equal = Independent(vec![pair(&[0.3, 0.7], &[0.3, 0.7]); 5]);
    let none = expected_rejections(&equal, 5);
    assert_eq!((none.expected, none.acceleration()), (0.0, f64::INFINITY));
    let apart = Independent(vec![pair(&[1.0, 0.0], &[0.0, 1.0]); 5]);
    assert_eq!(expected_rejections(&apart, 5).expected, 5.0);
    assert_eq!(
        expected_batch_rejections(&apart, drafts(7), 5).expected,
        5.0
    );
    assert_eq!(expected_rejections(&apart, 3).tokens, 3.0);
}

#[test]
fn a_sequence_that_may_end_has_fewer_tokens() {
    // Token 1 ends it: after it, nothing follows.
    let once = pair(&[0.75, 0.25], &[0.5, 0.5]);
    let pairs = pasts(2, 3)
        .into_iter()
        .filter(|past| !past.contains(&1))
        .map(|past| (past, once.clone()))
        .collect();
    let ended = expected_rejections(&History { pairs }, 10);
    assert!((ended.tokens - (1.0 + 0.75 + 0.75 * 0.75)).abs() < EXACT);
    assert!((ended.expected - 0.25 * ended.tokens).abs() < EXACT);
}

#[test]
fn vocabularies_that_differ_are_refused() {
    let (short, long) = (distribution(&[1.0]), distribution(&[0.5, 0.5]));
    let message = Pair::new(long.clone(), short).unwrap_err().to_string();
    assert!(message.contains("over 1 tokens, and 2"), "{message}");
    let pair = Pair::new(long.clone(), long).unwrap();
    assert!(pair.least_bias(&[]).is_err() && pair.rejection_by(&[]).is_err());
    assert!(Markov::new(pair.clone(), vec![vec![pair.clone()]]).is_err());
    let other = Pair::new(
        distribution(&[1.0, 1.0, 1.0]),
        distribution(&[1.0, 1.0, 1.0]),
    )
    .unwrap();
    assert!(Markov::new(pair.clone(), vec![vec![pair, other]]).is_err());
}
