//! From the text of a configuration to the place of a model or a table.

use std::path::{Path, PathBuf};

use cascade_models::{EmbeddedModel, ModelSource};

use crate::config::Table;

/// Prefix of what is part of the program.
const EMBEDDED: &str = "embedded:";

/// Why a text names nothing: the problem and the cure.
pub(crate) type Unknown = (String, String);

/// A model: embedded, a folder (relative to `base` if it starts with a dot), or of the hub.
pub(crate) fn model(text: &str, base: &Path) -> Result<ModelSource, Unknown> {
    if let Some(name) = text.strip_prefix(EMBEDDED) {
        return embedded_model(name);
    }
    let resolved = resolve(text, base);
    let text = resolved.as_deref().unwrap_or(Path::new(text));
    ModelSource::parse(&text.to_string_lossy()).map_err(|error| {
        (
            error.to_string(),
            format!("or name one of the program's own models: {}", model_names()),
        )
    })
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
        Some(name) => cascade_demo::bigram_table(name)
            .map(|bytes| Table::Embedded {
                name: text.to_owned(),
                bytes,
            })
            .ok_or_else(|| {
                (
                    format!("there is no embedded table `{name}`"),
                    format!("take one of {}", cascade_demo::BIGRAM_TABLES.join(", ")),
                )
            }),
    }
}

fn resolve(text: &str, base: &Path) -> Option<PathBuf> {
    text.starts_with('.').then(|| base.join(text))
}

fn embedded_model(name: &str) -> Result<ModelSource, Unknown> {
    let checkpoint = cascade_demo::checkpoint(name).ok_or_else(|| {
        (
            format!("there is no embedded model `{name}`"),
            format!("take one of {}", model_names()),
        )
    })?;
    Ok(ModelSource::Embedded(EmbeddedModel {
        name: checkpoint.name,
        config: checkpoint.config,
        generation_config: Some(checkpoint.generation_config),
        tokenizer: checkpoint.tokenizer,
        weights: checkpoint.weights,
    }))
}

fn model_names() -> String {
    let names = cascade_demo::CHECKPOINTS
        .iter()
        .map(|checkpoint| format!("{EMBEDDED}{}", checkpoint.name));
    names.collect::<Vec<_>>().join(", ")
}
