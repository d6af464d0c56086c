//! Says when a head drafts as if it belonged to another target.

use cascade_core::LevelId;

use super::NoticeSink;
use crate::policy::Outcome;

/// Tokens that a head must have been judged by before anything is said of it, and the share of them
/// below which it is. Even the dearest of tokens pays above it, and a head of this target is right
/// about most.
const ENOUGH: usize = 16;
const USELESS: f64 = 0.1;

/// What became of the main paths of a head's drafts, until something has been said.
pub(crate) struct AcceptanceWatch {
    judged: usize,
    accepted: usize,
    notices: Option<NoticeSink>,
}

impl AcceptanceWatch {
    pub(crate) fn new(notices: NoticeSink) -> Self {
        Self {
            judged: 0,
            accepted: 0,
            notices: Some(notices),
        }
    }

    /// Counts the target's judgement of the head `level`, and says once if it is useless.
    pub(crate) fn observe(&mut self, name: &str, level: LevelId, outcome: &Outcome<'_>) {
        if outcome.reviewer != LevelId::TARGET || self.notices.is_none() {
            return;
        }
        for judgement in outcome.judgements().filter(|it| it.drafter == level) {
            self.judged += 1;
            self.accepted += usize::from(judgement.accepted);
        }
        let Self {
            judged, accepted, ..
        } = *self;
        if judged < ENOUGH || accepted as f64 >= USELESS * judged as f64 {
            return;
        }
        if let Some(notices) = self.notices.take() {
            notices(&format!(
                "head `{name}`: the target kept {accepted} of {judged} tokens that it drafted; a head \
                 that was trained for this very model is right about most. Answers are the same, and \
                 take longer: take the head that was trained for the target, or none"
            ));
        }
    }
}
