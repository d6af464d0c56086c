//! Recording a target: plain greedy decoding, with the margins.

use std::ops::ControlFlow;
use std::sync::Arc;

use cascade_core::{Prompt, Scorer, TextCodec, TokenId};
use cascade_engine::{Cascade, Event, Options};

use super::margins::{MarginMeter, Margins};
use super::{Error, Finish, Record, Result, Subject};

/// Decodes with a target alone, and notes what it says. This is the plain decoding of the engine,
/// so a record ends exactly where a cascade around the target ends: at an end token, at a stop
/// sequence, or at the number of tokens asked for.
pub struct Recorder {
    cascade: Cascade,
    margins: Margins,
    options: Options,
}

impl Recorder {
    /// A recorder of `target`, which ends its texts by `eos`. The codec is needed for stop
    /// sequences and for the text of the answers.
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

    /// The tokens of a text prompt, where the target reads them.
    ///
    /// # Errors
    /// Those of [`Cascade::encode`].
    pub fn encode(&self, prompt: &str) -> Result<Prompt> {
        Ok(self.cascade.encode(prompt)?)
    }

    /// Records the answer to a prompt, and returns its text too, if there is a codec. `on_token`
    /// hears of every token.
    ///
    /// # Errors
    /// Those of [`Cascade::generate_tokens`].
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
        // Nobody cancels here; if somebody did, the text would have been cut short just so.
        _ => Finish::Length,
    }
}
