//! The models, tables and configurations that are part of the program.

use cascade_models::{EmbeddedModel, ModelSource};

use super::{Unknown, EMBEDDED};

/// Names of the tables.
pub(super) const TABLES: &[&str] = &cascade_demo::BIGRAM_TABLES;

pub(super) fn model(name: &str) -> Result<ModelSource, Unknown> {
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
        further: checkpoint.further,
    }))
}

pub(super) fn models_hint() -> String {
    format!("or name one of the program's own models: {}", model_names())
}

pub(super) fn table(name: &str) -> Result<&'static [u8], Unknown> {
    cascade_demo::bigram_table(name).ok_or_else(|| {
        (
            format!("there is no embedded table `{name}`"),
            format!("take one of {}", cascade_demo::BIGRAM_TABLES.join(", ")),
        )
    })
}

/// `None` if there is none of that name.
pub(super) fn config(name: &str) -> Result<Option<&'static str>, Unknown> {
    Ok(cascade_demo::config(name))
}

fn model_names() -> String {
    let names = cascade_demo::CHECKPOINTS
        .iter()
        .map(|checkpoint| format!("{EMBEDDED}{}", checkpoint.name));
    names.collect::<Vec<_>>().join(", ")
}
