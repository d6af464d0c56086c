//! The horizontal cascade.

use rand::Rng;

use crate::theory::geometric::geometric_sum;
use crate::theory::simulation::accepted_run;
use crate::theory::{Drafter, Step, System};

/// The horizontal cascade (Cascade Speculative Drafting, §4.2): the first tokens of a draft come
/// from the best drafter, the later ones, which are reached less often, from cheaper ones.
///
/// Nothing is required of the order of the segments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Horizontal {
    /// Who drafts how many tokens, first token first. No tokens at all are plain decoding.
    pub segments: Vec<Segment>,
}

/// Successive tokens of one drafter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// The drafter.
    pub drafter: Drafter,
    /// Tokens that it drafts.
    pub tokens: usize,
}

impl Horizontal {
    /// The probability of each drafted token to be accepted: Π_{j≤i} α_j for token i (Corollary
    /// 4.6).
    pub fn token_acceptance(&self) -> Vec<f64> {
        self.rates()
            .scan(1.0, |reached, rate| {
                *reached *= rate;
                Some(*reached)
            })
            .collect()
    }

    /// α_1, …, α_k.
    fn rates(&self) -> impl Iterator<Item = f64> + '_ {
        self.segments
            .iter()
            .flat_map(|s| std::iter::repeat_n(s.drafter.acceptance.get(), s.tokens))
    }
}

impl System for Horizontal {
    /// Σ_{i=0}^{k} Π_{j≤i} α_j (Theorem 4.5).
    fn expected_tokens(&self) -> f64 {
        let (mut expected, mut reached) = (1.0, 1.0);
        for segment in &self.segments {
            let rate = segment.drafter.acceptance.get();
            expected += reached * rate * geometric_sum(rate, segment.tokens);
            reached *= rate.powf(segment.tokens as f64);
        }
        expected
    }

    /// 1 + Σ_{i=1}^{k} c_i.
    fn walltime(&self) -> f64 {
        self.segments
            .iter()
            .map(|s| s.tokens as f64 * s.drafter.cost.get())
            .sum::<f64>()
            + 1.0
    }

    fn step(&self, rng: &mut impl Rng) -> Step {
        let (mut tokens, mut walltime, mut rejected) = (1, 1.0, false);
        for segment in &self.segments {
            walltime += segment.drafter.cost.get() * segment.tokens as f64;
            if !rejected {
                let length = segment.tokens as u64;
                let accepted = accepted_run(segment.drafter.acceptance, length, rng);
                tokens += accepted;
                rejected = accepted < length;
            }
        }
        Step { tokens, walltime }
    }
}
