//! Where a model's chat templates are.

use cascade_chat::{ChatFile, ChatTemplate, ChatTemplates};
use cascade_models::{gguf_tokenizer_config, ModelFile, ModelSource};

use crate::{AssembleOptions, Config, Error, Neural, Result};

/// What a model's files say about chats.
#[derive(Clone, Debug)]
pub struct ModelChat {
    place: String,
    files: Vec<(ChatFile, Vec<u8>)>,
}

impl ModelChat {
    /// What the files of a model say, or its GGUF file.
    ///
    /// # Errors
    /// A hub that does not answer; a file that cannot be read.
    pub fn of(source: &ModelSource, options: &AssembleOptions) -> cascade_models::Result<Self> {
        Ok(Self {
            place: source.to_string(),
            files: chat_files(source, options)?,
        })
    }

    /// All that they say, as one tokenizer_config.json would.
    ///
    /// # Errors
    /// A file that is not what it should be.
    pub fn as_tokenizer_config(&self) -> cascade_chat::Result<serde_json::Value> {
        ChatTemplates::as_tokenizer_config(&self.place, &self.files)
    }

    /// The templates; `None` if there are none.
    ///
    /// # Errors
    /// A file that is not what it should be; a template that is not valid.
    pub fn templates(&self) -> cascade_chat::Result<Option<ChatTemplates>> {
        ChatTemplates::read(&self.place, &self.files)
    }

    /// A template from elsewhere with the special tokens of the model.
    ///
    /// # Errors
    /// A `tokenizer_config.json` that is not JSON.
    pub fn adopt(&self, template: ChatTemplate) -> cascade_chat::Result<ChatTemplate> {
        ChatTemplates::foreign(template, &self.place, &self.files)
    }
}

impl Config {
    /// The chat templates of the target: those beside it, or else beside the tokenizer that it
    /// borrows.
    ///
    /// # Errors
    /// A hub that does not answer; a file that cannot be read.
    pub fn target_chat(&self, options: &AssembleOptions) -> Result<ModelChat> {
        let Neural {
            source, tokenizer, ..
        } = &self.target;
        let own = self.chat_of(source, options)?;
        match tokenizer {
            Some(tokenizer) if !ChatTemplates::are_in(&own.files) => {
                self.chat_of(tokenizer, options)
            }
            _ => Ok(own),
        }
    }

    fn chat_of(&self, source: &ModelSource, options: &AssembleOptions) -> Result<ModelChat> {
        ModelChat::of(source, options).map_err(|source| Error::model(&self.label, "target", source))
    }
}

/// The files of a model that may hold templates; a GGUF file holds what they would say itself.
fn chat_files(
    source: &ModelSource,
    options: &AssembleOptions,
) -> cascade_models::Result<Vec<(ChatFile, Vec<u8>)>> {
    if let ModelSource::File(path) = source {
        let config = gguf_tokenizer_config(&ModelFile::Disk(path.clone()))?;
        return Ok(vec![(
            ChatFile::TokenizerConfig,
            config.to_string().into_bytes(),
        )]);
    }
    let names = ChatFile::ALL.map(ChatFile::name);
    let found = source.further_files(&names, &options.hub, options.progress)?;
    let mut files = Vec::new();
    for (kind, file) in ChatFile::ALL.into_iter().zip(found) {
        if let Some(file) = file {
            files.push((kind, file.read()?.into_owned()));
        }
    }
    Ok(files)
}
