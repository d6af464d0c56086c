//! A generation compared with plain decoding of the same prompt.

use std::time::Duration;

use anyhow::Result;
use cascade_engine::GenerationOutput;
use cascade_eval::{Bootstrap, cpu_time};

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

/// What the same prompt took both ways, or all rounds together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Round {
    pub(crate) own: Side,
    pub(crate) plain: Side,
}

/// Tokens, and what they took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    pub(crate) tokens: usize,
    wall: Duration,
    pub(crate) cpu: Option<Duration>,
}

/// Nothing, in no time.
impl Default for Side {
    fn default() -> Self {
        Self {
            tokens: 0,
            wall: Duration::ZERO,
            cpu: Some(Duration::ZERO),
        }
    }
}

impl Side {
    fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens + other.tokens,
            wall: self.wall + other.wall,
            cpu: self.cpu.zip(other.cpu).map(|(one, other)| one + other),
        }
    }
}

impl Round {
    fn new(generation: &Timed, plain: &Timed) -> Self {
        Self {
            own: generation.side(),
            plain: plain.side(),
        }
    }

    /// The sums over rounds.
    pub(crate) fn sum<'r>(rounds: impl IntoIterator<Item = &'r Self>) -> Self {
        let rounds = rounds.into_iter();
        rounds.fold(Self::default(), |sum, round| Self {
            own: sum.own.plus(round.own),
            plain: sum.plain.plus(round.plain),
        })
    }

    /// Ratio of tokens per second.
    pub(crate) fn speedup(&self) -> f64 {
        self.ratio(self.own.wall, self.plain.wall)
    }

    /// Ratio of tokens per second of CPU time; `None` where the system does not tell it.
    pub(crate) fn cpu_speedup(&self) -> Option<f64> {
        Some(self.ratio(self.own.cpu?, self.plain.cpu?))
    }

    fn ratio(&self, own: Duration, plain: Duration) -> f64 {
        let (tokens, plain_tokens) = (self.own.tokens as f64, self.plain.tokens as f64);
        (tokens * plain.as_secs_f64()) / (plain_tokens * own.as_secs_f64())
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

/// The 95% interval of the speedup: percentiles of resampled rounds. `None` if there are too few.
pub(crate) fn interval(rounds: &[Round]) -> Option<(f64, f64)> {
    if rounds.len() < FEWEST {
        return None;
    }
    let of = |chosen: &[usize]| Round::sum(chosen.iter().map(|&i| &rounds[i])).speedup();
    Bootstrap::default().interval(rounds.len(), of)
}

/// Index of the first token that differs.
fn differs(generation: &Timed, plain: &Timed) -> Option<usize> {
    let (a, b) = (&generation.generation.tokens, &plain.generation.tokens);
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
        let sum = Round::sum(&rounds);
        assert!((sum.cpu_speedup().unwrap() - 602.0 / 602.0).abs() < 1e-9);
        assert_eq!(sum.own.tokens, 20);
        rounds[1].plain.cpu = None;
        let sum = Round::sum(&rounds);
        assert_eq!((sum.cpu_speedup(), sum.plain.cpu), (None, None));
    }

    #[test]
    fn few_rounds_have_no_interval_and_many_have_one_around_the_speedup() {
        let rounds: Vec<Round> = (0..8).map(|i| round(100, 200 + 10 * i)).collect();
        assert!(interval(&rounds[..FEWEST - 1]).is_none());
        let (low, high) = interval(&rounds).unwrap();
        let speedup = Round::sum(&rounds).speedup();
        assert!((speedup - 2.35).abs() < 1e-9);
        assert!(2.0 < low && low < speedup && speedup < high && high < 2.7);
        let same = interval(&[round(100, 150); 5]).unwrap();
        assert!((same.0 - 1.5).abs() < 1e-9 && (same.1 - 1.5).abs() < 1e-9);
    }
}
