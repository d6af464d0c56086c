//! The cost of a forward: time by number of rows and context length.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cascade_core::{Error, Result, Scorer, TokenId, TokenTree, Want};
use cascade_models::{Model, ScoreCall, Session, compute_threads, score_together};

use crate::cpu_time;
use crate::forward_input::{Tokens, with_siblings};

/// Rounds that are not timed. The first fills caches, allocates, and computes the context; the
/// second repeats the preparation for each number of rows, in case memory grew for a later one and
/// invalidated it.
const WARM_UP: usize = 2;

/// The longest context and source that are measured: a million tokens.
pub const LONGEST_CONTEXT: usize = 1 << 20;

/// Settings of the measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardBench {
    /// Context lengths before the timed rows. A decoder-only model needs at least one token.
    pub contexts: Vec<usize>,
    /// Numbers of rows of a forward: 1 is plain decoding, n + 1 a draft of n tokens.
    pub rows: Vec<usize>,
    /// Tokens of the source, for encoder-decoder models.
    pub source: usize,
    /// Timed forwards for each number of rows, of which the median is taken.
    pub repeats: usize,
    /// Whether rows are a tree, of a path and a sibling of each of its nodes, instead of a chain.
    pub tree: bool,
    /// Seed of the random input tokens.
    pub seed: u64,
    /// What is timed.
    pub clock: ForwardClock,
}

/// What is timed of a forward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardClock {
    /// The time that passes.
    #[default]
    Wall,
    /// The time that the processors spend on this process, all of its threads together
    /// ([`cpu_time`]): of a single thread the time of a forward, however busy the machine is.
    Cpu,
}

impl ForwardClock {
    /// What forwards of a model are timed by: a busy machine counts for nothing where a single
    /// thread computes.
    pub fn of(model: &Model) -> Self {
        // Our kernels, on the CPU, are those that take rows of several texts.
        if model.gathers() && compute_threads() == 1 {
            Self::Cpu
        } else {
            Self::Wall
        }
    }

    fn now(self, start: Instant) -> Duration {
        let cpu = match self {
            Self::Wall => None,
            Self::Cpu => cpu_time(),
        };
        cpu.unwrap_or_else(|| start.elapsed())
    }
}

impl Default for ForwardBench {
    fn default() -> Self {
        Self {
            contexts: vec![128, 512, 2048],
            rows: vec![1, 2, 4, 8, 16, 32, 64],
            source: 128,
            repeats: 9,
            tree: false,
            seed: 0,
            clock: ForwardClock::Wall,
        }
    }
}

/// Time of one forward.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ForwardCost {
    /// Tokens of the context.
    pub context: usize,
    /// Rows computed.
    pub rows: usize,
    /// Median time.
    pub median: Duration,
    /// Mean time.
    pub mean: Duration,
    /// The time that a quarter of the forwards do not exceed: what they take where nothing else is
    /// computed, if that is so for a part of them.
    pub typical: Duration,
    /// Shortest time.
    pub fastest: Duration,
    /// Longest time.
    pub slowest: Duration,
}

impl ForwardCost {
    /// Both measurements of the same forwards.
    pub(crate) fn and(&self, other: &Self) -> Self {
        let mean = |a: Duration, b: Duration| (a + b) / 2;
        Self {
            median: mean(self.median, other.median),
            mean: mean(self.mean, other.mean),
            typical: mean(self.typical, other.typical),
            fastest: self.fastest.min(other.fastest),
            slowest: self.slowest.max(other.slowest),
            ..*self
        }
    }
}

impl ForwardBench {
    /// Measures forwards whose context is cached and whose rows are new, requesting the argmax of
    /// each row, as a cascade does. Measurements of the different numbers of rows are interleaved,
    /// so that changes of the machine's speed affect all equally. Combinations that exceed the
    /// model's positions are omitted from the result.
    ///
    /// # Errors
    /// Contexts and a source above [`LONGEST_CONTEXT`], and more rows than the model scores, before
    /// anything is allocated for them; errors of the model.
    pub fn run(&self, scorer: &mut dyn Scorer) -> Result<Vec<ForwardCost>> {
        self.check_lengths()?;
        self.check_rows(scorer)?;
        let mut tokens = Tokens::new(self.seed, scorer.info().vocab_size);
        scorer.set_source(&tokens.source(scorer, self.source))?;
        let mut costs = Vec::new();
        for &length in &self.contexts {
            let context = tokens.take(length);
            let limit = scorer.info().max_context.unwrap_or(usize::MAX);
            let fits = |rows: usize| length.saturating_add(rows - 1) <= limit;
            costs.extend(self.at(length, fits, |rows, started| {
                let tree = self.draft(tokens.take(rows - 1));
                started();
                scorer.score(&context, &tree, Want::ARGMAX)?;
                Ok(())
            })?);
        }
        Ok(costs)
    }

    /// Measures forwards with one row of each of several texts, in place of rows of one text: what
    /// a step of plain decoding takes where texts are generated at a time. Texts have the same
    /// context and a source, and share neither in memory.
    ///
    /// # Errors
    /// Contexts and a source above [`LONGEST_CONTEXT`]; errors of the model.
    pub fn run_texts(&self, model: &Arc<Model>) -> Result<Vec<ForwardCost>> {
        self.check_lengths()?;
        let texts = self.rows.iter().copied().max().unwrap_or_default();
        let mut sessions: Vec<Session> = (0..texts).map(|_| model.session()).collect();
        let mut tokens = Tokens::new(self.seed, model.info().vocab_size);
        for session in &mut sessions {
            let source = tokens.source(session, self.source);
            session.set_source(&source)?;
        }
        let mut costs = Vec::new();
        for &length in &self.contexts {
            let context = tokens.take(length);
            let limit = model.info().max_context.unwrap_or(usize::MAX);
            let tree = TokenTree::new();
            costs.extend(self.at(
                length,
                |_| length <= limit,
                |texts, started| {
                    let calls = sessions[..texts]
                        .iter_mut()
                        .map(|session| ScoreCall {
                            session,
                            context: &context,
                            tree: &tree,
                            want: Want::ARGMAX,
                        })
                        .collect();
                    started();
                    let scored = score_together(calls);
                    scored.into_iter().try_for_each(|scores| scores.map(drop))
                },
            )?);
        }
        Ok(costs)
    }

    fn check_lengths(&self) -> Result<()> {
        let longest = self.contexts.iter().chain([&self.source]).max();
        match longest.filter(|&&length| length > LONGEST_CONTEXT) {
            Some(&needed) => Err(Error::ContextTooLong {
                needed,
                limit: LONGEST_CONTEXT,
            }),
            None => Ok(()),
        }
    }

    fn check_rows(&self, scorer: &dyn Scorer) -> Result<()> {
        let nodes = self
            .rows
            .iter()
            .max()
            .map_or(0, |rows| rows.saturating_sub(1));
        match scorer.info().max_nodes {
            Some(limit) if nodes > limit => Err(Error::TreeTooLarge { nodes, limit }),
            _ => Ok(()),
        }
    }

    fn draft(&self, tokens: Vec<TokenId>) -> TokenTree {
        if self.tree && tokens.len() > 1 {
            with_siblings(&tokens, tokens.len()).0
        } else {
            TokenTree::chain(tokens)
        }
    }

    /// Measures forwards of so many rows that `fit`, in turns; `forward` says when its time starts.
    fn at(
        &self,
        context: usize,
        fits: impl Fn(usize) -> bool,
        mut forward: impl FnMut(usize, &mut dyn FnMut()) -> Result<()>,
    ) -> Result<Vec<ForwardCost>> {
        let rows = self.rows.iter().copied();
        let rows: Vec<usize> = rows.filter(|&rows| rows > 0 && fits(rows)).collect();
        let mut times = vec![Vec::new(); rows.len()];
        let start = Instant::now();
        for round in 0..WARM_UP + self.repeats {
            for (times, &rows) in times.iter_mut().zip(&rows) {
                let mut started = Duration::ZERO;
                forward(rows, &mut || started = self.clock.now(start))?;
                if round >= WARM_UP {
                    times.push(self.clock.now(start).saturating_sub(started));
                }
            }
        }
        let costs = rows.into_iter().zip(times).map(|(rows, mut times)| {
            times.sort_unstable();
            ForwardCost {
                context,
                rows,
                median: times[times.len() / 2],
                mean: times.iter().sum::<Duration>() / times.len() as u32,
                typical: times[times.len() / 4],
                fastest: times[0],
                slowest: times[times.len() - 1],
            }
        });
        Ok(costs.collect())
    }
}

/// Memory read bandwidth of this machine with all CPU cores, in bytes per second: the bound of a
/// forward at batch size 1. The best of several passes over a buffer larger than any cache.
pub fn read_bandwidth() -> f64 {
    const WORDS: usize = 1 << 26; // 512 MiB
    const PASSES: usize = 5;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let buffer: Vec<u64> = (0..WORDS as u64).collect();
    let pass = || {
        let started = Instant::now();
        let sum = std::thread::scope(|scope| {
            let parts: Vec<_> = buffer
                .chunks(WORDS.div_ceil(threads))
                .map(|part| scope.spawn(move || part.iter().fold(0u64, |a, &b| a.wrapping_add(b))))
                .collect();
            let sums = parts.into_iter().filter_map(|part| part.join().ok());
            sums.fold(0u64, u64::wrapping_add)
        });
        std::hint::black_box(sum);
        started.elapsed()
    };
    let fastest = (0..PASSES).map(|_| pass()).min().unwrap_or_default();
    (WORDS * size_of::<u64>()) as f64 / fastest.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cascade_core::Architecture;
    use cascade_core::toy::ToyScorer;

    #[test]
    fn every_context_and_number_of_rows_that_fits_is_measured() {
        let bench = ForwardBench {
            contexts: vec![4, 20],
            rows: vec![1, 3, 8],
            repeats: 3,
            ..ForwardBench::default()
        };
        let mut toy = ToyScorer::target("toy", 12, 1).with_max_context(24);
        let costs = bench.run(&mut toy).expect("a toy does not fail");
        let measured: Vec<_> = costs.iter().map(|cost| (cost.context, cost.rows)).collect();
        assert_eq!(measured, [(4, 1), (4, 3), (4, 8), (20, 1), (20, 3)]);
        for cost in costs {
            assert!(cost.fastest <= cost.median && cost.median <= cost.slowest);
        }
    }

    #[test]
    fn what_no_memory_holds_is_refused_before_it_is_allocated() {
        let mut toy = ToyScorer::target("toy", 12, 1);
        let too_long = ForwardBench {
            contexts: vec![usize::MAX],
            ..ForwardBench::default()
        };
        let error = too_long.run(&mut toy).unwrap_err();
        assert!(matches!(error, Error::ContextTooLong { .. }), "{error}");
    }

    #[test]
    fn encoder_decoder_models_get_a_source() {
        let mut toy =
            ToyScorer::target("toy", 12, 1).with_architecture(Architecture::EncoderDecoder);
        let bench = ForwardBench {
            contexts: vec![0],
            rows: vec![1],
            repeats: 1,
            ..ForwardBench::default()
        };
        assert_eq!(bench.run(&mut toy).expect("a toy does not fail").len(), 1);
    }
}
