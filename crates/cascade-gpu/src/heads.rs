//! Heads of attention, and how they lie in memory.

use crate::{Error, Result};

/// Heads of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Heads of queries.
    pub queries: usize,
    /// Heads of keys and values.
    pub kv: usize,
    /// Elements of a head.
    pub size: usize,
}

/// Elements that a head takes in memory: what attention has kernels for.
///
/// # Errors
/// [`Error::Size`] above 128, and for sizes that tiles of sixteen do not divide.
pub fn padded(head_dim: usize) -> Result<usize> {
    match head_dim {
        16 | 32 => Ok(32),
        48 | 64 => Ok(64),
        80 | 96 | 112 | 128 => Ok(128),
        _ => Err(Error::Size {
            what: "the size of a head".to_owned(),
            size: head_dim,
            needed: "a multiple of 16, and 128 at most",
        }),
    }
}
