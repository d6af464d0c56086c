//! A target whose text and times are given, and a drafter that is right as often as is said.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cascade_core::{
    Architecture, Budget, Drafter, Observation, Prompt, Result, ScoredTree, Scorer, ScorerInfo,
    Scores, TokenId, TokenTree, Want,
};
use cascade_engine::{Cascade, CascadeBuilder, Clock, Options, VirtualClock};

pub(crate) const VOCABULARY: usize = 1 << 16;

/// The target's token at a position.
pub(crate) fn token(position: usize) -> TokenId {
    (hash(position as u64) % VOCABULARY as u64) as TokenId
}

/// A number between 0 and 1 for a position.
fn chance(seed: u64, position: usize) -> f64 {
    (hash(position as u64 ^ seed << 32) >> 11) as f64 / (1u64 << 53) as f64
}

/// SplitMix64's finalizer.
fn hash(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// Acceptance and costs of a part of the text.
#[derive(Clone, Debug)]
pub(crate) struct Regime {
    pub(crate) positions: Range<usize>,
    /// How often drafters are right.
    pub(crate) acceptance: f64,
    /// Seconds of a forward of one row, and what each further row adds as a share of it.
    pub(crate) forward: f64,
    pub(crate) row: f64,
}

pub(crate) type Regimes = Arc<Mutex<Vec<Regime>>>;

fn at(regimes: &Regimes, position: usize) -> Regime {
    let regimes = regimes.lock().unwrap();
    let found = regimes
        .iter()
        .find(|regime| regime.positions.contains(&position));
    found.or(regimes.last()).unwrap().clone()
}

/// A model: says the text, or is wrong where chance has it.
#[derive(Clone)]
pub(crate) struct Said {
    pub(crate) regimes: Regimes,
    pub(crate) clock: VirtualClock,
    /// The seed of the drafter, and its forward as a share of the target's.
    pub(crate) drafter: Option<(u64, f64)>,
    /// Seconds of a proposal, and as many of learning from a step.
    pub(crate) asking: f64,
}

impl Said {
    fn says(&self, position: usize) -> TokenId {
        let right = token(position);
        match self.drafter {
            Some((seed, _)) if chance(seed, position) >= at(&self.regimes, position).acceptance => {
                (right + 1) % VOCABULARY as TokenId
            }
            _ => right,
        }
    }

    /// What it says, and other tokens behind it; where it is wrong, the second is right in two of
    /// three places.
    fn top(&self, position: usize, width: usize) -> Vec<(TokenId, f32)> {
        let (right, says) = (token(position), self.says(position));
        let other = |step: usize| (right + 2 + step as TokenId) % VOCABULARY as TokenId;
        let second = if says != right && chance(77, position) < 0.67 {
            right
        } else {
            other(0)
        };
        let rest = (1..).map(|step| (other(step), 0.02));
        [(says, 0.6), (second, 0.2)]
            .into_iter()
            .chain(rest)
            .take(width)
            .collect()
    }
}

impl Scorer for Said {
    fn info(&self) -> ScorerInfo {
        ScorerInfo::new(Architecture::DecoderOnly, VOCABULARY)
    }

    fn set_source(&mut self, _source: &[TokenId]) -> Result<()> {
        Ok(())
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        let regime = at(&self.regimes, context.len());
        let share = self.drafter.map_or(1.0, |(_, share)| share);
        let seconds = share * regime.forward * (1.0 + regime.row * tree.len() as f64);
        self.clock.advance(Duration::from_secs_f64(seconds));
        let positions = std::iter::once(context.len())
            .chain((0..tree.len()).map(|node| context.len() + tree.depth(node) + 1));
        let argmax: Vec<TokenId> = positions.map(|position| self.says(position)).collect();
        let gathered = cascade_core::GatheredProbs {
            argmax: vec![0.7; tree.len() + 1],
            nodes: vec![0.7; tree.len()],
        };
        let wanted = want.rows >= cascade_core::RowDetail::Gathered;
        let top = || cascade_core::Top {
            width: want.top,
            tokens: (0..=tree.len())
                .flat_map(|row| {
                    let depth = row.checked_sub(1).map_or(0, |node| tree.depth(node) + 1);
                    self.top(context.len() + depth, want.top)
                })
                .collect(),
        };
        Ok(Scores::default()
            .with_argmax(argmax)
            .with_gathered(wanted.then_some(gathered))
            .with_top((want.top > 0).then(top))
            .with_rows_computed(tree.len() + 1))
    }
}

impl Drafter for Said {
    fn set_source(&mut self, _source: &[TokenId]) {}

    fn propose(&mut self, context: &[TokenId], budget: Budget) -> ScoredTree {
        self.clock.advance(Duration::from_secs_f64(self.asking));
        let depth = budget.depth.min(budget.nodes);
        let positions = context.len()..context.len() + depth;
        TokenTree::chain(positions.map(|position| self.says(position))).into()
    }

    fn observe(&mut self, observation: &Observation<'_>) {
        if !observation.is_text_alone() {
            self.clock.advance(Duration::from_secs_f64(self.asking));
        }
    }
}

/// A target and what it takes to replay it.
pub(crate) struct Replay {
    pub(crate) regimes: Regimes,
    pub(crate) clock: VirtualClock,
}

impl Replay {
    pub(crate) fn new(regimes: Vec<Regime>) -> Self {
        Self {
            regimes: Arc::new(Mutex::new(regimes)),
            clock: VirtualClock::default(),
        }
    }

    pub(crate) fn drafter(&self, seed: u64, share: f64) -> Said {
        Said {
            regimes: Arc::clone(&self.regimes),
            clock: self.clock.clone(),
            drafter: Some((seed, share)),
            asking: 0.0,
        }
    }

    /// A statistical drafter that takes so many seconds to propose, and as many to learn.
    pub(crate) fn slow_drafter(&self, seed: u64, asking: f64) -> Said {
        Said {
            asking,
            ..self.drafter(seed, 0.0)
        }
    }

    /// A drafter that is right as often as is said here, whatever the others are.
    pub(crate) fn drafter_of(&self, seed: u64, share: f64, regimes: Vec<Regime>) -> Said {
        Said {
            regimes: Arc::new(Mutex::new(regimes)),
            ..self.drafter(seed, share)
        }
    }

    pub(crate) fn builder(&self) -> CascadeBuilder {
        let target = Said {
            drafter: None,
            ..self.drafter(0, 1.0)
        };
        Cascade::builder()
            .target("target", target)
            .clock(self.clock.clone())
    }

    /// Seconds at which each token was emitted, from the start; the first is at position 1.
    pub(crate) fn times(&self, builder: CascadeBuilder, tokens: usize) -> Vec<f64> {
        let mut cascade = builder.build().unwrap();
        let prompt = Prompt::new(Architecture::DecoderOnly, vec![token(0)]);
        let options = Options::default().with_max_new_tokens(tokens);
        let start = self.clock.now();
        let mut times = Vec::new();
        let mut generation = cascade.start_tokens(&prompt, &options).unwrap();
        while let Some(step) = generation.step().unwrap() {
            for &said in &step.tokens {
                assert_eq!(said, token(times.len() + 1), "the output is the target's");
                times.push((self.clock.now() - start).as_secs_f64());
            }
        }
        times
    }
}
