//! The lenience of a cascade of which only the models are named, and its K matrix where one is
//! asked for (`--schedule static`): otherwise what pays is drafted ([`ScheduleConfig::Online`]).
//!
//! [`ScheduleConfig::Online`]: crate::ScheduleConfig::Online
//!
//! | drafters | tokens that they add for the target | λ | where it is from |
//! |---|---|---|---|
//! | Max-Gram | 10 | 1 | Cascade Speculative Drafting, Appendix B |
//! | the Max-Gram tree | as deep as [`default_nodes`] allows, at most 24 | 1 | `docs/max-gram.md` |
//! | one neural | 8 | 1 | Table 5, speculative decoding on GSM8K with measured times |
//! | one neural, Max-Gram | 2, 10 | 1 | Appendix B (`vicuna-7b.yaml`) |
//! | two neural | 8, 5 | 3 | the row below without Max-Gram |
//! | two neural, Max-Gram | 8, 5, 10 | 3 | Table 5, GSM8K (`t5-xxl.yaml`) |
//! | more neural | 8, 5, 5, … | 3 | continued; not in the paper |
//!
//! For a drafter's own review, each smaller neural drafter adds one token (the paper's k22) and
//! Max-Gram, or the tree, as many as for the target.
//!
//! # Nodes of the tree
//! Each node is a row of the target's forward. Where a forward waits for weights from memory, rows
//! are nearly free up to the number at which arithmetic takes as long; a node more is worth
//! drafting as long as it costs less than what it is expected to gain. The online schedule measures
//! that; with a K matrix, this table decides for a target that drafts with the tree alone:
//!
//! | device | nodes |
//! |---|---|
//! | GPU | 32 |
//! | CPU | 8 |
//!
//! The reasons are in `docs/max-gram.md`; `cascade bench model MODEL --rows 1,8,16,32` measures
//! what rows cost, and `--nodes` or `tree.max_nodes` sets another number.

use cascade_engine::{Convention, DEFAULT_MAX_NODES, KMatrix, KMatrixError, Lenience};
use cascade_models::DeviceSpec;

/// Tokens of Max-Gram: more are rarely accepted (Appendix B).
const MAX_GRAM: usize = 10;

/// Tokens that a smaller neural drafter adds for a drafter's review: k22 of Table 5.
const FOR_DRAFTERS: usize = 1;

/// Tokens of the longest path of the tree: deeper nodes are too improbable.
const TREE_DEPTH: usize = 24;

/// Nodes of a draft of the Max-Gram tree alone, for a target on this device; not
/// [`Auto`](DeviceSpec::Auto), but what it stands for.
pub fn default_nodes(device: DeviceSpec) -> usize {
    match device {
        DeviceSpec::Cuda(_) | DeviceSpec::Metal(_) => 32,
        _ => 8,
    }
}

/// Tokens that the tree alone adds to the main path at most: with fewer than there are nodes, it
/// branches.
pub(crate) fn tree_depth(nodes: usize) -> usize {
    (nodes.max(2) - 1).min(TREE_DEPTH)
}

/// Nodes of a draft if neural models draft.
pub(crate) const NODES: usize = DEFAULT_MAX_NODES;

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
///
/// # Errors
/// None for a row of any length.
pub fn k_matrix(neural: usize, for_target: &[usize]) -> Result<KMatrix, KMatrixError> {
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
