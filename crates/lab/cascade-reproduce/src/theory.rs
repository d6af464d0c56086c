//! What speculative decoding and its cascades can gain, by formula and by simulation.
//!
//! Three theories, of three papers:
//!
//! * **Expected walltime improvement factor, EWIF** (Cascade Speculative Drafting, §4): how many
//!   times faster than plain decoding a system is, if every token is accepted independently with a
//!   known rate. [`Speculative`], [`Vertical`] and [`Horizontal`] are the systems, [`System`] what
//!   they have in common, [`simulate`] simulates them, [`best_speculative`], [`best_vertical`] and
//!   [`best_horizontal`] find their lengths, and [`table1`] is the paper's Table 1.
//! * **[`rejection`]s** (A Theoretical Perspective for Speculative Decoding Algorithm): how often
//!   drafts must be rejected, from the distributions themselves and without independence.
//! * **[`mdp`]: when to stop drafting** (SpecDec++, §4): what static lengths, thresholds on the
//!   probability of a rejection, and the best of all policies take.
//!
//! ```
//! use cascade_reproduce::theory::{best_speculative, simulate, Drafter, Speculative, System};
//!
//! let drafter = Drafter::new(0.8, 0.02)?;
//! let best = best_speculative(drafter, 64);
//! assert_eq!(best.system.tokens, 11);
//! assert_eq!(format!("{:.2}", best.ewif), "3.82");
//!
//! let simulated = simulate(&best.system, 100_000, 7)?;
//! assert!((simulated.ewif - best.ewif).abs() < 4.0 * simulated.standard_error);
//!
//! let too_short = Speculative { drafter, tokens: 2 };
//! assert!(too_short.ewif() < best.ewif);
//! # Ok::<(), cascade_reproduce::Error>(())
//! ```

mod estimate;
pub mod mdp;
pub mod rejection;
mod search;
mod systems;
mod table1;

pub use estimate::{Estimate, Tally};
pub use search::{Best, best_horizontal, best_speculative, best_vertical};
pub use systems::{
    AcceptanceRate, CostCoefficient, Drafter, Horizontal, Segment, Simulated, Speculative, Step,
    System, Vertical, simulate,
};
pub use table1::{ModelSizes, Table1Row, table1};
