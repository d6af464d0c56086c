//! Tokenizers by name.

use std::io::IsTerminal;
use std::path::Path;

use anyhow::{bail, Result};
use cascade_core::Fingerprint;
use cascade_models::{HubOptions, ModelSource, Tokenizer};

const EMBEDDED: &str = "embedded:";

/// Finds a tokenizer: a file, a folder, a model of the hub, or `embedded:NAME`.
pub(crate) fn load(text: &str) -> Result<Tokenizer> {
    if let Some(name) = text.strip_prefix(EMBEDDED) {
        return embedded(name);
    }
    if Path::new(text).is_file() {
        return Ok(Tokenizer::from_file(text)?);
    }
    let source = ModelSource::parse(text)?;
    let hub = HubOptions::from_env();
    let file = source.tokenizer(&hub, std::io::stderr().is_terminal())?;
    Ok(Tokenizer::load(&file)?)
}

/// The tokenizer of an embedded model that a table was built for, if there is one.
pub(super) fn known(fingerprint: &Fingerprint) -> Option<Tokenizer> {
    cascade_demo::CHECKPOINTS
        .iter()
        .filter_map(|checkpoint| embedded(checkpoint.name).ok())
        .find(|tokenizer| tokenizer.fingerprint() == *fingerprint)
}

/// What stands for a tokenizer in a command that is put on record: paths without the folders around them, so that the
/// record does not depend on where things lie.
pub(super) fn on_record(text: &str) -> String {
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
    // All models of a family have one tokenizer, so the family will do.
    let target = format!("{name}-target");
    let checkpoint = cascade_demo::checkpoint(name).or_else(|| cascade_demo::checkpoint(&target));
    let Some(checkpoint) = checkpoint else {
        let names: Vec<_> = cascade_demo::CHECKPOINTS.iter().map(|c| c.name).collect();
        bail!(
            "there is no embedded model {name:?}; there are {}",
            names.join(", ")
        );
    };
    let file = format!("tokenizer.json of {}", checkpoint.name);
    Ok(Tokenizer::from_bytes(file, checkpoint.tokenizer)?)
}
