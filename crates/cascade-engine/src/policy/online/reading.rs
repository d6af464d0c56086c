//! What it costs that a neural drafter reads the text.

use crate::policy::lately::SLOW;

/// What a neural drafter reads of the target's text before it drafts, beside the row that it needs
/// for its first token, and what it earns by that.
///
/// A model that drafts in each step has next to nothing to read: its own tokens are in its cache. A
/// head reads all tokens again, with the target's hidden states; so does a model that others
/// drafted for. That text is read later if not now, so a single draft does not pay for it: all of
/// them do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    /// Tokens of the text, and steps of the target, since its last forward.
    tokens: usize,
    steps: usize,
    /// The depth of the draft at which it was asked, until its first forward.
    asked: Option<usize>,
    /// Rows that it reads for a step.
    rows: f64,
    /// What it could earn in this step, and what it can in a step of late.
    step: Option<f64>,
    earned: Option<f64>,
}

impl Reading {
    /// Rows that it reads for a step, of late.
    pub(super) fn rows(&self) -> f64 {
        self.rows
    }

    /// What it can earn in a step, reading not paid for; `None` before the first.
    pub(super) fn earned(&self) -> Option<f64> {
        self.earned
    }

    /// Notes how much the drafter could earn if it drafted now.
    pub(super) fn offer(&mut self, balance: f64) {
        self.step = Some(self.step.unwrap_or(0.0).max(balance));
    }

    /// Notes that the drafter is asked to draft after so many tokens of the draft in progress.
    pub(super) fn ask(&mut self, depth: usize) {
        self.asked = Some(depth);
    }

    /// Notes a forward with so many rows of text, those of the draft in progress included.
    pub(super) fn read(&mut self, rows: usize) {
        let Some(depth) = self.asked.take() else {
            return;
        };
        // More is read of a prompt, and where a cache was given up.
        let text = rows.saturating_sub(depth + 1).min(self.tokens);
        if self.steps > 0 {
            self.rows += SLOW * (text as f64 / self.steps as f64 - self.rows);
        }
        (self.tokens, self.steps) = (0, 0);
    }

    /// The target added so many tokens to the text.
    pub(super) fn grow(&mut self, tokens: usize) {
        self.tokens += tokens;
        self.steps += 1;
        self.asked = None;
        if let Some(step) = self.step.take() {
            let earned = self.earned.get_or_insert(step);
            *earned += SLOW * (step - *earned);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_a_step_however_seldom_it_drafts() {
        for every in [1, 2, 5] {
            let mut reading = Reading::default();
            for step in 0..2000 {
                if step % every == 0 {
                    reading.ask(2);
                    // The row for its first token, two of the draft, and all text since.
                    reading.read(3 + 4 * every);
                }
                reading.grow(4);
            }
            assert!((reading.rows() - 4.0).abs() < 1e-3, "{reading:?}");
        }
    }

    #[test]
    fn a_prompt_does_not_count() {
        let mut reading = Reading::default();
        reading.ask(0);
        reading.read(1000);
        assert_eq!(reading.rows(), 0.0);
        reading.grow(3);
        reading.ask(0);
        reading.read(1000);
        assert!(reading.rows() <= 3.0 * SLOW);
    }

    #[test]
    fn steps_in_which_it_was_not_considered_say_nothing() {
        let mut reading = Reading::default();
        reading.grow(1);
        assert_eq!(reading.earned(), None);
        reading.offer(0.5);
        reading.offer(0.25);
        reading.grow(1);
        reading.grow(1);
        assert_eq!(reading.earned(), Some(0.5));
        reading.offer(-1.0);
        reading.grow(1);
        assert!(reading.earned().is_some_and(|earned| earned < 0.5));
    }
}
