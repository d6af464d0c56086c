//! The threshold of a head with the best predicted speed.

use cascade_engine::{AcceptanceHead, HeadWeights};
use serde::Serialize;

use super::HeadOutput;
use crate::train::choice::{Accepted, Classified, Drafted, check, fastest, predict};
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
        let outputs = classified(weights, outputs);
        let choices = [0.1, 0.3, 0.5, 0.7, 0.9].map(|threshold| Self { threshold });
        Ok(fastest(&outputs, cost, choices, Self::rule).unwrap_or(choices[3]))
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
        Ok(predict(&classified(weights, outputs), cost, self.rule()))
    }

    /// After each token the rule knows of those before it.
    fn rule(self) -> impl Fn(&Drafted) -> bool {
        move |draft| {
            draft.tokens >= AcceptanceHead::LONGEST
                || (draft.tokens >= AcceptanceHead::SHORTEST && 1.0 - draft.before > self.threshold)
        }
    }
}

impl Accepted for HeadOutput {
    fn accepted(&self) -> impl Iterator<Item = bool> {
        self.accepted.iter().copied()
    }
}

fn classified(weights: &HeadWeights, outputs: &[HeadOutput]) -> Vec<Classified> {
    let one = |output: &HeadOutput| {
        let states = output.tokens().map(|(state, _)| state);
        let said = states.map(|state| weights.probability(state).unwrap_or(0.0));
        Classified(said.zip(output.accepted()).collect())
    };
    outputs.iter().map(one).collect()
}
