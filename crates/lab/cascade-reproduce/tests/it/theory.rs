//! Formulas against the paper, enumeration and simulation.

mod chains;
mod engine;
mod ewif;
mod mdp;
mod rejection;
mod search;
mod simulation;

use cascade_reproduce::theory::rejection::{Markov, Pair};
use cascade_reproduce::theory::{AcceptanceRate, Drafter};

fn drafter(acceptance: f64, cost: f64) -> Drafter {
    Drafter::new(acceptance, cost).unwrap()
}

fn rate(value: f64) -> AcceptanceRate {
    AcceptanceRate::new(value).unwrap()
}

/// A random chain, of the paper's kind if `likeness` is 0.
fn random_chain(states: usize, positions: usize, likeness: f64, seed: u64) -> Markov {
    Markov::random(states, positions, rate(likeness), seed).unwrap()
}

/// The pair of a chain after some tokens; `None` at its end.
fn pair_after<'c>(chain: &'c Markov, past: &[usize]) -> Option<&'c Pair> {
    let place = past
        .last()
        .map_or(0, |last| 1 + (past.len() - 1) * chain.states() + last);
    chain.pairs().get(place)
}
