//! The formulas of EWIF: against sums written out, at their limits, and the paper's corollaries.

use cascade_reproduce::theory::{
    Horizontal, ModelSizes, Segment, Speculative, System, Table1Row, Vertical, table1,
};
use proptest::prelude::*;

use super::drafter;

fn speculative(acceptance: f64, cost: f64, tokens: usize) -> Speculative {
    Speculative {
        drafter: drafter(acceptance, cost),
        tokens,
    }
}

/// Probabilities of 0, 1, 2, … tokens emitted by a step of speculative decoding (Equation 3 of the
/// paper).
fn tokens_emitted(alpha: f64, k: usize) -> Vec<f64> {
    let mut probabilities = vec![0.0; k + 2];
    for accepted in 0..k {
        probabilities[accepted + 1] = alpha.powi(accepted as i32) * (1.0 - alpha);
    }
    probabilities[k + 1] = alpha.powi(k as i32);
    probabilities
}

/// Distribution of a sum of two independent numbers.
fn convolve(a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut sum = vec![0.0; a.len() + b.len() - 1];
    for (i, p) in a.iter().enumerate() {
        for (j, q) in b.iter().enumerate() {
            sum[i + j] += p * q;
        }
    }
    sum
}

/// Expected tokens of a vertical cascade from the distribution of the length of its draft, without
/// generating functions.
fn vertical_written_out(alpha: f64, below: f64, rounds: usize, k: usize) -> f64 {
    let round = tokens_emitted(below, k);
    let drafted = (0..rounds).fold(vec![1.0], |sum, _| convolve(&sum, &round));
    let emitted = |length: usize| -> f64 { (0..=length).map(|i| alpha.powi(i as i32)).sum() };
    let weighted = drafted.iter().enumerate();
    weighted.map(|(length, p)| p * emitted(length)).sum()
}

fn close(a: f64, b: f64) -> Result<(), TestCaseError> {
    prop_assert!((a - b).abs() <= 1e-10 * b.abs().max(1.0), "{a} is not {b}");
    Ok(())
}

/// Rates, their ends and neighbours of their ends included.
fn any_rate() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => 0.0..=1.0,
        1 => Just(0.0),
        1 => Just(1.0),
        1 => Just(1.0 - 1e-12),
    ]
}

/// Rates strictly between 0 and 1.
fn inner_rate() -> impl Strategy<Value = f64> {
    0.01..0.99
}

proptest! {
    #[test]
    fn generating_function_is_the_paper_s_sum(alpha in any_rate(), x in any_rate(), k in 0usize..12) {
        let phi = speculative(alpha, 0.0, k).generating_function(super::rate(x));
        let emitted = tokens_emitted(alpha, k).into_iter().enumerate();
        close(phi, emitted.map(|(i, p)| p * x.powi(i as i32)).sum())?;
    }

    #[test]
    fn speculative_is_corollary_4_2(alpha in inner_rate(), cost in 0.0..2.0, k in 0usize..40) {
        let formula = (1.0 - alpha.powi(k as i32 + 1)) / ((1.0 - alpha) * (cost * k as f64 + 1.0));
        close(speculative(alpha, cost, k).ewif(), formula)?;
    }

    #[test]
    fn vertical_is_the_mean_over_drafts(
        alpha in any_rate(), below in any_rate(), rounds in 0usize..6, k in 0usize..6,
        c1 in 0.0..1.0, c2 in 0.0..1.0,
    ) {
        let system = Vertical {
            drafter: drafter(alpha, c1), below: drafter(below, c2), rounds, tokens: k,
        };
        close(system.expected_tokens(), vertical_written_out(alpha, below, rounds, k))?;
        let calls = (rounds as f64) * c1 + ((rounds * k) as f64) * c2;
        close(system.walltime(), 1.0 + calls)?;
    }

    #[test]
    fn vertical_is_theorem_4_3_as_printed(
        alpha in inner_rate(), below in inner_rate(), n in 0i32..8, k in 0i32..8,
    ) {
        let system = Vertical {
            drafter: drafter(alpha, 0.1), below: drafter(below, 0.01),
            rounds: n as usize, tokens: k as usize,
        };
        let power = (below * alpha).powi(k + 1);
        let phi = 1.0 + (alpha - 1.0) * (1.0 - power) / (1.0 - below * alpha);
        let walltime = 1.0 + f64::from(n) * 0.1 + f64::from(n * k) * 0.01;
        close(system.ewif(), (1.0 - alpha * phi.powi(n)) / ((1.0 - alpha) * walltime))?;
    }

    #[test]
    fn a_free_drafter_below_always_helps(
        alpha in 0.2..0.95, below in inner_rate(), cost in 0.0..1.0, n in 1usize..10, k in 1usize..20,
    ) {
        // Corollary 4.4, where the difference is not lost in rounding.
        let system = Vertical {
            drafter: drafter(alpha, cost), below: drafter(below, 0.0), rounds: n, tokens: k,
        };
        let round = speculative(below, 0.0, k);
        let phi = round.generating_function(super::rate(alpha));
        prop_assert!(phi < alpha);
        prop_assert!(system.ewif() > speculative(alpha, cost, n).ewif());
    }

    #[test]
    fn vertical_without_a_lower_draft_is_speculative(
        alpha in any_rate(), below in any_rate(), cost in 0.0..1.0, n in 0usize..20,
    ) {
        let system = Vertical {
            drafter: drafter(alpha, cost), below: drafter(below, 0.5), rounds: n, tokens: 0,
        };
        close(system.ewif(), speculative(alpha, cost, n).ewif())?;
    }

    #[test]
    fn horizontal_is_theorem_4_5_written_out(
        segments in prop::collection::vec((any_rate(), 0.0..1.0, 0usize..6), 0..4),
    ) {
        let system = Horizontal {
            segments: segments.iter().map(|&(alpha, cost, tokens)| Segment {
                drafter: drafter(alpha, cost), tokens,
            }).collect(),
        };
        let (mut tokens, mut product, mut time) = (1.0, 1.0, 1.0);
        for (alpha, cost, k) in segments {
            for _ in 0..k {
                product *= alpha;
                tokens += product;
                time += cost;
            }
        }
        close(system.ewif(), tokens / time)?;
    }

    #[test]
    fn one_drafter_in_pieces_is_speculative(alpha in any_rate(), cost in 0.0..1.0, a in 0usize..9, b in 0usize..9) {
        let piece = |tokens| Segment { drafter: drafter(alpha, cost), tokens };
        let system = Horizontal { segments: vec![piece(a), piece(b)] };
        close(system.ewif(), speculative(alpha, cost, a + b).ewif())?;
    }
}

#[test]
fn certain_acceptance_emits_everything() {
    assert_eq!(speculative(1.0, 0.1, 9).expected_tokens(), 10.0);
    // Each of 4 rounds drafts 1 + 0.5 + 0.25 tokens, and the target adds one.
    let vertical = Vertical {
        drafter: drafter(1.0, 0.1),
        below: drafter(0.5, 0.01),
        rounds: 4,
        tokens: 2,
    };
    assert_eq!(vertical.expected_tokens(), 8.0);
    let both = Vertical {
        below: drafter(1.0, 0.01),
        ..vertical
    };
    assert_eq!(both.expected_tokens(), 13.0);
}

#[test]
fn no_draft_is_plain_decoding() {
    assert_eq!(speculative(0.7, 0.3, 0).ewif(), 1.0);
    assert_eq!(Horizontal::default().ewif(), 1.0);
    let vertical = Vertical {
        drafter: drafter(0.7, 0.3),
        below: drafter(0.4, 0.1),
        rounds: 0,
        tokens: 5,
    };
    assert_eq!(vertical.ewif(), 1.0);
}

/// Figures of Table 1 of Cascade Speculative Drafting.
const PAPER: [&str; 6] = ["2.65", "2.96", "3.03", "3.61", "3.75", "3.93"];

fn rounded(rows: &[Table1Row]) -> Vec<String> {
    rows.iter()
        .map(|row| format!("{:.2}", row.ewif()))
        .collect()
}

fn cut(value: f64) -> String {
    format!("{:.2}", (value * 100.0).floor() / 100.0)
}

fn lengths(system: &Horizontal) -> Vec<usize> {
    system.segments.iter().map(|s| s.tokens).collect()
}

#[test]
fn rows_are_the_paper_s() {
    let rows = table1(&ModelSizes::FLAN_T5);
    let described: Vec<_> = rows
        .iter()
        .map(|r| (r.dataset, r.drafters.join(" "), lengths(&r.system)))
        .collect();
    let expected = [
        ("CNNDM", "small", vec![9]),
        ("CNNDM", "base", vec![8]),
        ("CNNDM", "base small", vec![5, 3]),
        ("ENDE", "small", vec![12]),
        ("ENDE", "base", vec![11]),
        ("ENDE", "base small", vec![5, 8]),
    ];
    assert_eq!(
        described,
        expected.map(|(d, names, k)| (d, names.to_owned(), k))
    );
    let paper: Vec<_> = rows.iter().map(|r| format!("{:.2}", r.paper)).collect();
    assert_eq!(paper, PAPER);
}

#[test]
fn the_cards_sizes_give_the_paper_s_figures_rounded_or_cut() {
    let rows = table1(&ModelSizes::CARDS);
    assert_eq!(
        rounded(&rows),
        ["2.66", "2.97", "3.03", "3.61", "3.75", "3.93"]
    );
    for row in &rows[..2] {
        assert_eq!(cut(row.ewif()), format!("{:.2}", row.paper));
    }
    for row in &rows {
        assert!((row.ewif() - row.paper).abs() < 0.006, "{row:?}");
    }
}

#[test]
fn a_target_less_than_a_hundredth_smaller_gives_all_six_rounded() {
    assert_eq!(rounded(&table1(&ModelSizes::FLAN_T5)), PAPER);
}

#[test]
fn the_paper_s_lengths_are_the_best_but_in_one_row() {
    for (i, row) in table1(&ModelSizes::FLAN_T5).iter().enumerate() {
        assert!(!row.best.at_limit);
        if i == 2 {
            assert_eq!(lengths(&row.best.system), [5, 5]);
            assert!(row.best.ewif > row.ewif() + 0.01);
        } else {
            assert_eq!(row.best.system, row.system);
        }
    }
}
