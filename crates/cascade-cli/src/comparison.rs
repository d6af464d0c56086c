//! Generations compared with plain decoding of the same prompts.

use std::time::Duration;

use anyhow::Result;
use cascade_engine::GenerationOutput;
use cascade_eval::{Bootstrap, cpu_time};
use serde::{Serialize, Serializer};
use serde_json::json;

/// Prompts below which no interval is given, and no verdict: a few short texts say little.
const FEWEST: usize = 5;

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
        let made = &self.generation;
        let models = made.models.iter();
        Side {
            tokens: made.tokens.len(),
            forwards: made.steps.len(),
            prefill_rows: models.map(|model| model.usage.prefill_rows).sum(),
            wall: made.wall,
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
    /// Forwards of the target.
    forwards: usize,
    /// Rows of the prompt that were computed, by all models.
    prefill_rows: u64,
    wall: Duration,
    pub(crate) cpu: Option<Duration>,
}

/// Nothing, in no time.
impl Default for Side {
    fn default() -> Self {
        Self {
            tokens: 0,
            forwards: 0,
            prefill_rows: 0,
            wall: Duration::ZERO,
            cpu: Some(Duration::ZERO),
        }
    }
}

impl Side {
    fn tokens_per_forward(&self) -> f64 {
        self.tokens as f64 / self.forwards as f64
    }

    fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens + other.tokens,
            forwards: self.forwards + other.forwards,
            prefill_rows: self.prefill_rows + other.prefill_rows,
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

/// What the prompt took in one of several rounds.
impl Serialize for Round {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let seconds = |cpu: Option<Duration>| cpu.map(|cpu| cpu.as_secs_f64());
        json!({
            "num_spec_steps": self.own.forwards,
            "prefill_rows": self.own.prefill_rows,
            "wall_seconds": self.own.wall.as_secs_f64(),
            "cpu_seconds": seconds(self.own.cpu),
            "plain_wall_seconds": self.plain.wall.as_secs_f64(),
            "plain_cpu_seconds": seconds(self.plain.cpu),
        })
        .serialize(serializer)
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

/// What comparisons of several prompts show.
#[derive(Default)]
pub(crate) struct Comparisons {
    /// The sums over the rounds of each prompt.
    prompts: Vec<Round>,
    /// Rounds of each prompt, but for Ctrl-C.
    rounds: usize,
    comparable: bool,
    /// Prompts whose output differs from plain decoding.
    pub(crate) unequal: usize,
}

impl Comparisons {
    pub(crate) fn add(&mut self, comparison: &Comparison) {
        self.prompts.push(Round::sum(&comparison.rounds));
        self.rounds = self.rounds.max(comparison.rounds.len());
        self.comparable = comparison.comparable;
        self.unequal += usize::from(comparison.first_difference.is_some());
    }

    /// The 95% interval of a ratio: percentiles over resampled prompts, since a round adds none.
    fn interval(&self, ratio: impl Fn(&Round) -> Option<f64>) -> Option<(f64, f64)> {
        let of = |chosen: &[usize]| {
            let sum = Round::sum(chosen.iter().map(|&i| &self.prompts[i]));
            ratio(&sum).unwrap_or(f64::NAN)
        };
        let enough = self.prompts.len() >= FEWEST;
        enough.then(|| Bootstrap::default().interval(self.prompts.len(), of))?
    }

    /// Whether the outputs are equal, and how fast they came.
    pub(crate) fn line(&self) -> String {
        let prompts = self.prompts.len();
        let equality = match self.unequal {
            _ if !self.comparable => "samples, not compared with plain decoding".to_owned(),
            0 => "equal to plain decoding".to_owned(),
            n => format!("DIFFERENT from plain decoding on {n} of {prompts} prompts"),
        };
        let sum = Round::sum(&self.prompts);
        let by_wall = self.interval(|round| Some(round.speedup()));
        let by_cpu = || self.interval(Round::cpu_speedup);
        let cpu = sum.cpu_speedup().map_or_else(String::new, |cpu| {
            format!(", {cpu:.2}{} by CPU time", bracketed(by_cpu()))
        });
        let mut evidence = match (by_wall, prompts) {
            (Some(_), prompts) => format!("95% intervals over {prompts} prompts"),
            (None, 1) => "one prompt".to_owned(),
            (None, prompts) => format!("{prompts} prompts"),
        };
        if self.rounds > 1 {
            evidence += &format!(", {} rounds", self.rounds);
        }
        if by_wall.is_some_and(|(_, high)| high < 1.0) {
            evidence += "; slower: draft fewer tokens, or use cheaper drafters";
        }
        let (speedup, of_wall) = (sum.speedup(), bracketed(by_wall));
        format!("{equality}, {speedup:.2} × as fast{of_wall}{cpu} ({evidence})")
    }

    /// What else should be known of the speed.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let prompts = self.prompts.len();
        let below = self.below_plain().filter(|_| prompts > 1);
        let below = below.map(|(below, (worst, least))| {
            format!(
                "{below} of {prompts} prompts slower than plain decoding by CPU time; the worst, \
                 answer {}: {least:.2} ×",
                worst + 1
            )
        });
        below.into_iter().chain(self.doubt()).collect()
    }

    /// By CPU time, the number of prompts below plain decoding, and the slowest one, from 0.
    fn below_plain(&self) -> Option<(usize, (usize, f64))> {
        let ratios = self.prompts.iter().map(Round::cpu_speedup);
        let ratios = ratios.collect::<Option<Vec<_>>>()?;
        let below = ratios.iter().filter(|ratio| **ratio < 1.0).count();
        let worst = ratios.into_iter().enumerate();
        Some((below, worst.min_by(|(_, a), (_, b)| a.total_cmp(b))?))
    }

    /// Why a speed cannot be believed: decoding that takes a forward for so many tokens is not
    /// faster than so many times plain decoding, which takes one for each.
    fn doubt(&self) -> Option<String> {
        let sum = Round::sum(&self.prompts);
        let speedup = sum.cpu_speedup().unwrap_or(0.0).max(sum.speedup());
        let most = sum.own.tokens_per_forward();
        (speedup > most + 0.005).then(|| {
            format!(
                "questionable: {speedup:.2} × as fast by {most:.2} tokens per forward, which is the \
                 most that drafts can give; plain decoding was disturbed, or the texts are too few \
                 or too short to be timed"
            )
        })
    }
}

impl Serialize for Comparisons {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let sum = Round::sum(&self.prompts);
        let below = self.below_plain();
        json!({
            "prompts": self.prompts.len(),
            "rounds": self.rounds,
            "equal_to_plain": self.comparable.then(|| self.prompts.len() - self.unequal),
            "mean_acceptance_length": sum.own.tokens_per_forward(),
            "speedup": sum.speedup(),
            "speedup_interval": self.interval(|round| Some(round.speedup())),
            "cpu_speedup": sum.cpu_speedup(),
            "cpu_speedup_interval": self.interval(Round::cpu_speedup),
            "prompts_below_plain": below.map(|(below, _)| below),
            "worst_answer": below.map(|(_, (worst, _))| worst + 1),
            "worst_cpu_speedup": below.map(|(_, (_, least))| least),
            "questionable": self.doubt(),
        })
        .serialize(serializer)
    }
}

/// An interval behind its figure.
fn bracketed(interval: Option<(f64, f64)>) -> String {
    interval.map_or_else(String::new, |(low, high)| format!(" [{low:.2}, {high:.2}]"))
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
            forwards: 5,
            prefill_rows: 3,
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

    /// Prompts of one round, or of the same round several times.
    fn compared(rounds: &[Round], times: usize) -> Comparisons {
        Comparisons {
            prompts: rounds
                .iter()
                .map(|one| Round::sum(vec![one; times]))
                .collect(),
            rounds: times,
            comparable: true,
            unequal: 0,
        }
    }

    fn by_wall(comparisons: &Comparisons) -> Option<(f64, f64)> {
        comparisons.interval(|round| Some(round.speedup()))
    }

    #[test]
    fn few_prompts_have_no_interval_and_many_have_one_around_the_speedup() {
        let rounds: Vec<Round> = (0..8).map(|i| round(100, 200 + 10 * i)).collect();
        assert!(by_wall(&compared(&rounds[..FEWEST - 1], 1)).is_none());
        let (low, high) = by_wall(&compared(&rounds, 1)).unwrap();
        let speedup = Round::sum(&rounds).speedup();
        assert!((speedup - 2.35).abs() < 1e-9);
        assert!(2.0 < low && low < speedup && speedup < high && high < 2.7);
        let same = by_wall(&compared(&[round(100, 150); 5], 1)).unwrap();
        assert!((same.0 - 1.5).abs() < 1e-9 && (same.1 - 1.5).abs() < 1e-9);
    }

    #[test]
    fn rounds_are_no_prompts_and_narrow_no_interval() {
        let rounds: Vec<Round> = (0..8).map(|i| round(100, 200 + 10 * i)).collect();
        let (once, often) = (compared(&rounds, 1), compared(&rounds, 50));
        let (one, other) = (by_wall(&once).unwrap(), by_wall(&often).unwrap());
        assert!((one.0 - other.0).abs() < 1e-9 && (one.1 - other.1).abs() < 1e-9);
        assert!(often.line().contains("over 8 prompts, 50 rounds"));
        let alone = compared(&rounds[..1], 50);
        assert_eq!(by_wall(&alone), None);
        assert!(alone.line().ends_with("(one prompt, 50 rounds)"));
    }

    #[test]
    fn slow_prompts_are_counted_and_speeds_without_a_reason_questioned() {
        let comparisons = compared(&[round(100, 150), round(200, 100), round(100, 90)], 1);
        let remarks = comparisons.remarks();
        assert_eq!(remarks.len(), 1, "{remarks:?}");
        assert!(remarks[0].starts_with("2 of 3 prompts slower"));
        assert!(remarks[0].ends_with("the worst, answer 2: 0.50 ×"));
        // Ten tokens in five forwards are at most twice as fast.
        assert_eq!(compared(&[round(100, 200)], 1).doubt(), None);
        let doubt = compared(&[round(100, 210)], 1).doubt().unwrap();
        assert!(doubt.contains("2.10 × as fast by 2.00 tokens per forward"));
    }
}
