//! From the text of a configuration to where a model or a table is, and back.

mod embedded;

pub use embedded::{EmbeddedFiles, register_embedded};

use std::path::Path;

use cascade_core::Fingerprint;
use cascade_models::ModelSource;
use cascade_ngram::{NgramTable, TableLocator};

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
    model(text, Path::new("")).map_err(|unknown| names_nothing(text, unknown))
}

fn names_nothing(text: &str, (problem, cure): Unknown) -> crate::Error {
    crate::Error::Source {
        text: text.to_owned(),
        problem,
        cure,
    }
}

/// The bytes of a bigram table that is part of the program.
pub(crate) fn embedded_table(name: &str) -> Result<&'static [u8], Unknown> {
    embedded::table(name)
}

/// The program's own bigram table of a vocabulary.
pub(crate) fn table_of(vocabulary: &Fingerprint) -> Option<TableLocator> {
    let mut tables = embedded::tables().into_iter();
    let fits = |&(name, bytes): &(&str, &'static [u8])| {
        NgramTable::from_static(name, bytes, vocabulary).is_ok()
    };
    let (name, _) = tables.find(fits)?;
    Some(TableLocator::Embedded(name.to_owned()))
}

/// The text of one of the program's own configurations; `None` if `text` does not name one.
pub(crate) fn config(text: &str) -> crate::Result<Option<&'static str>> {
    let Some(name) = text.strip_prefix(EMBEDDED) else {
        return Ok(None);
    };
    embedded::config(name).map_err(|unknown| names_nothing(text, unknown))
}

/// `flan-t5-base` of `google/flan-t5-base@main`; `demo-t5-base` of `embedded:demo-t5-base`;
/// `name-GGUF:Q4_K_M` of `org/name-GGUF:Q4_K_M`.
pub(crate) fn last_part(source: &str) -> String {
    let source = source.trim_end_matches('/');
    let source = source.strip_prefix(EMBEDDED).unwrap_or(source);
    let without_revision = match source.split_once('@') {
        Some((id, _)) if !id.starts_with('.') => id,
        _ => source,
    };
    let last = without_revision.rsplit('/').next();
    last.unwrap_or(source).to_owned()
}

/// A model as a configuration names it, wherever it is read from.
pub(crate) fn model_text(source: &ModelSource) -> Result<String, String> {
    match source {
        ModelSource::Folder(at) | ModelSource::File(at) => path_text(at),
        ModelSource::Embedded(model) => Ok(format!("{EMBEDDED}{}", model.name)),
        other => Ok(other.to_string()),
    }
}

/// An absolute path.
pub(crate) fn path_text(path: &Path) -> Result<String, String> {
    let absolute = std::path::absolute(path)
        .map_err(|error| format!("{} has no absolute path: {error}", path.display()))?;
    let text = absolute.to_str().map(str::to_owned);
    text.ok_or_else(|| format!("{} is not UTF-8", path.display()))
}
