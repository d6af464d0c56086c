//! Reliability: how often what was said to be probable came true.

use std::collections::BTreeMap;

use cascade_core::LevelId;
use cascade_engine::Statement;
use serde::Serialize;

/// Upper bounds of the bins of probabilities, the last of which has none.
const BOUNDS: [f64; 11] = [0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98];
const BINS: usize = BOUNDS.len() + 1;

/// What the target kept of tokens by their probability, as drafters stated it and as the online
/// schedule corrected it before it was known, by level. Extend it by the statements that
/// the schedule sends.
#[derive(Clone, Debug, Default)]
pub struct Reliability(BTreeMap<usize, LevelReliability>);

/// The statements of one drafter to the target.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LevelReliability {
    /// Tokens of which a probability was stated, by that.
    pub stated: Bins,
    /// All tokens, by what the schedule believed.
    pub believed: Bins,
}

/// Tokens by ranges of a probability.
pub type Bins = [Bin; BINS];

/// Tokens whose probability is in one range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Bin {
    /// Their number.
    pub tokens: usize,
    /// The sum of their probabilities.
    pub said: f64,
    /// How many were kept.
    pub kept: usize,
}

impl Bin {
    /// The mean probability, and the share that was kept; `None` if there are no tokens.
    pub fn means(&self) -> Option<(f64, f64)> {
        let tokens = self.tokens as f64;
        (self.tokens > 0).then(|| (self.said / tokens, self.kept as f64 / tokens))
    }

    fn add(&mut self, said: f64, kept: bool) {
        self.tokens += 1;
        self.said += said;
        self.kept += usize::from(kept);
    }
}

impl Reliability {
    /// The bounds of the bins: above the first number, up to the second.
    pub fn bounds() -> impl Iterator<Item = (f64, f64)> {
        let lower = std::iter::once(0.0).chain(BOUNDS);
        lower.zip(BOUNDS.into_iter().chain([1.0]))
    }

    /// The drafters, by level.
    pub fn levels(&self) -> &BTreeMap<usize, LevelReliability> {
        &self.0
    }

    fn add(&mut self, statement: &Statement) {
        if statement.reviewer != LevelId::TARGET {
            return;
        }
        let of = self.0.entry(statement.drafter.0).or_default();
        let add = |bins: &mut Bins, said: f64| {
            let bin = BOUNDS.partition_point(|&bound| bound < said);
            bins[bin].add(said, statement.accepted);
        };
        if let Some(stated) = statement.stated {
            add(&mut of.stated, f64::from(stated));
        }
        add(&mut of.believed, statement.believed);
    }
}

impl Extend<Statement> for Reliability {
    fn extend<T: IntoIterator<Item = Statement>>(&mut self, statements: T) {
        statements.into_iter().for_each(|it| self.add(&it));
    }
}
