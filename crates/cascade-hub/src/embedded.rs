//! Models that are part of the program.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ptr;

use crate::files::{CONFIG, GENERATION_CONFIG, TOKENIZER, WEIGHTS};
use crate::{ModelFile, ModelFiles, TokenizerFiles, VocabularyFiles, WeightFormat};

/// A file of weights: gives its bytes.
pub type EmbeddedWeights = &'static (dyn Fn() -> &'static [u8] + Send + Sync);

/// The files of a model as bytes of the program.
#[derive(Clone, Copy)]
pub struct EmbeddedModel {
    /// What the model is called in messages and reports.
    pub name: &'static str,
    /// `config.json`.
    pub config: &'static [u8],
    /// `generation_config.json`.
    pub generation_config: Option<&'static [u8]>,
    /// `tokenizer.json`.
    pub tokenizer: &'static [u8],
    /// `model.safetensors`, or its shards in their order. Each gives the same bytes every time; a
    /// program may hold them compressed until they are first asked for.
    pub weights: &'static [EmbeddedWeights],
    /// Further files and their names: `chat_template.jinja`, say.
    pub further: &'static [(&'static str, &'static [u8])],
}

impl EmbeddedModel {
    /// All but the further files, as those of any model.
    pub(crate) fn files(&self) -> ModelFiles {
        // Shards that are compressed are unpacked side by side.
        std::thread::scope(|scope| {
            for shard in self.weights.iter().skip(1) {
                scope.spawn(shard);
            }
            self.weights.first().map(|shard| shard());
        });
        let count = self.weights.len();
        let shards = self.weights.iter().enumerate().map(|(index, shard)| {
            let name = match count {
                1 => WEIGHTS.to_owned(),
                _ => format!("model-{:05}-of-{count:05}.safetensors", index + 1),
            };
            self.file(&name, shard())
        });
        ModelFiles {
            name: self.name.to_owned(),
            config: self.file(CONFIG, self.config),
            generation_config: self
                .generation_config
                .map(|bytes| self.file(GENERATION_CONFIG, bytes)),
            tokenizer: self.tokenizer_files(),
            weight_format: WeightFormat::Safetensors,
            weights: shards.collect(),
            weight_map: BTreeMap::new(),
        }
    }

    pub(crate) fn tokenizer_files(&self) -> TokenizerFiles {
        TokenizerFiles::Json(VocabularyFiles::alone(self.file(TOKENIZER, self.tokenizer)))
    }

    fn file(&self, name: &str, bytes: &'static [u8]) -> ModelFile {
        ModelFile::Embedded {
            name: format!("{name} of {}", self.name),
            bytes,
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

/// Whether both are the same files of the program; their contents are not compared.
impl PartialEq for EmbeddedModel {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && ptr::eq(self.config, other.config)
            && ptr::eq(self.tokenizer, other.tokenizer)
            && ptr::eq(self.weights, other.weights)
    }
}

impl Eq for EmbeddedModel {}

impl Hash for EmbeddedModel {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Debug for EmbeddedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedModel")
            .field("name", &self.name)
            .field("weights", &format_args!("{} files", self.weights.len()))
            .finish_non_exhaustive()
    }
}
