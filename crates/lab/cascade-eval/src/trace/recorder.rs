//! Recording of a target: plain greedy decoding, with margins.

use std::ops::ControlFlow;
use std::sync::Arc;

use cascade_core::{Prompt, Scorer, TextCodec, TokenId};
use cascade_engine::{Cascade, Event, Options};

use super::margins::{MarginMeter, Margins};
use super::{Error, Finish, Record, Result, Subject};

/// Decodes with a target alone and records its output. It uses the plain decoding of the engine, so
/// a record ends exactly where a cascade with this target ends: at an end token, at a stop
/// sequence, or at the requested number of tokens.
pub struct Recorder {
    cascade: Cascade,
    margins: Margins,
    options: Options,
}

impl Recorder {
    /// A recorder of `target`, whose end tokens are `eos`. The codec is needed for stop sequences
    /// and for the text of the outputs.
    ///
    /// # Errors
    /// [`Error::NotGreedy`] if `options` samples.
    pub fn new(
        name: &str,
        target: impl Scorer + Send + 'static,
        eos: impl IntoIterator<Item = TokenId>,
        codec: Option<Arc<dyn TextCodec>>,
        options: &Options,
    ) -> Result<Self> {
        if !options.decoding.is_greedy() {
            return Err(Error::NotGreedy);
        }
        let (meter, margins) = MarginMeter::new(target);
        let mut builder = Cascade::builder().target(name, meter).eos(eos);
        if let Some(codec) = codec {
            builder = builder.codec(codec);
        }
        Ok(Self {
            cascade: builder.build()?,
            margins,
            options: options.clone().with_speculation(false),
        })
    }

    /// Tokenizes a text prompt, for the target's encoder or its context depending on its
    /// architecture.
    ///
    /// # Errors
    /// As [`Cascade::encode`].
    pub fn encode(&self, prompt: &str) -> Result<Prompt> {
        Ok(self.cascade.encode(prompt)?)
    }

    /// The same for a text that holds all special tokens itself.
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
            .generate_tokens_with(prompt, &self.options, on_event)?;
        let record = Record {
            id: subject.id,
            category: subject.category,
            turn: subject.turn,
            source: prompt.source.clone(),
            context: prompt.context.clone(),
            output: generation.tokens,
            margins: Some(self.margins.take()),
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
