//! Events of a running generation.

use cascade_core::{LevelId, TokenId};

use crate::Step;

/// An event of a running generation. The receiver may end the generation by returning
/// [`ControlFlow::Break`](std::ops::ControlFlow::Break).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The target verified a draft. Precedes the tokens of the step.
    Step(Step),
    /// A token was emitted.
    Token {
        /// The token.
        token: TokenId,
        /// The model that proposed it first.
        proposer: LevelId,
    },
    /// Text became final. It may lag behind the tokens while a character is incomplete, or while
    /// the text may still turn out to be a stop sequence.
    Text {
        /// The text, never empty.
        text: &'a str,
        /// The model that first proposed the token it came from.
        proposer: LevelId,
    },
}
