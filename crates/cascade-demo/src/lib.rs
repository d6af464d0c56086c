//! Demo checkpoints, tables and questions, embedded
