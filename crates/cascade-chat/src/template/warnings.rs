//! What a caller should know of a text that was made.

use super::ChatTemplate;
use crate::{Message, Role};

impl ChatTemplate {
    /// What the caller of [`render`](Self::render) should know of a `text` that it made of
    /// `messages`, in sentences: a system message that is left out, and variables that the template
    /// does not read.
    pub fn warnings(&self, messages: &[Message], text: &str) -> Vec<String> {
        let name = self.name();
        let mut warnings = Vec::new();
        if self.leaves_out_system(messages, text) {
            warnings.push(format!(
                "the chat template of {name} has no place for a system message: it was left out"
            ));
        }
        for variable in self.variables().names() {
            if !self.mentions(variable) {
                warnings.push(format!(
                    "the chat template of {name} does not read {variable:?}: it changed nothing"
                ));
            }
        }
        warnings
    }

    fn leaves_out_system(&self, messages: &[Message], text: &str) -> bool {
        let (system, others): (Vec<Message>, Vec<Message>) = messages
            .iter()
            .cloned()
            .partition(|message| message.role() == Role::System);
        let missing = |message: &Message| !text.contains(message.text().trim());
        system.iter().any(missing) && self.render(&others).is_ok_and(|without| without == text)
    }
}
