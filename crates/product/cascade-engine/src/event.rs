//! What happens while a generation runs.

use cascade_core::{LevelId, TokenId};

use crate::Step;

/// What happens while a generation runs. The receiver may end it by
/// [`ControlFlow::Break`](std::ops::ControlFlow::Break).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The target verified a draft. Comes before the tokens that it gave.
    Step(Step),
    /// A token was emitted.
    Token {
        /// The token.
        token: TokenId,
        /// The model that proposed it first.
        proposer: LevelId,
    },
    /// Text became final. It may lag behind the tokens: while a character is incomplete, or while
    /// the text may still turn out to be a stop sequence.
    Text {
        /// The text, never empty.
        text: &'a str,
        /// The model that first proposed the token it came from.
        proposer: LevelId,
    },
}
