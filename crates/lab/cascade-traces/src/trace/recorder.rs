//! Recording of a target: plain decoding, with margins or probabilities.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use cascade_core::{Decoding, Prompt, Scorer, TextCodec, TokenId};
use cascade_engine::{Cascade, Event, Options};

use super::meter::{Measure, Measured, Meter};
use super::{Finish, Record, Subject};
use crate::{Result, error};

/// Decodes with a target alone and records its output. It uses the plain decoding of the engine, so
/// a record ends exactly where a cascade with this target ends: at an end token, at a stop
/// sequence, or at the requested number of tokens.
pub struct Recorder {
    cascade: Cascade,
    measured: Measured,
    measures: Measure,
    options: Options,
}

impl Recorder {
    /// A recorder of `target`, whose end tokens are `eos`. The codec is needed for stop sequences
    /// and for the text of the outputs. Samples are drawn by the rule `coupled` with the seed of
    /// `options`, or that of [`set_seed`](Self::set_seed); greedy recordings have margins, and
    /// sampled ones the target's most probable tokens if
    /// [asked](Self::with_top_probabilities).
    ///
    /// # Errors
    /// As [`Cascade::builder`].
    pub fn new(
        name: &str,
        target: impl Scorer + Send + 'static,
        eos: impl IntoIterator<Item = TokenId>,
        codec: Option<Arc<dyn TextCodec>>,
        options: &Options,
    ) -> Result<Self> {
        Self::with_top_probabilities(None, name, target, eos, codec, options)
    }

    /// As [`new`](Self::new), and records so many of the most probable tokens of each distribution
    /// that samples are drawn from. The header has to
    /// [say so](super::Header::with_top_probabilities).
    ///
    /// # Errors
    /// Options that do not sample, if there is a number.
    pub fn with_top_probabilities(
        tokens: Option<usize>,
        name: &str,
        target: impl Scorer + Send + 'static,
        eos: impl IntoIterator<Item = TokenId>,
        codec: Option<Arc<dyn TextCodec>>,
        options: &Options,
    ) -> Result<Self> {
        let measures = match (options.decoding, tokens) {
            (Decoding::Greedy, None) => Measure::Margins,
            (Decoding::Greedy, Some(_)) => return Err(error::no_top()),
            (Decoding::Sampled(_), None) => Measure::Nothing,
            (Decoding::Sampled(sampling), Some(tokens)) => Measure::Top(sampling, tokens),
        };
        let (meter, measured) = Meter::new(target, measures);
        let mut builder = Cascade::builder().target(name, meter).eos(eos);
        if let Some(codec) = codec {
            builder = builder.codec(codec);
        }
        Ok(Self {
            cascade: builder.build()?,
            measured,
            measures,
            options: options.clone().with_speculation(false),
        })
    }

    /// The seed of the next sampled records.
    pub fn set_seed(&mut self, seed: u64) {
        self.options.seed = seed;
    }

    /// Tokenizes a text prompt, for the target's encoder or its context depending on its
    /// architecture.
    ///
    /// # Errors
    /// As [`Cascade::encode`].
    pub fn encode(&self, prompt: &str) -> Result<Prompt> {
        Ok(self.cascade.encode(prompt)?)
    }

    /// The prompt of a text that holds all special tokens itself.
    ///
    /// # Errors
    /// As [`Cascade::encode_verbatim`].
    pub fn encode_verbatim(&self, prompt: &str) -> Result<Prompt> {
        Ok(self.cascade.encode_verbatim(prompt)?)
    }

    /// Records the output for a prompt, and returns its text too if there is a codec. `on_token` is
    /// called for every token.
    ///
    /// # Errors
    /// As [`Cascade::generate_tokens`].
    pub fn record(
        &mut self,
        subject: Subject,
        prompt: &Prompt,
        mut on_token: impl FnMut(TokenId),
    ) -> Result<(Record, Option<String>)> {
        let on_event = |event: Event<'_>| {
            if let Event::Token { token, .. } = event {
                on_token(token);
            }
            ControlFlow::Continue(())
        };
        let generation = self
            .cascade
            .start_tokens(prompt, &self.options)?
            .run_with(on_event)?;
        let seed = match self.options.decoding {
            Decoding::Greedy => None,
            Decoding::Sampled(_) => Some(self.options.seed),
        };
        let rows = self.measured.take();
        let record = Record {
            id: subject.id,
            category: subject.category,
            turn: subject.turn,
            source: prompt.source.clone(),
            context: prompt.context.clone(),
            output: generation.tokens,
            margins: matches!(self.measures, Measure::Margins).then_some(rows.margins),
            seed,
            top: matches!(self.measures, Measure::Top(..)).then_some(rows.top),
            yields: BTreeMap::new(),
            finish: finish(&generation.finish),
        };
        Ok((record, generation.text))
    }
}

fn finish(finish: &cascade_engine::Finish) -> Finish {
    use cascade_engine::Finish as Engine;
    match finish {
        Engine::Eos => Finish::Eos,
        Engine::StopSequence(_) => Finish::Stop,
        Engine::ContextFull => Finish::ContextFull,
        // Nothing cancels a recording; if something did, the text would be truncated in the same
        // way.
        _ => Finish::Length,
    }
}
