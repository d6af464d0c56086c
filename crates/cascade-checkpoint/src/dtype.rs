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
    /// The types of the file: blocks of GGUF stay what they are. On a GPU, the type that all
    /// matrices of the file have if it is one of those above that GPUs compute in, else bf16.
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

    /// Whether blocks of a format stay as they are.
    pub(crate) fn takes(self, format: Format) -> bool {
        self == Self::Stored || self.format(FloatType::F32) == format
    }

    /// Bytes of `weights` weights; nothing if only their file knows.
    pub fn bytes(self, weights: usize) -> Option<usize> {
        let format = self.format(FloatType::F32);
        let blocks = weights.div_ceil(format.block_values());
        (self != Self::Stored).then_some(blocks.saturating_mul(format.block_bytes()))
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
        let name = match text.trim() {
            "float32" => "f32",
            "float16" => "f16",
            "bfloat16" => "bf16",
            name => name,
        };
        let mut all = Self::ALL.into_iter();
        all.find(|dtype| dtype.as_str() == name).ok_or_else(|| {
            let near = match name.to_ascii_lowercase() {
                of_four if of_four.starts_with("q4") || of_four.starts_with("iq4") => {
                    " (4 bits here are q4_0; files that are q4_k and the like are read as they are)"
                }
                of_eight if of_eight.starts_with("q8") => " (8 bits here are q8_0)",
                of_bits if of_bits.starts_with('q') || of_bits.starts_with("iq") => {
                    " (files that have it are read as they are; 4 bits here are q4_0)"
                }
                _ => "",
            };
            let message = format!(
                "\"{text}\" is not a type to compute in{near}; give f32, f16 or bf16, or, on a CPU, q8_0, q4_0 or \
                 stored (as the file has them)"
            );
            Error::new(ErrorKind::Unsupported, message)
        })
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
    /// The type that safetensors and GGUF call so.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "F32" => Some(Self::F32),
            "F16" => Some(Self::F16),
            "BF16" => Some(Self::BF16),
            "F64" => Some(Self::F64),
            _ => None,
        }
    }

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
        match self {
            Self::F32 => each(bytes, f32::from_le_bytes),
            Self::BF16 => each(bytes, |value| bf16::from_le_bytes(value).to_f32()),
            Self::F16 => each(bytes, |value| f16::from_le_bytes(value).to_f32()),
            Self::F64 => each(bytes, |value| f64::from_le_bytes(value) as f32),
        }
    }
}

/// What is read of every `N` bytes.
pub(crate) fn each<const N: usize, T>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
    let values = bytes.as_chunks().0.iter();
    values.map(|&value| read(value)).collect()
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
        let k_quant = parse_dtype("Q4_K_M").unwrap_err().to_string();
        assert!(k_quant.contains("4 bits here are q4_0"), "{k_quant}");
    }
}
