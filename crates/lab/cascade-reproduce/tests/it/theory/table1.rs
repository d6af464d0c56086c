//! Table 1 of Cascade Speculative Drafting.

#![allow(clippy::unwrap_used)]

use std::num::NonZeroU64;

use cascade_reproduce::theory::{simulate, table1, ModelSizes, Table1Row};

const PAPER: [&str; 6] = ["2.65", "2.96", "3.03", "3.61", "3.75", "3.93"];

fn rounded(rows: &[Table1Row]) -> Vec<String> {
    rows.iter()
        .map(|row| format!("{:.2}", row.ewif()))
        .collect()
}

fn cut(value: f64) -> String {
    format!("{:.2}", (value * 100.0).floor() / 100.0)
}

fn lengths(system: &cascade_reproduce::theory::Horizontal) -> Vec<usize> {
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
fn the_usual_sizes_give_the_paper_s_figures_rounded_or_cut() {
    let rows = table1(&ModelSizes::FLAN_T5);
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
    let sizes = ModelSizes {
        target: NonZeroU64::new(11_230_000_000).unwrap(),
        ..ModelSizes::FLAN_T5
    };
    assert_eq!(rounded(&table1(&sizes)), PAPER);
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

#[test]
fn playing_the_rows_gives_the_same() {
    for row in table1(&ModelSizes::FLAN_T5) {
        let simulated = simulate(&row.system, 50_000, 1).unwrap();
        let deviation = (simulated.ewif - row.ewif()) / simulated.standard_error;
        assert!(deviation.abs() < 4.0, "{row:?}: {deviation}");
    }
}
