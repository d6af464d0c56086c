//! The threshold of a head with the best predicted speed.

use cascade_engine::{AcceptanceHead, HeadWeights};
use serde::Serialize;

use super::HeadOutput;
use crate::train::choice::{check, predict, Classified, Drafted};
use crate::train::{Prediction, Result};

/// The threshold of a head: drafts of 2 to 20 tokens end where the probability that one of them is
/// rejected exceeds it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HeadChoice {
    /// h.
    pub threshold: f32,
}

impl HeadChoice {
    /// The best of the paper's thresholds on `outputs`. A forward of the drafter takes `cost`
    /// forwards of the target.
    ///
    /// # Errors
    /// A `cost` that is negative or not finite.
    pub fn best(weights: &HeadWeights, outputs: &[HeadOutput], cost: f64) -> Result<Self> {
        check(cost)?;
        let outputs = classified(outputs, |state| weights.probability(state).unwrap_or(0.0));
        let choices = [0.1, 0.3, 0.5, 0.7, 0.9].map(|threshold| Self { threshold });
        let mut best = (f64::NEG_INFINITY, choices[3]);
        for choice in choices {
            let speedup = predict(&outputs, cost, choice.rule()).speedup;
            if speedup > best.0 {
                best = (speedup, choice);
            }
        }
        Ok(best.1)
    }

    /// What it is predicted to give.
    ///
    /// # Errors
    /// As [`best`](Self::best).
    pub fn predicted(
        self,
        weights: &HeadWeights,
        outputs: &[HeadOutput],
        cost: f64,
    ) -> Result<Prediction> {
        check(cost)?;
        let outputs = classified(outputs, |state| weights.probability(state).unwrap_or(0.0));
        Ok(predict(&outputs, cost, self.rule()))
    }

    /// What drafts of 0, 1, … 20 tokens are predicted to give, and an oracle's, which drafts as
    /// long as tokens are accepted.
    ///
    /// # Errors
    /// As [`best`](Self::best).
    pub fn baselines(outputs: &[HeadOutput], cost: f64) -> Result<(Vec<Prediction>, Prediction)> {
        check(cost)?;
        let outputs = classified(outputs, |_| 1.0);
        let lengths = 0..=AcceptanceHead::LONGEST;
        let fixed = lengths.map(|length| predict(&outputs, cost, |draft| draft.tokens >= length));
        let oracle = predict(&outputs, cost, |draft| !draft.next);
        Ok((fixed.collect(), oracle))
    }

    /// After each token the rule knows of those before it.
    fn rule(self) -> impl Fn(&Drafted) -> bool {
        move |draft| {
            draft.tokens >= AcceptanceHead::LONGEST
                || (draft.tokens >= AcceptanceHead::SHORTEST && 1.0 - draft.before > self.threshold)
        }
    }
}

fn classified(outputs: &[HeadOutput], of: impl Fn(&[f32]) -> f32) -> Vec<Classified> {
    let one = |output: &HeadOutput| {
        let tokens = output.tokens().zip(&output.accepted);
        Classified(
            tokens
                .map(|((state, _), &accepted)| (of(state), accepted))
                .collect(),
        )
    };
    outputs.iter().map(one).collect()
}
