//! A generation compared with plain decoding of the same prompt.

use std::time::Duration;

use anyhow::Result;
use cascade_engine::GenerationOutput;
use cascade_eval::{cpu_time, Bootstrap};

/// Rounds below which no interval is given, and no verdict: a single short run says little.
pub(crate) const FEWEST: usize = 5;

/// Plain decoding of a prompt, and how a generation of the same prompt compares with it.
pub(crate) struct Comparison {
    pub(crate) plain: GenerationOutput,
    /// Whether tokens can be compared: samples cannot if they depend on what is drafted.
    pub(crate) comparable: bool,
    /// Index of the first token that differs.
    pub(crate) first_difference: Option<usize>,
    /// All rounds, this one first.
    pub(crate) rounds: Vec<Round>,
}

/// A generation, and what it took.
pub(crate) struct Timed {
    pub(crate) generation: GenerationOutput,
    /// Time that the processors spent on it; `None` where the system does not tell.
    cpu: Option<Duration>,
}

impl Timed {
    /// Times what `generate` does.
    pub(crate) fn of(generate: impl FnOnce() -> Result<GenerationOutput>) -> Result<Self> {
        let before = cpu_time();
        let generation = generate()?;
        let cpu = cpu_time().zip(before);
        Ok(Self {
            generation,
            cpu: cpu.map(|(after, before)| after.saturating_sub(before)),
        })
    }

    fn side(&self) -> Side {
        Side {
            tokens: self.generation.tokens.len(),
            wall: self.generation.wall,
            cpu: self.cpu,
        }
    }
}

/// What the same prompt took both ways.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    own: Side,
    plain: Side,
}

/// Tokens, and what they took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Side {
    pub(crate) tokens: usize,
    wall: Duration,
    pub(crate) cpu: Option<Duration>,
}

impl Side {
    /// The sum over one side of all rounds.
    pub(crate) fn sum<'r>(rounds: &'r [Round], side: impl Fn(&'r Round) -> &'r Self) -> Self {
        let sides = rounds.iter().map(side);
        let zero = Self {
            cpu: Some(Duration::ZERO),
            ..Self::default()
        };
        sides.fold(zero, |sum, side| Self {
            tokens: sum.tokens + side.tokens,
            wall: sum.wall + side.wall,
            cpu: sum.cpu.zip(side.cpu).map(|(sum, side)| sum + side),
        })
    }
}

impl Round {
    fn new(generation: &Timed, plain: &Timed) -> Self {
        Self {
            own: generation.side(),
            plain: plain.side(),
        }
    }

    pub(crate) const fn own(&self) -> &Side {
        &self.own
    }

    pub(crate) const fn plain(&self) -> &Side {
        &self.plain
    }
}

impl Comparison {
    pub(crate) fn new(generation: &Timed, plain: Timed, comparable: bool) -> Self {
        Self {
            comparable,
            first_difference: comparable.then(|| differs(generation, &plain)).flatten(),
            rounds: vec![Round::new(generation, &plain)],
            plain: plain.generation,
        }
    }

    /// Adds a further round of the same prompt and seed.
    pub(crate) fn add(&mut self, generation: &Timed, plain: &Timed) {
        self.rounds.push(Round::new(generation, plain));
        if self.comparable && self.first_difference.is_none() {
            self.first_difference = differs(generation, plain);
        }
    }
}

/// Ratio of tokens per second over rounds.
pub(crate) fn speedup<'r>(rounds: impl IntoIterator<Item = &'r Round>) -> f64 {
    ratio(rounds, |side| side.wall)
}

/// Ratio of tokens per second of CPU time over rounds; `None` where the system does not tell it.
pub(crate) fn cpu_speedup(rounds: &[Round]) -> Option<f64> {
    let told = |round: &Round| round.own.cpu.is_some() && round.plain.cpu.is_some();
    let all = rounds.iter().all(told);
    all.then(|| ratio(rounds, |side| side.cpu.unwrap_or_default()))
}

fn ratio<'r>(rounds: impl IntoIterator<Item = &'r Round>, time: impl Fn(&Side) -> Duration) -> f64 {
    let (mut own, mut plain) = ((0, Duration::ZERO), (0, Duration::ZERO));
    for round in rounds {
        own = (own.0 + round.own.tokens, own.1 + time(&round.own));
        plain = (plain.0 + round.plain.tokens, plain.1 + time(&round.plain));
    }
    (own.0 as f64 * plain.1.as_secs_f64()) / (plain.0 as f64 * own.1.as_secs_f64())
}

/// The 95% interval of the speedup: percentiles of resampled rounds. `None` if there are too few.
pub(crate) fn interval(rounds: &[Round]) -> Option<(f64, f64)> {
    if rounds.len() < FEWEST {
        return None;
    }
    let of = |chosen: &[usize]| speedup(chosen.iter().map(|&i| &rounds[i]));
    Bootstrap::default().interval(rounds.len(), of)
}

fn differs(generation: &Timed, plain: &Timed) -> Option<usize> {
    first_difference(&generation.generation.tokens, &plain.generation.tokens)
}

fn first_difference(a: &[u32], b: &[u32]) -> Option<usize> {
    let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    (common < a.len().max(b.len())).then_some(common)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(milliseconds: u64, plain: u64) -> Round {
        let side = |milliseconds| Side {
            tokens: 10,
            wall: Duration::from_millis(milliseconds),
            cpu: Some(Duration::from_millis(2 * milliseconds + 1)),
        };
        Round {
            own: side(milliseconds),
            plain: side(plain),
        }
    }

    #[test]
    fn cpu_time_has_a_ratio_of_its_own_if_it_is_known() {
        let mut rounds = [round(100, 150), round(200, 150)];
        assert!((cpu_speedup(&rounds).unwrap() - 602.0 / 602.0).abs() < 1e-9);
        assert_eq!(Side::sum(&rounds, Round::own).tokens, 20);
        rounds[1].plain.cpu = None;
        assert_eq!(cpu_speedup(&rounds), None);
        assert_eq!(Side::sum(&rounds, Round::plain).cpu, None);
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
