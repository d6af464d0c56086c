//! The rows of a plan in pieces that a forward takes.

use cascade_core::{Error, Result, TokenTree};
use cascade_gpu::{Rows, MAX_ROWS, WINDOW};

use crate::plan::Plan;

/// A plan row by row.
pub(super) struct PlannedRows<'a> {
    plan: &'a Plan<'a>,
    tokens: Vec<u32>,
    positions: Vec<u32>,
    picks: bool,
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
    /// If the tree is higher than paths may be long.
    pub(super) fn new(plan: &'a Plan<'a>, picks: bool) -> Result<Self> {
        let (height, most) = (plan.tree().height(), WINDOW - MAX_ROWS);
        if height > most && !plan.tree().is_chain() {
            return Err(Error::backend(std::io::Error::other(format!(
                "a tree of height {height} is higher than the {most} that a GPU scores: draft less at a time"
            ))));
        }
        Ok(Self {
            tokens: plan.tokens(),
            positions: plan.positions(),
            plan,
            picks,
        })
    }

    /// The rows from `start` on that one forward takes; those after the context and the nodes are
    /// wanted, or none.
    pub(super) fn piece(&self, start: usize, wanted: bool) -> Piece {
        let plan = self.plan;
        let end = plan.rows().min(start + MAX_ROWS);
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
