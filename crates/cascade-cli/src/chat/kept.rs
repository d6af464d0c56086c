//! Conversations in files: a line of `cascade run --prompts`.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use cascade_config::{Message, Role};
use cascade_core::fs::{Existing, read_text};
use serde_json::{Value, json};

use crate::outputs;

/// The largest file that is read.
const LARGEST: u64 = 64 << 20;

/// Writes a conversation to a file that is not there yet.
pub(super) fn save(file: &Path, messages: &[Message]) -> Result<()> {
    let objects: Vec<_> = messages.iter().map(Message::object).collect();
    let line = format!("{}\n", json!({ "messages": objects }));
    let output = outputs::check(file, Existing::Keep, [] as [&Path; 0])?;
    let writing = || format!("cannot write {}", file.display());
    let begun = output.begin().with_context(writing)?;
    std::io::Write::write_all(&mut begun.file(), line.as_bytes()).with_context(writing)?;
    begun.commit().with_context(writing)
}

/// Reads a conversation: its system message, and the turns, each with its answer.
pub(super) fn load(file: &Path) -> Result<(Option<String>, Vec<Message>)> {
    let at = || format!("{}", file.display());
    let text = read_text(file, LARGEST).with_context(|| format!("{} cannot be read", at()))?;
    let value: Value = serde_json::from_str(&text).with_context(at)?;
    let Value::Array(objects) = value["messages"].clone() else {
        bail!("{} has no \"messages\"; /save writes them", at());
    };
    let messages = objects.into_iter().map(Message::from_json);
    let mut messages: Vec<Message> = messages.collect::<Result<_, _>>().with_context(at)?;
    let has_system = messages
        .first()
        .is_some_and(|first| first.role() == Role::System);
    let system = has_system.then(|| messages.remove(0).text().to_owned());
    let turns = [Role::User, Role::Assistant].into_iter().cycle();
    let in_turn = messages
        .iter()
        .zip(turns)
        .all(|(message, role)| message.role() == role);
    ensure!(
        in_turn && messages.len().is_multiple_of(2),
        "{}: user and assistant do not speak in turn, the assistant last",
        at()
    );
    Ok((system, messages))
}
