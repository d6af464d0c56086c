//! A fixed number of tokens.

use super::{DraftedToken, StopRule};

/// Ends a turn after a fixed number of tokens: the static speculation length that other rules are
/// compared with. A neural drafter that reviews others may add more tokens than one in a forward;
/// those behind the last are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedLength {
    tokens: usize,
}

impl FixedLength {
    /// Ends turns after `tokens` tokens, 1 at least.
    pub const fn new(tokens: usize) -> Self {
        Self { tokens }
    }
}

impl StopRule for FixedLength {
    fn stop(&mut self, drafted: &DraftedToken<'_>) -> bool {
        drafted.turn_position + 1 >= self.tokens
    }
}
