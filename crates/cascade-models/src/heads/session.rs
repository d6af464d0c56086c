//! Sessions of heads: what a head has observed and computed, behind a scorer.

use std::borrow::Cow;
use std::sync::Arc;

use cascade_core::{
    Architecture, Error, Observation, Result, Scorer, ScorerInfo, Scores, TokenId, TokenTree, Want,
};

use super::observed::Observed;
use super::{Head, Memory};
use crate::readout;

/// A [`Scorer`] over a head: a neural drafter that [observes](Scorer::observe) what its target
/// verified.
///
/// After a context whose tokens but the last were observed, row 0 of the answer is what the head
/// says of the next token. Of EAGLE, further tokens of the context, and the nodes of the tree, are
/// fed with the head's own states; rows are computed level by level, so a tree takes one pass more
/// through the layer than it is high, and one through the output head. Rows are kept as long as
/// they are of use: those of verified text, and those of drafts until more is verified. Medusa says
/// a fixed number of tokens of one state: see [`reach`](Scorer::reach).
///
/// An answer is a function of the context, the tree and the states observed of the context, in
/// texts before it, too, if they had the same source. It has the same bits whatever else was
/// scored. If the target gave no states of the first tokens, since a cache had what it computed of
/// them, the text of the head begins behind them. After `set_source`, which begins a text, it has
/// nothing to say until a step of that text was observed.
///
/// Of a target with an encoder, a head reads the decoder's states, which know the source, and not
/// the source itself. Its text begins with the token that the decoder begins with.
///
/// A head whose states overflow, as those of one trained for another model may when it feeds on
/// itself, has nothing to say there: all tokens are equally probable. That costs time, and no more.
///
/// Memory: keys and values of one layer (of Medusa a row of logits for each head), and a state of
/// each token that was observed.
#[derive(Debug)]
pub struct HeadSession {
    head: Arc<Head>,
    source: Vec<TokenId>,
    /// Whether a step of the text was observed.
    is_begun: bool,
    observed: Observed,
    memory: Box<dyn Memory>,
}

impl HeadSession {
    pub(super) fn new(head: Arc<Head>) -> Self {
        Self {
            source: Vec::new(),
            is_begun: false,
            observed: Observed::default(),
            memory: Arc::clone(&head.network).memory(),
            head,
        }
    }

    /// What the target's decoder reads of a context: the token that it begins with, if there is
    /// one, goes before it.
    fn text<'a>(&self, context: &'a [TokenId]) -> Cow<'a, [TokenId]> {
        match self.head.start {
            None => context.into(),
            Some(start) => [&[start], context].concat().into(),
        }
    }

    /// How tall a tree may be behind what the decoder reads of a context.
    fn reach_behind(&self, text: &[TokenId]) -> Option<usize> {
        let known = self.is_begun.then(|| self.observed.of(text));
        let known = known.filter(|&known| known > 0)?;
        self.head.network.reach(text.len() - known - 1)
    }
}

/// Gives all tokens of a row the same logit where it is not a valid distribution; whether one was.
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

    /// Begins a text: what was observed of others with the same source stays.
    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        self.is_begun = false;
        if self.source != source {
            self.observed.clear();
            self.memory.clear();
            self.source = source.to_vec();
        }
        match (self.info().architecture, source.len()) {
            (Architecture::DecoderOnly, tokens @ 1..) => {
                Err(Error::SourceWithoutEncoder { tokens })
            }
            _ => Ok(()),
        }
    }

    fn reach(&self, context: &[TokenId]) -> Option<usize> {
        self.reach_behind(&self.text(context))
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        let text = self.text(context);
        if text.is_empty() {
            return Err(Error::EmptyContext);
        }
        self.info().check(&text, tree, want, "a head")?;
        if self
            .reach_behind(&text)
            .is_none_or(|reach| tree.height() > reach)
        {
            return Err(Error::BeyondReach {
                tokens: context.len(),
                height: tree.height(),
            });
        }
        let (mut logits, of_context) = self.memory.logits(&self.observed, &text, tree);
        let rows = self.info().vocab_size;
        if level_improper(&mut logits, rows) {
            // As of any session: what is not a number spoils rows that might be kept.
            self.memory.clear();
        }
        let scores = readout::scores(logits, rows, tree, want);
        // That of the context's last token is the answer's own.
        let rows = tree.len() + of_context.max(1);
        scores.map(|scores| scores.with_rows_computed(rows))
    }

    fn observe(&mut self, observation: &Observation<'_>) -> Result<()> {
        let text = self.text(observation.context);
        self.observed
            .learn(&text, observation, self.info().observes);
        self.is_begun = true;
        Ok(())
    }
}
