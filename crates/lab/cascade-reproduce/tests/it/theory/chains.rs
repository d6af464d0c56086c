//! Formulas against the algorithms played on chains, and chains as JSON.

use std::num::NonZeroUsize;

use cascade_reproduce::ErrorKind;
use cascade_reproduce::theory::Estimate;
use cascade_reproduce::theory::rejection::{
    AcceptMore, Markov, Player, expected_batch_limit, expected_batch_rejections,
    expected_over_acceptance, expected_rejections,
};

use super::{random_chain, rate};

fn drafts(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap()
}

/// Every algorithm that the paper simulates: one draft, 4 and 5 drafts, and its over-acceptances,
/// each with the rejections that its theorem expects.
fn algorithms(chain: &Markov) -> Vec<(String, Player<'_>, f64)> {
    let batch = [1, 4, 5].map(|m| {
        let expected = expected_batch_rejections(chain, drafts(m)).expected;
        let player = Player::batch(chain, drafts(m)).unwrap();
        (format!("{m} drafts"), player, expected)
    });
    let extra = [0.0, 0.1, 0.2, 0.4, 0.8].map(AcceptMore::Extra);
    let unoptimized = [0.1, 0.4].map(AcceptMore::ExtraUnoptimized);
    let over = extra.into_iter().chain(unoptimized).map(|rule| {
        let expected = expected_over_acceptance(chain, rule).unwrap().rejections;
        let player = Player::new(chain, rule).unwrap();
        (format!("{rule:?}"), player, expected)
    });
    batch.into_iter().chain(over).collect()
}

fn agrees(chain: &Markov, runs: u64, seed: u64, most: f64) -> usize {
    let mut tails = 0;
    for (algorithm, player, expected) in algorithms(chain) {
        let (simulated, _) = player.rejections(runs, seed).unwrap();
        let off = deviation(&simulated, expected).abs();
        assert!(
            off < most,
            "{algorithm}, seed {seed}: {off} standard errors"
        );
        tails += usize::from(off > 3.0);
    }
    tails
}

#[test]
fn formulas_agree_with_runs() {
    // The paper's setting: 7 states, T = 50 and T = 100.
    agrees(&random_chain(7, 50, 0.0, 1), 2_000, 1, 3.0);
    agrees(&random_chain(7, 100, 0.0, 2), 1_000, 2, 3.0);
}

/// Standard errors from the expectation. Of what happens a few times in all runs, or never, the
/// runs do not tell the error: it is that of a Poisson distribution.
fn deviation(simulated: &Estimate, expected: f64) -> f64 {
    let runs = simulated.runs as f64;
    if expected * runs < 100.0 {
        (simulated.mean - expected) / (expected / runs).sqrt().max(1.0 / runs)
    } else {
        simulated.deviation(expected)
    }
}

#[test]
#[ignore = "100 simulations of 100,000 sequences: a minute optimized"]
fn formulas_agree_with_a_hundred_thousand_runs_of_ten_chains() {
    // One of 100 standard normal numbers is beyond 3 with probability 0.24, beyond 4 with 0.006.
    let tails = (0..10).map(|seed| {
        let positions = if seed % 2 == 0 { 50 } else { 100 };
        agrees(
            &random_chain(7, positions, 0.0, seed),
            100_000,
            1_000 + seed,
            4.0,
        )
    });
    let tails: usize = tails.sum();
    assert!(tails <= 1, "{tails} of 100 beyond 3 standard errors");
}

#[test]
fn the_limit_is_what_many_drafts_reject() {
    for seed in 0..5 {
        let chain = random_chain(7, 20, 0.0, seed);
        let limit = expected_batch_limit(&chain).expected;
        let of = |m| expected_batch_rejections(&chain, drafts(m)).expected;
        // What is left of the target is drained by the drafter's probability with each draft, so a
        // token that it hardly ever says takes long.
        let (few, some, many) = (of(4), of(1_000), of(10_000));
        assert!(limit > 0.5 && limit <= many && many <= some && some < few);
        assert!((many - limit) < 0.1 * (few - limit), "{limit} {many} {few}");
    }
}

#[test]
fn what_a_drafter_never_says_is_rejected_however_many_drafts_there_are() {
    let chain = Markov::from_json(
        r#"{"positions": 2,
            "target":  {"start": [0.5, 0.25, 0.25], "steps": [[[0.5, 0.25, 0.25], [0.5, 0.25, 0.25], [0, 0, 1]]]},
            "drafter": {"start": [0.9, 0.1, 0.0], "steps": [[[0.9, 0.1, 0.0], [0.9, 0.1, 0.0], [0.5, 0.5, 0]]]}}"#,
    )
    .unwrap();
    let limit = expected_batch_limit(&chain).expected;
    // 0.25 at the start. After the rejection's token 2, where drafting begins, 1; after an
    // accepted token the distance, 0.4.
    assert!(
        (limit - (0.25 + 0.25 + 0.75 * 0.4)).abs() < 1e-12,
        "{limit}"
    );
    let many = expected_batch_rejections(&chain, drafts(10_000)).expected;
    assert!((many - limit).abs() < 1e-9, "{many}");
}

#[test]
fn over_acceptance_is_on_the_front() {
    for seed in 0..5 {
        let chain = random_chain(7, 50, 0.0, seed);
        let mut before = f64::INFINITY;
        for extra in [0.0, 0.1, 0.2, 0.4, 0.8] {
            let of = expected_over_acceptance(&chain, AcceptMore::Extra(extra)).unwrap();
            assert!(of.off_front < 1e-9, "{}", of.off_front);
            assert!((of.rejections + of.bias - of.distance).abs() < 1e-9);
            assert!(of.rejections <= before && (of.tokens - 50.0).abs() < 1e-9);
            before = of.rejections;
        }
        for budget in [0.0, 0.05, 0.2, 1.0] {
            let of = expected_over_acceptance(&chain, AcceptMore::Budget(budget)).unwrap();
            assert!(of.off_front < 1e-9 && of.bias <= 50.0 * budget + 1e-9);
        }
        let none = expected_over_acceptance(&chain, AcceptMore::Extra(0.0)).unwrap();
        let exact = expected_rejections(&chain).expected;
        assert!(none.bias < 1e-9 && (none.rejections - exact).abs() < 1e-9);
        let all = expected_over_acceptance(&chain, AcceptMore::Extra(1.0)).unwrap();
        assert!(all.rejections < 1e-9 && (all.bias - all.distance).abs() < 1e-9);
    }
    for rule in [AcceptMore::Extra(-0.1), AcceptMore::Budget(-0.1)] {
        let refused = expected_over_acceptance(&random_chain(2, 2, 0.0, 0), rule).unwrap_err();
        assert!(refused.to_string().ends_with("not -0.1"), "{refused}");
    }
}

/// Decoding-UNO beside Decoding-OPT at one position, by every outcome: each drafted token, kept or
/// rejected, and each replacement.
#[test]
fn replacing_by_the_target_is_more_biased_and_rejects_as_often() {
    let mut differ = 0;
    for seed in 0..20 {
        for pair in random_chain(6, 3, 0.0, seed).pairs() {
            for extra in [0.0, 0.05, 0.2, 0.6] {
                let (optimal, other) = (
                    AcceptMore::Extra(extra),
                    AcceptMore::ExtraUnoptimized(extra),
                );
                let (optimal, other) = (optimal.at(pair), other.at(pair));
                let accept = &other.accept;
                assert_eq!(*accept, optimal.accept);
                let mut outcomes = [0.0; 6];
                for (drafted, (_, drawn)) in pair.tokens().enumerate() {
                    outcomes[drafted] += drawn * accept[drafted];
                    for (replaced, (target, _)) in pair.tokens().enumerate() {
                        outcomes[replaced] += drawn * (1.0 - accept[drafted]) * target;
                    }
                }
                for (a, b) in outcomes.iter().zip(&other.emitted) {
                    assert!((a - b).abs() < 1e-12, "{a} {b}");
                }
                let (least, bias) = (optimal.bias, other.bias);
                assert!(bias >= least - 1e-12, "{bias} {least}");
                differ += usize::from(bias > least + 1e-3);
            }
        }
    }
    // Even ε = 0 is biased: what speculative sampling rejects, the target must not just redraw.
    assert!(differ > 500, "{differ}");
}

#[test]
fn chains_are_read_as_they_are_written() {
    let chain = random_chain(4, 6, 0.0, 3);
    let read = Markov::from_json(&chain.to_json().unwrap()).unwrap();
    for (a, b) in chain.pairs().iter().zip(read.pairs()) {
        for ((q, p), (other_q, other_p)) in a.tokens().zip(b.tokens()) {
            assert!((q - other_q).abs() < 1e-15 && (p - other_p).abs() < 1e-15);
        }
    }
    assert_eq!(read.positions(), 6);
}

#[test]
fn chains_that_are_none_are_refused_by_the_entry() {
    let of = |start: &str, steps: &str| {
        let model = format!(r#"{{"start": {start}, "steps": {steps}}}"#);
        let text = format!(r#"{{"positions": 3, "target": {model}, "drafter": {model}}}"#);
        Markov::from_json(&text)
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    let row = "[0.5, 0.5]";
    let matrix = format!("[{row}, {row}]");
    for (start, steps, part) in [
        ("[]", "[]".to_owned(), "0 probabilities"),
        (
            "[0.5, 0.4]",
            format!("[{matrix}]"),
            "`target.start` sums to 0.9",
        ),
        (
            "[1.5, -0.5]",
            format!("[{matrix}]"),
            "`target.start`: the weight of token 1 is -0.5",
        ),
        (
            row,
            "[]".to_owned(),
            "`target.steps` has 0 matrices and 2 positions follow",
        ),
        (
            row,
            format!("[{matrix}, {matrix}, {matrix}]"),
            "has 3 matrices",
        ),
        (row, format!("[[{row}]]"), "`target.steps[0]` has 1 rows"),
        (
            row,
            format!("[[{row}, [1.0]]]"),
            "`target.steps[0][1]` has 1 probabilities",
        ),
    ] {
        let message = of(start, &steps);
        assert!(message.contains(part), "`{part}` is missing in `{message}`");
    }
    for text in [
        "",
        "[]",
        "{}",
        r#"{"positions": 1, "extra": 2}"#,
        r#"{"positions": 1e30}"#,
    ] {
        let refused = Markov::from_json(text).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Theory, "{text}");
    }
    let huge = r#"{"positions": 18446744073709551615, "target": {"start": [1], "steps": []}, "drafter": {"start": [1], "steps": []}}"#;
    let refused = Markov::from_json(huge).unwrap_err();
    assert!(refused.to_string().ends_with("take fewer"), "{refused}");
    let likeness = rate(0.5);
    for (states, positions) in [(usize::MAX, 2), (10_000, 10_000)] {
        let refused = Markov::random(states, positions, likeness, 0).unwrap_err();
        assert!(refused.to_string().ends_with("take fewer"), "{refused}");
    }
    assert!(Markov::random(0, 2, likeness, 0).is_err());
}

#[test]
fn likeness_moves_the_drafter_to_the_target() {
    let of = |likeness| expected_rejections(&random_chain(7, 10, likeness, 4)).expected;
    assert!(of(1.0) < 1e-12);
    assert!(of(0.5) < 0.6 * of(0.0) && of(0.5) > 0.4 * of(0.0));
}
