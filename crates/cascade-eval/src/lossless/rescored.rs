//! Re-scoring of greedy and of coupled output.

use cascade_core::{Noise, Prompt, Result, Sampling, Scorer, TokenId, TokenTree, Want};
use serde::Serialize;

use super::Tolerance;

/// Maximum rows of one forward: bounds the memory for logits.
const ROWS: usize = 64;

/// The result of re-scoring a generation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rescored {
    /// Tokens that were re-scored.
    pub tokens: usize,
    /// Tokens that are the target's: the most probable ones, or the winners of its races.
    pub agreements: usize,
    /// Tokens that are not, but would be if logits changed within the tolerance.
    pub near_ties: Vec<Difference>,
    /// Tokens that the target would not have generated.
    pub violations: Vec<Difference>,
    /// The smallest observed margin of a row's token over the next: how close the closest tie was,
    /// as a difference of logits (of logits with noise, if sampled). Infinite if no row has two
    /// tokens to choose from.
    pub smallest_lead: f32,
    /// The greatest tolerance of a row.
    pub tolerance: f32,
}

/// A token that is not the target's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Its index in the emitted tokens.
    pub position: usize,
    /// The emitted token.
    pub emitted: TokenId,
    /// The target's token.
    pub expected: TokenId,
    /// By how much the logit of `expected` exceeds that of `emitted`, noise included if sampled;
    /// infinite for a token that truncation leaves out.
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
    let mut found = Rescored::nothing();
    for_each_row(target, prompt, tokens, |position, token, row| {
        found.book(position, token, row, tolerance);
        Ok(())
    })?;
    Ok(found)
}

/// As [`rescore`], for samples by the rule [`coupled`](cascade_engine::Rule::Coupled): each token
/// is compared with the winner of the race with this noise among the tokens that `sampling` leaves.
/// A difference is a near-tie if the emitted token would win if its logit grew by half of
/// `tolerance`, and that of the expected one fell by as much.
///
/// # Errors
/// Errors of the model; a row that is no distribution.
pub fn rescore_sampled(
    target: &mut dyn Scorer,
    prompt: &Prompt,
    tokens: &[TokenId],
    (sampling, noise): (&Sampling, &dyn Noise),
    tolerance: impl Into<Tolerance>,
) -> Result<Rescored> {
    let tolerance = tolerance.into();
    let mut found = Rescored::nothing();
    let start = prompt.context.len();
    for_each_row(target, prompt, tokens, |position, token, row| {
        let race = Race {
            sampling,
            noise,
            position: (start + position) as u64,
        };
        found.book_sampled(position, token, row, &race, tolerance)
    })?;
    Ok(found)
}

/// Calls `visit` with the index of each token, the token, and the target's logits before it.
fn for_each_row(
    target: &mut dyn Scorer,
    prompt: &Prompt,
    tokens: &[TokenId],
    mut visit: impl FnMut(usize, TokenId, &[f32]) -> Result<()>,
) -> Result<()> {
    target.set_source(&prompt.source)?;
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
            visit(chunk * ROWS + i, token, row)?;
        }
        context.extend(emitted);
    }
    Ok(())
}

/// The race for one token.
struct Race<'a> {
    sampling: &'a Sampling,
    noise: &'a dyn Noise,
    position: u64,
}

impl Race<'_> {
    /// The winner, and by how much its logit leads.
    fn winner(&self, row: &[f32]) -> Result<(TokenId, f32)> {
        let p = self.sampling.distribution(row)?;
        let first = self.noise.first(self.position, &p, 2);
        let winner = first.first().copied().unwrap_or(0);
        let lead = first.get(1).map_or(f32::INFINITY, |&second| {
            self.in_logits(self.noise.behind(self.position, &p, second, winner))
        });
        Ok((winner, lead))
    }

    fn gap(&self, row: &[f32], token: TokenId, winner: TokenId) -> Result<f32> {
        let p = self.sampling.distribution(row)?;
        Ok(self.in_logits(self.noise.behind(self.position, &p, token, winner)))
    }

    /// A factor of a probability as a difference of logits.
    fn in_logits(&self, factor: f64) -> f32 {
        self.sampling.temperature() * factor.ln() as f32
    }

    /// Whether `token` wins if it and the winner move towards each other by half a tolerance.
    fn is_near(&self, row: &[f32], token: TokenId, winner: TokenId, within: f32) -> Result<bool> {
        let mut moved = row.to_vec();
        let Some(raised) = moved.get_mut(token as usize) else {
            return Ok(false);
        };
        *raised += within / 2.0;
        moved[winner as usize] -= within / 2.0;
        Ok(self.winner(&moved)?.0 == token)
    }
}

impl Rescored {
    fn nothing() -> Self {
        Self {
            smallest_lead: f32::INFINITY,
            ..Self::default()
        }
    }

    fn book_sampled(
        &mut self,
        position: usize,
        emitted: TokenId,
        row: &[f32],
        race: &Race<'_>,
        tolerance: Tolerance,
    ) -> Result<()> {
        let tolerance = tolerance.of_row(row);
        let (expected, lead) = race.winner(row)?;
        self.count(tolerance, lead, emitted == expected);
        if emitted != expected {
            let near = race.is_near(row, emitted, expected, tolerance)?;
            let difference = Difference {
                position,
                emitted,
                expected,
                gap: race.gap(row, emitted, expected)?,
            };
            self.add(difference, near);
        }
        Ok(())
    }

    fn book(&mut self, position: usize, emitted: TokenId, row: &[f32], tolerance: Tolerance) {
        let tolerance = tolerance.of_row(row);
        let (expected, lead) = greatest(row);
        self.count(tolerance, lead, emitted == expected);
        if emitted != expected {
            let logit = row.get(emitted as usize).copied();
            let gap = row[expected as usize] - logit.unwrap_or(f32::NEG_INFINITY);
            let difference = Difference {
                position,
                emitted,
                expected,
                gap,
            };
            self.add(difference, gap <= tolerance);
        }
    }

    /// Counts a row and whether its token is the target's.
    fn count(&mut self, tolerance: f32, lead: f32, agrees: bool) {
        self.tokens += 1;
        self.agreements += usize::from(agrees);
        self.tolerance = self.tolerance.max(tolerance);
        self.smallest_lead = self.smallest_lead.min(lead);
    }

    fn add(&mut self, difference: Difference, near: bool) {
        if near {
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
    use cascade_core::{Architecture, SeededNoise};

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
    fn coupled_samples_agree_and_anything_else_does_not() {
        let prompt = Prompt::new(Architecture::DecoderOnly, vec![1, 2]);
        for sampling in [
            Sampling::PLAIN,
            Sampling::new(0.7)
                .expect("valid")
                .with_top_k(3)
                .expect("valid"),
            Sampling::new(1.5)
                .expect("valid")
                .with_top_p(0.8)
                .expect("valid"),
        ] {
            let noise = SeededNoise::new(9);
            let mut tokens = sampled(&prompt, &sampling, &noise, 150);
            let check = |tokens: &[TokenId], noise: &SeededNoise, tolerance: f32| {
                let races: (&Sampling, &dyn Noise) = (&sampling, noise);
                rescore_sampled(&mut target(), &prompt, tokens, races, tolerance)
                    .expect("a toy does not fail")
            };
            let fine = check(&tokens, &noise, 0.0);
            assert_eq!((fine.tokens, fine.agreements), (150, 150));
            assert!(fine.smallest_lead > 0.0 && fine.smallest_lead < 1.0);
            let other = check(&tokens, &SeededNoise::new(10), 0.0);
            assert!(other.violations.len() > 20, "another seed's noise");
            tokens.truncate(70);
            tokens[69] = (tokens[69] + 1) % 12;
            let wrong = check(&tokens, &noise, 0.0);
            assert_eq!((wrong.agreements, wrong.violations.len()), (69, 1));
            assert_eq!(wrong.violations[0].position, 69);
            // Logits that far apart are no tie, unless one says so.
            assert_eq!(check(&tokens, &noise, 1e-3).violations.len(), 1);
            assert_eq!(check(&tokens, &noise, 100.0).near_ties.len(), 1);
        }
    }

    fn sampled(
        prompt: &Prompt,
        sampling: &Sampling,
        noise: &SeededNoise,
        count: usize,
    ) -> Vec<TokenId> {
        let mut target = target();
        let mut context = prompt.context.clone();
        for _ in 0..count {
            let scores = target.score(&context, &TokenTree::new(), Want::LOGITS);
            let logits = scores.expect("a toy does not fail").logits.expect("wanted");
            let p = sampling.distribution(logits.row(0)).expect("proper");
            context.push(noise.winner(context.len() as u64, &p));
        }
        context.split_off(prompt.context.len())
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
