//! A threshold on the drafter's probability that follows the outcomes.

use std::collections::VecDeque;

use cascade_core::Want;

use super::pending::Pending;
use super::{DraftedToken, Outcome, StopRule};

/// A [`ConfidenceThreshold`](super::ConfidenceThreshold) that is set anew after each review, as
/// Hugging Face transformers does: to the probability at which the share of rejected tokens at or
/// above it plus three times the share of accepted tokens below it is smallest (a point of the ROC
/// curve; false positives cost 25%, false negatives 75%).
///
/// Differs from transformers in that the last 512 tokens count, not all, so that it follows the
/// text and costs the same at any length: some microseconds after each review.
#[derive(Clone, Debug, PartialEq)]
pub struct AdaptiveConfidence {
    start: f32,
    threshold: f32,
    pending: Pending,
    /// Probabilities, and whether the token was accepted; the oldest first.
    seen: VecDeque<(f32, bool)>,
}

/// The threshold of transformers.
const START: f32 = 0.4;
const WINDOW: usize = 512;
/// Outcomes below which the threshold stays, as in transformers.
const FEWEST: usize = 6;
/// Weight of accepted tokens that a turn would have ended before.
const MISSED: f64 = 3.0;

impl AdaptiveConfidence {
    /// Begins with this threshold.
    pub fn new(start: f32) -> Self {
        Self {
            start,
            threshold: start,
            pending: Pending::default(),
            seen: VecDeque::new(),
        }
    }

    fn update(&mut self) {
        let accepted = self.seen.iter().filter(|(_, accepted)| *accepted).count();
        let rejected = self.seen.len() - accepted;
        if self.seen.len() < FEWEST || accepted == 0 || rejected == 0 {
            return;
        }
        let mut falling: Vec<(f32, bool)> = self.seen.iter().copied().collect();
        falling.sort_by(|a, b| b.0.total_cmp(&a.0));
        let (mut taken, mut wrong) = (0, 0);
        // A threshold above all: nothing at or above it. Every token is below.
        let mut best = MISSED;
        for (i, &(probability, is_accepted)) in falling.iter().enumerate() {
            if is_accepted {
                taken += 1
            } else {
                wrong += 1
            }
            let last_of_its_value = falling.get(i + 1).is_none_or(|next| next.0 < probability);
            let cost =
                wrong as f64 / rejected as f64 + MISSED * (1.0 - taken as f64 / accepted as f64);
            if last_of_its_value && cost < best {
                best = cost;
                self.threshold = probability;
            }
        }
    }
}

impl Default for AdaptiveConfidence {
    fn default() -> Self {
        Self::new(START)
    }
}

impl StopRule for AdaptiveConfidence {
    fn want(&self) -> Want {
        Want::GATHERED
    }

    fn stop(&mut self, drafted: &DraftedToken<'_>) -> bool {
        self.pending.note(drafted);
        drafted
            .probability
            .is_some_and(|probability| probability < self.threshold)
    }

    fn observe(&mut self, outcome: &Outcome<'_>) {
        for (said, accepted) in self.pending.take(outcome) {
            let Some(probability) = said.probability else {
                continue;
            };
            self.seen.push_back((probability, accepted));
            if self.seen.len() > WINDOW {
                self.seen.pop_front();
            }
        }
        self.update();
    }

    fn forget(&mut self) {
        *self = Self::new(self.start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values are those of `sklearn.metrics.roc_curve` and of the cost in transformers.
    #[test]
    fn the_threshold_has_the_least_cost_of_the_roc_curve() {
        let mut rule = AdaptiveConfidence::default();
        let few = [(0.9, true), (0.2, false)];
        rule.seen.extend(few);
        rule.update();
        assert_eq!(rule.threshold, 0.4, "too few");
        rule.seen.extend([
            (0.8, true),
            (0.3, true),
            (0.6, false),
            (0.1, false),
            (0.25, false),
        ]);
        rule.update();
        // At .3: one of four rejected tokens is above (.25), no accepted one below. At .8: 0 + 1.
        assert_eq!(rule.threshold, 0.3);
        rule.seen
            .iter_mut()
            .for_each(|(_, accepted)| *accepted = true);
        rule.update();
        assert_eq!(rule.threshold, 0.3, "nothing was rejected");
    }
}
