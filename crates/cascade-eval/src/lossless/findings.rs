//! Every emitted token is re-scored by the target alone; sampled ones are compared with plain
//! decoding of the same seed too.

use cascade_core::{Decoding, Scorer, TokenId};
use serde::Serialize;

use super::{Difference, Rescored, Tolerance, Trial, settings};

/// The result of re-scoring, over all generations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Findings {
    /// `greedy` or `coupled`.
    pub mode: &'static str,
    /// Whether there are no violations.
    pub lossless: bool,
    /// Texts that were re-scored.
    pub generations: usize,
    /// Outputs that equal plain decoding of the same seed token by token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equal_to_plain: Option<usize>,
    /// Their tokens.
    pub tokens: usize,
    /// Tokens that are the target's.
    pub agreements: usize,
    /// Logits at most this far apart are a near-tie: the greatest tolerance of a row.
    pub tolerance: f32,
    /// The smallest margin of a token's logit, with noise if sampled, over the runner-up's.
    pub smallest_lead: f32,
    /// Tokens that would be if logits changed within the tolerance.
    pub near_ties: Vec<Finding>,
    /// Tokens that the target would not have emitted.
    pub violations: Vec<Finding>,
}

/// A token that is not the target's, or nearly not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Index of the generation, from 0.
    pub generation: usize,
    /// How it differs.
    #[serde(flatten)]
    pub difference: Difference,
    /// The settings of the generation, in one line.
    pub settings: String,
}

impl Findings {
    /// Nothing found yet.
    pub fn new(decoding: Decoding) -> Self {
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

    /// Generates a text and re-scores it by sessions of the target alone; a sampled one is compared
    /// with plain decoding of the same seed, too.
    ///
    /// # Errors
    /// Errors of the models.
    pub fn check<S: Scorer>(
        &mut self,
        trial: &mut Trial,
        target: impl Fn() -> S,
        tolerance: Tolerance,
    ) -> crate::Result<()> {
        let options = trial.options();
        let at =
            |error: crate::Error, trial: &Trial| error.at(format!("prompt {}", trial.number + 1));
        let tokens = trial.generate(&options).map_err(|error| at(error, trial))?;
        let found = trial.rescore(&mut target(), &tokens, tolerance)?;
        if !options.decoding.is_greedy() {
            let plain = trial.generate(&options.with_speculation(false))?;
            let of_plain = trial.rescore(&mut target(), &plain, tolerance)?;
            self.compare(trial, (&tokens, &found), (&plain, &of_plain));
        }
        self.add(trial, found);
        Ok(())
    }

    /// Compares a text with that of plain decoding. Where they part, one of them had a near-tie, or
    /// is wrong: then it is a violation, whichever it is. (Those of the text itself are added with
    /// it.)
    fn compare(
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

    fn add(&mut self, trial: &Trial, found: Rescored) {
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
}

fn finding(trial: &Trial, difference: Difference) -> Finding {
    Finding {
        generation: trial.number,
        difference,
        settings: settings(&trial.config),
    }
}
