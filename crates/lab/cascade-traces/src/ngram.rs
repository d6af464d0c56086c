//! Weights of the Max-Gram tree, fitted to recorded outputs.
//!
//! [`Fitting`] fits weights, and judges them by outputs that were held out. A recording cannot tell
//! what the target would have said after rejected tokens, so drafters that learn from that draft
//! without it here.

use cascade_ngram::MaxGramTree;
use cascade_ngram::max_gram_tree::Weights;
use cascade_ngram::max_gram_tree::fit::{Fitter, Foreseen};
use serde::Serialize;

use crate::trace::Record;

/// Fits the weights of a [`MaxGramTree`] to recorded outputs, in passes over them.
#[derive(Clone, Debug)]
pub struct Fitting<'a> {
    /// Outputs to fit to, in the order in which a session would see them.
    pub train: Vec<&'a Record>,
    /// Outputs that only judge.
    pub held_out: Vec<&'a Record>,
    /// How often the outputs are read.
    pub passes: usize,
    /// The rate of the first steps.
    pub rate: f32,
}

/// How probable weights make recorded tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Likelihood {
    /// Number of tokens.
    pub tokens: usize,
    /// Mean of -ln p(token); `None` without tokens.
    pub nats_per_token: Option<f64>,
}

impl From<Foreseen> for Likelihood {
    fn from(foreseen: Foreseen) -> Self {
        Self {
            tokens: foreseen.tokens,
            nats_per_token: (foreseen.tokens > 0).then(|| foreseen.nats_per_token()),
        }
    }
}

/// How probable weights make what they were fitted to, and what was held out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// Outputs that were fitted to.
    pub train: Likelihood,
    /// Outputs that were held out.
    pub held_out: Likelihood,
}

/// What fitting gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The weights after the pass that made the outputs that were fitted to most probable.
    pub weights: Weights,
    /// The pass of `weights`, from 1; 0 for the weights as they were before.
    pub pass: usize,
    /// With the weights as they were before.
    pub before: Judged,
    /// With the weights after each pass.
    pub passes: Vec<Judged>,
}

impl<'a> Fitting<'a> {
    /// Divides records into those to fit to and those to hold out: this share of the prompts,
    /// spread evenly. The turns of a conversation, whose ids are equal, stay together.
    ///
    /// `share` is at least 0, which holds nothing out, and below 1.
    pub fn split(
        records: impl IntoIterator<Item = &'a Record>,
        share: f64,
    ) -> (Vec<&'a Record>, Vec<&'a Record>) {
        let mut last = None;
        let mut prompts = 0u64;
        records.into_iter().partition(|record| {
            if last != Some(record.id.as_str()) {
                last = Some(record.id.as_str());
                prompts += 1;
            }
            let held_out = |prompt: u64| (prompt as f64 * share).floor();
            held_out(prompts) == held_out(prompts - 1)
        })
    }

    /// Fits the weights of `drafter`, from those that it has; `passed` learns how far they are
    /// after each pass, and ends the fitting if it returns `false`. What was held out has no
    /// influence on the weights.
    pub fn run(
        &self,
        drafter: &MaxGramTree,
        mut passed: impl FnMut(usize, Judged) -> bool,
    ) -> Fitted {
        let nats = |judged: Judged| judged.train.nats_per_token.unwrap_or(f64::INFINITY);
        let mut fitter = Fitter::new(drafter.clone()).with_rate(self.rate);
        let mut fitted = Fitted {
            weights: drafter.weights().clone(),
            pass: 0,
            before: self.judged(drafter),
            passes: Vec::new(),
        };
        for pass in 1..=self.passes {
            fitter.forget();
            for record in &self.train {
                fitter.read(&record.source, &record.context, &record.output);
            }
            let weights = fitter.weights();
            let judged = self.judged(&drafter.clone().with_weights(weights.clone()));
            let best = fitted.passes.iter().copied().map(nats);
            if nats(judged) < best.fold(nats(fitted.before), f64::min) {
                fitted.weights = weights.clone();
                fitted.pass = pass;
            }
            fitted.passes.push(judged);
            if !passed(pass, judged) {
                break;
            }
        }
        fitted
    }

    /// A session sees what was fitted to, then what was held out.
    fn judged(&self, drafter: &MaxGramTree) -> Judged {
        let mut fitter = Fitter::new(drafter.clone()).with_rate(0.0);
        let mut likelihood = |records: &[&Record]| {
            let mut sum = Foreseen::default();
            for record in records {
                sum += fitter.read(&record.source, &record.context, &record.output);
            }
            Likelihood::from(sum)
        };
        Judged {
            train: likelihood(&self.train),
            held_out: likelihood(&self.held_out),
        }
    }
}
