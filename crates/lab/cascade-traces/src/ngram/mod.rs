//! Weights of the Max-Gram tree, fitted to recorded outputs.
//!
//! [`Fitting`] fits weights, and judges them by outputs that were held out. A recording cannot tell
//! what the target would have said after rejected tokens, so drafters that learn from that draft
//! without it here.

mod fitting;

pub use fitting::{Fitted, Fitting, Judged, Likelihood};
