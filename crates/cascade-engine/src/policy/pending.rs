//! What drafters said of tokens that are not reviewed yet.

use cascade_core::LevelId;

use super::{DraftedToken, Outcome};

/// Probabilities of the drafts in progress.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pending(Vec<Said>);

/// What a drafter said of a token to a reviewer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Said {
    reviewer: LevelId,
    pub(super) drafter: LevelId,
    pub(super) position: usize,
    pub(super) probability: Option<f32>,
}

impl Pending {
    /// Notes a token. A position that was noted before belongs to a draft that was given up.
    pub(super) fn note(&mut self, drafted: &DraftedToken<'_>) {
        let said = Said {
            reviewer: drafted.reviewer,
            drafter: drafted.drafter,
            position: drafted.position,
            probability: drafted.probability,
        };
        let of = (said.reviewer, said.drafter);
        let stays = |it: &Said| (it.reviewer, it.drafter) != of || it.position < said.position;
        self.0.retain(stays);
        self.0.push(said);
    }

    /// Takes what was said of the draft of an outcome, and whether each token was accepted.
    pub(super) fn take(&mut self, outcome: &Outcome<'_>) -> Vec<(Said, bool)> {
        let all = std::mem::take(&mut self.0).into_iter();
        let (own, others): (Vec<_>, _) = all.partition(|it| it.reviewer == outcome.reviewer);
        self.0 = others;
        let judged = outcome.judgements().filter_map(|judgement| {
            let of = (judgement.drafter, judgement.position);
            let said = own.iter().find(|it| (it.drafter, it.position) == of)?;
            Some((*said, judgement.accepted))
        });
        judged.collect()
    }
}
