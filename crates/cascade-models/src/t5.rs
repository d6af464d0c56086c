//! T5 v1.0, T5 v1.1, FLAN-T5 (arXiv:1910.10683), mT5 (arXiv:2010.11934) and UL2 (arXiv:2205.05131),
//! encoder and decoder.

mod config;
mod layers;

pub(crate) use config::{FeedForwardProj, T5Class, T5Config};
