//! From a verdict to emitted tokens, text and the end of a generation.

use std::ops::ControlFlow;
use std::sync::Arc;

use cascade_core::{Draft, LevelId, TextCodec, TokenId};
use cascade_verify::Verdict;

use crate::context_stack::ContextStack;
use crate::text::TextStream;
use crate::{Error, Event, Finish, Options, Result, Step, TextPiece};

/// Receives events. Its result may end the generation.
pub(crate) type OnEvent<'a> = &'a mut dyn FnMut(Event<'_>) -> ControlFlow<()>;

/// The emitted tokens and text of a generation.
pub(crate) struct Emission {
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) proposers: Vec<LevelId>,
    text: Option<TextStream>,
    max_new_tokens: usize,
    cancelled: bool,
    /// Text that the current step has emitted.
    pieces: Vec<TextPiece>,
}

impl Emission {
    /// What is emitted behind the tokens of a prompt.
    pub(crate) fn new(
        options: &Options,
        codec: Option<Arc<dyn TextCodec>>,
        prompt: &[TokenId],
    ) -> Result<Self> {
        let stops = options.stop.clone().filter(|stops| !stops.is_empty());
        if codec.is_none() && stops.is_some() {
            return Err(Error::NoCodec);
        }
        let continued = if options.continues { prompt } else { &[] };
        Ok(Self {
            tokens: Vec::new(),
            proposers: Vec::new(),
            text: codec.map(|codec| TextStream::new(codec, continued, stops)),
            max_new_tokens: options.max_new_tokens,
            cancelled: false,
            pieces: Vec::new(),
        })
    }

    /// Tokens that may still be emitted.
    pub(crate) fn remaining(&self) -> usize {
        self.max_new_tokens - self.tokens.len()
    }

    /// Emits the accepted tokens and the bonus token, appends them to the context, and returns why
    /// the generation ends, if it does; `end` says why it ends at a token.
    pub(crate) fn emit_step(
        &mut self,
        draft: &Draft,
        verdict: &Verdict,
        context: &mut ContextStack,
        end: impl Fn(TokenId) -> Option<Finish>,
        on_event: OnEvent<'_>,
    ) -> Result<Option<Finish>> {
        self.send(
            on_event,
            Event::Step(Step {
                drafted: draft.len(),
                accepted: verdict.kept.len(),
            }),
        );
        let kept = verdict
            .kept
            .iter()
            .map(|&node| (draft.tree().token(node), draft.proposer(node)));
        let own = std::iter::once((verdict.next, LevelId::TARGET));
        for (token, proposer) in kept.chain(own) {
            context.push(token);
            let finish = self.emit(token, proposer, end(token), on_event)?;
            if finish.is_some() {
                return Ok(finish);
            }
        }
        Ok(None)
    }

    fn emit(
        &mut self,
        token: TokenId,
        proposer: LevelId,
        end: Option<Finish>,
        on_event: OnEvent<'_>,
    ) -> Result<Option<Finish>> {
        self.tokens.push(token);
        self.proposers.push(proposer);
        self.send(on_event, Event::Token { token, proposer });
        let begin = self.pieces.len();
        let stop = match &mut self.text {
            Some(text) if !matches!(end, Some(Finish::StopToken(_))) => {
                text.push(token, proposer, &mut self.pieces)?
            }
            _ => None,
        };
        self.show(begin, on_event);
        Ok(match stop {
            Some(stop) => Some(stop),
            None if self.cancelled => Some(Finish::Cancelled),
            None if end.is_some() => end,
            None if self.remaining() == 0 => Some(Finish::MaxNewTokens),
            None => None,
        })
    }

    /// Emits the text still held back when a generation has ended by `finish`, unless a stop
    /// sequence ended it. A stop sequence may be completed only here.
    pub(crate) fn flush(&mut self, finish: Finish, on_event: OnEvent<'_>) -> Result<Finish> {
        if matches!(finish, Finish::StopSequence(_)) {
            return Ok(finish);
        }
        let begin = self.pieces.len();
        let stop = match &mut self.text {
            Some(text) => text.finish(&mut self.pieces)?,
            None => None,
        };
        self.show(begin, on_event);
        Ok(stop.unwrap_or(finish))
    }

    /// The text that was emitted since the last call.
    pub(crate) fn take_pieces(&mut self) -> Vec<TextPiece> {
        std::mem::take(&mut self.pieces)
    }

    /// All text.
    pub(crate) fn into_text(self) -> (Vec<TokenId>, Vec<LevelId>, Option<String>) {
        let text = self.text.map(TextStream::into_text);
        (self.tokens, self.proposers, text)
    }

    /// Sends the pieces of text from this one on.
    fn show(&mut self, begin: usize, on_event: OnEvent<'_>) {
        for TextPiece { text, proposer } in &self.pieces[begin..] {
            let proposer = *proposer;
            self.cancelled |= on_event(Event::Text { text, proposer }).is_break();
        }
    }

    fn send(&mut self, on_event: OnEvent<'_>, event: Event<'_>) {
        self.cancelled |= on_event(event).is_break();
    }
}
