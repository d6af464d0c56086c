//! Any prompts, in a field of one's choice, or as messages of a conversation.

use cascade_config::Message;
use serde_json::Value;

use super::entry::{no_turns, wrong_type, Entry, Result};
use crate::{Content, Sample, Turns};

/// The field of a conversation.
const MESSAGES: &str = "messages";

/// A text or a list of turns, with everything else beside it; or the messages of a conversation,
/// where there is no text.
pub(super) fn sample(mut entry: Entry, position: usize, field: &str) -> Result<Sample> {
    let id = entry.id(&["id"], position);
    let content = if field == MESSAGES || (!entry.has(field) && entry.has(MESSAGES)) {
        conversation(&mut entry)?
    } else {
        let turns = Turns::new(entry.text_or_texts(&[field])?);
        Content::Text(turns.ok_or_else(|| no_turns(field))?)
    };
    Ok(entry.sample(id, None, content, Vec::new()))
}

fn conversation(entry: &mut Entry) -> Result<Content> {
    let (name, value) = entry.required(&[MESSAGES])?;
    let Value::Array(values) = value else {
        return Err(wrong_type(&name, "a list of messages", &value));
    };
    let messages: std::result::Result<Vec<_>, _> =
        values.into_iter().map(Message::from_json).collect();
    let checked = messages.and_then(|messages| {
        Message::check_conversation(&messages)?;
        Ok(messages)
    });
    let messages = checked.map_err(|problem| format!("the field \"messages\": {problem}"))?;
    Ok(Content::Conversation(messages))
}
