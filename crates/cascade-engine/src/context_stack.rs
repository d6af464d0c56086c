//! The context, temporarily extended while drafting.

use cascade_core::TokenId;

/// The tokens before a draft. Drafting extends them temporarily; they are always restored, also
/// after errors.
pub(crate) struct ContextStack {
    tokens: Vec<TokenId>,
    /// Tokens of the prompt.
    prompt: usize,
}

impl ContextStack {
    pub(crate) fn new(tokens: Vec<TokenId>) -> Self {
        let prompt = tokens.len();
        Self { tokens, prompt }
    }

    pub(crate) fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// Tokens after the prompt: emitted ones, and those by which it is extended.
    pub(crate) fn generated(&self) -> usize {
        self.tokens.len() - self.prompt
    }

    /// Appends a token that was emitted.
    pub(crate) fn push(&mut self, token: TokenId) {
        self.tokens.push(token);
    }

    /// Calls `work` with the context extended by `more`.
    pub(crate) fn extended<T>(&mut self, more: &[TokenId], work: impl FnOnce(&mut Self) -> T) -> T {
        let len = self.tokens.len();
        self.tokens.extend_from_slice(more);
        let result = work(self);
        self.tokens.truncate(len);
        result
    }
}
