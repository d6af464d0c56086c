//! Random calls of a scorer.

use cascade_core::{RowDetail, TokenId, TokenTree, Want};
use rand::Rng;
use rand::rngs::StdRng;

use super::tiny::random_tokens;

/// Up to 16 nodes; few tokens, so that siblings often carry equal ones.
pub(crate) fn random_tree(rng: &mut StdRng) -> TokenTree {
    let mut tree = TokenTree::new();
    let bushiness = rng.random_range(0.0..1.0);
    for _ in 0..rng.random_range(0..=16) {
        let last = tree.len().checked_sub(1);
        let parent = match last {
            Some(last) if rng.random_bool(bushiness) => {
                let any = rng.random_range(0..=last + 1);
                any.checked_sub(1)
            }
            last => last,
        };
        tree.push(rng.random_range(0..4), parent);
    }
    tree
}

pub(crate) fn random_want(rng: &mut StdRng) -> Want {
    let rows = [RowDetail::Argmax, RowDetail::Gathered, RowDetail::Logits];
    let mut want = Want::ARGMAX.with_rows(rows[rng.random_range(0..3)]);
    want.top = [0, 0, 3, 20][rng.random_range(0..4)];
    want.entropy = rng.random_bool(0.2);
    if rng.random_bool(0.2) {
        want = want.with_last_hidden();
    }
    want
}

/// A context that relates to the last one and to the last tree as an engine's might.
pub(crate) fn next_context(rng: &mut StdRng, last: &[TokenId], tree: &TokenTree) -> Vec<TokenId> {
    let mut context = last.to_vec();
    match rng.random_range(0..10) {
        0 => context = Vec::new(),
        1 => context.truncate(rng.random_range(0..=last.len())),
        2 => {
            context.truncate(rng.random_range(0..=last.len()));
            let count = rng.random_range(0..30);
            context.extend(random_tokens(rng, count));
        }
        3 => {
            let count = rng.random_range(0..4);
            context.extend(random_tokens(rng, count));
        }
        _ if tree.is_empty() => {}
        _ => {
            context.extend(tree.path_tokens(Some(rng.random_range(0..tree.len()))));
            let count = rng.random_range(0..3);
            context.extend(random_tokens(rng, count));
        }
    }
    context.truncate(60);
    context
}
