//! Models that are part of the program.

use std::collections::BTreeMap;
use std::fmt;

use crate::files::{CONFIG, GENERATION_CONFIG, TOKENIZER, WEIGHTS};
use crate::{ModelFile, ModelFiles, TokenizerFiles, VocabularyFiles, WeightFormat};

/// The files of a model as bytes of the program.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct EmbeddedModel {
    /// What the model is called in messages and reports.
    pub name: &'static str,
    /// `config.json`.
    pub config: &'static [u8],
    /// `generation_config.json`.
    pub generation_config: Option<&'static [u8]>,
    /// `tokenizer.json`.
    pub tokenizer: &'static [u8],
    /// `model.safetensors`, or its shards in their order.
    pub weights: &'static [&'static [u8]],
    /// Further files and their names: `chat_template.jinja`, say.
    pub further: &'static [(&'static str, &'static [u8])],
}

impl EmbeddedModel {
    /// All but the further files, as those of any model.
    pub(crate) fn files(&self) -> ModelFiles {
        let file = |name: &str, bytes| ModelFile::Embedded {
            name: format!("{name} of {}", self.name),
            bytes,
        };
        let count = self.weights.len();
        let shards = self.weights.iter().enumerate().map(|(index, bytes)| {
            let name = match count {
                1 => WEIGHTS.to_owned(),
                _ => format!("model-{:05}-of-{count:05}.safetensors", index + 1),
            };
            file(&name, bytes)
        });
        ModelFiles {
            name: self.name.to_owned(),
            config: file(CONFIG, self.config),
            generation_config: self
                .generation_config
                .map(|bytes| file(GENERATION_CONFIG, bytes)),
            tokenizer: TokenizerFiles::Json(VocabularyFiles::alone(file(
                TOKENIZER,
                self.tokenizer,
            ))),
            weight_format: WeightFormat::Safetensors,
            weights: shards.collect(),
            weight_map: BTreeMap::new(),
        }
    }

    /// The further file of that name.
    pub(crate) fn further(&self, name: &str) -> Option<ModelFile> {
        let (_, bytes) = self.further.iter().find(|(known, _)| *known == name)?;
        Some(ModelFile::Embedded {
            name: format!("{} ({name})", self.name),
            bytes,
        })
    }
}

impl fmt::Debug for EmbeddedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: usize = self.weights.iter().map(|shard| shard.len()).sum();
        f.debug_struct("EmbeddedModel")
            .field("name", &self.name)
            .field("weights", &format_args!("{bytes} bytes"))
            .finish_non_exhaustive()
    }
}
