//! What drafters said of tokens that are not reviewed yet.

use cascade_core::LevelId;

use super::{DraftedToken, Outcome};

/// Probabilities of the drafts in progress, by reviewer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pending {
    drafts: Vec<Vec<Said>>,
}

/// What a drafter said of a token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Said {
    pub(super) drafter: LevelId,
    pub(super) position: usize,
    pub(super) probability: Option<f32>,
}

impl Pending {
    /// Notes a token. A position that was noted before belongs to a draft that was given up.
    pub(super) fn note(&mut self, drafted: &DraftedToken<'_>) {
        let reviewer = drafted.reviewer.0;
        if self.drafts.len() <= reviewer {
            self.drafts.resize(reviewer + 1, Vec::new());
        }
        let draft = &mut self.drafts[reviewer];
        let (drafter, position) = (drafted.drafter, drafted.position);
        draft.retain(|said| said.drafter != drafter || said.position < position);
        draft.push(Said {
            drafter,
            position,
            probability: drafted.probability,
        });
    }

    /// Takes what was said of the draft of an outcome, and whether each token was accepted.
    pub(super) fn take(&mut self, outcome: &Outcome<'_>) -> Vec<(Said, bool)> {
        let Some(draft) = self.drafts.get_mut(outcome.reviewer.0) else {
            return Vec::new();
        };
        let draft = std::mem::take(draft);
        let judged = outcome.judgements().filter_map(|judgement| {
            let of = (judgement.drafter, judgement.position);
            let said = draft.iter().find(|it| (it.drafter, it.position) == of)?;
            Some((*said, judgement.accepted))
        });
        judged.collect()
    }
}
