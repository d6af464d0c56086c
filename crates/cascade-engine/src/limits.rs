//! How large drafts and stop sequences may be.

/// Default for the maximum number of nodes of a draft: as many rows as this project's models
/// process in one piece.
pub const DEFAULT_MAX_NODES: usize = 64;

/// The most bytes that stop sequences have in all: longer than any answer.
pub const LONGEST_STOP: usize = 1 << 20;
