//! Datasets and prompts
