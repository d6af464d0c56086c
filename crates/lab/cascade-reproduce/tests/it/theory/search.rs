//! The best lengths are those that trying all finds.

use cascade_reproduce::theory::{
    Drafter, Horizontal, Segment, Speculative, System, Vertical, best_horizontal, best_speculative,
    best_vertical,
};
use proptest::prelude::*;

use super::drafter;

fn any_drafter() -> impl Strategy<Value = Drafter> {
    let rate = prop_oneof![4 => 0.0..=1.0, 1 => Just(1.0)];
    let cost = prop_oneof![4 => 0.0..0.3, 1 => Just(0.0)];
    (rate, cost).prop_map(|(rate, cost)| drafter(rate, cost))
}

/// All lengths from 0 to `limit` of `drafters`, in their order.
fn all_lengths(drafters: &[Drafter], limit: usize) -> Vec<Vec<Segment>> {
    let Some((&drafter, rest)) = drafters.split_first() else {
        return vec![vec![]];
    };
    let mut all = vec![];
    for tokens in 0..=limit {
        for mut after in all_lengths(rest, limit) {
            after.insert(0, Segment { drafter, tokens });
            all.push(after);
        }
    }
    all
}

fn orders(drafters: &[Drafter]) -> Vec<Vec<Drafter>> {
    let mut all = vec![];
    for i in 0..drafters.len() {
        let mut rest = drafters.to_vec();
        let first = rest.remove(i);
        for mut order in orders(&rest) {
            order.insert(0, first);
            all.push(order);
        }
    }
    if all.is_empty() {
        all.push(vec![]);
    }
    all
}

proptest! {
    #[test]
    fn speculative(drafter in any_drafter(), limit in 0usize..30) {
        let best = best_speculative(drafter, limit);
        for tokens in 0..=limit {
            let other = Speculative { drafter, tokens }.ewif();
            prop_assert!(other < best.ewif || (other == best.ewif && tokens >= best.system.tokens));
        }
        prop_assert_eq!(best.ewif, best.system.ewif());
        prop_assert_eq!(best.at_limit, best.system.tokens == limit);
    }

    #[test]
    fn vertical(drafter in any_drafter(), below in any_drafter(), limit in 0usize..8) {
        let best = best_vertical(drafter, below, limit);
        for rounds in 0..=limit {
            for tokens in 0..=limit {
                let other = Vertical { drafter, below, rounds, tokens };
                prop_assert!(other.ewif() <= best.ewif);
            }
        }
        prop_assert_eq!(best.ewif, best.system.ewif());
        // The drafter alone is among the candidates.
        prop_assert!(best.ewif >= best_speculative(drafter, limit).ewif - 1e-12);
    }

    #[test]
    fn horizontal_in_any_order(drafters in prop::collection::vec(any_drafter(), 0..4), limit in 0usize..5) {
        let best = best_horizontal(&drafters, limit);
        prop_assert_eq!(best.ewif, best.system.ewif());
        prop_assert_eq!(best.system.segments.len(), drafters.len());
        let longest = best.system.segments.iter().map(|s| s.tokens).max();
        prop_assert!(longest <= Some(limit) && best.at_limit == (longest == Some(limit)));
        for order in orders(&drafters) {
            for segments in all_lengths(&order, limit) {
                let other = Horizontal { segments }.ewif();
                prop_assert!(other <= best.ewif * (1.0 + 1e-12), "{} > {}", other, best.ewif);
            }
        }
    }
}

#[test]
fn a_drafter_that_never_pays_is_left_out() {
    // A token that is accepted half of the time and takes half as long as the target's is worth
    // nothing.
    for hopeless in [drafter(0.5, 0.5), drafter(0.0, 0.0), drafter(1.0, 1.0)] {
        let best = best_speculative(hopeless, 20);
        assert_eq!(
            (best.system.tokens, best.ewif, best.at_limit),
            (0, 1.0, false)
        );
        assert_eq!(best_horizontal(&[hopeless], 20).ewif, 1.0);
    }
    let best = best_vertical(drafter(0.8, 0.1), drafter(0.0, 0.1), 20);
    assert_eq!(best.system.tokens, 0);
    assert_eq!(
        best.system.rounds,
        best_speculative(drafter(0.8, 0.1), 20).system.tokens
    );
}

#[test]
fn says_when_the_limit_is_what_stops_it() {
    let free = drafter(0.9, 0.0);
    let best = best_speculative(free, 20);
    assert_eq!((best.system.tokens, best.at_limit), (20, true));
    assert!(best_vertical(drafter(0.9, 0.1), free, 20).at_limit);
    let split = best_horizontal(&[drafter(0.9, 0.1), free], 20);
    assert_eq!(split.system.segments[0].drafter, free);
    assert!(split.at_limit);
}

#[test]
fn many_and_nearly_equal_drafters_do_not_take_forever() {
    // Eight drafters of up to 100 tokens can be combined in more than 1e16 ways.
    let drafters: Vec<_> = (1..=8)
        .map(|i| drafter(1.0 - 0.001 * f64::from(i), 0.001 - 0.000_05 * f64::from(i)))
        .collect();
    let best = best_horizontal(&drafters, 100);
    let alone = drafters.iter().map(|&d| best_speculative(d, 100).ewif);
    assert!(best.ewif > alone.fold(1.0, f64::max));
}
