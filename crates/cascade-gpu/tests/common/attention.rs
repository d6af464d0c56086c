//! Attention
