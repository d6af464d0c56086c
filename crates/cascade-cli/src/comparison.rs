//! A generation compared with plain decoding of the same prompt.

use cascade_core::Decoding;
use cascade_engine::GenerationOutput;

/// Plain decoding of a prompt, and how a generation of the same prompt compares with it.
pub(crate) struct Comparison {
    pub(crate) plain: GenerationOutput,
    /// Whether tokens can be compared: samples cannot.
    pub(crate) comparable: bool,
    /// Index of the first token that differs.
    pub(crate) first_difference: Option<usize>,
    /// Ratio of tokens per second.
    pub(crate) speedup: f64,
}

impl Comparison {
    pub(crate) fn new(
        generation: &GenerationOutput,
        plain: GenerationOutput,
        decoding: Decoding,
    ) -> Self {
        let comparable = decoding.is_greedy();
        Self {
            comparable,
            first_difference: comparable
                .then(|| first_difference(&generation.tokens, &plain.tokens))
                .flatten(),
            speedup: generation.tokens_per_second() / plain.tokens_per_second(),
            plain,
        }
    }
}

fn first_difference(a: &[u32], b: &[u32]) -> Option<usize> {
    let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    (common < a.len().max(b.len())).then_some(common)
}
