//! Every emitted token is re-scored by the target alone; sampled ones are compared with plain
//! decoding of the same seed too.

use std::io::Write;

use cascade_core::{Decoding, TokenId};
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
    /// Of them, those that equal plain decoding of the same seed token by token.
    #[serde(skip_serializing_if = "Option::is_none")]
    equal_to_plain: Option<usize>,
    tokens: usize,
    agreements: usize,
    /// Logits at most this far apart are a near-tie: the greatest tolerance of a row.
    tolerance: f32,
    /// The smallest margin of a token's logit, with noise if sampled, over the runner-up's.
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

impl Findings {
    pub(super) fn new(decoding: Decoding) -> Self {
        let greedy = decoding.is_greedy();
        Self {
            mode: if greedy { "greedy" } else { "coupled" },
            lossless: true,
            generations: 0,
            equal_to_plain: (!greedy).then_some(0),
            tokens: 0,
            agreements: 0,
            tolerance: 0.0,
            smallest_lead: f32::INFINITY,
            near_ties: Vec::new(),
            violations: Vec::new(),
        }
    }

    pub(super) fn is_lossless(&self) -> bool {
        self.lossless
    }

    /// Compares a text with that of plain decoding. Where they part, one of them had a near-tie, or
    /// is wrong: then it is a violation, whichever it is. (Those of the text itself are added with
    /// it.)
    pub(super) fn compare(
        &mut self,
        trial: &Trial,
        (tokens, found): (&[TokenId], &Rescored),
        (plain, of_plain): (&[TokenId], &Rescored),
    ) {
        if tokens == plain {
            *self.equal_to_plain.get_or_insert(0) += 1;
            return;
        }
        let parted = tokens.iter().zip(plain).take_while(|(a, b)| a == b).count();
        let tie = |found: &Rescored| found.near_ties.iter().any(|tie| tie.position == parted);
        let wrong = |found: &Rescored| found.violations.iter().any(|v| v.position == parted);
        if !tie(found) && !tie(of_plain) && !wrong(found) {
            let token = |text: &[TokenId]| text.get(parted).copied().unwrap_or(TokenId::MAX);
            let difference = Difference {
                position: parted,
                emitted: token(tokens),
                expected: token(plain),
                gap: f32::INFINITY,
            };
            self.violations.push(finding(trial, difference));
            self.lossless = false;
        }
    }

    pub(super) fn add(&mut self, trial: &Trial, found: Rescored) {
        let finding = |difference| finding(trial, difference);
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
            "{}: {} generations, {} tokens re-scored by the target alone: {} agree, \
             {} near-ties (logits within {}), {} violations",
            self.mode,
            self.generations,
            self.tokens,
            self.agreements,
            self.near_ties.len(),
            self.tolerance,
            self.violations.len()
        )?;
        if let Some(equal) = self.equal_to_plain {
            writeln!(
                out,
                "{equal} of {} equal plain decoding of the same seed, token by token",
                self.generations
            )?;
        }
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

fn finding(trial: &Trial, difference: Difference) -> Finding {
    Finding {
        generation: trial.number,
        position: difference.position,
        emitted: difference.emitted,
        expected: difference.expected,
        gap: difference.gap,
        settings: settings(&trial.config),
    }
}
