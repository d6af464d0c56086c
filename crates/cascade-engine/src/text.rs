//! Decoding of emitted tokens to text for display.

use std::collections::VecDeque;

use cascade_core::{LevelId, TextDecoder, TokenId};

use crate::stop_sequences::{Released, StopSequences, StopStream};
use crate::{Error, Result};

/// Decodes tokens incrementally, detects stop sequences, and attributes each piece of text to its
/// proposer.
pub(crate) struct TextStream {
    decoder: Box<dyn TextDecoder + Send>,
    stops: Option<StopStream>,
    /// Text that may be the beginning of a stop sequence, by proposer.
    held: VecDeque<(String, LevelId)>,
    text: String,
    last: LevelId,
}

impl TextStream {
    pub(crate) fn new(decoder: Box<dyn TextDecoder + Send>, stops: Option<StopSequences>) -> Self {
        Self {
            decoder,
            stops: stops.map(StopSequences::into_stream),
            held: VecDeque::new(),
            text: String::new(),
            last: LevelId::TARGET,
        }
    }

    /// Adds a token and calls `show` with the text that is safe to show. Returns the stop sequence
    /// that it completes, if any.
    pub(crate) fn push(
        &mut self,
        token: TokenId,
        proposer: LevelId,
        show: &mut dyn FnMut(&str, LevelId),
    ) -> Result<Option<usize>> {
        self.last = proposer;
        let piece = self.decoder.push(token).map_err(Error::Codec)?;
        Ok(self.take(piece, show))
    }

    /// Shows the text still held back after the last token. Returns the stop sequence that the
    /// decoder's last text completes, if any.
    pub(crate) fn finish(&mut self, show: &mut dyn FnMut(&str, LevelId)) -> Result<Option<usize>> {
        let piece = self.decoder.finish().map_err(Error::Codec)?;
        let stop = self.take(piece, show);
        if stop.is_none() {
            self.release(usize::MAX, show);
        }
        Ok(stop)
    }

    /// All text shown.
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    fn take(&mut self, piece: String, show: &mut dyn FnMut(&str, LevelId)) -> Option<usize> {
        if piece.is_empty() {
            return None;
        }
        let released = match &mut self.stops {
            Some(stops) => stops.push(&piece),
            None => Released::all(&piece),
        };
        self.held.push_back((piece, self.last));
        self.release(released.bytes, show);
        released.stop
    }

    fn release(&mut self, mut bytes: usize, show: &mut dyn FnMut(&str, LevelId)) {
        while bytes > 0 {
            let Some((mut piece, proposer)) = self.held.pop_front() else {
                return;
            };
            if piece.len() > bytes {
                self.held.push_front((piece.split_off(bytes), proposer));
            }
            bytes -= piece.len();
            self.text.push_str(&piece);
            show(&piece, proposer);
        }
    }
}
