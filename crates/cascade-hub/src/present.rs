//! The files of a model that are on this machine.

use std::path::{Path, PathBuf};

/// Kinds of files that belong to a model whatever they are called: its configuration, its
/// tokenizer, its templates, its code.
const KINDS: [&str; 8] = [
    "json", "jinja", "model", "txt", "bin", "pt", "py", "tiktoken",
];

/// What the names of weights begin with. Other safetensors files in a model's folder, such as
/// tables of bigrams, are not the model's.
const WEIGHTS: [&str; 5] = [
    "model",
    "pytorch_model",
    "adapter_model",
    "consolidated",
    "diffusion_pytorch_model",
];

/// The files of a folder that are named as those of models are.
pub(crate) fn of_folder(folder: &Path) -> Vec<PathBuf> {
    files(folder, |name| {
        let (stem, kind) = name.rsplit_once('.').unwrap_or((name, ""));
        let is_weights = || WEIGHTS.iter().any(|start| stem.starts_with(start));
        KINDS.contains(&kind) || (kind == "safetensors" && is_weights())
    })
}

/// A GGUF file, and the other parts if it was split.
pub(crate) fn of_gguf(file: &Path) -> Vec<PathBuf> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let Some((whole, _)) = name.split_once("-00001-of-") else {
        return vec![file.to_owned()];
    };
    let part = format!("{whole}-0");
    let folder = file.parent().unwrap_or(Path::new(""));
    files(folder, |name| {
        name.starts_with(&part) && name.ends_with(".gguf")
    })
}

fn files(folder: &Path, belongs: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_str().is_some_and(&belongs))
        .map(|entry| entry.path())
        .collect()
}
