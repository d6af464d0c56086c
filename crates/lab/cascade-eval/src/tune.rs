//! Search for K matrix and lenience by predicted SWI.
//!
//! The drafters' outputs along the target's own texts are recorded once ([`Recording`]). Running
//! the engine on the recordings then predicts whether a cascade's drafts would be accepted and what
//! they would cost ([`Recordings::predict`]), so thousands of settings can be tried without running
//! a model again ([`search`]).

mod recorded;
mod recording;
mod search;
mod simulate;

pub use recording::{Recorded, Recording};
pub use search::{search, Candidate, Space};
pub use simulate::{Prediction, Recordings, Setting};
