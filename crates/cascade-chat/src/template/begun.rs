//! Answers that are begun.

use super::ChatTemplate;
use crate::{Error, Message, Result};

impl ChatTemplate {
    /// The text up to where the model goes on with the last message, which the assistant has begun
    /// to say. The messages before it end with another's.
    ///
    /// # Errors
    /// As [`render`](Self::render); [`Error::Message`] if the template does not write what the
    /// assistant has begun behind everything else.
    pub fn render_begun(&self, messages: &[Message]) -> Result<String> {
        let cannot = || Error::Message {
            problem: format!(
                "the chat template of {} has no place for an answer that is begun",
                self.name()
            ),
            cure: "end the conversation with the user's message",
        };
        let (begun, before) = messages.split_last().ok_or_else(cannot)?;
        let said = begun.text().trim();
        if said.is_empty() {
            return self.render(before);
        }
        let start = self.render_with(before, false)?;
        let whole = [before, &[begun.with_text()]].concat();
        let mut text = self.render_with(&whole, false)?;
        let at = text
            .rfind(said)
            .filter(|&at| at >= start.len() && text.starts_with(&start));
        let mut end = at.ok_or_else(cannot)? + said.len();
        // Blanks at its end, unless the template takes them away.
        let blanks = &begun.text()[begun.text().trim_end().len()..];
        if text[end..].starts_with(blanks) {
            end += blanks.len();
        }
        text.truncate(end);
        Ok(text)
    }
}
