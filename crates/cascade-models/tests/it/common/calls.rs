//! Random calls of a scorer.

use std::sync::Arc;

use cascade_core::{RowDetail, Scorer, Scores, TokenId, TokenTree, Want};
use cascade_models::{Model, ScoreCall, Session};
use rand::rngs::StdRng;
use rand::Rng;

use super::tiny::{cold, random_tokens};

/// One text of several, and the call that it makes next.
pub(crate) struct Text {
    pub(crate) session: Session,
    pub(crate) source: Vec<TokenId>,
    pub(crate) context: Vec<TokenId>,
    pub(crate) tree: TokenTree,
    want: Want,
}

impl Text {
    pub(crate) fn new(model: &Arc<Model>, source: Vec<TokenId>) -> Self {
        Self {
            session: cold(model, &source),
            source,
            context: Vec::new(),
            tree: TokenTree::new(),
            want: Want::ARGMAX,
        }
    }

    /// Draws what the text asks for next behind its context.
    pub(crate) fn ask(&mut self, rng: &mut StdRng) {
        (self.tree, self.want) = (random_tree(rng), random_want(rng));
    }

    pub(crate) fn call(&mut self) -> ScoreCall<'_> {
        ScoreCall {
            session: &mut self.session,
            context: &self.context,
            tree: &self.tree,
            want: self.want,
        }
    }

    /// Checks that the answer is the one of a session alone, but for the rows that a warm one need
    /// not compute.
    pub(crate) fn assert_alone(&self, found: Scores) {
        let alone = cold(self.session.model(), &self.source)
            .score(&self.context, &self.tree, self.want)
            .unwrap();
        assert!(found.rows_computed <= alone.rows_computed);
        assert_eq!(found.with_rows_computed(0), alone.with_rows_computed(0));
    }
}

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
