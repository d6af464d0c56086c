//! A generation compared with plain decoding of the same prompt.

use std::time::Duration;

use cascade_core::Decoding;
use cascade_engine::GenerationOutput;
use cascade_eval::Bootstrap;

/// Rounds below which no interval is given, and no verdict: a single short run says little.
pub(crate) const FEWEST: usize = 5;

/// Plain decoding of a prompt, and how a generation of the same prompt compares with it.
pub(crate) struct Comparison {
    pub(crate) plain: GenerationOutput,
    /// Whether tokens can be compared: samples cannot.
    pub(crate) comparable: bool,
    /// Index of the first token that differs.
    pub(crate) first_difference: Option<usize>,
    /// All rounds, this one first.
    pub(crate) rounds: Vec<Round>,
}

/// What the same prompt took both ways.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    tokens: usize,
    wall: Duration,
    plain_tokens: usize,
    plain_wall: Duration,
}

impl Round {
    fn new(generation: &GenerationOutput, plain: &GenerationOutput) -> Self {
        Self {
            tokens: generation.tokens.len(),
            wall: generation.wall,
            plain_tokens: plain.tokens.len(),
            plain_wall: plain.wall,
        }
    }
}

impl Comparison {
    pub(crate) fn new(
        generation: &GenerationOutput,
        plain: GenerationOutput,
        decoding: Decoding,
    ) -> Self {
        let comparable = decoding.is_greedy();
        Self {
            comparable,
            first_difference: comparable
                .then(|| first_difference(&generation.tokens, &plain.tokens))
                .flatten(),
            rounds: vec![Round::new(generation, &plain)],
            plain,
        }
    }

    /// Adds a further round of the same prompt and seed.
    pub(crate) fn add(&mut self, generation: &GenerationOutput, plain: &GenerationOutput) {
        self.rounds.push(Round::new(generation, plain));
        if self.comparable && self.first_difference.is_none() {
            self.first_difference = first_difference(&generation.tokens, &plain.tokens);
        }
    }
}

/// Ratio of tokens per second over rounds.
pub(crate) fn speedup<'r>(rounds: impl IntoIterator<Item = &'r Round>) -> f64 {
    let (mut tokens, mut plain_tokens) = (0, 0);
    let (mut wall, mut plain_wall) = (Duration::ZERO, Duration::ZERO);
    for round in rounds {
        tokens += round.tokens;
        plain_tokens += round.plain_tokens;
        wall += round.wall;
        plain_wall += round.plain_wall;
    }
    (tokens as f64 * plain_wall.as_secs_f64()) / (plain_tokens as f64 * wall.as_secs_f64())
}

/// The 95% interval of the speedup: percentiles of resampled rounds. `None` if there are too few.
pub(crate) fn interval(rounds: &[Round]) -> Option<(f64, f64)> {
    if rounds.len() < FEWEST {
        return None;
    }
    let of = |chosen: &[usize]| speedup(chosen.iter().map(|&i| &rounds[i]));
    Bootstrap::default().interval(rounds.len(), of)
}

fn first_difference(a: &[u32], b: &[u32]) -> Option<usize> {
    let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    (common < a.len().max(b.len())).then_some(common)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(milliseconds: u64, plain: u64) -> Round {
        Round {
            tokens: 10,
            wall: Duration::from_millis(milliseconds),
            plain_tokens: 10,
            plain_wall: Duration::from_millis(plain),
        }
    }

    #[test]
    fn few_rounds_have_no_interval_and_many_have_one_around_the_speedup() {
        let rounds: Vec<Round> = (0..8).map(|i| round(100, 200 + 10 * i)).collect();
        assert!(interval(&rounds[..FEWEST - 1]).is_none());
        let (low, high) = interval(&rounds).unwrap();
        let speedup = speedup(&rounds);
        assert!((speedup - 2.35).abs() < 1e-9);
        assert!(2.0 < low && low < speedup && speedup < high && high < 2.7);
        let same = interval(&[round(100, 150); 5]).unwrap();
        assert!((same.0 - 1.5).abs() < 1e-9 && (same.1 - 1.5).abs() < 1e-9);
    }
}
