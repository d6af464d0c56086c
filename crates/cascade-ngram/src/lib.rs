//! Statistical drafters: Max-Gram, bigram tables, prompt lookup
