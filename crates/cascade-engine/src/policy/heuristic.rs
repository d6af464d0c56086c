//! A length that follows the last outcome.

use cascade_core::LevelId;

use super::{DraftedToken, Outcome, StopRule};

/// Two tokens more after a draft that was accepted as a whole, one less after another: the
/// `heuristic` schedule of Hugging Face transformers, the dynamic baseline of DISCO (footnote 2). A
/// drafter has a length for each of its reviewers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LengthHeuristic {
    start: usize,
    /// The drafter, once it has drafted.
    own: Option<LevelId>,
    /// The length of drafts for each reviewer.
    lengths: Vec<usize>,
}

/// Tokens of the first draft, as in transformers and DISCO.
const START: usize = 5;
const MORE: usize = 2;
const LESS: usize = 1;
/// No draft is longer, and a length that grew beyond would take long to fall.
const LONGEST: usize = 1 << 10;

impl LengthHeuristic {
    /// Begins with drafts of `start` tokens, 1 at least.
    pub fn new(start: usize) -> Self {
        Self {
            start: start.clamp(1, LONGEST),
            own: None,
            lengths: Vec::new(),
        }
    }

    fn length(&mut self, reviewer: LevelId) -> &mut usize {
        if self.lengths.len() <= reviewer.0 {
            self.lengths.resize(reviewer.0 + 1, self.start);
        }
        &mut self.lengths[reviewer.0]
    }
}

impl Default for LengthHeuristic {
    fn default() -> Self {
        Self::new(START)
    }
}

impl StopRule for LengthHeuristic {
    fn stop(&mut self, drafted: &DraftedToken<'_>) -> bool {
        self.own = Some(drafted.drafter);
        drafted.turn_position + 1 >= *self.length(drafted.reviewer)
    }

    fn observe(&mut self, outcome: &Outcome<'_>) {
        let own = self.own;
        let turns = outcome.turns.iter();
        let mut drafted = turns
            .filter(|record| Some(record.turn.drafter) == own)
            .flat_map(|record| &record.path)
            .peekable();
        if drafted.peek().is_none() {
            return;
        }
        let all = drafted.all(|node| outcome.accepted.contains(node));
        let length = self.length(outcome.reviewer);
        *length = if all {
            (*length + MORE).min(LONGEST)
        } else {
            length.saturating_sub(LESS).max(1)
        };
    }

    fn forget(&mut self) {
        self.lengths.clear();
    }
}
