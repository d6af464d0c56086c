//! Search for K matrix and lenience by predicted time.
//!
//! The drafters' outputs along the target's own texts are recorded once. Running the engine on the
//! recordings then predicts whether a cascade's drafts would be accepted and what they would cost,
//! so thousands of settings can be tried without running a model again. Time is that of the
//! forwards by their rows ([`Times`]): a forward that checks ten tokens takes longer than one that
//! checks none, which the standardized walltime improvement (SWI) of the papers leaves out.
//!
//! A [`Tuner`] does all of it on one half of a trace, and replays the best settings on the other.

mod halves;
mod held_out;
mod recorded;
mod recording;
mod search;
mod simulate;
mod times;
mod tuner;

pub use held_out::{Compared, Outcome};
pub use search::{Candidate, Space};
pub use simulate::{Prediction, Setting};
pub use times::Times;
pub use tuner::{FrontierSetting, Tuned, Tuner};
