//! Prompts, for both architectures.

use std::fmt;

use crate::TokenId;

/// How a model reads its prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// T5: the prompt is encoded once, and the context holds generated tokens only.
    EncoderDecoder,
    /// LLaMA: prompt and generated tokens are one sequence.
    DecoderOnly,
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::EncoderDecoder => "encoder-decoder",
            Self::DecoderOnly => "decoder-only",
        })
    }
}

/// A tokenized prompt, split into the encoder's input and the context to continue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    /// Tokens for the encoder; empty for decoder-only models.
    pub source: Vec<TokenId>,
    /// Tokens that the generation continues; empty for encoder-decoder models, where the model
    /// itself supplies the decoder start token.
    pub context: Vec<TokenId>,
}

impl Prompt {
    /// Puts the prompt's tokens where `architecture` reads them.
    pub fn new(architecture: Architecture, tokens: Vec<TokenId>) -> Self {
        match architecture {
            Architecture::EncoderDecoder => Self {
                source: tokens,
                context: Vec::new(),
            },
            Architecture::DecoderOnly => Self {
                source: Vec::new(),
                context: tokens,
            },
        }
    }

    /// Number of tokens in both parts.
    pub fn len(&self) -> usize {
        self.source.len() + self.context.len()
    }

    /// Whether there is no token at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
