//! The cascade: who drafts for whom, how much, and the loop that turns reviews into text.
//!
//! * [`KMatrix`]: how many tokens each drafter adds when each model reviews (Cascade Speculative Drafting, §3.4).
//! * [`Cascade`]: a target and its drafters, put together by [`Cascade::builder`]. [`Cascade::generate`] streams
//!   [`Event`]s and returns a [`Generation`].
//! * [`Branching`]: how drafts become trees.
//! * [`Usage`]: what each model was asked to do, booked by [`Metered`].
//! * [`StopSequences`]: texts that end a generation, found across the borders of tokens.
//!
//! The engine knows models as [`Scorer`](cascade_core::Scorer)s and [`Drafter`](cascade_core::Drafter)s and never sees a
//! tensor. Its output is the target's own, greedy or sampled, whatever the drafters, the matrix, the lenience and the shape
//! of the drafts.

mod branching;
mod builder;
mod cascade;
mod choosing;
mod drafting;
mod error;
mod exact;
mod generation;
mod growing;
mod k_matrix;
mod ledger;
mod level;
mod recursion;
mod stop;
mod text;

pub use branching::{Branching, Expand, Placement, Siblings};
pub use builder::CascadeBuilder;
pub use cascade::{Cascade, Event, Options};
pub use cascade_verify::{InvalidLenience, Lenience, ReviewRule, Rule, UnknownRule};
pub use error::{Error, Result};
pub use exact::{check_exact, Reviewer};
pub use generation::{Finish, Generation, ModelUsage, Role, Step};
pub use k_matrix::{Convention, KMatrix, KMatrixError};
pub use ledger::{Metered, Usage};
pub use level::NeuralOptions;
pub use stop::StopSequences;
