//! Models for tests.

pub(crate) mod demo;
#[cfg(feature = "gpu")]
pub(crate) mod devices;
#[cfg(feature = "gpu")]
pub(crate) mod tiny;
