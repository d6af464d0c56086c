//! MBPP: mostly basic Python problems, each with three assertions.

use super::entry::{Entry, Result};
use crate::{Content, Sample};

/// The reference is the solution, with whatever line ends it has.
pub(super) fn sample(mut entry: Entry, position: usize) -> Result<Sample> {
    let id = entry.id(&["task_id"], position);
    let content = Content::Task {
        // The sanitized form has `prompt`.
        description: entry.text(&["text", "prompt"])?,
        tests: entry.texts(&["test_list"])?,
    };
    let references = entry.references("code")?;
    Ok(entry.sample(id, None, content, references))
}
