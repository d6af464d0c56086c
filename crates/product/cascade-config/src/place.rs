//! From the text of a configuration to the place of a model or a table.

#[cfg(feature = "demo")]
mod embedded;
#[cfg(not(feature = "demo"))]
#[path = "place/not_embedded.rs"]
mod embedded;

use std::path::{Path, PathBuf};

use cascade_models::ModelSource;

use crate::config::Table;

/// Prefix of what is part of the program.
const EMBEDDED: &str = "embedded:";

/// Why a text names nothing: the problem and the cure.
pub(crate) type Unknown = (String, String);

/// A model: embedded, a folder (relative to `base` if it starts with a dot), or of the hub.
pub(crate) fn model(text: &str, base: &Path) -> Result<ModelSource, Unknown> {
    if let Some(name) = text.strip_prefix(EMBEDDED) {
        return embedded::model(name);
    }
    let resolved = resolve(text, base);
    let text = resolved.as_deref().unwrap_or(Path::new(text));
    ModelSource::parse(&text.to_string_lossy())
        .map_err(|error| (error.to_string(), embedded::models_hint()))
}

/// The model that a command line names: a folder, `org/name`, `org/name@revision` or `embedded:NAME`.
///
/// # Errors
/// [`Error::Source`](crate::Error::Source) for a text that is none of these.
pub fn model_source(text: &str) -> crate::Result<ModelSource> {
    model(text, Path::new("")).map_err(|(problem, cure)| crate::Error::Source {
        text: text.to_owned(),
        problem,
        cure,
    })
}

/// A bigram table: embedded or a file (relative to `base` if it starts with a dot).
pub(crate) fn table(text: &str, base: &Path) -> Result<Table, Unknown> {
    match text.strip_prefix(EMBEDDED) {
        None => Ok(Table::File(
            resolve(text, base).unwrap_or_else(|| PathBuf::from(text)),
        )),
        Some(name) => embedded::table(text, name),
    }
}

/// The text of one of the program's own configurations; `None` if `text` does not name one.
pub(crate) fn config(text: &str) -> crate::Result<Option<&'static str>> {
    let Some(name) = text.strip_prefix(EMBEDDED) else {
        return Ok(None);
    };
    embedded::config(name).map_err(|(problem, cure)| crate::Error::Source {
        text: text.to_owned(),
        problem,
        cure,
    })
}

fn resolve(text: &str, base: &Path) -> Option<PathBuf> {
    text.starts_with('.').then(|| base.join(text))
}
