//! Configurations, and the cascades they assemble.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

mod bad_configs;
mod batch;
mod demo_greedy;
mod drafting_heads;
mod heads;
mod memory;
mod model_table;
mod own_drafter;
mod spec;
