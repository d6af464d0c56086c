//! Expected speedups of drafting, by formula and by simulation.

use anyhow::{ensure, Result};
use cascade_reproduce::theory::{
    best_horizontal, best_speculative, best_vertical, Drafter, Horizontal, Segment, Speculative,
    Vertical,
};

use super::args::{HorizontalArgs, SpeculativeArgs, VerticalArgs};
use super::report::{DrafterRecord, Found, Report};

pub(super) fn speculative(args: &SpeculativeArgs) -> Result<Report> {
    let drafter = args.drafter.drafter();
    let found = match args.k {
        Some(k) => Found::given(Speculative {
            drafter,
            tokens: k.into(),
        }),
        None => Found::best(best_speculative(drafter, args.search.limit()), &args.search),
    };
    let tokens = found.system.tokens;
    let drafters = vec![DrafterRecord::new(drafter, tokens)];
    Report::new(
        ("speculative decoding", "Corollary 4.2"),
        drafters,
        found,
        &args.output,
    )
}

pub(super) fn vertical(args: &VerticalArgs) -> Result<Report> {
    let drafter = args.drafter.drafter();
    let below = Drafter {
        acceptance: args.alpha_below,
        cost: args.cost_below,
    };
    let found = match (args.n, args.k) {
        (Some(n), Some(k)) => Found::given(Vertical {
            drafter,
            below,
            rounds: n.into(),
            tokens: k.into(),
        }),
        _ => Found::best(
            best_vertical(drafter, below, args.search.limit()),
            &args.search,
        ),
    };
    let reviewer = DrafterRecord {
        reviews: Some(found.system.rounds),
        tokens: None,
        ..DrafterRecord::new(drafter, 0)
    };
    let below = DrafterRecord {
        role: "below",
        ..DrafterRecord::new(below, found.system.tokens)
    };
    let drafters = vec![reviewer, below];
    Report::new(
        ("vertical cascade", "Theorem 4.3"),
        drafters,
        found,
        &args.output,
    )
}

pub(super) fn horizontal(args: &HorizontalArgs) -> Result<Report> {
    let (rates, costs, lengths) = (args.alpha.len(), args.cost.len(), args.k.len());
    ensure!(
        rates == costs && (lengths == 0 || lengths == rates),
        "--alpha was given {rates} times, --cost {costs} times and --k {lengths} times; \
         give each once for every drafter, or no --k at all to find the best"
    );
    let drafters = args
        .alpha
        .iter()
        .zip(&args.cost)
        .map(|(&acceptance, &cost)| Drafter { acceptance, cost });
    let found = if lengths == 0 {
        let drafters: Vec<Drafter> = drafters.collect();
        Found::best(
            best_horizontal(&drafters, args.search.limit()),
            &args.search,
        )
    } else {
        let segments = drafters.zip(&args.k).map(|(drafter, &k)| Segment {
            drafter,
            tokens: k.into(),
        });
        Found::given(Horizontal {
            segments: segments.collect(),
        })
    };
    let segments = found.system.segments.iter();
    let drafters = segments.map(|s| DrafterRecord::new(s.drafter, s.tokens));
    Report::new(
        ("horizontal cascade", "Theorem 4.5"),
        drafters.collect(),
        found,
        &args.output,
    )
}
