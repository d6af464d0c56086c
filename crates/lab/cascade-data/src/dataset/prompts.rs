//! Any prompts, in a field of one's choice.

use super::entry::{Entry, Result};
use crate::{Content, EntryError, Sample, Turns};

/// A text or a list of turns, with everything else beside it.
pub(super) fn sample(mut entry: Entry, position: usize, field: &str) -> Result<Sample> {
    let id = entry.id(&["id"], position);
    let turns = Turns::new(entry.text_or_texts(&[field])?);
    let turns = turns.ok_or_else(|| EntryError::NoTurns {
        field: field.to_owned(),
    })?;
    Ok(entry.sample(id, None, Content::Text(turns), Vec::new()))
}
