//! MT-bench: conversations of two turns.

use super::entry::{no_turns, Entry, Result};
use crate::{Content, Sample, Turns};

/// In FastChat's names (`turns`, `question_id`) or the hub's (`prompt`, `prompt_id`).
pub(super) fn sample(mut entry: Entry, position: usize) -> Result<Sample> {
    let id = entry.id(&["question_id", "prompt_id"], position);
    let category = entry.optional_text("category")?;
    let turns = Turns::new(entry.texts(&["turns", "prompt"])?).ok_or_else(|| no_turns("turns"))?;
    let references = entry.references("reference")?;
    Ok(entry.sample(id, category, Content::Text(turns), references))
}
