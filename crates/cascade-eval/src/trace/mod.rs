//! Target traces: recorded outputs of a target, in whose place they answer.
//!
//! Under greedy decoding a target has only one output, whatever is drafted for it, and so it has
//! for one seed if it samples by the rule `coupled`. Its recorded tokens therefore determine, for
//! any cascade, which drafts it would have accepted: tokens, steps and calls of a replay equal
//! those of the real run. Only its time does not.
//!
//! * [`Trace`]: a recording in memory: a [`Header`] with metadata, and [`Record`]s, one for each
//!   prompt.
//! * [`Reader`], [`Writer`]: a trace as a JSON Lines file, read and written record by record;
//!   recording can be resumed.
//! * [`TraceScorer`]: a [`Scorer`](cascade_core::Scorer) that replays the recorded target.
//! * [`replay`](fn@replay): replay of one record by a cascade whose target is a [`TraceScorer`].
//! * [`TimedReplayScorer`], [`replay_timed`]: a replay with a live model computing every forward,
//!   and the timings of its steps.
//!
//! `cascade-traces` records traces, and replays, tunes and trains by them.

mod format;
mod header;
mod reader;
mod record;
mod replay;
mod sampling;
mod scorer;
mod simulated_drafter;
mod step_cost;
mod timed_replay;
mod writer;

pub use format::Trace;
pub use header::{name_of_target, Header, Provenance, VERSION};
pub use reader::{Reader, LONGEST_HEADER, LONGEST_RECORD};
pub use record::{seed_of_turn, Finish, Record, Subject};
pub use replay::{limit, replay, replay_with};
pub use sampling::RecordedSampling;
pub use scorer::{followed, TraceScorer, NO_TOKEN};
pub use simulated_drafter::{SimulatedDrafter, Simulation};
pub use step_cost::{replay_timed, StepCost};
pub use timed_replay::{LookupLog, TimedReplayScorer};
pub use writer::Writer;
