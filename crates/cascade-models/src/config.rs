//! config.json to what it describes.

use cascade_checkpoint::{gguf_config, read_json};
use cascade_hub::{ModelFile, ModelFiles, WeightFormat};
use serde_json::Value;

use crate::backend::{Backend, Layers, Loader, ModelInfo};
use crate::checks::bad;
use crate::decoder::{self, DecoderConfig};
use crate::t5::{T5Class, T5Config};
use crate::{Error, Result};

/// What config.json describes.
#[derive(Clone, Debug)]
pub(crate) enum ModelConfig {
    T5(Box<T5Config>),
    Decoder(Box<DecoderConfig>),
}

impl ModelConfig {
    /// Reads the content of `file`.
    pub(crate) fn parse(file: &ModelFile, config: &Value) -> Result<Self> {
        check_kind(file, config)?;
        let read = match T5Class::of(config) {
            Some(_) => T5Config::read(config).map(|read| Self::T5(Box::new(read))),
            None => DecoderConfig::read(config).map(|read| Self::Decoder(Box::new(read))),
        };
        read.map_err(|error| in_file(file, error))
    }

    /// What follows from the settings.
    pub(crate) fn info(&self) -> ModelInfo {
        match self {
            Self::T5(config) => config.info(),
            Self::Decoder(config) => config.info(),
        }
    }

    /// What the user should know of settings, in sentences.
    pub(crate) fn warnings(&self) -> &[String] {
        match self {
            Self::T5(config) => config.warnings(),
            Self::Decoder(config) => config.warnings(),
        }
    }

    /// Loads the layers.
    pub(crate) fn layers<B: Backend>(&self, to: &mut Loader<'_, B>) -> Result<Box<dyn Layers<B>>> {
        match self {
            Self::T5(config) => config.layers(to),
            Self::Decoder(config) => config.layers(to),
        }
    }
}

/// The content of a model's config.json, or what stands for it.
pub(crate) fn read_config(files: &ModelFiles) -> Result<Value> {
    Ok(match files.weight_format {
        WeightFormat::Gguf => gguf_config(&files.weights)?,
        _ => read_json(&files.config)?,
    })
}

/// Refuses kinds of models that there is no code for, and quantized weights, whatever else the file
/// says.
pub(crate) fn check_kind(file: &ModelFile, config: &Value) -> Result<()> {
    let (model_type, class) = (&config["model_type"], &config["architectures"][0]);
    let known = T5Class::of(config).is_some() || decoder::family(config).is_some();
    match model_type.as_str().or(class.as_str()) {
        None => {
            let problem = "neither \"model_type\" nor \"architectures\" says what it is";
            return Err(in_file(file, bad(problem)));
        }
        Some(other) if !known => {
            return Err(Error::UnsupportedModel {
                file: file.to_string(),
                model_type: other.to_owned(),
            });
        }
        Some(_) => {}
    }
    match config.get("quantization_config") {
        None | Some(Value::Null) => Ok(()),
        Some(_) => {
            let problem = "\"quantization_config\" says that the weights are quantized";
            let cure = "take the model in f32, f16 or bf16";
            Err(Error::config(file, problem, cure))
        }
    }
}

/// Models know their configuration, but not the file it came from.
pub(crate) fn in_file(file: &ModelFile, error: Error) -> Error {
    match error {
        Error::Config { problem, cure, .. } => Error::config(file, problem, cure),
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// What should be known of a configuration, by the file's name; nothing of any other.
    const KNOWN: [(&str, &str); 1] = [("phi-3.5-mini-instruct.json", "contexts end at 4096")];

    #[test]
    fn published_configurations_neither_fail_nor_warn() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/published");
        let mut kinds = std::collections::BTreeSet::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|ending| ending != "json") {
                continue;
            }
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let json: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            let config = ModelConfig::parse(&ModelFile::Disk(path), &json)
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            kinds.insert(json["model_type"].as_str().unwrap().to_owned());
            match KNOWN.iter().find(|(known, _)| *known == name) {
                None => assert_eq!(config.warnings(), [""; 0], "{name}"),
                Some((_, known)) => {
                    let warnings = config.warnings();
                    assert!(warnings.len() == 1 && warnings[0].contains(known), "{name}");
                }
            }
        }
        let listed = [
            "llama", "mimo", "mistral", "mt5", "phi3", "qwen2", "qwen3", "smollm3", "t5",
        ];
        assert!(kinds.iter().eq(listed), "{kinds:?}");
    }

    #[test]
    fn what_published_files_do_not_have_is_still_told_apart() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/published");
        let file = std::fs::read(folder.join("qwen2.5-0.5b.json")).unwrap();
        let read = |key: &str, value: Value| {
            let mut json: Value = serde_json::from_slice(&file).unwrap();
            json[key] = value;
            let file = ModelFile::Embedded {
                name: key.to_owned(),
                bytes: &[],
            };
            ModelConfig::parse(&file, &json).map(|config| config.warnings().to_vec())
        };
        for (key, value) in [
            ("use_mrope", Value::from(true)),
            ("activation", Value::from("geglu")),
            ("rope_interleaved", Value::from(true)),
        ] {
            let error = read(key, value).unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
        let warnings = read("attention_scale", Value::from(2)).unwrap();
        assert!(warnings[0].contains("attention_scale"), "{warnings:?}");
    }
}
