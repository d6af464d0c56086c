//! MT-bench: conversations of two turns.

use super::entry::{Entry, Result};
use crate::{Content, EntryError, Sample, Turns};

/// In FastChat's names (`turns`, `question_id`) or the hub's (`prompt`, `prompt_id`).
pub(super) fn sample(mut entry: Entry, position: usize) -> Result<Sample> {
    let id = entry.id(&["question_id", "prompt_id"], position);
    let category = entry.optional_text("category")?;
    let turns = Turns::new(entry.texts(&["turns", "prompt"])?);
    let turns = turns.ok_or_else(|| EntryError::NoTurns {
        field: "turns".to_owned(),
    })?;
    let references = entry.references("reference")?;
    Ok(entry.sample(id, category, Content::Text(turns), references))
}
