//! The states of verified text.

use cascade_core::{HiddenLayers, Matrix, Observation, TokenId, common_prefix};

/// Tokens that the target has verified, and its state after each but the first ones, if these were
/// cached and not read for this head.
#[derive(Debug, Default)]
pub(super) struct Observed {
    tokens: Vec<TokenId>,
    /// Tokens before the first that has a state.
    first: usize,
    /// `[tokens, width]`: those of several layers side by side.
    states: Vec<f32>,
    width: usize,
    /// Grows whenever states are no longer those behind the last ones.
    number: u64,
}

impl Observed {
    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.begin_behind(&[]);
    }

    /// Begins behind tokens that have no states.
    fn begin_behind(&mut self, tokens: &[TokenId]) {
        self.tokens = tokens.to_vec();
        self.first = tokens.len();
        self.states.clear();
        self.number += 1;
    }

    fn truncate(&mut self, tokens: usize) {
        self.tokens.truncate(tokens);
        self.states.truncate((tokens - self.first) * self.width);
    }

    /// The number of the first token that has a state.
    pub(super) fn first(&self) -> usize {
        self.first
    }

    /// As long as it is the same, states after the same tokens are the same.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// How many of the first tokens of a context are known with a state after the last of them, the
    /// context's last one aside, after which the head goes on by itself.
    pub(super) fn of(&self, context: &[TokenId]) -> usize {
        let before = context.len().saturating_sub(1);
        let known = common_prefix(&self.tokens, &context[..before]);
        if known > self.first { known } else { 0 }
    }

    /// States after tokens of the text, by their numbers, from the [`first`](Self::first) on.
    pub(super) fn rows(&self, tokens: std::ops::Range<usize>) -> &[f32] {
        let at = |token: usize| (token - self.first) * self.width;
        &self.states[at(tokens.start)..at(tokens.end)]
    }

    /// Takes what the target verified in a step behind `context`: the states of that, as far as
    /// they are given, and of the accepted nodes. Behind a gap it begins anew.
    pub(super) fn learn(
        &mut self,
        context: &[TokenId],
        step: &Observation<'_>,
        layers: HiddenLayers,
    ) {
        let given = layers.iter().map(|layer| step.hidden?.of(layer));
        let Some(given) = given.collect::<Option<Vec<&Matrix>>>() else {
            return;
        };
        let Some(first) = given.first() else {
            return;
        };
        let nodes = step.draft.len();
        // The last rows are those of the nodes, before them that of the context.
        let Some(of_context) = first.rows().checked_sub(nodes).filter(|&rows| rows > 0) else {
            return;
        };
        let Some(start) = context.len().checked_sub(of_context) else {
            return;
        };
        if self.first < start && start <= common_prefix(&self.tokens, context) {
            self.truncate(start);
        } else {
            self.begin_behind(&context[..start]);
        }
        self.width = given.iter().map(|states| states.columns()).sum();
        for (row, &token) in context[start..].iter().enumerate() {
            self.push(token, &given, row);
        }
        for &node in step.accepted {
            self.push(step.draft.token(node), &given, of_context + node);
        }
    }

    fn push(&mut self, token: TokenId, states: &[&Matrix], row: usize) {
        self.tokens.push(token);
        for states in states {
            self.states.extend_from_slice(states.row(row));
        }
    }
}

#[cfg(test)]
mod tests {
    use cascade_core::{HiddenLayer, HiddenStates, TokenTree};

    use super::*;

    fn states(rows: &[f32]) -> HiddenStates {
        HiddenStates::default().with(HiddenLayer::Last, Matrix::new(1, rows.to_vec()))
    }

    #[test]
    fn takes_the_verified_path_and_begins_anew_behind_a_gap() {
        let mut observed = Observed::default();
        let mut tree = TokenTree::new();
        let a = tree.push(7, None);
        tree.push(8, None);
        let b = tree.push(9, Some(a));
        let rows = states(&[1.0, 2.0, 3.0, 17.0, 18.0, 19.0]);
        let text = [4, 5, 6];
        let path = [a, b];
        let step = Observation::new(&text, &tree, &path, &[7, 9, 2], &[0; 4]);
        observed.learn(&text, &step.with_hidden(Some(&rows)), HiddenLayers::LAST);
        assert_eq!(observed.tokens, [4, 5, 6, 7, 9]);
        assert_eq!(observed.rows(0..5), [1.0, 2.0, 3.0, 17.0, 19.0]);
        assert_eq!(observed.of(&[4, 5, 6, 7, 9, 2]), 5);
        assert_eq!(observed.of(&[4, 5, 6]), 2);
        assert_eq!(observed.of(&[4, 1, 6, 7]), 1);
        assert_eq!(observed.of(&[]), 0);

        // The next step begins where this one ended.
        let text = [4, 5, 6, 7, 9, 2];
        let nothing = TokenTree::new();
        let next = states(&[20.0]);
        let step = Observation::new(&text, &nothing, &[], &[1], &[0]);
        observed.learn(&text, &step.with_hidden(Some(&next)), HiddenLayers::LAST);
        assert_eq!(observed.of(&[4, 5, 6, 7, 9, 2, 1]), 6);
        // Another text, of whose beginning there are no states.
        let number = observed.number();
        let other = [4, 5, 3, 3];
        let step = Observation::new(&other, &nothing, &[], &[1], &[0]);
        observed.learn(&other, &step.with_hidden(Some(&next)), HiddenLayers::LAST);
        assert_ne!(observed.number(), number);
        assert_eq!((observed.first(), observed.of(&[4, 5, 3, 3, 1])), (3, 4));
        assert_eq!(observed.rows(3..4), [20.0]);
        assert_eq!(observed.of(&[4, 5, 3, 1]), 0);
        // And the first one again, of which all states are given.
        let text = [4, 5, 6];
        let all = states(&[1.0, 2.0, 3.0]);
        let step = Observation::new(&text, &nothing, &[], &[1], &[0]);
        observed.learn(&text, &step.with_hidden(Some(&all)), HiddenLayers::LAST);
        assert_eq!((observed.first(), observed.of(&[4, 5, 6, 1])), (0, 3));
    }
}
