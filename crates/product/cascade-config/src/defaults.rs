//! The K matrix and the lenience of a cascade of which only the models are named.
//!
//! | drafters | tokens that they add for the target | λ | where it is from |
//! |---|---|---|---|
//! | Max-Gram | 10 | 1 | Cascade Speculative Drafting, Appendix B |
//! | one neural | 8 | 1 | Table 5, speculative decoding on GSM8K with measured times |
//! | one neural, Max-Gram | 2, 10 | 1 | Appendix B (`vicuna-7b.yaml`) |
//! | two neural | 8, 5 | 3 | the row below without Max-Gram |
//! | two neural, Max-Gram | 8, 5, 10 | 3 | Table 5, GSM8K (`t5-xxl.yaml`) |
//! | more neural | 8, 5, 5, … | 3 | continued; not in the paper |
//!
//! For a drafter's own review, each smaller neural drafter adds one token (the paper's k22) and
//! Max-Gram as many as for the target.

use cascade_engine::{Convention, KMatrix, KMatrixError, Lenience};

/// Tokens of Max-Gram: more are rarely accepted (Appendix B).
const MAX_GRAM: usize = 10;

/// Tokens that a smaller neural drafter adds for a drafter's review: k22 of Table 5.
const FOR_DRAFTERS: usize = 1;

/// Tokens that each drafter adds for the target, Max-Gram's last: the first row of the K matrix.
pub fn default_draft_tokens(neural: usize, max_gram: bool) -> Vec<usize> {
    let mut tokens = match (neural, max_gram) {
        (1, true) => vec![2],
        (neural, _) => [8]
            .into_iter()
            .chain([5].repeat(neural.max(1) - 1))
            .collect(),
    };
    tokens.truncate(neural);
    tokens.extend(max_gram.then_some(MAX_GRAM));
    tokens
}

/// λ of drafters' reviews of neural drafts.
pub fn default_lenience(neural: usize) -> Lenience {
    match neural {
        0 | 1 => Lenience::STRICT,
        _ => Lenience::new(3.0).unwrap_or(Lenience::STRICT),
    }
}

/// The K matrix whose first row is `for_target`, with Max-Gram in the last column if there are more
/// columns than neural drafters.
pub(crate) fn k_matrix(neural: usize, for_target: &[usize]) -> Result<KMatrix, KMatrixError> {
    let size = for_target.len();
    let rows = (0..size).map(|row| {
        let entry = |column: usize| match row {
            0 => for_target[column],
            _ if column < row => 0,
            _ if column < neural => FOR_DRAFTERS,
            _ => for_target[column],
        };
        (0..size).map(entry).collect()
    });
    KMatrix::new(rows.collect(), Convention::Added)
}
