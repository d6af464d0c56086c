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
    mode: &'static str,
    /// False too if no prompt could have shown anything else.
    pub(super) lossless: bool,
    /// Prompts whose samples fall into several cells.
    tested: usize,
    /// Significance level over all prompts together.
    level: f64,
    /// Tokens compared jointly.
    length: usize,
    prompts: Vec<Compared>,
}

#[derive(Serialize)]
pub(super) struct Compared {
    violated: bool,
    samples: u64,
    cells: usize,
    /// Target forwards spent on enumerating its distribution.
    forwards: usize,
    chi_square: f64,
    degrees_of_freedom: usize,
    /// `null` if all samples fall into one cell, whatever they are: then nothing was tested.
    p_value: Option<f64>,
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
    pub(super) fn new(trial: &Trial, cells: &Cells, found: Agreement, level: f64) -> Self {
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
    pub(super) fn new(level: f64, length: usize) -> Self {
        Self {
            mode: "sampled",
            lossless: false,
            tested: 0,
            level,
            length,
            prompts: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, prompt: Compared) {
        self.tested += usize::from(prompt.p_value.is_some());
        self.prompts.push(prompt);
        self.lossless = self.tested > 0 && self.violations() == 0;
    }

    pub(super) fn violations(&self) -> usize {
        self.prompts.iter().filter(|prompt| prompt.violated).count()
    }

    pub(super) fn show(&self, out: &mut dyn Write) -> std::io::Result<()> {
        writeln!(
            out,
            "sampled: joint distribution of the first {} tokens against the target's, enumerated",
            self.length
        )?;
        for (number, prompt) in self.prompts.iter().enumerate() {
            let Some(p) = prompt.p_value else {
                writeln!(
                    out,
                    "prompt {}: {} samples in 1 cell, which tests nothing: no other text of {} tokens is \
                     expected 5 times",
                    number + 1,
                    prompt.samples,
                    self.length
                )?;
                continue;
            };
            writeln!(
                out,
                "prompt {}: {} samples in {} cells; chi-square {:.1}, {} degrees of freedom, p = {p:.3}; \
                 total variation {:.4}, true distance {:.4} to {:.4} (95%)",
                number + 1,
                prompt.samples,
                prompt.cells,
                prompt.chi_square,
                prompt.degrees_of_freedom,
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
        let without = self.prompts.len() - self.tested;
        if self.tested == 0 {
            return writeln!(
                out,
                "NO VERDICT: the test has no power for any prompt; raise --samples, --length or --temperature, or \
                 give prompts with less certain answers"
            );
        }
        if without > 0 {
            writeln!(
                out,
                "{without} of {} prompts tested nothing",
                self.prompts.len()
            )?;
        }
        writeln!(out, "{}", verdict(self.lossless))
    }
}
