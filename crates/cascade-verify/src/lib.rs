//! Which drafted tokens are kept
