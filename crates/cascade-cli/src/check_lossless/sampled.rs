//! Sampled decoding: many short generations against the target's enumerated distribution.

use std::io::Write;

use cascade_core::TokenId;
use cascade_eval::lossless::{Agreement, Cells};
use serde::Serialize;

use super::random_settings::settings;
use super::{verdict, Trial};

/// The result of comparing samples, prompt by prompt.
#[derive(Serialize)]
pub(super) struct Comparisons {
    pub(super) mode: &'static str,
    pub(super) lossless: bool,
    /// Significance level over all prompts together.
    pub(super) level: f64,
    /// Tokens compared jointly.
    pub(super) length: usize,
    pub(super) prompts: Vec<Compared>,
}

#[derive(Serialize)]
pub(super) struct Compared {
    pub(super) violated: bool,
    samples: u64,
    cells: usize,
    /// Target forwards spent on enumerating its distribution.
    forwards: usize,
    chi_square: f64,
    degrees_of_freedom: usize,
    p_value: f64,
    total_variation: f64,
    /// 95% confidence limits of the true distance over the cells.
    total_variation_at_least: f64,
    total_variation_at_most: f64,
    /// A sample to which the target assigns probability 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    impossible: Option<Vec<TokenId>>,
    settings: String,
}

impl Compared {
    pub(super) fn new(trial: &Trial, cells: &Cells, found: Agreement, violated: bool) -> Self {
        Self {
            violated,
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
    pub(super) fn show(&self, out: &mut dyn Write) -> std::io::Result<()> {
        writeln!(
            out,
            "sampled: joint distribution of the first {} tokens against the target's, enumerated",
            self.length
        )?;
        for (number, prompt) in self.prompts.iter().enumerate() {
            writeln!(
                out,
                "prompt {}: {} samples in {} cells; chi-square {:.1}, {} degrees of freedom, p = {:.3}; \
                 total variation {:.4}, true distance {:.4} to {:.4} (95%)",
                number + 1,
                prompt.samples,
                prompt.cells,
                prompt.chi_square,
                prompt.degrees_of_freedom,
                prompt.p_value,
                prompt.total_variation,
                prompt.total_variation_at_least,
                prompt.total_variation_at_most
            )?;
            if prompt.violated {
                writeln!(out, "violation: {}", prompt.settings)?;
            }
            if let Some(tokens) = &prompt.impossible {
                writeln!(out, "probability 0 under the target: {tokens:?}")?;
            }
        }
        writeln!(out, "{}", verdict(self.lossless))
    }
}
