//! Rejection theory against the algorithms themselves, enumerated outcome by outcome.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use cascade_core::Distribution;
use cascade_reproduce::theory::rejection::{
    AcceptMore, Markov, Pair, expected_batch_rejections, expected_rejections,
};
use cascade_reproduce::theory::{Speculative, System};
use proptest::prelude::*;
use serde_json::json;

use super::{drafter, pair_after};

const EXACT: f64 = 1e-12;

/// Probabilities of target and drafter.
type Rows = (Vec<f64>, Vec<f64>);

/// A chain of these pairs: that of the first position, then position by position one after each
/// token.
fn chain(pairs: &[Rows]) -> Markov {
    let states = pairs[0].0.len();
    let model = |of: fn(&Rows) -> &Vec<f64>| {
        let rows: Vec<&Vec<f64>> = pairs.iter().map(of).collect();
        json!({ "start": rows[0], "steps": rows[1..].chunks(states).collect::<Vec<_>>() })
    };
    let text = json!({
        "positions": 1 + (pairs.len() - 1) / states,
        "target": model(|pair| &pair.0),
        "drafter": model(|pair| &pair.1),
    });
    Markov::from_json(&text.to_string()).unwrap()
}

/// A chain with one pair of distributions at each position, whatever the last token is.
fn repeated(target: &[f64], drafter: &[f64], positions: usize) -> Markov {
    let count = 1 + (positions - 1) * target.len();
    chain(&vec![(target.to_vec(), drafter.to_vec()); count])
}

fn drafts(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap()
}

/// Probabilities: zeros are common.
fn row(vocabulary: usize) -> impl Strategy<Value = Vec<f64>> {
    let weight = prop_oneof![1 => Just(0.0), 4 => 0.01..1.0];
    prop::collection::vec(weight, vocabulary).prop_map(|mut weights| {
        if weights.iter().all(|w| *w == 0.0) {
            weights[0] = 1.0;
        }
        let sum: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / sum).collect()
    })
}

fn any_pair(vocabulary: usize) -> impl Strategy<Value = Pair> {
    let proper = |row| Distribution::new(row).unwrap();
    (row(vocabulary), row(vocabulary))
        .prop_map(move |(q, p)| Pair::new(&proper(q), &proper(p)).unwrap())
}

fn any_chain(states: usize, positions: usize) -> impl Strategy<Value = Markov> {
    let pairs = 1 + (positions - 1) * states;
    prop::collection::vec((row(states), row(states)), pairs).prop_map(|pairs| chain(&pairs))
}

/// What batch speculative sampling does, enumerated: every draw of the drafter, every verdict,
/// every replacement.
struct Enumeration<'a> {
    chain: &'a Markov,
    drafts: usize,
    rejections: f64,
    outputs: BTreeMap<Vec<usize>, f64>,
}

impl<'a> Enumeration<'a> {
    fn of(chain: &'a Markov, drafts: usize) -> Self {
        let mut all = Self {
            chain,
            drafts,
            rejections: 0.0,
            outputs: BTreeMap::new(),
        };
        all.emit(vec![], 1.0, true);
        all
    }

    /// Goes on from `past`, which has probability `weight`, and where drafting begins or goes on.
    fn emit(&mut self, past: Vec<usize>, weight: f64, begins: bool) {
        let Some(pair) = pair_after(self.chain, &past) else {
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
        let residual = left.iter().zip(drafter).map(|(q, p)| (q - p).max(0.0));
        let residual: Vec<f64> = residual.collect();
        let sum: f64 = residual.iter().sum();
        if sum > 1e-14 {
            let normalised = residual.iter().map(|r| r / sum).collect();
            self.review(past, weight * rejected, normalised, drafter, tries - 1);
        }
    }
}

/// The target's probability of each sequence of so many tokens.
fn target_outputs(chain: &Markov, length: usize) -> BTreeMap<Vec<usize>, f64> {
    let mut outputs = BTreeMap::from([(vec![], 1.0)]);
    for _ in 0..length {
        let longer = outputs.iter().flat_map(|(past, weight)| {
            let tokens = pair_after(chain, past).unwrap().tokens().enumerate();
            tokens.map(move |(token, (q, _))| ([past.as_slice(), &[token]].concat(), weight * q))
        });
        outputs = longer.collect();
    }
    outputs
}

proptest! {
    #[test]
    fn theorems_1_and_3_are_what_the_algorithm_does(chain in any_chain(3, 3), m in 1usize..4) {
        let enumerated = Enumeration::of(&chain, m);
        let theory = expected_batch_rejections(&chain, drafts(m));
        prop_assert!((enumerated.rejections - theory.expected).abs() < EXACT,
            "{} enumerated, {} by theory", enumerated.rejections, theory.expected);
        prop_assert!((theory.tokens - 3.0).abs() < EXACT);
        for (sequence, weight) in target_outputs(&chain, 3) {
            let emitted = enumerated.outputs.get(&sequence).copied().unwrap_or_default();
            prop_assert!((emitted - weight).abs() < EXACT, "{:?}", sequence);
        }
    }

    #[test]
    fn theorem_1_is_a_sum_of_distances_and_theorem_2_the_least(
        chain in any_chain(2, 4), scale in prop::collection::vec(0.0..=1.0, 30),
    ) {
        // Rules that leave the target's distribution unchanged accept x with at most
        // target(x)/drafter(x), which may depend on the past; `scale` makes them accept less.
        let (mut expected, mut others, mut scale) = (0.0, 0.0, scale.into_iter());
        for length in 0..4 {
            for (past, weight) in target_outputs(&chain, length) {
                let pair = pair_after(&chain, &past).unwrap();
                expected += weight * pair.tokens().map(|(q, p)| (q - p).abs()).sum::<f64>() / 2.0;
                let accepted = pair.tokens().map(|(q, p)| q.min(p) * scale.next().unwrap());
                others += weight * (1.0 - accepted.sum::<f64>());
            }
        }
        let least = expected_rejections(&chain).expected;
        prop_assert!((least - expected).abs() < EXACT);
        prop_assert!(others >= least - EXACT);
    }

    #[test]
    fn over_acceptance_is_on_the_front_and_no_replacement_is_better(
        pair in any_pair(4), more in 0.0..=1.0f64, by_budget: bool, other in row(4),
    ) {
        // Theorems 4 and 5: bias and rejection add up to the distance.
        let rule = if by_budget { AcceptMore::Budget(more) } else { AcceptMore::Extra(more) };
        let at = rule.at(&pair);
        prop_assert!((at.rejection + at.bias - pair.rejection()).abs() < EXACT);
        prop_assert!((at.emitted.iter().sum::<f64>() - 1.0).abs() < EXACT);
        let kept = pair.tokens().zip(&at.accept).map(|((q, p), b)| (q, p * b));
        let differences = kept.zip(&other).map(|((q, k), r)| (k + at.rejection * r - q).abs());
        prop_assert!(differences.sum::<f64>() / 2.0 >= at.bias - EXACT);
    }

    #[test]
    fn more_drafts_reject_less(pair in (row(4), row(4)), m in 1usize..6) {
        let one = chain(&[pair]);
        let of = |m| expected_batch_rejections(&one, drafts(m)).expected;
        prop_assert!(of(m + 1) <= of(m) + EXACT);
    }
}

#[test]
fn drafts_without_end_emit_what_the_rejections_say() {
    // The paper's second remark on Theorem 1: with equal rates, tokens per rejection are tokens per
    // step with k = ∞.
    let rejections = expected_rejections(&repeated(&[0.5, 0.3, 0.2], &[0.2, 0.4, 0.4], 40));
    let system = Speculative {
        drafter: drafter(0.7, 0.0),
        tokens: 1_000,
    };
    assert!((rejections.acceleration() - system.expected_tokens()).abs() < 1e-9);
}

#[test]
fn many_drafts_do_not_do_away_with_rejections() {
    // Two equal positions. More drafts help where they begin, and after an acceptance one draft is
    // all there is.
    let two = repeated(&[0.5, 0.5], &[0.9, 0.1], 2);
    let of = |m| expected_batch_rejections(&two, drafts(m)).expected;
    assert!((of(1) - 0.8).abs() < EXACT);
    // TV(q², p) = TV((0, 1), (0.9, 0.1)) = 0.9, and so for all later ones: 0.4·0.9^{M−1} at the
    // start.
    let first = 0.4 * 0.9;
    assert!((of(2) - (first + first * first + (1.0 - first) * 0.4)).abs() < EXACT);
    assert!((of(1_000) - 0.4).abs() < EXACT);
}

#[test]
fn equal_models_and_models_with_nothing_in_common() {
    let none = expected_rejections(&repeated(&[0.25, 0.75], &[0.25, 0.75], 5));
    assert_eq!((none.expected, none.acceleration()), (0.0, f64::INFINITY));
    let apart = repeated(&[1.0, 0.0], &[0.0, 1.0], 5);
    assert_eq!(expected_rejections(&apart).expected, 5.0);
    assert_eq!(expected_batch_rejections(&apart, drafts(7)).expected, 5.0);
}

#[test]
fn vocabularies_that_differ_are_refused() {
    let of = |row: &[f64]| Distribution::new(row.to_vec()).unwrap();
    let refused = Pair::new(&of(&[0.5, 0.5]), &of(&[1.0])).unwrap_err();
    let message = refused.to_string();
    assert!(message.contains("over 1 tokens, and 2"), "{message}");
}
