//! Searching K and lenience by predicted cost.
//!
//! What the drafters say along the target's own texts is recorded once ([`Recording`]); whether a
//! cascade's drafts would be accepted, and what they would cost, is then found by running the
//! engine on the recordings ([`Recordings::predict`]), so that thousands of settings are tried
//! without running a model again ([`search`]).

mod recorded;
mod recording;
mod search;
mod simulate;

pub use recording::{Recorded, Recording};
pub use search::{search, Candidate, Space};
pub use simulate::{Prediction, Recordings, Setting};
