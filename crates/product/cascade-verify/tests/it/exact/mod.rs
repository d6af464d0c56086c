//! Exact algebra of sampled reviews: every outcome of drafting and reviewing is enumerated with its
//! probability in f64, over small vocabularies, and what comes out is compared with what has to
//! come out.
//!
//! The rules are the ones in production; only their chance is enumerated instead of drawn.

mod acceptance;
mod cascade;
mod controls;
mod drafting;
mod joint;
mod language;
mod lenient;
mod strict;

/// How much of a probability may get lost to rounding.
const TOLERANCE: f64 = 1e-12;

/// What a wrong rule has to miss by, for a control to count as caught.
const CAUGHT: f64 = 1e-3;
