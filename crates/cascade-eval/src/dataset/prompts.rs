//! Any prompts, one JSON object per line.

use super::jsonl::{self, string};
use crate::{Result, Sample};

/// The prompts, with the other fields beside them.
pub(super) fn samples<'a>(
    label: &'a str,
    text: &'a str,
) -> impl Iterator<Item = Result<Sample>> + 'a {
    jsonl::samples(label, text, |mut object| {
        let prompt = string(&object, "prompt")?;
        // Not `remove`, which puts the last field in the place of the removed one.
        object.shift_remove("prompt");
        Ok(Sample::Text {
            prompt,
            fields: object,
        })
    })
}
