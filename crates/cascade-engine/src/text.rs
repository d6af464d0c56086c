//! Decoding of emitted tokens to text for display.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use cascade_core::{LevelId, TextCodec, TextDecoder, TokenId};

use crate::stop_sequences::{Released, StopSequences, StopStream};
use crate::{Error, Finish, Result, TextPiece};

/// Decodes tokens incrementally, detects stop sequences, and attributes each piece of text to its
/// proposer.
pub(crate) struct TextStream {
    decoder: Box<dyn TextDecoder + Send>,
    stops: Option<StopStream>,
    /// Special tokens that are stop sequences by themselves, which have no text.
    special: HashMap<TokenId, String>,
    /// Text that may be the beginning of a stop sequence, by proposer.
    held: VecDeque<TextPiece>,
    text: String,
    last: LevelId,
}

impl TextStream {
    /// The text behind the tokens of a `context`.
    pub(crate) fn new(
        codec: Arc<dyn TextCodec>,
        context: &[TokenId],
        stops: Option<StopSequences>,
    ) -> Self {
        let texts = stops.iter().flat_map(StopSequences::iter);
        let special = texts.filter_map(|stop| Some((codec.special_token(stop)?, stop.to_owned())));
        Self {
            special: special.collect(),
            decoder: codec.decoder_after(context),
            stops: stops.map(StopSequences::into_stream),
            held: VecDeque::new(),
            text: String::new(),
            last: LevelId::TARGET,
        }
    }

    /// Adds a token, and to `shown` the text that is safe to show. Returns the stop sequence that
    /// it completes, if any.
    pub(crate) fn push(
        &mut self,
        token: TokenId,
        proposer: LevelId,
        shown: &mut Vec<TextPiece>,
    ) -> Result<Option<Finish>> {
        self.last = proposer;
        if let Some(stop) = self.special.get(&token).cloned() {
            let before = self.finish(shown)?;
            return Ok(before.or(Some(Finish::StopSequence(stop))));
        }
        let text = self.decoder.push(token).map_err(Error::Codec)?;
        Ok(self.take(text, shown))
    }

    /// Shows the text still held back after the last token. Returns the stop sequence that the
    /// decoder's last text completes, if any.
    pub(crate) fn finish(&mut self, shown: &mut Vec<TextPiece>) -> Result<Option<Finish>> {
        let text = self.decoder.finish().map_err(Error::Codec)?;
        let stop = self.take(text, shown);
        if stop.is_none() {
            self.release(usize::MAX, shown);
        }
        Ok(stop)
    }

    /// All text shown.
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    fn take(&mut self, text: String, shown: &mut Vec<TextPiece>) -> Option<Finish> {
        if text.is_empty() {
            return None;
        }
        let Released { bytes, stop } = match &mut self.stops {
            Some(stops) => stops.push(&text),
            None => Released::all(&text),
        };
        let proposer = self.last;
        self.held.push_back(TextPiece { text, proposer });
        self.release(bytes, shown);
        let (index, stops) = stop.zip(self.stops.as_ref())?;
        Some(Finish::StopSequence(stops.sequence(index).to_owned()))
    }

    fn release(&mut self, mut bytes: usize, shown: &mut Vec<TextPiece>) {
        while bytes > 0 {
            let Some(mut piece) = self.held.pop_front() else {
                return;
            };
            if piece.text.len() > bytes {
                let text = piece.text.split_off(bytes);
                let proposer = piece.proposer;
                self.held.push_front(TextPiece { text, proposer });
            }
            bytes -= piece.text.len();
            self.text.push_str(&piece.text);
            shown.push(piece);
        }
    }
}
