//! A neural model of a cascade: its ledger, and how it reviews and drafts.

use std::sync::Arc;

use cascade_core::{
    Architecture, Observation, PenalizedText, ScorerInfo, Scores, TokenId, TokenTree, Want,
};
use cascade_verify::{ReviewRule, Rule};

use super::acceptance_watch::AcceptanceWatch;
use super::{NoticeSink, failed};
use crate::contract::check_scores;
use crate::ledger::Ledger;
use crate::level_checks::NeuralSpec;
use crate::policy::{ForwardCost, StopRule};
use crate::shared_vocabulary::{BoxedScorer, SharedVocabulary};
use crate::{Branching, DraftVocabulary, Error, Result};

/// How a neural drafter reviews and drafts.
#[derive(Clone, Debug)]
pub struct NeuralOptions {
    /// The rule of its reviews when tokens are sampled and the target's rule draws from a source of
    /// randomness; [`Rule::Coupled`] stands for [`Rule::Iterated`] then. If the target's rule is
    /// coupled, all reviews are.
    pub rule: Arc<dyn ReviewRule>,
    /// How its drafts branch.
    pub branching: Branching,
    /// The tokens that it may draft.
    pub vocabulary: DraftVocabulary,
}

impl NeuralOptions {
    /// Options with this rule and this branching, and all tokens.
    pub fn new(rule: impl ReviewRule + 'static, branching: Branching) -> Self {
        Self {
            rule: Arc::new(rule),
            branching,
            vocabulary: DraftVocabulary::default(),
        }
    }

    /// Limits the tokens that the drafter may draft.
    pub fn with_vocabulary(self, vocabulary: DraftVocabulary) -> Self {
        Self { vocabulary, ..self }
    }
}

impl Default for NeuralOptions {
    fn default() -> Self {
        Self::new(Rule::default(), Branching::default())
    }
}

/// A neural model and its name.
pub(crate) struct Neural {
    pub(crate) name: String,
    scorer: BoxedScorer,
    pub(super) ledger: Ledger,
    /// Which of the target's tokens it may draft.
    vocabulary: DraftVocabulary,
    reading: Option<Reading>,
    /// The penalties of the text that is generated, by which it drafts and reviews.
    pub(super) penalized: Option<PenalizedText>,
    /// Counts what the target accepts, if the drafter is a head.
    pub(super) watch: Option<AcceptanceWatch>,
    /// How it reviews when tokens are sampled.
    pub(crate) rule: Arc<dyn ReviewRule>,
    /// How its drafts branch.
    pub(crate) branching: Branching,
    /// When its turns end early.
    pub(crate) stop_rule: Option<Box<dyn StopRule>>,
}

impl Neural {
    pub(crate) fn new(name: String, scorer: BoxedScorer, options: NeuralOptions) -> Self {
        Self {
            name,
            scorer,
            ledger: Ledger::default(),
            vocabulary: options.vocabulary,
            reading: None,
            penalized: None,
            watch: None,
            rule: options.rule,
            branching: options.branching,
            stop_rule: None,
        }
    }

    pub(crate) fn info(&self) -> ScorerInfo {
        self.scorer.info()
    }

    pub(crate) fn spec(&self) -> NeuralSpec<'_> {
        NeuralSpec {
            name: &self.name,
            rule: &*self.rule,
            branching: &self.branching,
            stops: self.stop_rule.is_some(),
        }
    }

    /// Whether the drafter has no token that it could draft for a target of so many rows.
    pub(crate) fn shares_nothing(&self, target_rows: usize) -> bool {
        let rows = self.info().vocab_size;
        self.vocabulary.is_empty(rows, target_rows)
    }

    /// The drafter with scores over the vocabulary of a target of so many rows.
    pub(crate) fn drafting_for(self, target_rows: usize, notices: &NoticeSink) -> Self {
        let rows = self.info().vocab_size;
        let scorer = SharedVocabulary::fit(self.scorer, target_rows, &self.vocabulary);
        let reading = (rows < target_rows).then(|| Reading {
            rows,
            source: None,
            notices: Some(Arc::clone(notices)),
        });
        let is_head = !scorer.info().observes.is_empty();
        Self {
            watch: is_head.then(|| AcceptanceWatch::new(Arc::clone(notices))),
            scorer,
            reading,
            ..self
        }
    }

    pub(super) fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        if let Some(reading) = &mut self.reading {
            reading.source = reading.unread(source);
        }
        self.ledger.clear();
        let set = self.ledger.timed(|| self.scorer.set_source(source));
        set.map_err(|source| self.failed(source))
    }

    /// Runs one forward and returns its cost with the scores, which are those of penalized rows if
    /// the text has penalties.
    pub(crate) fn score(
        &mut self,
        context: &[TokenId],
        tree: &TokenTree,
        want: Want,
    ) -> Result<(Scores, ForwardCost)> {
        let penalized = self.penalized.clone();
        let Some(text) = penalized.filter(|text| text.changes(context.len())) else {
            return self.score_unpenalized(context, tree, want);
        };
        let (scores, cost) = self.score_unpenalized(context, tree, text.want(want))?;
        let scores = text.scores(scores, (context, tree), want);
        Ok((scores.map_err(|source| self.failed(source))?, cost))
    }

    /// As [`score`](Self::score), with the model's own rows.
    pub(crate) fn score_unpenalized(
        &mut self,
        context: &[TokenId],
        tree: &TokenTree,
        want: Want,
    ) -> Result<(Scores, ForwardCost)> {
        let before = self.ledger.usage();
        let rows = self.info().vocab_size;
        let scores = self
            .ledger
            .timed(|| self.scorer.score(context, tree, want))
            .and_then(|scores| check_scores(scores, context.len(), tree, want, rows))
            .map_err(|source| self.failed(source))?;
        self.ledger.count_forward(tree.len(), scores.rows_computed);
        let spent = self.ledger.usage().since(&before);
        let cost = ForwardCost {
            rows: spent.all_rows() as usize,
            time: spent.time,
            encoded: before.calls == 0 && self.encodes(),
            shared: self.scorer.shared_forward(),
        };
        Ok((scores, cost))
    }

    /// Texts that share its forwards at present, its own included.
    pub(crate) fn texts(&self) -> usize {
        self.scorer.texts().max(1)
    }

    /// From which row of a prompt on drafters observe hidden states ([`Want::hidden_after`]): where
    /// it has to be read anyway, unless the text depends on what is drafted, which must not depend
    /// on what is cached.
    pub(crate) fn states_from(&mut self, context: &[TokenId], drawn: bool) -> usize {
        let cached = if drawn {
            0
        } else {
            self.scorer.cached(context)
        };
        self.first_row() + cached
    }

    /// Tokens before the first row that the model has: one for a decoder, which reads no start
    /// token.
    pub(crate) fn first_row(&self) -> usize {
        match self.info().architecture {
            Architecture::DecoderOnly => 1,
            Architecture::EncoderDecoder => 0,
        }
    }

    pub(super) fn observe(&mut self, step: &Observation<'_>) -> Result<()> {
        let observed = self.ledger.timed(|| self.scorer.observe(step));
        observed.map_err(|source| self.failed(source))
    }

    /// Whether the model's first forward after a prompt encodes it.
    fn encodes(&self) -> bool {
        self.info().architecture == Architecture::EncoderDecoder
    }

    pub(crate) fn failed(&self, source: cascade_core::Error) -> Error {
        failed(&self.name, source)
    }

    /// Tokens that may still follow a context and a path of its own before the drafter runs out of
    /// positions or of [reach](Scorer::reach). `None` if it has run out, or has no row for a token
    /// of them: [`say_unread`](Self::say_unread).
    pub(crate) fn positions(&self, context: &[TokenId], path: &[TokenId]) -> Option<usize> {
        if self.unread(context, path).is_some() {
            return None;
        }
        let reach = self.scorer.reach(context)?.checked_sub(path.len())?;
        let room = self.room(context.len() + path.len())?;
        Some(room.min(reach))
    }

    /// Says once per drafter that it drafts nothing behind a token for which it has no row, if
    /// there is one in the source, the context or the path.
    pub(crate) fn say_unread(&mut self, context: &[TokenId], path: &[TokenId]) {
        let unread = self.unread(context, path);
        if let (Some(token), Some(reading)) = (unread, &mut self.reading) {
            reading.say(&self.name, token);
        }
    }

    /// The first token of the source, the context or the path that the drafter has no row for.
    fn unread(&self, context: &[TokenId], path: &[TokenId]) -> Option<TokenId> {
        let reading = self.reading.as_ref()?;
        let unread = reading.source.or_else(|| reading.unread(context));
        unread.or_else(|| reading.unread(path))
    }

    /// Tokens that may still follow a context of `context_len` before the model runs out of
    /// positions.
    pub(crate) fn room(&self, context_len: usize) -> Option<usize> {
        match self.info().max_context {
            None => Some(usize::MAX),
            Some(limit) => limit.checked_sub(context_len),
        }
    }
}

/// What a drafter with fewer rows than the target can read.
struct Reading {
    rows: usize,
    /// The first token of the source that it has no row for.
    source: Option<TokenId>,
    /// Where to say that a token has no row; `None` once it has been said.
    notices: Option<NoticeSink>,
}

impl Reading {
    /// The first of some tokens that the drafter has no row for.
    fn unread(&self, tokens: &[TokenId]) -> Option<TokenId> {
        let mut tokens = tokens.iter().copied();
        tokens.find(|&token| token as usize >= self.rows)
    }

    fn say(&mut self, name: &str, token: TokenId) {
        if let Some(notices) = self.notices.take() {
            notices(&format!(
                "drafter `{name}` drafts nothing behind token {token}, which is not in its \
                 vocabulary of {} tokens; the answer is the same",
                self.rows
            ));
        }
    }
}
