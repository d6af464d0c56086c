//! Formulas against the algorithms played on chains, and against the engine.

#![allow(clippy::unwrap_used)]

use std::num::NonZeroUsize;

use cascade_core::{
    Architecture, Decoding, Matrix, Prompt, Result, Sampling, Scorer, ScorerInfo, Scores, TokenId,
    TokenTree, Want,
};
use cascade_engine::{Cascade, Convention, KMatrix, Options, Rule};
use cascade_reproduce::theory::rejection::{
    expected_batch_limit, expected_batch_rejections, expected_over_acceptance, expected_rejections,
    AcceptMore, Algorithm, Markov, Pair, Player, Process,
};
use cascade_reproduce::theory::{AcceptanceRate, Error, Estimate, Tally};

/// A chain of the paper's kind.
fn chain(states: usize, positions: usize, seed: u64) -> Markov {
    Markov::random(states, positions, AcceptanceRate::new(0.0).unwrap(), seed).unwrap()
}

fn drafts(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap()
}

/// Every algorithm that the paper simulates: one draft, 4 and 5 drafts, and its over-acceptances,
/// each with the rejections that its theorem expects.
fn algorithms(chain: &Markov) -> Vec<(Algorithm, f64)> {
    let horizon = chain.positions();
    let single = expected_rejections(chain, horizon).expected;
    let batch = [4, 5].map(|m| {
        let expected = expected_batch_rejections(chain, drafts(m), horizon).expected;
        (Algorithm::Batch(drafts(m)), expected)
    });
    let over = [0.1, 0.2, 0.4, 0.8].map(|extra| {
        let rule = AcceptMore::Extra(extra);
        let expected = expected_over_acceptance(chain, rule, horizon).unwrap();
        (Algorithm::OverAcceptance(rule), expected.rejections)
    });
    let unoptimized = [0.1, 0.4].map(|extra| {
        let rule = AcceptMore::ExtraUnoptimized(extra);
        let expected = expected_over_acceptance(chain, rule, horizon).unwrap();
        (Algorithm::OverAcceptance(rule), expected.rejections)
    });
    let mut all = vec![(Algorithm::Speculative, single)];
    all.extend(batch);
    all.extend(over);
    all.extend(unoptimized);
    all
}

fn agrees(chain: &Markov, runs: u64, seed: u64) {
    for (algorithm, expected) in algorithms(chain) {
        let player = Player::new(chain, algorithm).unwrap();
        let (simulated, _) = player.rejections(runs, seed).unwrap();
        let off = deviation(&simulated, expected);
        assert!(
            off.abs() < 3.0,
            "{algorithm:?}, seed {seed}: {off} standard errors"
        );
    }
}

#[test]
fn formulas_agree_with_runs() {
    // The paper's setting: 7 states, T = 50 and T = 100.
    agrees(&chain(7, 50, 1), 2_000, 1);
    agrees(&chain(7, 100, 2), 1_000, 2);
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
#[ignore = "70 simulations of 100,000 sequences: half a minute optimized"]
fn formulas_agree_with_a_hundred_thousand_runs_of_ten_chains() {
    let mut tails = 0;
    for seed in 0..10 {
        let positions = if seed % 2 == 0 { 50 } else { 100 };
        let chain = chain(7, positions, seed);
        for (algorithm, expected) in algorithms(&chain) {
            let player = Player::new(&chain, algorithm).unwrap();
            let (simulated, _) = player.rejections(100_000, 1_000 + seed).unwrap();
            let off = deviation(&simulated, expected).abs();
            // One of 70 standard normal numbers is beyond 3 with probability 0.17, beyond 4 with
            // 0.004.
            assert!(
                off < 4.0,
                "{algorithm:?}, seed {seed}: {off} standard errors"
            );
            tails += usize::from(off > 3.0);
        }
    }
    assert!(tails <= 1, "{tails} of 70 beyond 3 standard errors");
}

#[test]
fn the_limit_is_what_many_drafts_reject() {
    for seed in 0..5 {
        let chain = chain(7, 20, seed);
        let limit = expected_batch_limit(&chain, 20).expected;
        let of = |m| expected_batch_rejections(&chain, drafts(m), 20).expected;
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
    let limit = expected_batch_limit(&chain, 2).expected;
    // 0.25 at the start. After the rejection's token 2, where drafting begins, 1; after an
    // accepted token the distance, 0.4.
    assert!(
        (limit - (0.25 + 0.25 + 0.75 * 0.4)).abs() < 1e-12,
        "{limit}"
    );
    let many = expected_batch_rejections(&chain, drafts(10_000), 2).expected;
    assert!((many - limit).abs() < 1e-9, "{many}");
}

#[test]
fn over_acceptance_is_on_the_front() {
    for seed in 0..5 {
        let chain = chain(7, 50, seed);
        let mut before = f64::INFINITY;
        for extra in [0.0, 0.1, 0.2, 0.4, 0.8] {
            let of = expected_over_acceptance(&chain, AcceptMore::Extra(extra), 50).unwrap();
            assert!(of.off_front < 1e-9, "{}", of.off_front);
            assert!((of.rejections + of.bias - of.distance).abs() < 1e-9);
            assert!(of.rejections <= before && (of.tokens - 50.0).abs() < 1e-9);
            before = of.rejections;
        }
        for budget in [0.0, 0.05, 0.2, 1.0] {
            let of = expected_over_acceptance(&chain, AcceptMore::Budget(budget), 50).unwrap();
            assert!(of.off_front < 1e-9 && of.bias <= 50.0 * budget + 1e-9);
        }
        let none = expected_over_acceptance(&chain, AcceptMore::Extra(0.0), 50).unwrap();
        let exact = expected_rejections(&chain, 50).expected;
        assert!(none.bias < 1e-9 && (none.rejections - exact).abs() < 1e-9);
        let all = expected_over_acceptance(&chain, AcceptMore::Extra(1.0), 50).unwrap();
        assert!(all.rejections < 1e-9 && (all.bias - all.distance).abs() < 1e-9);
    }
    for rule in [AcceptMore::Extra(-0.1), AcceptMore::Budget(-0.1)] {
        let refused = expected_over_acceptance(&chain(2, 2, 0), rule, 2).unwrap_err();
        assert_eq!(refused, Error::Extra(-0.1));
    }
}

/// Decoding-UNO beside Decoding-OPT at one position, by every outcome: each drafted token, kept or
/// rejected, and each replacement.
#[test]
fn replacing_by_the_target_is_more_biased_and_rejects_as_often() {
    let mut differ = 0;
    for seed in 0..20 {
        for pair in chain(6, 3, seed).pairs() {
            for extra in [0.0, 0.05, 0.2, 0.6] {
                let (optimal, other) = (
                    AcceptMore::Extra(extra),
                    AcceptMore::ExtraUnoptimized(extra),
                );
                let accept = other.accept(pair).unwrap();
                assert_eq!(accept, optimal.accept(pair).unwrap());
                let mut outcomes = [0.0; 6];
                for (drafted, (_, drawn)) in pair.tokens().enumerate() {
                    outcomes[drafted] += drawn * accept[drafted].get();
                    for (replaced, (target, _)) in pair.tokens().enumerate() {
                        outcomes[replaced] += drawn * (1.0 - accept[drafted].get()) * target;
                    }
                }
                for (a, b) in outcomes.iter().zip(other.emitted(pair).unwrap()) {
                    assert!((a - b).abs() < 1e-12, "{a} {b}");
                }
                let (least, bias) = (optimal.bias(pair).unwrap(), other.bias(pair).unwrap());
                assert!((least - pair.least_bias(&accept).unwrap()).abs() < 1e-12);
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
    let chain = chain(4, 6, 3);
    let read = Markov::from_json(&chain.to_json().unwrap()).unwrap();
    for (a, b) in chain.pairs().zip(read.pairs()) {
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
        assert!(
            matches!(Markov::from_json(text), Err(Error::Chain(_))),
            "{text}"
        );
    }
    let huge = r#"{"positions": 18446744073709551615, "target": {"start": [1], "steps": []}, "drafter": {"start": [1], "steps": []}}"#;
    assert!(matches!(
        Markov::from_json(huge),
        Err(Error::TooLarge { .. })
    ));
    let likeness = AcceptanceRate::new(0.5).unwrap();
    for (states, positions) in [(usize::MAX, 2), (10_000, 10_000)] {
        let refused = Markov::random(states, positions, likeness, 0).unwrap_err();
        assert!(matches!(refused, Error::TooLarge { .. }), "{refused}");
    }
    assert!(Markov::random(0, 2, likeness, 0).is_err());
}

#[test]
fn likeness_moves_the_drafter_to_the_target() {
    let of = |likeness: f64| {
        let likeness = AcceptanceRate::new(likeness).unwrap();
        let chain = Markov::random(7, 10, likeness, 4).unwrap();
        expected_rejections(&chain, 10).expected
    };
    assert!(of(1.0) < 1e-12);
    assert!(of(0.5) < 0.6 * of(0.0) && of(0.5) > 0.4 * of(0.0));
}

/// One side of a chain as a model: the position is the length of the context.
struct ChainModel {
    chain: Markov,
    side: fn((f64, f64)) -> f64,
}

impl ChainModel {
    fn row(&self, past: &[TokenId]) -> Vec<f32> {
        // The context begins with a prompt of one token.
        let position = past.len() - 1;
        let state = match position {
            0 => self.chain.start(),
            _ => (position, past.last().map(|&token| token as usize)),
        };
        let logits = |pair: &Pair| -> Vec<f32> {
            let probabilities = pair.tokens().map(self.side);
            probabilities.map(|p| p.ln() as f32).collect()
        };
        match self.chain.pair(&state) {
            Some(pair) => logits(pair),
            None => vec![0.0; self.chain.states()],
        }
    }
}

impl Scorer for ChainModel {
    fn info(&self) -> ScorerInfo {
        ScorerInfo::new(Architecture::DecoderOnly, self.chain.states())
    }

    fn set_source(&mut self, _source: &[TokenId]) -> Result<()> {
        Ok(())
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, _want: Want) -> Result<Scores> {
        let mut logits = self.row(context);
        for node in 0..tree.len() {
            let path = tree.path_tokens(Some(node));
            logits.extend(self.row(&[context, &path].concat()));
        }
        Ok(Scores::default()
            .with_argmax(vec![0; tree.len() + 1])
            .with_logits(Matrix::new(self.chain.states(), logits))
            .with_rows_computed(tree.len() + 1))
    }
}

/// How often the engine rejects over the positions of a chain. It generates one token more, since
/// the last token of a generation is never drafted.
fn engine(chain: &Markov, rule: Rule, runs: u64) -> Estimate {
    let model = |side| ChainModel {
        chain: chain.clone(),
        side,
    };
    let horizon = chain.positions();
    let mut cascade = Cascade::builder()
        .target_with("target", model(|(q, _)| q), rule)
        .neural("drafter", model(|(_, p)| p))
        .k_matrix(KMatrix::new(vec![vec![horizon]], Convention::Added).unwrap())
        .max_nodes(horizon)
        .build()
        .unwrap();
    let prompt = Prompt {
        context: vec![0],
        ..Prompt::default()
    };
    let mut rejections = Tally::default();
    for seed in 0..runs {
        let options = Options::default()
            .with_max_new_tokens(horizon + 1)
            .with_decoding(Decoding::Sampled(Sampling::new(1.0).unwrap()))
            .with_seed(seed);
        let output = cascade.generate_tokens(&prompt, &options).unwrap();
        let rejected = output.steps.iter().filter(|s| s.accepted < s.drafted);
        rejections.add(rejected.count() as f64);
    }
    rejections.estimate().unwrap()
}

fn engine_agrees(chain: &Markov, runs: u64) {
    let horizon = chain.positions();
    let exact = expected_rejections(chain, horizon).expected;
    for rule in [Rule::Speculative, Rule::Iterated, Rule::SpecInfer] {
        let off = engine(chain, rule, runs).deviation(exact);
        assert!(off.abs() < 3.0, "{rule}: {off} standard errors");
    }
    // Matching accepts less than any of them: Theorem 2.
    let matching = engine(chain, Rule::Match, runs);
    assert!(matching.deviation(exact) > 5.0, "{matching:?}");
}

#[test]
fn the_engine_rejects_as_often_as_the_theorems_say() {
    engine_agrees(&chain(5, 8, 11), 600);
}

#[test]
#[ignore = "four cascades of 20,000 generations: 15 s optimized"]
fn the_engine_rejects_as_often_as_the_theorems_say_at_length() {
    engine_agrees(&chain(7, 12, 12), 20_000);
}
