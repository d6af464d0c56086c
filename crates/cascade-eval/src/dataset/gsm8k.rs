//! GSM8K: grade-school math questions with worked answers.

use super::entry::{Entry, Result};
use crate::{Content, Sample};

/// The reference is the answer as it stands, calculator annotations and final `####` line included.
pub(super) fn sample(mut entry: Entry, position: usize) -> Result<Sample> {
    let id = entry.id(&["id"], position);
    let content = Content::Question(entry.text(&["question"])?);
    let references = vec![vec![entry.text(&["answer"])?]];
    Ok(entry.sample(id, None, content, references))
}
