//! Tokens that end a generation.

use std::sync::Arc;

use cascade_core::{PenalizedText, Penalties, TokenId};

use crate::Finish;

/// Tokens that end a generation: those of the cascade ([`eos`](crate::CascadeBuilder::eos)) unless
/// something else is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Further ones, in order.
    tokens: Arc<[TokenId]>,
    ignores_eos: bool,
    least: usize,
}

impl Ends {
    /// Further tokens that end a generation. They belong to its tokens, and have no text.
    pub fn at(mut tokens: Vec<TokenId>) -> Self {
        tokens.sort_unstable();
        Self {
            tokens: tokens.into(),
            ..Self::default()
        }
    }

    /// Whether the cascade's own end tokens end it, too. If not, they are tokens without text.
    pub fn with_eos(self, ends: bool) -> Self {
        let ignores_eos = !ends;
        Self {
            ignores_eos,
            ..self
        }
    }

    /// Lets no end token be chosen before so many others: their logits are −∞ up to there. Costs
    /// the copy of all logits of the forwards up to there. Stop sequences hold from the start.
    pub fn after(self, least: usize) -> Self {
        Self { least, ..self }
    }

    /// Why a generation ends at a token, if it does.
    pub(crate) fn finish(&self, token: TokenId, is_eos: bool) -> Option<Finish> {
        if is_eos && !self.ignores_eos {
            return Some(Finish::Eos);
        }
        let found = self.tokens.binary_search(&token);
        found.ok().map(|_| Finish::StopToken(token))
    }

    /// What tokens of a text lose after a prompt of so many, with the end tokens of its models.
    pub(crate) fn penalized(
        &self,
        penalties: Penalties,
        prompt: usize,
        eos: &[TokenId],
    ) -> Option<PenalizedText> {
        let barred = || self.tokens.iter().chain(eos).copied().collect();
        PenalizedText::new(
            penalties,
            prompt,
            (self.least > 0).then(|| (barred(), self.least)),
        )
    }
}
