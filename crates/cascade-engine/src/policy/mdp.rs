//! The threshold of the optimal policy, from measured costs.

use cascade_core::Want;

use super::acceptance::Acceptance;
use super::lately::Lately;
use super::pending::Pending;
use super::{DraftedToken, Outcome, StopRule};

/// Ends a turn where stopping is the better action in the Markov decision process of SpecDec++
/// (§4.2, Theorem 4.3): once the probability that some token of the draft is rejected reaches
/// (c2 + Δ) / (c1 + c2 + Δ), where c1 is the time of a token of the drafter, and c2 that of a
/// forward of the reviewer less c1.
///
/// The times are measured by reviewer while generating greedily; in sampled generations, whose
/// drafts must not depend on the machine, the assumed ratio stands. The probability that a token is
/// accepted is the drafter's own, corrected by the outcomes; the paper has a trained head for it.
/// The theorem's Δ depends on the problem and is not known; 0 is the default, and greater ones give
/// longer drafts.
#[derive(Clone, Debug, PartialEq)]
pub struct MdpThreshold {
    assumed: f64,
    delta: f64,
    acceptance: Acceptance,
    pending: Pending,
    /// The state of each reviewer.
    reviews: Vec<Review>,
}

/// A reviewer's costs, and the draft for it in progress.
#[derive(Clone, Debug, PartialEq)]
struct Review {
    forward: Lately,
    /// Seconds of a drafted token.
    token: Lately,
    /// Probability that all tokens of the draft are accepted.
    all: f64,
}

/// A drafter's forward in forwards of the reviewer before both are measured.
const ASSUMED: f64 = 0.1;
/// Before anything is known of the drafter's tokens.
const PRIOR: f32 = 0.7;

impl MdpThreshold {
    /// Assumes that a token of the drafter costs `assumed` forwards of the reviewer before it is
    /// measured, and that Δ is `delta` forwards of the reviewer.
    pub fn new(assumed: f64, delta: f64) -> Self {
        Self {
            assumed,
            delta,
            acceptance: Acceptance::new(PRIOR),
            pending: Pending::default(),
            reviews: Vec::new(),
        }
    }

    fn review(&mut self, reviewer: usize) -> &mut Review {
        while self.reviews.len() <= reviewer {
            self.reviews.push(Review {
                forward: Lately::default(),
                token: Lately::default(),
                all: 1.0,
            });
        }
        &mut self.reviews[reviewer]
    }

    /// The threshold for this drafter and this reviewer, with c1 and c2 in forwards of the
    /// reviewer: c1 + c2 is one.
    fn threshold(&mut self, reviewer: usize) -> f64 {
        let (assumed, delta) = (self.assumed, self.delta);
        let review = self.review(reviewer);
        let (token, forward) = (review.token.time(), review.forward.time());
        let c1 = if token > 0.0 && forward > 0.0 {
            token / forward
        } else {
            assumed
        };
        (1.0 - c1.min(1.0) + delta) / (1.0 + delta)
    }
}

impl Default for MdpThreshold {
    fn default() -> Self {
        Self::new(ASSUMED, 0.0)
    }
}

impl StopRule for MdpThreshold {
    fn want(&self) -> Want {
        Want::GATHERED
    }

    fn stop(&mut self, drafted: &DraftedToken<'_>) -> bool {
        self.pending.note(drafted);
        let accepted = self
            .acceptance
            .estimate(drafted.probability, drafted.position);
        let threshold = self.threshold(drafted.reviewer.0);
        let review = self.review(drafted.reviewer.0);
        if drafted.turn_position == 0 {
            review.all = 1.0;
        }
        review.all *= accepted;
        1.0 - review.all >= threshold
    }

    fn observe(&mut self, outcome: &Outcome<'_>) {
        let judged = self.pending.take(outcome);
        let own = judged.first().map(|(said, _)| said.drafter);
        for (said, accepted) in judged {
            self.acceptance
                .learn(said.probability, said.position, accepted);
        }
        let review = self.review(outcome.reviewer.0);
        let time = outcome.forward.time.as_secs_f64();
        if outcome.has_usual_rows() && time > 0.0 {
            review.forward.learn(time);
        }
        let turns = outcome.turns.iter();
        for record in turns.filter(|record| Some(record.turn.drafter) == own) {
            let seconds = record.time.as_secs_f64() / record.path.len().max(1) as f64;
            if seconds > 0.0 && !record.path.is_empty() {
                review.token.learn(seconds);
            }
        }
    }

    fn forget(&mut self) {
        *self = Self::new(self.assumed, self.delta);
    }
}
