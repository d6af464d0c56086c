//! Exact algebra of sampled reviews: every outcome of drafting and reviewing is enumerated with its
//! probability in f64, over small vocabularies, and the resulting distribution is compared with the
//! expected one.
//!
//! The rules are the production code; only their random decisions are enumerated instead of drawn.

mod acceptance;
mod cascade;
mod controls;
mod coupled;
mod drafting;
mod joint;
mod language;
mod lenient;
mod strict;

/// Tolerance for rounding errors of a probability.
const TOLERANCE: f64 = 1e-12;

/// The error that a wrong rule must at least have to count as detected.
const CAUGHT: f64 = 1e-3;
