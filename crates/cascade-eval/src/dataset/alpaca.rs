//! Alpaca: instructions, some with an input.

use super::entry::{Entry, Result};
use crate::{Content, Sample};

/// An empty input is none.
pub(super) fn sample(mut entry: Entry, position: usize) -> Result<Sample> {
    let id = entry.id(&["id"], position);
    let instruction = entry.text(&["instruction"])?;
    let input = entry.optional_text("input")?;
    let references = entry.references("output")?;
    let content = Content::Instruction {
        instruction,
        input: input.filter(|input| !input.is_empty()),
    };
    Ok(entry.sample(id, None, content, references))
}
