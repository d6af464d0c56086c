//! Sessions of heads: what a head has observed and computed, behind a scorer.

use std::sync::Arc;

use cascade_core::{
    Error, Observation, Result, Scorer, ScorerInfo, Scores, TokenId, TokenTree, Want,
};

use super::fed_rows::Rows;
use super::observed::Observed;
use super::Head;
use crate::readout;

/// A [`Scorer`] over a head: a neural drafter that [observes](Scorer::observe) what its target
/// verified.
///
/// After a context whose tokens but the last were observed, row 0 of the answer is what the head
/// says of the next token. Further tokens of the context, and the nodes of the tree, are fed with
/// the head's own states; rows are computed level by level, so a tree of height h takes h + 1
/// passes through the layer, and one through the output head. Rows are kept as long as they are of
/// use: those of verified text, and those of drafts until more is verified.
///
/// An answer is a function of the context, the tree and the states observed of the context since
/// the last `set_source`, which begins a text: states observed before it are forgotten. It has the
/// same bits whatever else was scored.
///
/// A head whose states overflow, as those of one trained for another model may when it feeds on
/// itself, has nothing to say there: all tokens are equally probable. That costs time, and no more.
///
/// Memory: keys and values of one layer, and a state of each token that was observed.
#[derive(Debug)]
pub struct HeadSession {
    head: Arc<Head>,
    observed: Observed,
    rows: Rows,
}

impl HeadSession {
    pub(super) fn new(head: Arc<Head>) -> Self {
        Self {
            observed: Observed::default(),
            rows: Rows::new(head.cache()),
            head,
        }
    }

    /// The head it scores with.
    pub fn head(&self) -> &Arc<Head> {
        &self.head
    }

    fn check(&self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<()> {
        if context.is_empty() {
            return Err(Error::EmptyContext);
        }
        let info = self.info();
        let vocab_size = info.vocab_size;
        let mut tokens = context.iter().copied().chain(tree.tokens());
        if let Some(token) = tokens.find(|&token| token as usize >= vocab_size) {
            return Err(Error::TokenOutOfVocabulary { token, vocab_size });
        }
        let needed = context.len() + tree.height();
        match info.max_context {
            Some(limit) if needed > limit => return Err(Error::ContextTooLong { needed, limit }),
            _ => {}
        }
        if let Some(layer) = want.hidden.lacking_in(info.hidden) {
            let model = "a head";
            return Err(Error::NoHiddenState { layer, model });
        }
        let nodes = tree.len();
        match info.max_nodes {
            Some(limit) if nodes > limit => Err(Error::TreeTooLarge { nodes, limit }),
            _ => Ok(()),
        }
    }

    /// Logits after the context and each node, and how many rows of the context were computed.
    fn logits(&mut self, context: &[TokenId], tree: &TokenTree) -> (Vec<f32>, usize) {
        let head = Arc::clone(&self.head);
        let known = self.observed.of(context);
        let verified = self.rows.verify(&head, &self.observed, &context[..=known]);
        // The rest of the context, then the tree behind it.
        let rest = &context[known + 1..];
        let mut whole = TokenTree::chain(rest.iter().copied());
        let end = rest.len().checked_sub(1);
        for node in 0..tree.len() {
            let parent = tree.parent(node).map(|parent| rest.len() + parent);
            whole.push(tree.token(node), parent.or(end));
        }
        let (places, fed) = self.rows.feed(&head, &whole, rest.len());
        let answered = std::iter::once(end).chain((rest.len()..whole.len()).map(Some));
        let states =
            answered.flat_map(|node| self.rows.given(&head, node.map(|node| places[node])));
        let states: Vec<f32> = states.copied().collect();
        (head.logits(&states), verified + fed)
    }
}

/// Gives all tokens of a row the same logit where they make no distribution; whether there was one.
fn level_improper(logits: &mut [f32], vocab_size: usize) -> bool {
    let mut found = false;
    for row in logits.chunks_exact_mut(vocab_size) {
        let proper = row.iter().all(|&logit| logit < f32::INFINITY);
        if !proper || row.iter().all(|&logit| logit == f32::NEG_INFINITY) {
            row.fill(0.0);
            found = true;
        }
    }
    found
}

impl Scorer for HeadSession {
    fn info(&self) -> ScorerInfo {
        self.head.info()
    }

    /// Begins a text: what was observed is forgotten.
    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        self.observed.clear();
        self.rows.clear();
        match source.len() {
            0 => Ok(()),
            tokens => Err(Error::SourceWithoutEncoder { tokens }),
        }
    }

    fn reach(&self, context: &[TokenId]) -> Option<usize> {
        (self.observed.of(context) > 0).then_some(usize::MAX)
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        self.check(context, tree, want)?;
        if self.reach(context).is_none() {
            return Err(Error::BeyondReach {
                tokens: context.len(),
                height: tree.height(),
            });
        }
        let head = Arc::clone(&self.head);
        let (mut logits, of_context) = head.scope(|| self.logits(context, tree));
        let rows = head.info().vocab_size;
        if level_improper(&mut logits, rows) {
            // As of any session: what is not a number spoils rows that might be kept.
            self.rows.clear();
        }
        let scores = readout::scores(logits, rows, tree, want);
        // That of the context's last token is the answer's own.
        let rows = tree.len() + of_context.max(1);
        scores.map(|scores| scores.with_rows_computed(rows))
    }

    fn observe(&mut self, observation: &Observation<'_>) -> Result<()> {
        self.observed.learn(observation, self.info().observes);
        Ok(())
    }
}
