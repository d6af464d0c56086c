//! Where a model's chat templates are.

use cascade_chat::{ChatFile, ModelChat};
use cascade_models::{ModelSource, gguf_tokenizer_config};

use crate::{AssembleOptions, Config, Error, Neural, Result};

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
            Some(tokenizer) if !own.has_template() => self.chat_of(tokenizer, options),
            _ => Ok(own),
        }
    }

    fn chat_of(&self, source: &ModelSource, options: &AssembleOptions) -> Result<ModelChat> {
        model_chat(source, options).map_err(|source| Error::model(&self.label, "target", source))
    }
}

/// What the files of a model say about chats; a GGUF file holds what they would say itself.
///
/// # Errors
/// A hub that does not answer; a file that cannot be read.
pub fn model_chat(
    source: &ModelSource,
    options: &AssembleOptions,
) -> cascade_models::Result<ModelChat> {
    let mut files = Vec::new();
    if source.is_gguf() {
        let tokenizer = source.tokenizer(&options.hub, options.progress)?;
        let config = gguf_tokenizer_config(tokenizer.vocabulary())?;
        files.push((ChatFile::TokenizerConfig, config.to_string().into_bytes()));
    } else {
        let names = ChatFile::ALL.map(ChatFile::name);
        let found = source.further_files(&names, &options.hub, options.progress)?;
        for (kind, file) in ChatFile::ALL.into_iter().zip(found) {
            if let Some(file) = file {
                files.push((kind, file.read()?.into_owned()));
            }
        }
    }
    Ok(ModelChat::new(source.to_string(), files))
}
