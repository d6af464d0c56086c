//! Expected speedups of drafting, by formula and by simulation.

use anyhow::{Result, ensure};
use cascade_reproduce::theory::{
    Drafter, Horizontal, Segment, Speculative, Vertical, best_horizontal, best_speculative,
    best_vertical,
};

use super::args::{HorizontalArgs, SpeculativeArgs, VerticalArgs};
use super::report::{DrafterRecord, Report};

pub(super) fn speculative(args: &SpeculativeArgs) -> Result<Report> {
    let drafter = args.drafter.drafter();
    let given = args.k.map(|k| Speculative {
        drafter,
        tokens: k.into(),
    });
    let best = |limit| best_speculative(drafter, limit);
    let (system, search) = args.search.or_best(given, best);
    let drafters = vec![DrafterRecord::new(drafter, system.tokens)];
    let of = ("speculative decoding", "Corollary 4.2");
    Report::new(of, drafters, (&system, search), &args.output)
}

pub(super) fn vertical(args: &VerticalArgs) -> Result<Report> {
    let drafter = args.drafter.drafter();
    let below = Drafter {
        acceptance: args.alpha_below,
        cost: args.cost_below,
    };
    let given = args.n.zip(args.k).map(|(n, k)| Vertical {
        drafter,
        below,
        rounds: n.into(),
        tokens: k.into(),
    });
    let best = |limit| best_vertical(drafter, below, limit);
    let (system, search) = args.search.or_best(given, best);
    let reviewer = DrafterRecord {
        reviews: Some(system.rounds),
        tokens: None,
        ..DrafterRecord::new(drafter, 0)
    };
    let below = DrafterRecord {
        role: "below",
        ..DrafterRecord::new(below, system.tokens)
    };
    let of = ("vertical cascade", "Theorem 4.3");
    let drafters = vec![reviewer, below];
    Report::new(of, drafters, (&system, search), &args.output)
}

pub(super) fn horizontal(args: &HorizontalArgs) -> Result<Report> {
    let (rates, costs, lengths) = (args.alpha.len(), args.cost.len(), args.k.len());
    ensure!(
        rates == costs && (lengths == 0 || lengths == rates),
        "--alpha was given {rates} times, --cost {costs} times and --k {lengths} times; \
         give each once for every drafter, or no --k at all to find the best"
    );
    let drafters = args.alpha.iter().zip(&args.cost);
    let drafters = drafters.map(|(&acceptance, &cost)| Drafter { acceptance, cost });
    let drafters: Vec<Drafter> = drafters.collect();
    let segments = drafters.iter().zip(&args.k).map(|(&drafter, &k)| Segment {
        drafter,
        tokens: k.into(),
    });
    let segments: Vec<Segment> = segments.collect();
    let given = (lengths > 0).then_some(Horizontal { segments });
    let best = |limit| best_horizontal(&drafters, limit);
    let (system, search) = args.search.or_best(given, best);
    let segments = system.segments.iter();
    let drafters = segments.map(|s| DrafterRecord::new(s.drafter, s.tokens));
    let of = ("horizontal cascade", "Theorem 4.5");
    Report::new(of, drafters.collect(), (&system, search), &args.output)
}
