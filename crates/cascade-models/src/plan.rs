//! Who attends to whom in one forward, and at what distance.

use cascade_core::{TokenId, TokenTree};

/// The rows of one forward: some tokens of the context, then the nodes of a tree.
///
/// Row `r` is written to slot `past + r` of the cache. A token of the context attends to the
/// context up to itself; a node attends to the whole context, its ancestors and itself. A node's
/// position is the length of the context plus its depth, so siblings share theirs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan<'a> {
    past: usize,
    gap: &'a [TokenId],
    tree: &'a TokenTree,
    /// Nodes of the tree that were appended before.
    before: usize,
}

impl<'a> Plan<'a> {
    /// Appends `gap` to the `past` tokens of the context that the cache holds, and `tree` to the
    /// gap.
    pub(crate) fn new(past: usize, gap: &'a [TokenId], tree: &'a TokenTree) -> Self {
        Self {
            past,
            gap,
            tree,
            before: 0,
        }
    }

    /// Appends the nodes of `tree` from number `before` on to a context of `past` tokens and the
    /// nodes before them, all of which the cache holds.
    pub(crate) fn growing(past: usize, tree: &'a TokenTree, before: usize) -> Self {
        Self {
            past,
            gap: &[],
            tree,
            before,
        }
    }

    /// The tree that is appended to them.
    pub(crate) fn tree(&self) -> &'a TokenTree {
        self.tree
    }

    /// Tokens of all rows.
    pub(crate) fn tokens(&self) -> Vec<TokenId> {
        let nodes = self.tree.tokens().skip(self.before);
        self.gap.iter().copied().chain(nodes).collect()
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.gap.len() + self.tree.len() - self.before
    }

    /// Number of slots that rows may attend to, their own included.
    pub(crate) fn keys(&self) -> usize {
        self.context() + self.tree.len()
    }

    /// Position of row 0; the other rows of the gap follow it.
    pub(crate) fn first_position(&self) -> usize {
        self.past
    }

    /// Positions of all rows.
    pub(crate) fn positions(&self) -> Vec<u32> {
        let context = self.context();
        let gap = self.past..context;
        let nodes = (self.before..self.tree.len()).map(|node| context + self.tree.depth(node));
        gap.chain(nodes).map(|position| position as u32).collect()
    }

    /// Whether every row attends to every key, so that there is nothing to mask.
    pub(crate) fn sees_everything(&self) -> bool {
        self.rows() == 1 && self.before == 0
    }

    /// A row-major `[rows, keys]` table: `visible(d)` where the row attends to a key `d` positions
    /// before it (0: itself), `masked` everywhere else.
    pub(crate) fn table<T: Copy>(&self, masked: T, visible: impl Fn(usize) -> T) -> Vec<T> {
        let (keys, context) = (self.keys(), self.context());
        let mut table = vec![masked; self.rows() * keys];
        let mut rows = table.chunks_exact_mut(keys);
        for (row, position) in rows.by_ref().take(self.gap.len()).zip(self.past..) {
            see_context(row, position + 1, position, &visible);
        }
        for (row, node) in rows.zip(self.before..) {
            let depth = self.tree.depth(node);
            see_context(row, context, context + depth, &visible);
            for ancestor in self.tree.ancestors(node) {
                row[context + ancestor] = visible(depth - self.tree.depth(ancestor));
            }
        }
        table
    }

    /// Length of the context, what the cache holds of it included.
    pub(crate) fn context(&self) -> usize {
        self.past + self.gap.len()
    }
}

/// Fills in the first `keys` tokens of the context, as a row at `position` sees them.
fn see_context<T>(row: &mut [T], keys: usize, position: usize, visible: impl Fn(usize) -> T) {
    for (key, cell) in row.iter_mut().enumerate().take(keys) {
        *cell = visible(position - key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HIDDEN: i32 = -1;

    fn table(plan: &Plan) -> Vec<Vec<i32>> {
        let flat = plan.table(HIDDEN, |distance| distance as i32);
        flat.chunks(plan.keys()).map(<[i32]>::to_vec).collect()
    }

    #[test]
    fn the_gap_is_causal_and_nodes_see_their_ancestors() {
        let mut tree = TokenTree::new();
        let a = tree.push(10, None);
        let b = tree.push(11, None);
        tree.push(12, Some(a));
        tree.push(13, Some(b));
        let plan = Plan::new(2, &[5, 6], &tree);
        assert_eq!(plan.tokens(), [5, 6, 10, 11, 12, 13]);
        assert_eq!((plan.rows(), plan.keys()), (6, 8));
        assert_eq!(plan.positions(), [2, 3, 4, 4, 5, 5]);
        let h = HIDDEN;
        assert_eq!(
            table(&plan),
            [
                vec![2, 1, 0, h, h, h, h, h],
                vec![3, 2, 1, 0, h, h, h, h],
                vec![4, 3, 2, 1, 0, h, h, h],
                vec![4, 3, 2, 1, h, 0, h, h],
                vec![5, 4, 3, 2, 1, h, 0, h],
                vec![5, 4, 3, 2, h, 1, h, 0],
            ]
        );
    }

    #[test]
    fn a_tree_that_grows_is_masked_as_a_whole_one() {
        let mut tree = TokenTree::new();
        let a = tree.push(10, None);
        tree.push(11, None);
        let b = tree.push(12, Some(a));
        tree.push(13, Some(b));
        let whole = Plan::new(3, &[], &tree);
        for before in 0..tree.len() {
            let rest = Plan::growing(3, &tree, before);
            assert_eq!(rest.rows(), tree.len() - before);
            assert_eq!(table(&rest), table(&whole)[before..]);
            assert_eq!(rest.tokens(), whole.tokens()[before..]);
            assert_eq!(rest.positions(), whole.positions()[before..]);
            assert!(!rest.sees_everything());
        }
    }

    #[test]
    fn a_chain_is_masked_like_the_context() {
        let chain = TokenTree::chain([7, 8, 9]);
        let (as_tree, empty) = (Plan::new(3, &[6], &chain), TokenTree::new());
        let as_gap = Plan::new(3, &[6, 7, 8, 9], &empty);
        assert_eq!(table(&as_tree), table(&as_gap));
        assert_eq!(as_tree.positions(), [3, 4, 5, 6]);
        assert_eq!(as_gap.positions(), as_tree.positions());
        assert!(!as_tree.sees_everything());
        assert!(Plan::new(3, &[6], &empty).sees_everything());
    }
}
