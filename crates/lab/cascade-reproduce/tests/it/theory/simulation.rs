//! Systems played trial by trial agree with their formulas.

use cascade_reproduce::theory::{
    Drafter, Horizontal, ModelSizes, Segment, Simulated, Speculative, System, Vertical, simulate,
    table1,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::drafter as of;

const SYSTEMS: u64 = 40;
const STEPS: u64 = 20_000;

fn drafter(rng: &mut ChaCha8Rng) -> Drafter {
    of(rng.random_range(0.05..0.95), rng.random_range(0.0..0.3))
}

fn speculative(rng: &mut ChaCha8Rng) -> Speculative {
    Speculative {
        drafter: drafter(rng),
        tokens: rng.random_range(1..12),
    }
}

fn vertical(rng: &mut ChaCha8Rng) -> Vertical {
    Vertical {
        drafter: drafter(rng),
        below: drafter(rng),
        rounds: rng.random_range(1..6),
        tokens: rng.random_range(1..6),
    }
}

fn horizontal(rng: &mut ChaCha8Rng) -> Horizontal {
    let segments = (0..rng.random_range(1..4)).map(|_| Segment {
        drafter: drafter(rng),
        tokens: rng.random_range(1..6),
    });
    Horizontal {
        segments: segments.collect(),
    }
}

/// How many standard errors a simulation is off a figure.
fn deviation(simulated: Simulated, figure: f64) -> f64 {
    (simulated.ewif - figure) / simulated.standard_error
}

/// Deviations of random systems from their formulas must look like standard normal numbers: none is
/// large (5 has a probability below 1e-6), and neither is the sum of their squares, nor is it
/// small, as it would be if the standard errors were too generous.
fn agrees<S: System>(seed: u64, random_system: impl Fn(&mut ChaCha8Rng) -> S) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut squares = 0.0;
    for i in 0..SYSTEMS {
        let system = random_system(&mut rng);
        let simulated = simulate(&system, STEPS, seed + i).unwrap();
        let z = deviation(simulated, system.ewif());
        assert!(z.abs() < 5.0, "system {i} is {z} standard errors off");
        let tokens = simulated.tokens_per_step;
        assert!((tokens / system.walltime() / simulated.ewif - 1.0).abs() < 1e-9);
        squares += z * z;
    }
    let (mean, deviation) = (SYSTEMS as f64, (2.0 * SYSTEMS as f64).sqrt());
    assert!(
        (squares - mean).abs() < 3.5 * deviation,
        "the squares of {SYSTEMS} deviations sum to {squares}"
    );
}

#[test]
fn speculative_agrees_with_corollary_4_2() {
    agrees(1_000, speculative);
}

#[test]
fn vertical_agrees_with_theorem_4_3() {
    agrees(2_000, vertical);
}

#[test]
fn horizontal_agrees_with_theorem_4_5() {
    agrees(3_000, horizontal);
}

#[test]
fn wrong_formulas_are_found_out() {
    let mut rng = ChaCha8Rng::seed_from_u64(4_000);
    for seed in 0..SYSTEMS {
        let mut system = speculative(&mut rng);
        // Below this the last token is hardly ever reached.
        system.tokens = system.tokens.min(3);
        system.drafter = of(0.5, system.drafter.cost.get());
        let simulated = simulate(&system, STEPS, seed).unwrap();
        let one_token_less =
            (system.expected_tokens() - 0.5f64.powi(system.tokens as i32)) / system.walltime();
        assert!(deviation(simulated, one_token_less) > 5.0);
        let target_for_free = system.expected_tokens() / (system.walltime() - 0.05);
        assert!(deviation(simulated, target_for_free) < -5.0);
    }
}

#[test]
fn what_is_certain_has_no_error() {
    let certain = Speculative {
        drafter: of(1.0, 0.25),
        tokens: 4,
    };
    let simulated = simulate(&certain, 100, 1).unwrap();
    assert_eq!((simulated.ewif, simulated.standard_error), (2.5, 0.0));
    let hopeless = Speculative {
        drafter: of(0.0, 0.25),
        tokens: 4,
    };
    assert_eq!(simulate(&hopeless, 100, 1).unwrap().ewif, 0.5);
}

#[test]
fn playing_the_rows_of_table_1_gives_their_figures() {
    for row in table1(&ModelSizes::FLAN_T5) {
        let off = deviation(simulate(&row.system, 50_000, 1).unwrap(), row.ewif());
        assert!(off.abs() < 4.0, "{row:?}: {off}");
    }
}

#[test]
fn a_seed_says_it_all_and_one_step_is_too_few() {
    let system = speculative(&mut ChaCha8Rng::seed_from_u64(5));
    let of_seed = |seed| simulate(&system, 1_000, seed).unwrap();
    assert_eq!(of_seed(1), of_seed(1));
    assert_ne!(of_seed(1), of_seed(2));
    let few = simulate(&system, 1, 0).unwrap_err().to_string();
    assert!(few.ends_with("1 were asked for"), "{few}");
    assert!(simulate(&system, 2, 0).is_ok());
}
