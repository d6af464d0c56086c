//! Re-scoring of greedy output.

use cascade_core::{Prompt, Result, Scorer, TokenId, TokenTree, Want};

use super::Tolerance;

/// Maximum rows of one forward: bounds the memory for logits.
const ROWS: usize = 64;

/// The result of re-scoring a generation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rescored {
    /// Tokens that were re-scored.
    pub tokens: usize,
    /// Tokens that are the target's most probable ones.
    pub agreements: usize,
    /// Tokens that are not, but whose logit is within the tolerance of the greatest.
    pub near_ties: Vec<Difference>,
    /// Tokens that the target would not have generated.
    pub violations: Vec<Difference>,
    /// The smallest observed margin between the two greatest logits of a row: how close the closest
    /// tie was. Infinite if no row has two logits.
    pub smallest_lead: f32,
    /// The greatest tolerance of a row.
    pub tolerance: f32,
}

/// A token that is not the target's most probable one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// Its index in the emitted tokens.
    pub position: usize,
    /// The emitted token.
    pub emitted: TokenId,
    /// The target's token.
    pub expected: TokenId,
    /// By how much the logit of `expected` exceeds that of `emitted`.
    pub gap: f32,
}

/// Re-scores every emitted token with the plain target: each is compared with the most probable
/// token after the preceding emitted tokens (teacher forcing). A difference whose logits are at
/// most `tolerance` apart is a near-tie; a number is the same [`Tolerance`] for all rows.
///
/// `target` should be a separate scorer that the cascade has not used. Cost: one forward per 64
/// tokens.
///
/// # Errors
/// Errors of the model.
pub fn rescore(
    target: &mut dyn Scorer,
    prompt: &Prompt,
    tokens: &[TokenId],
    tolerance: impl Into<Tolerance>,
) -> Result<Rescored> {
    let tolerance = tolerance.into();
    target.set_source(&prompt.source)?;
    let mut found = Rescored {
        smallest_lead: f32::INFINITY,
        ..Rescored::default()
    };
    let mut context = prompt.context.clone();
    for (chunk, emitted) in tokens.chunks(ROWS).enumerate() {
        // The last token of a chunk needs no row of its own.
        let tree = TokenTree::chain(emitted[..emitted.len() - 1].iter().copied());
        let scores = target.score(&context, &tree, Want::LOGITS)?;
        let rows = scores
            .logits
            .iter()
            .flat_map(|logits| (0..logits.rows()).map(|r| logits.row(r)));
        for (i, (&token, row)) in emitted.iter().zip(rows).enumerate() {
            found.book(chunk * ROWS + i, token, row, tolerance);
        }
        context.extend(emitted);
    }
    Ok(found)
}

impl Rescored {
    fn book(&mut self, position: usize, emitted: TokenId, row: &[f32], tolerance: Tolerance) {
        self.tokens += 1;
        let tolerance = tolerance.of_row(row);
        self.tolerance = self.tolerance.max(tolerance);
        let (expected, lead) = greatest(row);
        self.smallest_lead = self.smallest_lead.min(lead);
        if emitted == expected {
            self.agreements += 1;
            return;
        }
        let logit = row.get(emitted as usize).copied();
        let difference = Difference {
            position,
            emitted,
            expected,
            gap: row[expected as usize] - logit.unwrap_or(f32::NEG_INFINITY),
        };
        if difference.gap <= tolerance {
            self.near_ties.push(difference);
        } else {
            self.violations.push(difference);
        }
    }
}

/// The first greatest logit of a row, and its margin over the second greatest.
fn greatest(row: &[f32]) -> (TokenId, f32) {
    let mut best = 0;
    let mut second = f32::NEG_INFINITY;
    for (token, &logit) in row.iter().enumerate().skip(1) {
        if logit > row[best] {
            second = row[best];
            best = token;
        } else {
            second = second.max(logit);
        }
    }
    (best as TokenId, row[best] - second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cascade_core::toy::ToyScorer;
    use cascade_core::Architecture;

    fn greedy(prompt: &Prompt, count: usize) -> Vec<TokenId> {
        let mut target = target();
        let mut context = prompt.context.clone();
        for _ in 0..count {
            let scores = target.score(&context, &TokenTree::new(), Want::ARGMAX);
            context.push(scores.expect("a toy does not fail").argmax[0]);
        }
        context.split_off(prompt.context.len())
    }

    fn target() -> ToyScorer {
        ToyScorer::target("target", 12, 5)
    }

    #[test]
    fn what_the_target_says_agrees_and_anything_else_does_not() {
        let prompt = Prompt::new(Architecture::DecoderOnly, vec![1, 2]);
        let mut tokens = greedy(&prompt, 150);
        let fine = rescore(&mut target(), &prompt, &tokens, 0.0).expect("a toy does not fail");
        assert_eq!((fine.tokens, fine.agreements), (150, 150));
        assert!(fine.smallest_lead >= 0.0 && fine.smallest_lead.is_finite());
        // One wrong token is one violation: later tokens are compared with the target's output
        // after it.
        tokens.truncate(70);
        tokens[69] = (tokens[69] + 1) % 12;
        let wrong = rescore(&mut target(), &prompt, &tokens, 0.0).expect("a toy does not fail");
        assert_eq!((wrong.agreements, wrong.violations.len()), (69, 1));
        assert_eq!(wrong.violations[0].position, 69);
        let gap = wrong.violations[0].gap;
        let tied = rescore(&mut target(), &prompt, &tokens, gap).expect("a toy does not fail");
        assert_eq!((tied.near_ties.len(), tied.violations.len()), (1, 0));
    }

    #[test]
    fn a_token_outside_the_vocabulary_at_the_end_is_a_violation() {
        let prompt = Prompt::new(Architecture::DecoderOnly, vec![1]);
        let found = rescore(&mut target(), &prompt, &[99], 1e9).expect("a toy does not fail");
        assert_eq!(found.violations[0].gap, f32::INFINITY);
    }

    #[test]
    fn roundings_of_large_logits_are_no_violations() {
        // Five numbers of f16 further.
        let row = [24.0, 23.921_875, 3.0];
        let found = |tolerance| {
            let mut found = Rescored::default();
            found.book(0, 1, &row, tolerance);
            (found.near_ties.len(), found.violations.len())
        };
        assert_eq!(found(Tolerance::fixed(0.05)), (0, 1));
        assert_eq!(found(Tolerance::of_rounding(0.5_f32.powi(10))), (1, 0));
        assert_eq!(found(Tolerance::of_rounding(f32::EPSILON)), (0, 1));
    }

    #[test]
    fn the_lead_is_that_of_the_first_over_the_next() {
        assert_eq!(greatest(&[1.0, 3.0, 2.5, 3.0]), (1, 0.0));
        assert_eq!(greatest(&[4.0, 3.0, 2.5]), (0, 1.0));
        assert_eq!(greatest(&[4.0]), (0, f32::INFINITY));
    }
}
