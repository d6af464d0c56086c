//! What a neural drafter says of next tokens, for a statistical drafter to take into account.

use crate::{NodeId, TokenId, TokenTree, Top};

/// The most probable next tokens, by a neural drafter, after one context and after paths that
/// continue it.
///
/// It grows by the scores of whole trees. Trees of the same context may share paths: a path has one
/// row, since scorers are pure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Advice {
    /// The paths that have a row, other than the empty one.
    paths: TokenTree,
    /// Row by row as in [`Scores`](crate::Scores); empty before the first tree.
    rows: Top,
}

/// A row of an [`Advice`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvisedRow(Option<NodeId>);

impl Advice {
    /// Adds the rows of a scored tree.
    ///
    /// # Panics
    /// If `top` has fewer rows than the tree, or rows of another width than those before.
    pub fn add(&mut self, tree: &TokenTree, top: &Top) {
        if self.root().is_none() {
            self.rows.width = top.width;
            self.rows.tokens.extend_from_slice(top.row(0));
        }
        assert_eq!(self.rows.width, top.width, "rows of one width");
        let mut places: Vec<NodeId> = Vec::with_capacity(tree.len());
        for node in 0..tree.len() {
            let parent = tree.parent(node).map(|parent| places[parent]);
            let token = tree.token(node);
            let place = self.paths.child(parent, token).unwrap_or_else(|| {
                let row = top.row(TokenTree::row(Some(node)));
                self.rows.tokens.extend_from_slice(row);
                self.paths.push(token, parent)
            });
            places.push(place);
        }
    }

    /// The row after the context; `None` before the first tree.
    pub fn root(&self) -> Option<AdvisedRow> {
        (!self.rows.tokens.is_empty()).then_some(AdvisedRow(None))
    }

    /// The row after one more token, if there is one.
    pub fn next(&self, row: AdvisedRow, token: TokenId) -> Option<AdvisedRow> {
        let node = self.paths.child(row.0, token);
        node.map(|node| AdvisedRow(Some(node)))
    }

    /// The most probable tokens of a row with their probabilities at temperature 1, the best first.
    ///
    /// # Panics
    /// If the row is of another advice that has more.
    pub fn top(&self, row: AdvisedRow) -> &[(TokenId, f32)] {
        self.rows.row(TokenTree::row(row.0))
    }

    /// Whether there is a row after the context, and after each node of a tree.
    pub fn answered(&self, tree: &TokenTree) -> Vec<bool> {
        let rows = self.rows_of(tree);
        let rows = std::iter::once(self.root()).chain(rows);
        rows.map(|row| row.is_some()).collect()
    }

    /// The row after each node of a tree, if there is one.
    fn rows_of(&self, tree: &TokenTree) -> Vec<Option<AdvisedRow>> {
        let mut rows: Vec<Option<AdvisedRow>> = Vec::with_capacity(tree.len());
        for node in 0..tree.len() {
            let parent = match tree.parent(node) {
                None => self.root(),
                Some(parent) => rows[parent],
            };
            rows.push(parent.and_then(|row| self.next(row, tree.token(node))));
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn top(rows: &[TokenId]) -> Top {
        Top {
            width: 2,
            tokens: rows
                .iter()
                .flat_map(|&token| [(token, 0.5), (token + 1, 0.25)])
                .collect(),
        }
    }

    #[test]
    fn trees_of_one_context_share_paths() {
        let mut advice = Advice::default();
        assert_eq!(advice.root(), None);
        assert_eq!(advice.answered(&TokenTree::chain([1])), [false, false]);

        advice.add(&TokenTree::chain([1, 2]), &top(&[10, 20, 30]));
        let mut second = TokenTree::chain([1, 3]);
        second.push(4, None);
        assert_eq!(advice.answered(&second), [true, true, false, false]);
        // The row after 1 is the first tree's.
        advice.add(&second, &top(&[10, 20, 40, 50]));
        assert_eq!(advice.answered(&second), [true; 4]);
        assert_eq!(
            advice.answered(&TokenTree::chain([1, 2, 9, 9])),
            [true, true, true, false, false]
        );

        let root = advice.root().unwrap();
        let after = |path: &[TokenId]| {
            let row = path
                .iter()
                .try_fold(root, |row, &token| advice.next(row, token));
            row.map(|row| advice.top(row)[0].0)
        };
        assert_eq!(after(&[]), Some(10));
        assert_eq!(after(&[1]), Some(20));
        assert_eq!(after(&[1, 2]), Some(30));
        assert_eq!(after(&[1, 3]), Some(40));
        assert_eq!(after(&[4]), Some(50));
        assert_eq!(after(&[2]), None);
        assert_eq!(advice.top(root), [(10, 0.5), (11, 0.25)]);
    }
}
