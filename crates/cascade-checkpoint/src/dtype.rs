//! What models compute in.

use std::fmt;
use std::str::FromStr;

use cascade_cpu::Format;
use half::{bf16, f16};

use crate::{Error, ErrorKind, Result};

/// What a model computes in: the type of its weights. On a CPU, activations and sums are f32, but
/// for what they are rounded to in products: see [`cascade_cpu::Format`]. On a GPU, activations
/// have the type too, unless it is one of packed weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DType {
    /// 32 bits.
    #[default]
    F32,
    /// bfloat16: the range of f32, 8 bits of precision.
    BF16,
    /// IEEE half precision. On a GPU activations have it too; one that is too large for it makes
    /// scoring fail.
    F16,
    /// 8 bits and a scale for 32 weights, as in GGUF. On a GPU activations are bf16.
    Q8_0,
    /// 4 bits and a scale for 32 weights, as in GGUF. On CPUs only.
    Q4_0,
    /// The types of the file: blocks of GGUF stay what they are, those that there are no kernels
    /// for are held in f32. On a GPU, the type that all matrices of the file have if it is one of
    /// those above that GPUs compute in, else bf16.
    Stored,
}

impl DType {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::F32,
        Self::BF16,
        Self::F16,
        Self::Q8_0,
        Self::Q4_0,
        Self::Stored,
    ];

    /// The name of the type: `f32`, `bf16`, `f16`, `q8_0`, `q4_0` or `stored`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::BF16 => "bf16",
            Self::F16 => "f16",
            Self::Q8_0 => "q8_0",
            Self::Q4_0 => "q4_0",
            Self::Stored => "stored",
        }
    }

    /// The largest type that takes less memory, on a CPU or a GPU; nothing if there is none, or
    /// only the file knows.
    pub fn smaller_on(self, cpu: bool) -> Option<Self> {
        match self {
            Self::F32 => Some(Self::BF16),
            Self::BF16 | Self::F16 => Some(Self::Q8_0),
            Self::Q8_0 if cpu => Some(Self::Q4_0),
            Self::Q8_0 | Self::Q4_0 | Self::Stored => None,
        }
    }

    /// The format that the CPU's kernels read values in, which are `stored` in a file.
    pub fn format(self, stored: FloatType) -> Format {
        match self {
            Self::F32 => Format::F32,
            Self::BF16 => Format::BF16,
            Self::F16 => Format::F16,
            Self::Q8_0 => Format::Q8_0,
            Self::Q4_0 => Format::Q4_0,
            Self::Stored => match stored {
                FloatType::F32 | FloatType::F64 => Format::F32,
                FloatType::BF16 => Format::BF16,
                FloatType::F16 => Format::F16,
            },
        }
    }

    /// Bytes of `weights` weights; nothing if only their file knows.
    pub fn bytes(self, weights: usize) -> Option<usize> {
        match self {
            Self::F32 => Some(weights.saturating_mul(4)),
            Self::BF16 | Self::F16 => Some(weights.saturating_mul(2)),
            Self::Q8_0 => Some(weights.div_ceil(32).saturating_mul(34)),
            Self::Q4_0 => Some(weights.div_ceil(32).saturating_mul(18)),
            Self::Stored => None,
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

    /// Reads a name, or `float32`, `float16`, `bfloat16`.
    fn from_str(text: &str) -> Result<Self> {
        match text.trim() {
            "f32" | "float32" => Ok(Self::F32),
            "f16" | "float16" => Ok(Self::F16),
            "bf16" | "bfloat16" => Ok(Self::BF16),
            "q8_0" => Ok(Self::Q8_0),
            "q4_0" => Ok(Self::Q4_0),
            "stored" => Ok(Self::Stored),
            _ => {
                let message = format!(
                    "\"{text}\" is not a type to compute in; give f32, f16 or bf16, or, on a CPU, q8_0, q4_0 or stored (as \
                     the file has them)"
                );
                Err(Error::new(ErrorKind::Unsupported, message))
            }
        }
    }
}

/// A type in which readers give values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatType {
    /// 32 bits.
    F32,
    /// IEEE half precision.
    F16,
    /// bfloat16.
    BF16,
    /// 64 bits.
    F64,
}

impl FloatType {
    /// Bytes of a value.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::F64 => 8,
        }
    }

    /// Values, rounded if they are in f64.
    pub fn to_f32(self, bytes: &[u8]) -> Vec<f32> {
        let (twos, fours, eights) = (
            bytes.as_chunks().0,
            bytes.as_chunks().0,
            bytes.as_chunks().0,
        );
        match self {
            Self::F32 => fours.iter().map(|b| f32::from_le_bytes(*b)).collect(),
            Self::BF16 => twos
                .iter()
                .map(|b| bf16::from_le_bytes(*b).to_f32())
                .collect(),
            Self::F16 => twos
                .iter()
                .map(|b| f16::from_le_bytes(*b).to_f32())
                .collect(),
            Self::F64 => eights
                .iter()
                .map(|b| f64::from_le_bytes(*b) as f32)
                .collect(),
        }
    }
}

/// Reads the name of a type to compute in: `f32`, `f16`, `bf16`, `q8_0`, `q4_0` or `stored`.
///
/// # Errors
/// For another name.
pub fn parse_dtype(text: &str) -> Result<DType> {
    text.parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaller_types_are_smaller() {
        for cpu in [true, false] {
            for dtype in DType::ALL {
                let Some(smaller) = dtype.smaller_on(cpu) else {
                    continue;
                };
                assert!(smaller.bytes(1 << 20) < dtype.bytes(1 << 20), "{dtype}");
                assert!(cpu || smaller != DType::Q4_0);
            }
        }
        assert_eq!(DType::Q4_0.smaller_on(true), None);
        assert_eq!(DType::Stored.smaller_on(true), None);
    }

    #[test]
    fn types_have_names() {
        assert_eq!(parse_dtype("bf16").unwrap(), DType::BF16);
        for dtype in DType::ALL {
            assert_eq!(dtype.to_string().parse::<DType>().unwrap(), dtype);
        }
        let message = parse_dtype("int8").unwrap_err().to_string();
        assert!(message.contains("f32, f16 or bf16"), "{message}");
    }
}
