//! Models for tests.

#[cfg(feature = "gpu")]
pub(crate) mod calls;
pub(crate) mod demo;
#[cfg(feature = "gpu")]
pub(crate) mod devices;
#[cfg(feature = "gpu")]
pub(crate) mod tiny;
