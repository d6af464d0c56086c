//! Types of numbers that forwards compute in.

/// What forwards compute in. Products with blocks compute in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DType {
    /// IEEE single precision.
    F32,
    /// bfloat16.
    BF16,
    /// IEEE half precision.
    F16,
}

impl DType {
    pub(crate) fn of_candle(self) -> candle_core::DType {
        match self {
            Self::F32 => candle_core::DType::F32,
            Self::BF16 => candle_core::DType::BF16,
            Self::F16 => candle_core::DType::F16,
        }
    }

    /// Bytes of an element.
    pub fn bytes(self) -> usize {
        self.of_candle().size_in_bytes()
    }
}
