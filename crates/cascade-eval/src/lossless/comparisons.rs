//! Sampled decoding: many short generations against the target's enumerated distribution.

use cascade_core::{Sampling, Scorer, TokenId};
use serde::Serialize;

use super::{agreement, settings, Agreement, Cells, Trial};

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
    /// Samples drawn.
    pub samples: u64,
    /// Cells that texts are counted in.
    pub cells: usize,
    /// Target forwards spent on enumerating its distribution.
    pub forwards: usize,
    /// Pearson's statistic.
    pub chi_square: f64,
    /// One less than cells.
    pub degrees_of_freedom: usize,
    /// `null` if all samples fall into one cell, whatever they are: then nothing was tested.
    pub p_value: Option<f64>,
    /// Distance of the observed shares from the target's.
    pub total_variation: f64,
    /// 95% confidence limits of the true distance over the cells.
    pub total_variation_at_least: f64,
    /// See `total_variation_at_least`.
    pub total_variation_at_most: f64,
    /// A sample to which the target assigns probability 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impossible: Option<Vec<TokenId>>,
    /// The settings of the prompt, in one line.
    pub settings: String,
}

impl Compared {
    fn new(trial: &Trial, cells: &Cells, found: Agreement, level: f64) -> Self {
        Self {
            violated: found.p_value.is_some_and(|p| p < level),
            samples: found.samples,
            cells: found.cells,
            forwards: cells.forwards(),
            chi_square: found.statistic,
            degrees_of_freedom: found.degrees_of_freedom,
            p_value: found.p_value,
            total_variation: found.total_variation,
            total_variation_at_least: found.at_least,
            total_variation_at_most: found.at_most,
            impossible: found.impossible,
            settings: settings(&trial.config),
        }
    }
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
        let cells = Cells::new(target, prompt, sampling, eos, self.length, samples)?;
        let texts = trial.samples(samples, self.length, on_sample)?;
        let found = agreement(&cells, texts.iter().map(Vec::as_slice));
        // Bonferroni correction: the level holds for all prompts together.
        let level = self.level / trials as f64;
        self.add(Compared::new(trial, &cells, found, level));
        Ok(())
    }

    fn add(&mut self, prompt: Compared) {
        self.tested += usize::from(prompt.p_value.is_some());
        self.prompts.push(prompt);
        self.lossless = self.tested > 0 && self.violations() == 0;
    }

    /// Prompts whose samples are not the target's.
    pub fn violations(&self) -> usize {
        self.prompts.iter().filter(|prompt| prompt.violated).count()
    }
}
