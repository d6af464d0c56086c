//! When to stop drafting: the best policy, fixed lengths, and runs of both.

use cascade_reproduce::theory::mdp::{
    Costs, Played, Policy, Solution, expected_time, simulate_policy,
};
use cascade_reproduce::theory::rejection::Markov;
use cascade_reproduce::theory::{CostCoefficient, System, best_speculative};

use super::{drafter, pair_after, random_chain as chain};

fn costs(draft: f64, longest: usize) -> Costs {
    Costs::new(CostCoefficient::new(draft).unwrap(), longest).unwrap()
}

fn off(played: &Played, expected: f64) -> f64 {
    played.time.deviation(expected)
}

/// The least time of a chain, by trying every policy: a policy decides after each past of a round.
/// Enumerates the drafts, and takes the better of stopping and drafting on.
struct Enumeration<'a> {
    chain: &'a Markov,
    draft: f64,
    longest: usize,
}

impl Enumeration<'_> {
    fn from(&self, past: &[usize]) -> f64 {
        if past.len() == self.chain.positions() {
            return 0.0;
        }
        self.round(past, 0, 1.0)
    }

    /// The least time from here on, with what happens after an earlier rejection left out.
    fn round(&self, past: &[usize], drafted: usize, accepted: f64) -> f64 {
        let pair = pair_after(self.chain, past).unwrap();
        let then = |token| [past, &[token]].concat();
        let after = |token| self.from(&then(token));
        let bonus: f64 = pair
            .tokens()
            .enumerate()
            .map(|(x, (q, _))| if accepted > 0.0 { q * after(x) } else { 0.0 })
            .sum();
        let stop = 1.0 + accepted * bonus;
        if drafted == self.longest || past.len() + 1 == self.chain.positions() {
            return stop;
        }
        let mut go_on = self.draft;
        for (x, (q, p)) in pair.tokens().enumerate() {
            let residual = (q - p).max(0.0);
            if residual > 0.0 && accepted > 0.0 {
                go_on += accepted * residual * after(x);
            }
            if p > 0.0 {
                let rate = (q / p).min(1.0);
                go_on += p * self.round(&then(x), drafted + 1, accepted * rate);
            }
        }
        stop.min(go_on)
    }
}

#[test]
fn the_best_policy_is_that_of_enumeration() {
    for (seed, draft) in [(1, 0.05), (2, 0.2), (3, 0.4), (4, 0.0)] {
        let chain = chain(2, 5, 0.3, seed);
        for longest in [1, 2, 4] {
            let enumerated = Enumeration {
                chain: &chain,
                draft,
                longest,
            };
            let best = Solution::best(&chain, costs(draft, longest)).time();
            let expected = enumerated.from(&[]);
            assert!((best - expected).abs() < 1e-8, "{best} {expected}");
        }
    }
}

#[test]
fn runs_take_as_long_as_the_formulas_say() {
    let chain = chain(7, 50, 0.6, 5);
    let costs = costs(0.1, 20);
    for length in [1, 3, 8] {
        let played = simulate_policy(&chain, costs, Policy::Length(length), 2_000, 9).unwrap();
        let expected = expected_time(&chain, costs, length);
        assert!(
            off(&played, expected).abs() < 3.0,
            "{length}: {played:?} {expected}"
        );
    }
    let plain = simulate_policy(&chain, costs, Policy::Plain, 10, 9).unwrap();
    assert_eq!((plain.time.mean, plain.discarded.mean), (50.0, 0.0));
    assert!((expected_time(&chain, costs, 0) - 50.0).abs() < 1e-9);
    let best = Solution::best(&chain, costs);
    let played = simulate_policy(&chain, costs, Policy::Best(&best), 2_000, 9).unwrap();
    assert!(
        off(&played, best.time()).abs() < 3.0,
        "{played:?} {}",
        best.time()
    );
}

#[test]
fn nothing_is_faster_than_the_best_but_the_oracle() {
    let chain = chain(7, 40, 0.7, 6);
    let costs = costs(0.1, 20);
    let best = Solution::best(&chain, costs);
    for length in 0..=20 {
        let time = expected_time(&chain, costs, length);
        assert!(
            best.time() <= time + 1e-8,
            "{length}: {time} {}",
            best.time()
        );
    }
    for threshold in [0.1, 0.3, 0.5, 0.7, 0.9] {
        let policy = Policy::Threshold(threshold);
        let played = simulate_policy(&chain, costs, policy, 1_000, 3).unwrap();
        assert!(off(&played, best.time()) > -3.0, "{threshold}: {played:?}");
    }
    let oracle = simulate_policy(&chain, costs, Policy::Oracle, 1_000, 3).unwrap();
    assert_eq!(oracle.discarded.mean, 0.0);
    assert!(off(&oracle, best.time()) < -3.0, "{oracle:?}");
    // A bound on the probability of a rejection, as Theorem 4.3 says.
    let (low, high) = best.thresholds().unwrap();
    assert!(0.0 < low && low < high && high < 1.0, "{low} {high}");
}

#[test]
fn time_is_discarded_tokens_and_reviews() {
    // Lemma 3.1, for means as for each run.
    let chain = chain(5, 30, 0.5, 7);
    let costs = costs(0.15, 10);
    let best = Solution::best(&chain, costs);
    let policies = [
        Policy::Plain,
        Policy::Length(4),
        Policy::Threshold(0.4),
        Policy::Best(&best),
        Policy::Oracle,
    ];
    for policy in policies {
        let played = simulate_policy(&chain, costs, policy, 200, 1).unwrap();
        let by_lemma = 0.15 * (30.0 + played.discarded.mean) + (1.0 - 0.15) * played.reviews.mean;
        assert!((played.time.mean - by_lemma).abs() < 1e-9, "{policy:?}");
    }
}

#[test]
fn constant_acceptance_is_speculative_decodings() {
    // Every token is accepted with 0.8, so a fixed length is the best (SpecDec++, §4.1), and its
    // speedup on a long sequence is the EWIF.
    let row = "[[0.8, 0.2], [0.8, 0.2]]";
    let chain = Markov::from_json(&format!(
        r#"{{"positions": 2000, "target": {{"start": [0.8, 0.2], "steps": [{row}]}},
            "drafter": {{"start": [1, 0], "steps": [[[1, 0], [1, 0]]]}}}}"#
    ))
    .unwrap();
    let best = best_speculative(drafter(0.8, 0.1), 20);
    let costs = costs(0.1, 20);
    let time = expected_time(&chain, costs, best.system.tokens);
    let ratio = 2000.0 / time / best.system.ewif();
    assert!((ratio - 1.0).abs() < 2e-3, "{ratio}");
    let solved = 2000.0 / Solution::best(&chain, costs).time() / best.system.ewif();
    assert!((solved - 1.0).abs() < 2e-3, "{solved}");
}

#[test]
fn costs_and_thresholds_that_are_none_are_refused() {
    let none = Costs::new(CostCoefficient::new(0.1).unwrap(), 0).unwrap_err();
    assert!(none.to_string().contains("at least 1 token"), "{none}");
    let chain = chain(2, 3, 0.0, 1);
    for bad in [-0.1, 1.1, f64::NAN] {
        let played = simulate_policy(&chain, costs(0.1, 4), Policy::Threshold(bad), 10, 0);
        let refused = played.unwrap_err().to_string();
        assert!(refused.ends_with(&format!("not {bad}")), "{refused}");
    }
    let few = simulate_policy(&chain, costs(0.1, 4), Policy::Plain, 1, 0).unwrap_err();
    assert!(few.to_string().ends_with("1 were asked for"), "{few}");
}
