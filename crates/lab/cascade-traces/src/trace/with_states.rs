//! A recorded target with the hidden states of its model, for drafters that read them.

use std::sync::Arc;

use cascade_config::{Config, Drafter, ModelPool, Target};
use cascade_core::{
    Architecture, HiddenLayers, HiddenStates, Matrix, Result, Scorer, ScorerInfo, Scores, TokenId,
    TokenTree, Want,
};
use cascade_models::LoadedModel;

use super::{Record, Trace, TraceScorer, followed};
use crate::{Error, ErrorKind, error};

/// Tokens of a record that the model reads in one forward.
const AT_ONCE: usize = 256;

/// The least share of the tokens of a greedy record that its own model says. Another type of
/// weights says another token here and there, another model at every turn.
const OWN: f64 = 0.8;

/// Replays the target of a trace as a [`TraceScorer`] does, and answers with hidden states, too:
/// those of a model that reads each record once, several tokens in a forward.
///
/// Rows of a tree that diverge from the record have states of NaN: they are not computed, and no
/// drafter may read states of rejected tokens.
///
/// # Errors of `score`
/// Errors of a [`TraceScorer`] and of the model; [`ErrorKind::OtherModel`] if the model would have
/// said other tokens than the record, which is only found of greedy recordings.
pub struct WithStates {
    recorded: TraceScorer,
    model: Box<dyn Scorer + Send>,
    name: String,
    /// The states of the record that was replayed last.
    read: Option<Read>,
}

/// A record's prompt and output, and the states after each beginning of them.
struct Read {
    source: Vec<TokenId>,
    text: Vec<TokenId>,
    /// Tokens of the prompt.
    prompt: usize,
    /// Tokens of the shortest beginning: a decoder alone says nothing after none.
    shortest: usize,
    states: HiddenStates,
}

impl WithStates {
    /// States of `model`, which errors call by this name.
    pub fn new(
        recorded: TraceScorer,
        model: Box<dyn Scorer + Send>,
        name: impl Into<String>,
    ) -> Self {
        Self {
            recorded,
            model,
            name: name.into(),
            read: None,
        }
    }

    /// The states of the record that a context belongs to, computed if they are those of another.
    fn states(&mut self, context: &[TokenId], layers: HiddenLayers) -> Result<&Read> {
        let record = self.recorded.record_of(context)?;
        let known = self.read.take().filter(|known| {
            let has_all = layers.lacking_in(known.states.layers()).is_none();
            has_all && known.is_of(record)
        });
        let read = match known {
            Some(known) => known,
            None => {
                let record = record.clone();
                self.read(&record, layers)?
            }
        };
        Ok(self.read.insert(read))
    }

    /// Refuses a model that says other tokens than a greedy record.
    fn check_said(&self, record: &Record, said: usize) -> crate::Result<()> {
        let output = record.output.len();
        if !self.recorded.is_greedy() || said as f64 >= OWN * output as f64 {
            return Ok(());
        }
        let message = format!(
            "{} says {said} of the {output} tokens of record {}, so it is not the model that was \
             recorded, and its hidden states are others; give that one",
            self.name, record.id
        );
        Err(Error::new(ErrorKind::OtherModel, message))
    }

    /// Reads a record: the states after each beginning of it.
    fn read(&mut self, record: &Record, layers: HiddenLayers) -> Result<Read> {
        self.model.set_source(&record.source)?;
        let prompt = record.context.len();
        let text = [&record.context[..], &record.output].concat();
        let shortest = match self.recorded.info().architecture {
            Architecture::DecoderOnly => 1,
            Architecture::EncoderDecoder => 0,
        };
        let want = Want::ARGMAX.with_hidden(layers);
        let (mut states, mut said, mut at) = (HiddenStates::default(), 0, prompt);
        while at < text.len() {
            let ahead = &text[at..text.len().min(at + AT_ONCE)];
            let first = at == prompt;
            let want = want.with_hidden_after(first.then_some(shortest));
            let chain = TokenTree::chain(ahead.iter().copied());
            let scores = self.model.score(&text[..at], &chain, want)?;
            let same = ahead.iter().zip(&scores.argmax).filter(|(a, b)| a == b);
            said += same.count();
            // The row after the context is the last one of the forward before.
            states = if first {
                scores.hidden
            } else {
                states.followed_by(&without_first_row(&scores.hidden))
            };
            at += ahead.len();
        }
        self.check_said(record, said)?;
        Ok(Read {
            source: record.source.clone(),
            text,
            prompt,
            shortest,
            states,
        })
    }
}

fn without_first_row(states: &HiddenStates) -> HiddenStates {
    let layers = states
        .layers()
        .iter()
        .filter_map(|layer| Some((layer, states.of(layer)?)));
    layers.fold(HiddenStates::default(), |all, (layer, states)| {
        let rest = states.as_slice()[states.columns()..].to_vec();
        all.with(layer, Matrix::new(states.columns(), rest))
    })
}

impl Read {
    fn is_of(&self, record: &Record) -> bool {
        let (prompt, output) = self.text.split_at(self.prompt);
        self.source == record.source && prompt == record.context && output == record.output
    }

    /// The states of rows, each by the tokens before it: NaN where nothing was recorded.
    fn rows(&self, layers: HiddenLayers, rows: &[Option<usize>]) -> HiddenStates {
        let of = |states: &Matrix| {
            let nothing = vec![f32::NAN; states.columns()];
            let rows = rows.iter().flat_map(|tokens| match tokens {
                Some(tokens) => states.row(tokens - self.shortest),
                None => &nothing,
            });
            Matrix::new(states.columns(), rows.copied().collect())
        };
        let layers = layers
            .iter()
            .filter_map(|layer| Some((layer, of(self.states.of(layer)?))));
        layers.fold(HiddenStates::default(), |all, (layer, states)| {
            all.with(layer, states)
        })
    }
}

impl Scorer for WithStates {
    fn info(&self) -> ScorerInfo {
        let hidden = self.model.info().hidden;
        self.recorded.info().with_hidden(hidden)
    }

    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        self.recorded.set_source(source)
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        let scores = self.recorded.score(context, tree, want.without_hidden())?;
        if want.hidden.is_empty() {
            return Ok(scores);
        }
        let read = self.states(context, want.hidden)?;
        let before = want.hidden_after.unwrap_or(context.len())..context.len();
        let answer = followed(tree, &read.text[context.len()..])
            .into_iter()
            .map(|tokens| tokens.map(|tokens| context.len() + tokens));
        let rows: Vec<_> = before.map(Some).chain(answer).collect();
        let hidden = read.rows(want.hidden, &rows);
        Ok(scores.with_hidden(hidden))
    }
}

/// Refuses a model that the outputs of a trace say nothing about: of another vocabulary or another
/// architecture than the recorded target. `what` stands before its name.
///
/// # Errors
/// [`ErrorKind::OtherModel`].
pub fn check_family(
    what: impl std::fmt::Display,
    model: &LoadedModel,
    trace: &Trace,
) -> crate::Result<()> {
    if model.tokenizer.fingerprint() != trace.header.tokenizer() {
        let difference = format_args!("has another tokenizer than the target of {}", trace.label);
        return Err(error::other_family(
            format_args!("{what} {}", model.name),
            difference,
        ));
    }
    check_architecture(what, model, trace)
}

/// Refuses a model of another architecture than the recorded target, which has no source where the
/// other needs one. `what` stands before its name.
///
/// # Errors
/// [`ErrorKind::OtherModel`].
pub(crate) fn check_architecture(
    what: impl std::fmt::Display,
    model: &LoadedModel,
    trace: &Trace,
) -> crate::Result<()> {
    let (found, needed) = (model.info().architecture, trace.header.architecture);
    if found == needed {
        return Ok(());
    }
    let difference = format_args!("is {found}, and the target of {} {needed}", trace.label);
    Err(error::other_family(
        format_args!("{what} {}", model.name),
        difference,
    ))
}

/// What a pool assembles cascades around in place of the recorded target of a trace. If a drafter
/// of the configuration is a head, its target is loaded, too, and gives the states that the head
/// reads; else nothing is.
///
/// # Errors
/// As [`TraceScorer::new`]; for a head, those of loading the target, and an error if its
/// tokenizer or architecture is not the recorded one's.
pub fn recorded_target(
    config: &Config,
    pool: &ModelPool,
    trace: &Arc<Trace>,
) -> crate::Result<Target> {
    let is_head =
        |drafter: &Drafter| matches!(drafter, Drafter::Neural { model, .. } if model.is_head);
    if !config.drafters().iter().any(is_head) {
        return TraceScorer::target(trace);
    }
    let model = pool.target(config)?;
    check_family(format_args!("{}: target", config.label), &model, trace)?;
    let recorded = TraceScorer::new(Arc::clone(trace))?;
    let states = WithStates::new(recorded, Box::new(model.session()), &model.name);
    let header = &trace.header;
    let target =
        Target::new(states, &trace.label, header.tokenizer()).with_eos(header.eos.iter().copied());
    Ok(target.with_model(Arc::clone(&model.model)))
}
