//! What models compute in.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// What a model computes in: the type of its weights and activations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DType {
    /// 32 bits. The fastest on a CPU by far.
    #[default]
    F32,
    /// bfloat16: the range of f32, 8 bits of precision.
    BF16,
    /// IEEE half precision. Not on GPUs.
    F16,
}

impl DType {
    /// Its name: `f32`, `bf16` or `f16`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::BF16 => "bf16",
            Self::F16 => "f16",
        }
    }

    /// Bytes of an element.
    pub fn size_in_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::BF16 | Self::F16 => 2,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for DType {
    type Err = Error;

    /// Reads `f32`, `f16` or `bf16`, or `float32`, `float16`, `bfloat16`.
    fn from_str(text: &str) -> Result<Self> {
        match text.trim() {
            "f32" | "float32" => Ok(Self::F32),
            "f16" | "float16" => Ok(Self::F16),
            "bf16" | "bfloat16" => Ok(Self::BF16),
            _ => Err(Error::ComputeType {
                text: text.to_owned(),
            }),
        }
    }
}

/// Reads the name of a type to compute in: `f32`, `f16` or `bf16`.
///
/// # Errors
/// [`Error::ComputeType`] for another name.
pub fn parse_dtype(text: &str) -> Result<DType> {
    text.parse()
}

/// The tensor library's.
impl DType {
    pub(crate) fn tensor_type(self) -> candle_core::DType {
        match self {
            Self::F32 => candle_core::DType::F32,
            Self::BF16 => candle_core::DType::BF16,
            Self::F16 => candle_core::DType::F16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_names() {
        assert_eq!(parse_dtype("bf16").unwrap(), DType::BF16);
        for dtype in [DType::F32, DType::BF16, DType::F16] {
            assert_eq!(dtype.to_string().parse::<DType>().unwrap(), dtype);
        }
        let message = parse_dtype("int8").unwrap_err().to_string();
        assert!(message.contains("f32, f16 or bf16"), "{message}");
    }
}
