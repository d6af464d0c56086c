//! Models for tests.

pub(crate) mod calls;
pub(crate) mod demo;
pub(crate) mod goldens;
pub(crate) mod tiny;
