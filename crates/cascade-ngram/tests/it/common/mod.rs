//! What the tests share: the paper's Listing 1, written down literally, recorded conversations, and
//! small tables.
#![allow(dead_code)] // Each test binary uses its own part.

pub(crate) mod conversations;
pub(crate) mod oracle;
pub(crate) mod tables;
