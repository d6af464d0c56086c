//! HumanEval: functions to complete, from signature and docstring.

use super::entry::{Entry, Result};
use crate::{Content, Sample};

/// The reference is the canonical solution, which continues the prompt; `test` and `entry_point`
/// are among the fields.
pub(super) fn sample(mut entry: Entry, position: usize) -> Result<Sample> {
    let id = entry.id(&["task_id"], position);
    let content = Content::Code(entry.text(&["prompt"])?);
    let references = entry.references("canonical_solution")?;
    Ok(entry.sample(id, None, content, references))
}
