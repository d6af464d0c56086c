//! What n-gram tables and the weights of the Max-Gram tree are worth on recorded outputs.
//!
//! * [`NextTokens`]: how well a table alone foresees the next token.
//! * [`TableDrafter`]: drafts from a table alone, as chains and as trees.
//! * [`TableValue`]: tokens per forward with tables alone and under the Max-Gram tree.
//! * [`Forwards`]: tokens per forward of the target with any drafter.
//! * [`Calibration`]: whether what a drafter estimates comes true.
//! * [`Fitting`]: fits weights, and judges them by outputs that were held out.
//!
//! A recording cannot tell what the target would have said after rejected tokens, so drafters that
//! learn from that draft without it here.

mod calibration;
mod fitting;
mod forwards;
mod next_tokens;
mod table_drafter;
mod table_value;

pub use calibration::{Band, Calibration};
pub use fitting::{Fitted, Fitting, Judged, Likelihood};
pub use forwards::Forwards;
pub use next_tokens::NextTokens;
pub use table_drafter::TableDrafter;
pub use table_value::{
    budgets, tree_of, Drafted, TableAlone, TableReport, TableValue, CHAIN, TREES,
};
