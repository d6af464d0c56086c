//! A recorded target as a scorer.

use std::cmp::Ordering;
use std::sync::Arc;

use cascade_config::Target;
use cascade_core::{
    Matrix, Observation, Result, RowDetail, Scorer, ScorerInfo, Scores, TokenId, TokenTree, Want,
    common_prefix,
};

use super::{Record, Trace};
use crate::{Error, ErrorKind};

/// The argmax of rows after tokens that were not recorded. It is outside every vocabulary, so no
/// drafted token can equal it. A strict greedy review, which walks down from the context along
/// tokens that equal the argmax, never reaches such a row.
pub const NO_TOKEN: TokenId = Observation::UNKNOWN;

/// Replays the target of a trace: the most probable token of a row is the token that was recorded
/// there.
///
/// The context must be a recorded prompt followed by a prefix of its output; the source identifies
/// the records of encoder-decoder models. If two records match, the one with the longer prompt is
/// used. Rows of a tree that diverge from the record have the argmax [`NO_TOKEN`], and so does the
/// row after the end of a text, which no result depends on.
///
/// In a sampled recording, the logits of a row leave the recorded token alone, so that it wins
/// every race, and the most probable token is the recorded one, or [`NO_TOKEN`] where no
/// probabilities were recorded.
///
/// In a sampled recording, the record of the first call after [`set_source`](Scorer::set_source) is
/// kept as long as its output goes on. Otherwise it is pure, since it caches nothing, and
/// `rows_computed` is the number of requested rows. A call costs a binary search among the prompts.
///
/// # Errors of `score`
/// Besides those of every [`Scorer`]: [`ErrorKind::NotRecorded`] for a context that was not
/// recorded; [`ErrorKind::NotRecorded`] for any [`Want`] but [`Want::ARGMAX`], and [`Want::LOGITS`]
/// of a sampled recording; [`ErrorKind::NotRecorded`] for a row after the last token of a truncated
/// output, and for a context that ends where the record does. A greedy generation of a recorded
/// prompt with at most as many tokens as [`limit`](super::limit) allows causes none of them.
#[derive(Clone, Debug)]
pub struct TraceScorer {
    trace: Arc<Trace>,
    /// Records by source and prompt, shorter outputs first.
    order: Vec<usize>,
    source: Vec<TokenId>,
    /// The record of the last call since the source was set, if the recording is a sampled one.
    current: Option<usize>,
}

/// A token of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordPosition {
    /// Index of the record.
    pub(super) record: usize,
    /// Index of the token in its output.
    pub(super) position: usize,
}

impl TraceScorer {
    /// A scorer for all records of a trace.
    ///
    /// # Errors
    /// [`ErrorKind::Trace`] if one prompt has two outputs of which neither is a prefix of the
    /// other.
    pub fn new(trace: Arc<Trace>) -> crate::Result<Self> {
        let records = &trace.records;
        let mut order: Vec<usize> = (0..records.len()).collect();
        order.sort_by(|&a, &b| {
            let (a, b) = (&records[a], &records[b]);
            by_prompt(a, &b.source, &b.context).then(a.output.len().cmp(&b.output.len()))
        });
        for pair in order.windows(2) {
            let (first, second) = (&records[pair[0]], &records[pair[1]]);
            let same = by_prompt(first, &second.source, &second.context).is_eq();
            if same && !second.output.starts_with(&first.output) {
                let problem = format!(
                    "records {} and {} have the same prompt but different outputs; a target has \
                     only one output, or one for a seed: remove one of them, or make two traces of \
                     them",
                    first.id, second.id
                );
                return Err(Error::located(ErrorKind::Trace, &trace.label, problem));
            }
        }
        Ok(Self {
            trace,
            order,
            source: Vec::new(),
            current: None,
        })
    }

    /// What a pool assembles cascades around in place of the recorded target: a scorer for all
    /// records of a trace, with its vocabulary and end tokens.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn target(trace: &Arc<Trace>) -> crate::Result<Target> {
        let header = &trace.header;
        let target = Target::new(
            Self::new(Arc::clone(trace))?,
            &trace.label,
            header.tokenizer(),
        );
        Ok(target.with_eos(header.eos.iter().copied()))
    }

    /// Whether the outputs are those of greedy decoding.
    pub fn is_greedy(&self) -> bool {
        self.trace.header.sampling().is_none()
    }

    /// The record that a context belongs to.
    ///
    /// # Errors
    /// A context that was not recorded.
    pub fn record_of(&mut self, context: &[TokenId]) -> crate::Result<&Record> {
        let index = self.find_current(context).ok_or_else(|| {
            let message = format!(
                "no record of the trace matches this context of {} tokens (a prompt and the \
                 beginning of its output): only what was recorded can be replayed",
                context.len()
            );
            Error::new(ErrorKind::NotRecorded, message)
        })?;
        Ok(&self.trace.records[index])
    }

    /// The greatest recorded token, of prompts and outputs.
    pub(super) fn greatest_token(&self) -> TokenId {
        let records = self.trace.records.iter();
        let tokens = records.flat_map(|of| [&of.source, &of.context, &of.output]);
        tokens.flatten().copied().max().unwrap_or_default()
    }

    /// Which record a context belongs to.
    fn find(&self, context: &[TokenId]) -> Option<usize> {
        let mut prefix = context;
        loop {
            // If other prompts are prefixes of the last prompt that does not sort after the
            // context, they sort before it.
            let after = self.order.partition_point(|&index| {
                by_prompt(&self.trace.records[index], &self.source, prefix).is_le()
            });
            let index = *self.order[..after].last()?;
            let record = &self.trace.records[index];
            if record.source != self.source {
                return None;
            }
            let common = common_prefix(&record.context, prefix);
            if common < record.context.len() {
                prefix = &prefix[..common];
                continue;
            }
            if record.output.starts_with(&context[common..]) {
                return Some(index);
            }
            prefix = &prefix[..common.checked_sub(1)?];
        }
    }

    /// The record of a context, kept for as long as a generation lasts: if one prompt begins like
    /// another with its output, their samples differ, although their greedy outputs do not.
    fn find_current(&mut self, context: &[TokenId]) -> Option<usize> {
        let goes_on = |&index: &usize| {
            let record = &self.trace.records[index];
            let output = context.strip_prefix(&record.context[..]);
            record.source == self.source && output.is_some_and(|o| record.output.starts_with(o))
        };
        let found = self.current.filter(goes_on).or_else(|| self.find(context));
        if self.trace.header.sampling().is_some() {
            self.current = found;
        }
        found
    }

    /// For each row, the token that was recorded there and its place in the recording; `None` where
    /// nothing was recorded.
    pub(super) fn recorded(
        &self,
        context: &[TokenId],
        tree: &TokenTree,
    ) -> Vec<Option<(RecordPosition, TokenId)>> {
        let Some(index) = self.find(context) else {
            return vec![None; tree.len() + 1];
        };
        let record = &self.trace.records[index];
        let begun = context.len() - record.context.len();
        let ahead = &record.output[begun..];
        let row = |tokens: usize| {
            let position = RecordPosition {
                record: index,
                position: begun + tokens,
            };
            Some((position, *ahead.get(tokens)?))
        };
        let rows = followed(tree, ahead).into_iter();
        rows.map(|tokens| tokens.and_then(row)).collect()
    }

    /// Rows of logits that leave one token each. Rows that no review reaches have any.
    fn certain(&self, tokens: &[TokenId]) -> Matrix {
        let columns = self.info().vocab_size;
        let mut logits = vec![f32::NEG_INFINITY; tokens.len() * columns];
        for (row, &token) in tokens.iter().enumerate() {
            let token = if token == NO_TOKEN { 0 } else { token };
            logits[row * columns + token as usize] = 0.0;
        }
        Matrix::new(columns, logits)
    }

    fn check(&self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<()> {
        let wanted = match want {
            Want::ARGMAX => None,
            Want::LOGITS if self.trace.header.sampling().is_some() => None,
            want if !want.hidden.is_empty() => Some("hidden states"),
            Want {
                rows: RowDetail::Logits,
                ..
            } => Some("logits"),
            _ => Some("probabilities"),
        };
        if let Some(wanted) = wanted {
            let message = format!(
                "a trace contains the target's tokens but no {wanted}: replay greedily (temperature \
                 0), with the trace as target and not as a drafter"
            );
            return Err(Error::new(ErrorKind::NotRecorded, message).into());
        }
        self.info().check(context, tree, want, "a trace")
    }
}

impl Scorer for TraceScorer {
    fn info(&self) -> ScorerInfo {
        let header = &self.trace.header;
        ScorerInfo::new(header.architecture, header.vocab_size)
            .with_max_context(header.max_context)
            .with_max_top(Some(0))
    }

    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        self.info().check_source(source)?;
        self.source = source.to_vec();
        self.current = None;
        Ok(())
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        self.check(context, tree, want)?;
        let record = self.record_of(context)?;
        let ahead = &record.output[context.len() - record.context.len()..];
        let followed = followed(tree, ahead);
        let tokens = next_tokens(record, ahead, &followed)?;
        let scores = Scores::default().with_rows_computed(tree.len() + 1);
        if want.rows != RowDetail::Logits {
            return Ok(scores.with_argmax(tokens));
        }
        let begun = record.output.len() - ahead.len();
        let most_probable = followed
            .iter()
            .map(|tokens| {
                let row = record.top.as_ref()?.get(begun + (*tokens)?)?;
                row.first().map(|&(token, _)| token)
            })
            .map(|token| token.unwrap_or(NO_TOKEN));
        Ok(scores
            .with_argmax(most_probable.collect())
            .with_logits(self.certain(&tokens)))
    }
}

/// The recorded token of each row, or [`NO_TOKEN`] where another text or none goes on.
fn next_tokens(
    record: &Record,
    ahead: &[TokenId],
    followed: &[Option<usize>],
) -> Result<Vec<TokenId>> {
    let past_end = || {
        let message = format!(
            "record {} ends after {} tokens, so the next token of the target is unknown; generate \
             no more than that",
            record.id,
            record.output.len()
        );
        Err(Error::new(ErrorKind::NotRecorded, message).into())
    };
    if ahead.is_empty() {
        return past_end();
    }
    let mut tokens = Vec::with_capacity(followed.len());
    for row in followed {
        tokens.push(match row.map(|read| ahead.get(read)) {
            Some(Some(&token)) => token,
            Some(None) if !record.finish.ends_text() => return past_end(),
            _ => NO_TOKEN,
        });
    }
    Ok(tokens)
}

/// For each row, how many tokens of `ahead` lead to it; `None` if other tokens do.
pub fn followed(tree: &TokenTree, ahead: &[TokenId]) -> Vec<Option<usize>> {
    let mut rows = Vec::with_capacity(tree.len() + 1);
    rows.push(Some(0));
    for (node, token) in tree.tokens().enumerate() {
        let before: Option<usize> = rows[TokenTree::row(tree.parent(node))];
        let follows = before.filter(|&tokens| ahead.get(tokens) == Some(&token));
        rows.push(follows.map(|tokens| tokens + 1));
    }
    rows
}

fn by_prompt(record: &Record, source: &[TokenId], context: &[TokenId]) -> Ordering {
    let sources = record.source.as_slice().cmp(source);
    sources.then_with(|| record.context.as_slice().cmp(context))
}
