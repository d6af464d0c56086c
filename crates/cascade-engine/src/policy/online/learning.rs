//! What is learned of costs and tokens, from reviews and from forwards that grow trees.

use cascade_core::{LevelId, NodeId};

use super::OnlineSchedule;
use super::reviewer::{DrafterState, LONGEST};
use crate::policy::{ForwardCost, GrowingTree, Outcome, TurnRecord};

impl OnlineSchedule {
    /// Learns what a forward cost by which a neural drafter grows a tree.
    pub(super) fn learn_growth(&mut self, growing: &GrowingTree<'_>, forward: ForwardCost) {
        let (drafter, fixed) = (growing.drafter.0, self.assumed.fixed);
        let answered = growing.answered.iter().filter(|&&it| it).count();
        let usual = forward.is_usual(answered.saturating_sub(1));
        let own = &mut self.reviewers[drafter];
        own.turn.has(forward.time.as_secs_f64());
        own.share(&forward);
        own.learn_reading(&forward, answered.saturating_sub(1));
        own.learn_forward(&forward, usual, fixed);
        self.note_usual(drafter, usual);
    }

    /// Where a model read a prompt, the time of the drafts that it is in says nothing.
    fn note_usual(&mut self, level: usize, usual: bool) {
        for larger in &mut self.reviewers[..level] {
            larger.draft.unusual |= !usual;
        }
    }

    /// Learns what the forward of a review cost, and the rate.
    pub(super) fn learn_costs(&mut self, outcome: &Outcome<'_>) {
        let reviewer = outcome.reviewer.0;
        let usual = outcome.has_usual_rows();
        let seconds = outcome.forward.time.as_secs_f64();
        let own = &mut self.reviewers[reviewer];
        if reviewer > 0 {
            own.share(&outcome.forward);
        }
        own.learn_reading(&outcome.forward, outcome.draft.len());
        own.learn_forward(&outcome.forward, usual, self.assumed.fixed);
        let drafting: f64 = outcome
            .turns
            .iter()
            .map(|turn| turn.time.as_secs_f64())
            .sum();
        for turn in outcome.turns {
            let drafter = &mut self.reviewers[turn.turn.drafter.0];
            drafter.turn.ends(turn.time.as_secs_f64());
        }
        // The target drafts for nobody.
        if reviewer > 0 {
            self.reviewers[reviewer].turn.has(seconds + drafting);
        }
        let one = self.forward(reviewer);
        let spent = if seconds > 0.0 {
            self.forward_time(outcome) + drafting / one
        } else {
            self.forward_time(outcome) + self.assumed_drafting(outcome)
        };
        let own = &mut self.reviewers[reviewer];
        own.reviews += 1;
        if usual && !own.draft.unusual {
            own.learn_rate((outcome.accepted.len() + 1) as f64, spent);
        }
        self.note_usual(reviewer, usual);
    }

    /// This text's part of the forward of a review, in steps of plain decoding.
    fn forward_time(&self, outcome: &Outcome<'_>) -> f64 {
        let own = &self.reviewers[outcome.reviewer.0];
        let alone = (outcome.draft.len() + 1) as f64;
        let rows_of_each = outcome
            .forward
            .shared
            .map_or(alone, |all| all.rows as f64 / all.texts.max(1) as f64);
        own.forward_of(rows_of_each)
    }

    /// What drafting took that was not measured, in steps of plain decoding.
    fn assumed_drafting(&self, outcome: &Outcome<'_>) -> f64 {
        let reviewer = outcome.reviewer.0;
        let neural = outcome
            .turns
            .iter()
            .map(|turn| (turn, self.grown_by(reviewer, turn.turn.drafter.0)))
            .filter(|(_, drafter)| self.is_neural(*drafter));
        neural
            .map(|(turn, drafter)| turn.path.len() as f64 * self.token_cost(reviewer, drafter))
            .sum()
    }

    /// Learns how long statistical drafters took, and takes what they took in vain from the time
    /// for trying them.
    pub(super) fn learn_questions(&mut self, outcome: &Outcome<'_>) {
        let reviewer = outcome.reviewer.0;
        let one = self.forward(reviewer);
        for turn in outcome.turns {
            let drafter = LevelId(self.grown_by(reviewer, turn.turn.drafter.0));
            if self.is_neural(drafter.0) {
                continue;
            }
            let spent = turn.time.as_secs_f64() / one;
            let proposer = |node: &&NodeId| outcome.draft.proposer(**node) == drafter;
            let kept = outcome.accepted.iter().filter(proposer).count();
            let paid = self.pays(reviewer, drafter.0);
            let own = &mut self.reviewers[reviewer];
            let asking = &mut own.drafters[drafter.0].asking;
            asking.took(turn.time.as_secs_f64());
            if !paid {
                let saved = kept as f64 / own.gain();
                own.trials -= (spent - saved).max(0.0);
            }
        }
    }

    /// Learns what neural drafters will have to read of the text that the target added to.
    pub(super) fn learn_text(&mut self, outcome: &Outcome<'_>) {
        let tokens = outcome.accepted.len() + 1;
        for level in &mut self.reviewers[1..] {
            level.reading.grow(tokens);
        }
    }

    pub(super) fn learn_acceptance(&mut self, outcome: &Outcome<'_>) {
        let judged = self.pending.take(outcome);
        let one = self.forward(outcome.reviewer.0);
        let own = &mut self.reviewers[outcome.reviewer.0];
        own.judge_trial(outcome, one);
        let tell = &self.on_statement;
        for (said, accepted) in judged {
            let DrafterState { stated, next, .. } = &mut own.drafters[said.drafter.0];
            let of = (outcome.reviewer, said.drafter);
            tell.judge(of, stated, (said.probability, said.position), accepted);
            next.learn(None, said.position, accepted);
        }
        let levels = &self.levels;
        for proposal in std::mem::take(&mut own.draft.proposals) {
            let DrafterState { stated, next, .. } = &mut own.drafters[proposal.drafter.0];
            let of = (outcome.reviewer, proposal.drafter);
            proposal.compare(outcome, |probability, depth, accepted| {
                tell.judge(of, stated, (probability, depth), accepted);
            });
            if levels[proposal.drafter.0].is_neural {
                proposal.compare_places(outcome, |depth, stayed| next.learn(None, depth, stayed));
            }
        }
        let branched = |turn: &&TurnRecord| turn.turn.nodes > LONGEST;
        for turn in outcome.turns.iter().filter(branched) {
            own.learn_branches(outcome, turn);
        }
    }
}
