//! Models for tests.

#[cfg(feature = "gpu")]
pub(crate) mod calls;
pub(crate) mod demo;
#[cfg(feature = "gpu")]
pub(crate) mod devices;
pub(crate) mod goldens;
#[cfg(feature = "gpu")]
pub(crate) mod tiny;
