//! Target traces: recorded outputs of a target, so that cascades can be replayed without it.
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
//! * [`Recorder`]: decodes plainly and measures the margin between the two greatest logits, or
//!   records the most probable tokens of samples.
//! * [`WithStates`], [`recorded_target`]: a recording with the hidden states that heads read.
//! * [`Tally`]: sums over replayed records.
//! * [`replay_options`], [`replayed_json`], [`totals_json`]: a configuration on a trace, and its
//!   figures as JSON.
//! * [`Predicted`]: how well a model predicts what was recorded.
//! * [`ExpectedAcceptance`], [`FirstPicks`]: how often drafts are kept, by recorded probabilities.
//! * [`Oracle`]: the schedule that knows the answer, to compare others with.
//! * [`spec_bench`], [`spec_decode_bench`]: traces from what others have recorded;
//!   [`RecordedDrafters`]: the drafters that they have recorded with it.
//! * [`Summary`]: statistics of a trace.
//!
//! ```
//! use std::sync::Arc;
//!
//! use cascade_core::{toy::ToyScorer, Architecture, Fingerprint, Prompt};
//! use cascade_engine::{Cascade, Convention, KMatrix, Options};
//! use cascade_traces::trace::{replay, Header, Recorder, Subject, Trace, TraceScorer};
//!
//! // A target is recorded once …
//! let target = ToyScorer::target("target", 16, 7);
//! let options = Options::default().with_max_new_tokens(40);
//! let vocabulary = Fingerprint::from_stored("a toy's");
//! let header = Header::measured("target", Architecture::DecoderOnly, &vocabulary, 16, &options);
//! let mut recorder = Recorder::new("target", target, [], None, &options)?;
//! let prompt = Prompt { context: vec![1, 2, 3], ..Prompt::default() };
//! let (record, _) = recorder.record(Subject::new("0"), &prompt, |_| {})?;
//! let trace = Arc::new(Trace::new("a toy", header, vec![record])?);
//!
//! // … and replayed by any cascade.
//! let mut cascade = Cascade::builder()
//!     .target("target", TraceScorer::new(trace.clone())?)
//!     .neural("base", ToyScorer::drafter("base", 16, 7, 1, 200))
//!     .k_matrix(KMatrix::new(vec![vec![3]], Convention::Added)?)
//!     .build()?;
//! let generation = replay(&mut cascade, &trace.records[0], &options)?;
//! assert_eq!(generation.tokens, trace.records[0].output);
//! assert!(generation.mean_acceptance_length() > 1.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod along;
mod beside;
mod expected;
mod first_token;
mod format;
mod header;
mod meter;
mod oracle;
mod predicted;
mod reader;
mod record;
mod recorder;
mod replay;
mod replayed;
mod sampling;
mod scorer;
mod simulated_drafter;
pub mod spec_bench;
pub mod spec_decode_bench;
mod step_cost;
mod summary;
mod tally;
mod timed_replay;
mod traces;
mod with_states;
mod writer;

pub(crate) use along::{along, logits};

pub use beside::{RecordedDrafters, Yield};
pub use expected::{Bounds, ExpectedAcceptance, FirstPicks, RecordedRow};
pub use first_token::FirstToken;
pub use format::Trace;
pub use header::{Header, Provenance, VERSION, name_of_target};
pub use oracle::{Oracle, OracleText};
pub use predicted::Predicted;
pub use reader::{LONGEST_HEADER, LONGEST_RECORD, Reader};
pub use record::{Finish, Record, Subject};
pub use recorder::Recorder;
pub use replay::{limit, replay, replay_with};
pub use replayed::{replay_options, replay_warnings, replayed_json, totals_json};
pub use sampling::RecordedSampling;
pub use scorer::{NO_TOKEN, TraceScorer, followed};
pub use simulated_drafter::{SimulatedDrafter, Simulation};
pub use step_cost::{StepCost, replay_timed};
pub use summary::{NEAR_TIE, Quantiles, Summary};
pub use tally::{Calls, Tallies, Tally};
pub use timed_replay::{LookupLog, TimedReplayScorer};
pub use traces::Traces;
pub(crate) use with_states::check_architecture;
pub use with_states::{WithStates, check_family, recorded_target};
pub use writer::Writer;
