//! What drafters said of tokens that are not reviewed yet.

use std::collections::BTreeMap;

use cascade_core::LevelId;

use super::{DraftedToken, Outcome};

/// Probabilities of the drafts in progress, by reviewer, drafter and position.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pending(BTreeMap<(LevelId, LevelId, usize), Option<f32>>);

/// What a drafter said of a token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Said {
    pub(super) drafter: LevelId,
    pub(super) position: usize,
    pub(super) probability: Option<f32>,
}

impl Pending {
    /// Notes a token. What was said of one at its position is of a draft that was given up.
    pub(super) fn note(&mut self, drafted: &DraftedToken<'_>) {
        let place = (drafted.reviewer, drafted.drafter, drafted.position);
        self.0.insert(place, drafted.probability);
    }

    /// Takes what was said of the draft of an outcome, and whether each token was accepted.
    pub(super) fn take(&mut self, outcome: &Outcome<'_>) -> Vec<(Said, bool)> {
        let judged = outcome.judgements().filter_map(|judgement| {
            let (drafter, position) = (judgement.drafter, judgement.position);
            let said = Said {
                drafter,
                position,
                probability: *self.0.get(&(outcome.reviewer, drafter, position))?,
            };
            Some((said, judgement.accepted))
        });
        let judged = judged.collect();
        self.0
            .retain(|&(reviewer, ..), _| reviewer != outcome.reviewer);
        judged
    }
}
