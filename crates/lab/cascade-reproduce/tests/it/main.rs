//! Experiments, and the sums behind their tables.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

mod drafters;
mod experiments;
mod ledger;
mod lengths;

use cascade_config::Config;

/// The configuration of the embedded T5 family.
fn demo() -> Config {
    cascade_demo::register();
    Config::open("embedded:demo-t5").unwrap()
}
