//! Adapters: what PEFT saves of a training that changes few weights.
//!
//! An adapter is no model, and the model that it lies beside is not the one that was trained:
//! transformers applies it when it loads that folder. Nothing here does, so that both are refused.

use serde_json::Value;

use crate::file_source::FileSource;
use crate::{Error, ErrorKind, ModelFile, Result};

const SETTINGS: &str = "adapter_config.json";
const WEIGHTS: [&str; 2] = ["adapter_model.safetensors", "adapter_model.bin"];

/// Refuses a place that has an adapter, `model` if it has a config.json too.
///
/// # Errors
/// Such a place; a hub that refuses.
pub(crate) fn refuse(place: &mut FileSource<'_>, model: bool) -> Result<()> {
    let settings = match place.find_with_weights(SETTINGS) {
        // A hub that cannot be asked does not give weights either.
        Err(error) if error.kind() == ErrorKind::Unreachable => None,
        found => found?,
    };
    let file = match &settings {
        Some(_) => Some(SETTINGS),
        None => place.own_names().and_then(|names| {
            let is_there = |file: &&str| names.iter().any(|name| name == file);
            WEIGHTS.into_iter().find(is_there)
        }),
    };
    match file {
        None => Ok(()),
        Some(file) => Err(refused(place, file, settings.as_ref(), model)),
    }
}

fn refused(place: &FileSource<'_>, file: &str, settings: Option<&ModelFile>, model: bool) -> Error {
    let bytes = settings
        .and_then(|file| file.read().ok())
        .unwrap_or_default();
    let settings: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let kind = settings["peft_type"].as_str().unwrap_or("PEFT").to_owned();
    let is_weights = |name: &String| {
        let ends = [".safetensors", ".bin"]
            .iter()
            .any(|end| name.ends_with(end));
        ends && !name.starts_with("adapter_")
    };
    let beside = model && place.names().iter().any(is_weights);
    let without = if beside {
        format!("; to run the weights without it, take {file} out of the folder")
    } else {
        String::new()
    };
    let what = if beside {
        format!("has an adapter ({kind}, {file}) beside its weights, which changes them")
    } else {
        format!("is an adapter ({kind}, {file}), not a model")
    };
    let base = match settings["base_model_name_or_path"].as_str() {
        Some(base) if !base.is_empty() => base,
        _ => "a model that it does not name",
    };
    let cure = cure(place, &kind, &settings);
    let message = format!("{place} {what}: it was trained for {base}; {cure}{without}");
    Error::new(ErrorKind::Adapter, message)
}

/// How the weights of the adapted model are made.
fn cure(place: &FileSource<'_>, kind: &str, settings: &Value) -> String {
    // Tokens that only the adapter has an embedding for are no weights of a model.
    if ["PROMPT", "PREFIX", "P_TUNING"]
        .iter()
        .any(|part| kind.contains(part))
    {
        return "it cannot be merged into weights, and adapters are not applied here".to_owned();
    }
    let class = match settings["task_type"].as_str() {
        Some("SEQ_2_SEQ_LM") => "AutoPeftModelForSeq2SeqLM",
        _ => "AutoPeftModelForCausalLM",
    };
    format!(
        "merge it with peft in Python: {class}.from_pretrained(\"{place}\").merge_and_unload()\
         .save_pretrained(FOLDER), save the tokenizer there too, and give FOLDER",
        place = place.python_name()
    )
}
