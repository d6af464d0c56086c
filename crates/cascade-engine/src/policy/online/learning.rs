//! What is learned of costs and tokens, from reviews and from forwards that grow trees.

use cascade_core::{LevelId, NodeId};

use super::reviewer::{DrafterState, LONGEST, TRIALS_APART};
use super::{OnlineSchedule, Statement};
use crate::policy::{ForwardCost, GrowingTree, Outcome, TurnRecord};

impl OnlineSchedule {
    /// Learns what a forward cost by which a neural drafter grows a tree.
    pub(super) fn learn_growth(&mut self, growing: &GrowingTree<'_>, forward: ForwardCost) {
        let answered = growing.answered.iter().filter(|&&it| it).count();
        self.learn_forward(growing.drafter.0, &forward, answered);
        let own = &mut self.reviewers[growing.drafter.0];
        own.in_turn += forward.time.as_secs_f64();
        let draft = &mut self.reviewers[growing.reviewer.0].draft;
        draft.answered = Some(growing.answered.to_vec());
        draft.forwards += 1;
    }

    /// Learns how busy the machine is, where times are known and costs not fixed, from a forward
    /// that was asked for so many rows, and says whether it computed about as many. Where a model
    /// read a prompt, the time of the drafts that it is in says nothing.
    fn learn_forward(&mut self, level: usize, forward: &ForwardCost, asked: usize) -> bool {
        let is_usual = forward.is_usual(asked.saturating_sub(1));
        for larger in &mut self.reviewers[..level] {
            larger.draft.unusual |= !is_usual;
        }
        let own = &mut self.reviewers[level];
        if let Some(shared) = forward.shared.filter(|_| level > 0) {
            own.texts = shared.texts.max(1);
        }
        if is_usual && !self.assumed.fixed && !forward.time.is_zero() {
            let whole = (forward.rows, forward.time);
            let (rows, time) = forward.shared.map_or(whole, |all| (all.rows, all.time));
            own.costs.learn(rows, time.as_secs_f64());
        }
        is_usual
    }

    /// Learns what a review cost, its draft included, and the rate.
    pub(super) fn learn_costs(&mut self, outcome: &Outcome<'_>) {
        let reviewer = outcome.reviewer.0;
        let asked = outcome.draft.len() + 1;
        let usual = self.learn_forward(reviewer, &outcome.forward, asked);
        let drafting = self.learn_turns(outcome);
        let spent = self.forward_time(outcome) + drafting;
        let one = self.forward(reviewer);
        let own = &mut self.reviewers[reviewer];
        // What it takes to read text is beside.
        let rows = asked.max(outcome.forward.rows);
        let share = own.forward_of(asked as f64) / own.forward_of(rows as f64);
        own.in_turn += share * outcome.forward.time.as_secs_f64() + one * drafting;
        own.reviews += 1;
        if usual && !own.draft.unusual {
            own.learn_rate((outcome.accepted.len() + 1) as f64, spent);
        }
    }

    /// This text's part of the forward of a review, in steps of plain decoding.
    fn forward_time(&self, outcome: &Outcome<'_>) -> f64 {
        let alone = (outcome.draft.len() + 1) as f64;
        let shared = outcome.forward.shared;
        let rows_of_each = shared.map_or(alone, |all| all.rows as f64 / all.texts.max(1) as f64);
        self.reviewers[outcome.reviewer.0].forward_of(rows_of_each)
    }

    /// Learns what drafters took, and gives all of that in steps of plain decoding.
    fn learn_turns(&mut self, outcome: &Outcome<'_>) -> f64 {
        let reviewer = outcome.reviewer.0;
        let mut drafting = 0.0;
        for turn in outcome.turns {
            let level = self.grown_by(reviewer, turn.turn.drafter.0);
            let forwards = match self.reviewers[reviewer].draft.forwards {
                0 => turn.path.len().max(1),
                growing => growing,
            };
            let seconds = turn.time.as_secs_f64();
            let spent = if !outcome.forward.time.is_zero() {
                seconds / self.forward(reviewer)
            } else if self.is_neural(level) {
                forwards as f64 * self.token_cost(reviewer, level)
            } else {
                0.0
            };
            drafting += spent;
            self.judge_trial(outcome, level, spent);
            if self.is_neural(level) {
                self.learn_beside(level, seconds, forwards);
            } else {
                let drafter = &mut self.reviewers[reviewer].drafters[level];
                drafter.seconds.learn(seconds);
            }
        }
        drafting
    }

    /// Learns what each forward of a neural drafter's turn took beside what it should. Nothing
    /// where times are withheld.
    fn learn_beside(&mut self, drafter: usize, seconds: f64, forwards: usize) {
        let own = &mut self.reviewers[drafter];
        let beside = seconds - std::mem::take(&mut own.in_turn);
        if seconds > 0.0 && !self.assumed.fixed {
            own.beside.learn(beside.max(0.0) / forwards as f64);
        }
    }

    /// Takes what a trial cost more than it saved from the time for trials. So a drafter that
    /// became better is tried as often as it takes to see that; one that did not rests.
    fn judge_trial(&mut self, outcome: &Outcome<'_>, drafter: usize, spent: f64) {
        let is_neural = self.is_neural(drafter);
        let own = &mut self.reviewers[outcome.reviewer.0];
        if !own.draft.tried.contains(&drafter) {
            return;
        }
        let proposer = |node: &&NodeId| outcome.draft.proposer(**node) == LevelId(drafter);
        let kept = outcome.accepted.iter().filter(proposer).count();
        // Rows of a statistical drafter pay, or are not drafted.
        let row = if is_neural { own.one_more(1) } else { 0.0 };
        own.trials -= (spent + row - kept as f64 / own.gain()).max(0.0);
        if kept == 0 {
            own.drafters[drafter].rests_until = own.reviews + TRIALS_APART;
        }
    }

    pub(super) fn learn_acceptance(&mut self, outcome: &Outcome<'_>) {
        let judged = self.pending.take(outcome);
        let own = &mut self.reviewers[outcome.reviewer.0];
        let judge = |of: &mut DrafterState, drafter, stated, position, accepted| {
            let believed = of.stated.learn(stated, position, accepted);
            if let Some(statements) = &self.statements {
                // Whoever asked for them may be gone.
                let _gone = statements.send(Statement {
                    reviewer: outcome.reviewer,
                    drafter,
                    stated,
                    believed,
                    accepted,
                });
            }
        };
        for (said, accepted) in judged {
            let of = &mut own.drafters[said.drafter.0];
            judge(of, said.drafter, said.probability, said.position, accepted);
            of.next.learn(None, said.position, accepted);
        }
        for proposal in std::mem::take(&mut own.draft.proposals) {
            let drafter = proposal.drafter;
            let of = &mut own.drafters[drafter.0];
            proposal.compare(outcome, |stated, depth, accepted| {
                judge(of, drafter, stated, depth, accepted);
            });
            if self.levels[drafter.0].is_neural {
                proposal.compare_places(outcome, |depth, stayed| {
                    of.next.learn(None, depth, stayed);
                });
            }
        }
        self.learn_branches(outcome);
    }

    /// Learns what nodes beside the main path of a neural drafter's turn saved.
    fn learn_branches(&mut self, outcome: &Outcome<'_>) {
        let own = &mut self.reviewers[outcome.reviewer.0];
        let branched = |turn: &&TurnRecord| turn.turn.nodes > LONGEST;
        for turn in outcome.turns.iter().filter(branched) {
            let drafter = turn.turn.drafter;
            let row = own.gain() * own.one_more(outcome.draft.len() + 1);
            let beside = |node: &NodeId| {
                outcome.draft.proposer(*node) == drafter && !turn.path.contains(node)
            };
            let drafted = (0..outcome.draft.len()).filter(beside).count();
            let accepted = outcome.accepted.iter().filter(|node| beside(node)).count();
            own.drafters[drafter.0].gained(accepted as f64 - drafted as f64 * row);
        }
    }
}
