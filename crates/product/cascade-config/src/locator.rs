//! From the text of a configuration to where a model or a table is.

mod embedded;

pub use embedded::{register_embedded, EmbeddedFiles};

use std::path::Path;

use cascade_core::Fingerprint;
use cascade_models::ModelSource;
use cascade_ngram::{BigramTable, TableLocator};

/// Prefix of what is part of the program.
const EMBEDDED: &str = "embedded:";

/// Why a text names nothing: the problem and the cure.
pub(crate) type Unknown = (String, String);

/// A model: embedded, a folder (relative to `base` if it starts with a dot), or of the hub.
pub(crate) fn model(text: &str, base: &Path) -> Result<ModelSource, Unknown> {
    if let Some(name) = text.strip_prefix(EMBEDDED) {
        return embedded::model(name);
    }
    let resolved = text.starts_with('.').then(|| base.join(text));
    let text = resolved.as_deref().unwrap_or(Path::new(text));
    ModelSource::parse(&text.to_string_lossy())
        .map_err(|error| (error.to_string(), embedded::models_hint()))
}

/// The model that a command line names: a folder, `org/name`, `org/name@revision` or
/// `embedded:NAME`.
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

/// The bytes of a bigram table that is part of the program.
pub(crate) fn embedded_table(name: &str) -> Result<&'static [u8], Unknown> {
    embedded::table(name)
}

/// The program's own bigram table of a vocabulary.
pub(crate) fn table_of(vocabulary: &Fingerprint) -> Option<TableLocator> {
    let mut tables = embedded::tables().into_iter();
    let fits = |&(name, bytes): &(&str, &'static [u8])| {
        BigramTable::from_static(name, bytes, vocabulary).is_ok()
    };
    let (name, _) = tables.find(fits)?;
    Some(TableLocator::Embedded(name.to_owned()))
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
