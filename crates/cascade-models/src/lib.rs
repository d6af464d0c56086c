//! T5 and LLaMA on candle
