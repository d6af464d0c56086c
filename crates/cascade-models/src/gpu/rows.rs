//! The rows of a plan in pieces that a forward takes.

use cascade_core::{Error, Result, TokenTree};
use cascade_gpu::{Mask, Rows, MAX_ROWS, WINDOW};

use crate::mask::Plan;

/// A plan row by row: which slots each sees, and where it stands.
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
    masks: Vec<Mask>,
    window_positions: Vec<u32>,
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
            masks: &self.masks,
            window_positions: &self.window_positions,
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
    /// The rows of `plan`; `picks` tells whether the probabilities of nodes are wanted.
    ///
    /// # Errors
    /// If the tree has more nodes than masks have bits.
    pub(super) fn new(plan: &'a Plan<'a>, picks: bool) -> Result<Self> {
        let nodes = plan.tree().len();
        if nodes > WINDOW - MAX_ROWS {
            return Err(Error::backend(std::io::Error::other(format!(
                "a tree of {nodes} nodes is larger than the {} that a GPU scores at once: lower the budget of nodes",
                WINDOW - MAX_ROWS
            ))));
        }
        let context = plan.context();
        let gap = plan.first_position()..context;
        let depths = (0..nodes).map(|node| context + plan.tree().depth(node));
        Ok(Self {
            tokens: plan.tokens(),
            positions: gap.chain(depths).map(|position| position as u32).collect(),
            plan,
            picks,
        })
    }

    /// The rows from `start` on that one forward takes, of which those after the context and the nodes are wanted, or none.
    pub(super) fn piece(&self, start: usize, wanted: bool) -> Piece {
        let plan = self.plan;
        let end = plan.rows().min(start + MAX_ROWS);
        let first = plan.first_position() + start;
        let past = first.min(plan.context());
        let window = past - plan.first_position();
        let first_wanted = (plan.gap().len() - 1).max(start);
        let mut piece = Piece {
            tokens: self.tokens[start..end].to_vec(),
            positions: self.positions[start..end].to_vec(),
            past,
            first,
            masks: (start..end).map(|row| self.mask(row, past)).collect(),
            window_positions: self.positions[window..end].to_vec(),
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

    /// Which slots from `past` on `row` sees.
    fn mask(&self, row: usize, past: usize) -> Mask {
        let plan = self.plan;
        let mut mask = Mask::default();
        let mut see = |slot: usize| mask[(slot - past) / 64] |= 1 << ((slot - past) % 64);
        let (first, context) = (plan.first_position(), plan.context());
        let Some(node) = row.checked_sub(plan.gap().len()) else {
            (past..=first + row).for_each(see);
            return mask;
        };
        (past..context).for_each(&mut see);
        for seen in plan.tree().ancestors(node) {
            see(context + seen);
        }
        see(context + node);
        mask
    }
}
