//! What verifies in a cascade.

use std::sync::Arc;

use cascade_core::{Fingerprint, Scorer, TextCodec, TokenId};
use cascade_engine::{AssumedTimes, Role};
use cascade_models::{LoadedModel, Model};

use crate::LevelInfo;

/// The target of a cascade, if it is not the configuration's: a model that was loaded before, or
/// anything else that scores, such as a recording.
#[non_exhaustive]
pub struct Target {
    /// What scores.
    pub scorer: Box<dyn Scorer + Send>,
    /// Where it came from, for reports.
    pub source: String,
    /// Its vocabulary, which drafters and tables must have.
    pub vocabulary: Fingerprint,
    /// Parameters of a model; 0 for anything else.
    pub parameters: usize,
    /// Tokens that end a text.
    pub eos: Vec<TokenId>,
    /// Its tokenizer; without one, a cascade generates tokens and no text.
    pub codec: Option<Arc<dyn TextCodec>>,
    /// The weights, if the scorer is a model or has the hidden states of one: heads read these
    /// states, and the encoding of long prompts is timed with the weights.
    pub model: Option<Arc<Model>>,
    /// Times that forwards are assumed to take, in place of those of the machine's clock.
    pub times: Option<AssumedTimes>,
}

impl Target {
    /// A target without end tokens and without a tokenizer.
    pub fn new(
        scorer: impl Scorer + Send + 'static,
        source: impl Into<String>,
        vocabulary: Fingerprint,
    ) -> Self {
        Self {
            scorer: Box::new(scorer),
            source: source.into(),
            vocabulary,
            parameters: 0,
            eos: Vec::new(),
            codec: None,
            model: None,
            times: None,
        }
    }

    pub(crate) fn info(&self, name: &str) -> LevelInfo {
        LevelInfo {
            name: name.to_owned(),
            source: self.source.clone(),
            role: Role::Target,
            parameters: self.parameters,
        }
    }

    /// Sets assumed times.
    pub fn with_times(self, times: AssumedTimes) -> Self {
        Self {
            times: Some(times),
            ..self
        }
    }

    /// Sets the tokens that end a text.
    pub fn with_eos(self, eos: impl IntoIterator<Item = TokenId>) -> Self {
        Self {
            eos: eos.into_iter().collect(),
            ..self
        }
    }

    /// Sets the model whose hidden states heads read.
    pub fn with_model(self, model: Arc<Model>) -> Self {
        Self {
            model: Some(model),
            ..self
        }
    }

    /// Sets the tokenizer.
    pub fn with_codec(self, codec: Arc<dyn TextCodec>) -> Self {
        Self {
            codec: Some(codec),
            ..self
        }
    }
}

/// A session of its own on the model's weights, with the model's tokenizer and end tokens.
impl From<&LoadedModel> for Target {
    fn from(model: &LoadedModel) -> Self {
        let vocabulary = model.tokenizer.fingerprint();
        let target = Self::new(model.session(), &model.name, vocabulary)
            .with_eos(model.eos_token_ids.iter().copied())
            .with_codec(Arc::new(model.tokenizer.clone()))
            .with_model(Arc::clone(&model.model));
        Self {
            parameters: model.num_parameters(),
            ..target
        }
    }
}
