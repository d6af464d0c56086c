//! The rows of a plan in pieces that a forward takes.

use cascade_core::{Error, Result, TokenTree};
use cascade_gpu::{Rows, MAX_PICKS, MAX_ROWS, WINDOW};

use crate::plan::Plan;

/// A plan row by row.
pub(super) struct PlannedRows<'a> {
    plan: &'a Plan<'a>,
    tokens: Vec<u32>,
    positions: Vec<u32>,
    /// Children of the root and of each node, if their probabilities are wanted.
    children: Vec<usize>,
    picks: bool,
}

/// Number of children by row: of the context's last token, then of each node.
fn children(tree: &TokenTree) -> Vec<usize> {
    let mut children = vec![0; tree.len() + 1];
    for node in 0..tree.len() {
        children[TokenTree::row(tree.parent(node))] += 1;
    }
    children
}

/// Consecutive rows, few enough for one forward.
pub(super) struct Piece {
    tokens: Vec<u32>,
    positions: Vec<u32>,
    past: usize,
    first: usize,
    paths: Option<Vec<Vec<usize>>>,
    wanted: usize,
    picks: Vec<(u32, u32)>,
    /// The node of each pick.
    pub(super) nodes: Vec<usize>,
}

impl Piece {
    pub(super) fn rows(&self) -> Rows<'_> {
        Rows {
            tokens: &self.tokens,
            positions: &self.positions,
            past: self.past,
            first: self.first,
            paths: self.paths.as_deref(),
            wanted: self.wanted,
            picks: &self.picks,
        }
    }

    pub(super) fn wanted(&self) -> usize {
        self.wanted
    }

    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }
}

impl<'a> PlannedRows<'a> {
    /// The rows of `plan`; `picks` is whether the probabilities of nodes are wanted.
    ///
    /// # Errors
    /// If the tree is higher than paths may be long, or a node has more children than one forward
    /// looks up.
    pub(super) fn new(plan: &'a Plan<'a>, picks: bool) -> Result<Self> {
        let (height, most) = (plan.tree().height(), WINDOW - MAX_ROWS);
        if height > most && !plan.tree().is_chain() {
            return Err(Error::backend(std::io::Error::other(format!(
                "a tree of height {height} is higher than the {most} that a GPU scores: draft less at a time"
            ))));
        }
        let children = if picks {
            children(plan.tree())
        } else {
            Vec::new()
        };
        if let Some(&most) = children.iter().max().filter(|&&most| most > MAX_PICKS) {
            return Err(Error::backend(std::io::Error::other(format!(
                "a node of the draft has {most} children, and a GPU looks up {MAX_PICKS} at most: \
                 draft fewer siblings (`branches.widths`, `width`)"
            ))));
        }
        Ok(Self {
            tokens: plan.tokens(),
            positions: plan.positions(),
            plan,
            children,
            picks,
        })
    }

    /// The rows from `start` on that one forward takes; those after the context and the nodes are
    /// wanted, or none.
    pub(super) fn piece(&self, start: usize, wanted: bool) -> Piece {
        let plan = self.plan;
        let end = self.end(start);
        let first = plan.first_position() + start;
        let past = first.min(plan.context());
        let first_wanted = (plan.gap().len() - 1).max(start);
        let paths = || (start..end).map(|row| self.path(row, past)).collect();
        let mut piece = Piece {
            tokens: self.tokens[start..end].to_vec(),
            positions: self.positions[start..end].to_vec(),
            past,
            first,
            paths: (!plan.tree().is_chain()).then(paths),
            wanted: if wanted {
                end.saturating_sub(first_wanted)
            } else {
                0
            },
            picks: Vec::new(),
            nodes: Vec::new(),
        };
        if piece.wanted > 0 && self.picks {
            self.add_picks(&mut piece, first_wanted, end);
        }
        piece
    }

    /// Where the piece from `start` on ends: the children of its rows are as many as can be looked
    /// up.
    fn end(&self, start: usize) -> usize {
        let end = self.plan.rows().min(start + MAX_ROWS);
        let before = self.plan.gap().len() - 1;
        let mut picks = 0;
        let fits = |row: &usize| {
            picks += self
                .children
                .get(row.wrapping_sub(before))
                .copied()
                .unwrap_or(0);
            picks <= MAX_PICKS
        };
        start + (start..end).take_while(fits).count()
    }

    /// The nodes whose parents' rows are among `first..end`.
    fn add_picks(&self, piece: &mut Piece, first: usize, end: usize) {
        let tree = self.plan.tree();
        for node in 0..tree.len() {
            let row = self.plan.gap().len() - 1 + TokenTree::row(tree.parent(node));
            if (first..end).contains(&row) {
                piece.picks.push(((row - first) as u32, tree.token(node)));
                piece.nodes.push(node);
            }
        }
    }

    /// The slots of the positions from `past` to the row's own: the context's, then its ancestors'
    /// and its own.
    fn path(&self, row: usize, past: usize) -> Vec<usize> {
        let plan = self.plan;
        let (first, context) = (plan.first_position(), plan.context());
        let Some(node) = row.checked_sub(plan.gap().len()) else {
            return (past..=first + row).collect();
        };
        let mut nodes: Vec<usize> = plan.tree().ancestors(node).collect();
        nodes.reverse();
        let nodes = nodes.into_iter().map(|node| context + node);
        (past..context).chain(nodes).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces that cover all rows, none with more picks than a forward takes.
    fn check(plan: &Plan<'_>) {
        let rows = PlannedRows::new(plan, true).unwrap();
        let (mut start, mut nodes) = (0, Vec::new());
        while start < plan.rows() {
            let piece = rows.piece(start, true);
            assert!(piece.len() > 0 && piece.picks.len() <= MAX_PICKS);
            nodes.extend_from_slice(&piece.nodes);
            start += piece.len();
        }
        nodes.sort_unstable();
        assert_eq!(nodes, (0..plan.tree().len()).collect::<Vec<_>>());
    }

    #[test]
    fn pieces_have_no_more_picks_than_a_forward_takes() {
        let mut tree = TokenTree::new();
        for token in 0..8 {
            let parent = tree.push(token, None);
            for child in 0..200 {
                tree.push(child, Some(parent));
            }
        }
        check(&Plan::new(7, &[1, 2, 3], &tree));
        check(&Plan::new(0, &[1; 70], &tree));
    }

    #[test]
    fn more_children_than_a_forward_looks_up_are_refused() {
        let tree = |children: usize| {
            let mut tree = TokenTree::new();
            for token in 0..children {
                tree.push(token as u32, None);
            }
            tree
        };
        check(&Plan::new(0, &[1], &tree(MAX_PICKS)));
        let wide = tree(MAX_PICKS + 1);
        let plan = Plan::new(0, &[1], &wide);
        let error = PlannedRows::new(&plan, true).err().unwrap().to_string();
        assert!(error.contains("513 children"), "{error}");
        assert!(PlannedRows::new(&plan, false).is_ok());
    }
}
