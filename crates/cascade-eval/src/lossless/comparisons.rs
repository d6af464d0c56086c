//! Sampled decoding: many short generations against the target's enumerated distribution.

use cascade_core::{Sampling, Scorer};
use serde::Serialize;

use super::{Agreement, Cells, Trial, agreement, settings};

/// The result of comparing samples, prompt by prompt.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparisons {
    /// Always `sampled`.
    pub mode: &'static str,
    /// False too if no prompt could have shown anything else.
    pub lossless: bool,
    /// Prompts whose samples fall into several cells.
    pub tested: usize,
    /// Significance level over all prompts together.
    pub level: f64,
    /// Tokens compared jointly.
    pub length: usize,
    /// One by one.
    pub prompts: Vec<Compared>,
}

/// Samples of one prompt against the target's distribution.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Whether they are not the target's, at the level of the prompt.
    pub violated: bool,
    /// How well the samples agree with the distribution.
    #[serde(flatten)]
    pub agreement: Agreement,
    /// The settings of the prompt, in one line.
    pub settings: String,
}

impl Comparisons {
    /// No prompts yet; the level holds for all of them together.
    pub fn new(level: f64, length: usize) -> Self {
        Self {
            mode: "sampled",
            lossless: false,
            tested: 0,
            level,
            length,
            prompts: Vec::new(),
        }
    }

    /// Draws samples of a trial, one of `trials`, and compares them with the distribution of the
    /// target, a session of which is used. `on_sample` is called for each.
    ///
    /// # Errors
    /// Errors of the models; a length of 0.
    pub fn check(
        &mut self,
        trial: &mut Trial,
        target: &mut dyn Scorer,
        (sampling, samples): (&Sampling, u64),
        trials: usize,
        on_sample: impl FnMut(),
    ) -> crate::Result<()> {
        let (prompt, eos) = (&trial.prompt, &trial.eos);
        let target = &mut trial.penalized(target);
        let cells = Cells::new(target, prompt, sampling, eos, self.length, samples)?;
        let texts = trial.samples(samples, self.length, on_sample)?;
        let agreement = agreement(&cells, texts.iter().map(Vec::as_slice));
        // Bonferroni correction: the level holds for all prompts together.
        let level = self.level / trials as f64;
        self.tested += usize::from(agreement.p_value.is_some());
        self.prompts.push(Compared {
            violated: agreement.p_value.is_some_and(|p| p < level),
            agreement,
            settings: settings(&trial.config),
        });
        self.lossless = self.tested > 0 && self.violations() == 0;
        Ok(())
    }

    /// Prompts whose samples are not the target's.
    pub fn violations(&self) -> usize {
        self.prompts.iter().filter(|prompt| prompt.violated).count()
    }
}
