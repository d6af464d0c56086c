//! A schedule that knows the answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cascade_core::{LevelId, ScoredTree, TokenId, TokenTree};
use cascade_engine::{
    DraftState, DraftedToken, LevelSpec, Outcome, Plan, Result, Schedule, Turn, TurnStart,
};

/// Tokens and nodes that are asked of each drafter.
const MOST: usize = 64;

/// What an [`Oracle`] knows: the rest of a recorded answer. The cascade owns the schedule, so this
/// is a handle; clones share the text.
#[derive(Clone, Debug, Default)]
pub struct OracleText(Arc<Mutex<Vec<TokenId>>>);

impl OracleText {
    /// Sets what the target will say from now on.
    pub fn set(&self, output: &[TokenId]) {
        *self.lock() = output.to_vec();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<TokenId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The oracle of draft lengths (DISCO, §2; SpecDec++, §4.1), for greedy replays: drafts as far as
/// the target will agree, which no real schedule can know. Of a statistical drafter's proposal it
/// keeps the accepted path, so that nothing is discarded; a neural drafter goes on until its first
/// rejected token, which was drafted by then. Statistical drafters draft first, then neural ones,
/// largest first, each for the target.
///
/// The oracle bounds what a schedule or a stop rule can gain. What it looks at is what no policy
/// may look at: in sampled generations its output would not have the target's distribution.
#[derive(Clone, Debug)]
pub struct Oracle {
    text: OracleText,
    /// Whether each level is a model, the target first.
    neural: Vec<bool>,
}

impl Oracle {
    /// An oracle and the handle to tell it the answers.
    pub fn new() -> (Self, OracleText) {
        let text = OracleText::default();
        let oracle = Self {
            text: text.clone(),
            neural: Vec::new(),
        };
        (oracle, text)
    }

    /// Which nodes of a tree that begins after `depth` tokens will be said.
    fn said(&self, depth: usize, tree: &TokenTree) -> Vec<bool> {
        let text = self.text.lock();
        let mut said = vec![false; tree.len()];
        for node in 0..tree.len() {
            let before = tree.parent(node).is_none_or(|parent| said[parent]);
            let next = text.get(depth + tree.depth(node));
            said[node] = before && next == Some(&tree.token(node));
        }
        said
    }
}

impl Schedule for Oracle {
    fn prepare(&mut self, levels: &[LevelSpec<'_>]) -> Result<Plan> {
        self.neural = levels.iter().map(LevelSpec::is_neural).collect();
        Ok(Plan::new(levels.len()).with_pairs(|reviewer, _| reviewer == LevelId::TARGET))
    }

    fn next(&mut self, reviewer: LevelId, state: &DraftState<'_>) -> Option<Turn> {
        if reviewer != LevelId::TARGET || state.ended {
            return None;
        }
        let mut order: Vec<usize> = (1..self.neural.len()).collect();
        order.sort_by_key(|&level| self.neural[level]);
        let level = order.get(state.turns.len())?;
        Some(Turn {
            drafter: LevelId(*level),
            tokens: MOST,
            start: TurnStart::Tip,
            reserved: 0,
            nodes: MOST,
        })
    }

    fn stop(&mut self, drafted: &DraftedToken<'_>) -> bool {
        self.text.lock().get(drafted.position) != Some(&drafted.token)
    }

    fn trim(
        &mut self,
        _reviewer: LevelId,
        _drafter: LevelId,
        state: &DraftState<'_>,
        proposed: &ScoredTree,
    ) -> Option<Vec<bool>> {
        Some(self.said(state.depth, proposed.tree()))
    }

    fn observe(&mut self, outcome: &Outcome<'_>) {
        if outcome.reviewer == LevelId::TARGET {
            let mut text = self.text.lock();
            let said = (outcome.accepted.len() + 1).min(text.len());
            text.drain(..said);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oracle_keeps_what_will_be_said() {
        let (oracle, text) = Oracle::new();
        text.set(&[5, 6, 7]);
        let mut tree = TokenTree::chain([4, 6]);
        let five = tree.push(5, None);
        tree.push(9, Some(five));
        let six = tree.push(6, Some(five));
        tree.push(8, Some(six));
        assert_eq!(
            oracle.said(0, &tree),
            [false, false, true, false, true, false]
        );
        assert_eq!(
            oracle.said(1, &TokenTree::chain([6, 7, 1])),
            [true, true, false]
        );
    }
}
