//! What drafters said of tokens that are not reviewed yet.

use cascade_core::LevelId;

use super::{DraftedToken, Outcome};

/// Probabilities of the drafts in progress, by reviewer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pending {
    drafts: Vec<Vec<Entry>>,
}

/// What was said of one token.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Entry {
    drafter: LevelId,
    position: usize,
    probability: Option<f32>,
}

/// What was said of a token, and what became of it.
pub(super) struct Judged {
    pub(super) drafter: LevelId,
    pub(super) position: usize,
    pub(super) probability: Option<f32>,
    pub(super) accepted: bool,
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
        draft.retain(|entry| entry.drafter != drafter || entry.position < position);
        draft.push(Entry {
            drafter,
            position,
            probability: drafted.probability,
        });
    }

    /// Takes what was said of the draft of an outcome.
    pub(super) fn take(&mut self, outcome: &Outcome<'_>) -> Vec<Judged> {
        let Some(draft) = self.drafts.get_mut(outcome.reviewer.0) else {
            return Vec::new();
        };
        let draft = std::mem::take(draft);
        let judged = outcome.judgements().filter_map(|judgement| {
            let entry = draft.iter().find(|entry| {
                entry.drafter == judgement.drafter && entry.position == judgement.position
            })?;
            Some(Judged {
                drafter: entry.drafter,
                position: entry.position,
                probability: entry.probability,
                accepted: judgement.accepted,
            })
        });
        judged.collect()
    }
}
