//! Greedy decoding: every emitted token is re-scored by the target alone.

use std::io::Write;

use cascade_core::TokenId;
use cascade_eval::lossless::{Difference, Rescored};
use serde::Serialize;

use super::random_settings::settings;
use super::{verdict, Trial};

/// Near-ties and violations printed of each.
const SHOWN: usize = 10;

/// The result of re-scoring, over all generations.
#[derive(Serialize)]
pub(super) struct Findings {
    mode: &'static str,
    lossless: bool,
    generations: usize,
    tokens: usize,
    agreements: usize,
    /// Logits at most this far apart are a near-tie: the greatest tolerance of a row.
    tolerance: f32,
    /// The smallest margin of a top logit over the runner-up.
    smallest_lead: f32,
    near_ties: Vec<Finding>,
    pub(super) violations: Vec<Finding>,
}

#[derive(Serialize)]
pub(super) struct Finding {
    /// Index of the generation, from 0.
    generation: usize,
    position: usize,
    emitted: TokenId,
    expected: TokenId,
    gap: f32,
    settings: String,
}

impl Default for Findings {
    fn default() -> Self {
        Self {
            mode: "greedy",
            lossless: true,
            generations: 0,
            tokens: 0,
            agreements: 0,
            tolerance: 0.0,
            smallest_lead: f32::INFINITY,
            near_ties: Vec::new(),
            violations: Vec::new(),
        }
    }
}

impl Findings {
    pub(super) fn add(&mut self, trial: &Trial, found: Rescored) {
        let finding = |difference: Difference| Finding {
            generation: trial.number,
            position: difference.position,
            emitted: difference.emitted,
            expected: difference.expected,
            gap: difference.gap,
            settings: settings(&trial.config),
        };
        self.generations += 1;
        self.tokens += found.tokens;
        self.agreements += found.agreements;
        self.smallest_lead = self.smallest_lead.min(found.smallest_lead);
        self.tolerance = self.tolerance.max(found.tolerance);
        self.near_ties
            .extend(found.near_ties.into_iter().map(finding));
        self.violations
            .extend(found.violations.into_iter().map(finding));
        self.lossless = self.violations.is_empty();
    }

    pub(super) fn show(&self, out: &mut dyn Write) -> std::io::Result<()> {
        writeln!(
            out,
            "greedy: {} generations, {} tokens re-scored by the target alone: {} agree, \
             {} near-ties (logits within {}), {} violations",
            self.generations,
            self.tokens,
            self.agreements,
            self.near_ties.len(),
            self.tolerance,
            self.violations.len()
        )?;
        writeln!(
            out,
            "smallest margin of a top logit over the runner-up: {:.1e}",
            self.smallest_lead
        )?;
        for (what, findings) in [
            ("near-tie", &self.near_ties),
            ("violation", &self.violations),
        ] {
            for finding in findings.iter().take(SHOWN) {
                writeln!(
                    out,
                    "{what}: generation {}, token {}: {} emitted, {} expected, gap {}; {}",
                    finding.generation + 1,
                    finding.position + 1,
                    finding.emitted,
                    finding.expected,
                    finding.gap,
                    finding.settings
                )?;
            }
            if findings.len() > SHOWN {
                writeln!(out, "… and {} more", findings.len() - SHOWN)?;
            }
        }
        writeln!(out, "{}", verdict(self.lossless))
    }
}
