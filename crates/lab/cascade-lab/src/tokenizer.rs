//! Tokenizers by name.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use cascade_core::Fingerprint;
use cascade_models::{HubOptions, ModelSource, Tokenizer};

const EMBEDDED: &str = "embedded:";

/// Loads a tokenizer from a file, a folder, a hub model, or `embedded:NAME`.
pub(crate) fn load(text: &str) -> Result<Tokenizer> {
    if let Some(name) = text.strip_prefix(EMBEDDED) {
        return embedded(name);
    }
    if Path::new(text).is_file() {
        return Ok(Tokenizer::from_file(text)?);
    }
    let source = ModelSource::parse(text)?;
    let hub = HubOptions::from_env();
    let file = source.tokenizer(&hub, true)?;
    Ok(Tokenizer::load(&file)?)
}

/// The files on this machine that belong to a tokenizer, and to the model that it is of: no output
/// may replace them.
pub(crate) fn files(text: &str) -> Vec<PathBuf> {
    let path = Path::new(text);
    let hub = HubOptions::from_env();
    let source = if path.is_file() {
        path.parent()
            .map(|folder| ModelSource::Folder(folder.to_owned()))
    } else {
        ModelSource::parse(text).ok()
    };
    let beside = source.map(|source| source.present_files(&hub));
    let file = path.is_file().then(|| path.to_owned());
    file.into_iter()
        .chain(beside.into_iter().flatten())
        .collect()
}

/// The embedded tokenizer with this fingerprint, if there is one.
pub(crate) fn known(fingerprint: &Fingerprint) -> Option<Tokenizer> {
    cascade_demo::CHECKPOINTS
        .iter()
        .filter_map(|checkpoint| embedded(checkpoint.name).ok())
        .find(|tokenizer| tokenizer.fingerprint() == *fingerprint)
}

/// The tokenizer that was named, if `check` finds it to be a table's, or the embedded one with the
/// table's fingerprint.
pub(crate) fn of_table(
    named: Option<&str>,
    fingerprint: &Fingerprint,
    check: impl FnOnce(&Fingerprint) -> cascade_ngram::Result<()>,
) -> Result<Option<Tokenizer>> {
    let Some(text) = named else {
        return Ok(known(fingerprint));
    };
    let tokenizer = load(text)?;
    check(&tokenizer.fingerprint())?;
    Ok(Some(tokenizer))
}

/// How a tokenizer is written in a recorded command: paths without their parent folders, so that
/// the record does not depend on file locations.
pub(crate) fn on_record(text: &str) -> String {
    let path = Path::new(text);
    if text.starts_with(EMBEDDED) || !path.exists() {
        return text.to_owned();
    }
    let mut names: Vec<_> = path
        .iter()
        .rev()
        .take(2)
        .map(|name| name.to_string_lossy())
        .collect();
    if path.is_dir() {
        names.truncate(1);
    }
    names.reverse();
    names.join("/")
}

fn embedded(name: &str) -> Result<Tokenizer> {
    // All models of a family share a tokenizer, so the family name is enough.
    let target = format!("{name}-target");
    let checkpoint = cascade_demo::checkpoint(name).or_else(|| cascade_demo::checkpoint(&target));
    let Some(checkpoint) = checkpoint else {
        let names: Vec<_> = cascade_demo::CHECKPOINTS.iter().map(|c| c.name).collect();
        bail!(
            "there is no embedded model {name:?}; known: {}",
            names.join(", ")
        );
    };
    let file = format!("tokenizer.json of {}", checkpoint.name);
    Ok(Tokenizer::from_bytes(file, checkpoint.tokenizer)?)
}
