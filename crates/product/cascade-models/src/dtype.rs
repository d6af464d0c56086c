//! What models compute in.

use std::fmt;
use std::str::FromStr;

pub use cascade_cpu::CacheType;

use crate::{Error, Result};

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
    /// As the file has them: blocks of GGUF stay what they are, those that there are no kernels for
    /// are held in f32. On a GPU, the type that all matrices of the file have if it is one of those
    /// above that GPUs compute in, else bf16.
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

    /// Its name: `f32`, `bf16`, `f16`, `q8_0`, `q4_0` or `stored`.
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

    /// Bytes of an activation, and of an element of keys and values, on a GPU.
    pub(crate) fn bytes_on_gpu(self) -> usize {
        match self {
            Self::BF16 | Self::F16 | Self::Q8_0 => 2,
            Self::F32 | Self::Q4_0 | Self::Stored => 4,
        }
    }

    /// Bytes of so many weights; nothing if only their file knows.
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
            _ => Err(Error::ComputeType {
                text: text.to_owned(),
            }),
        }
    }
}

/// What a model is held in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Types {
    pub(crate) weights: DType,
    /// Of keys and values, if not the usual one.
    pub(crate) cache: Option<CacheType>,
}

impl From<DType> for Types {
    fn from(weights: DType) -> Self {
        Self {
            weights,
            cache: None,
        }
    }
}

/// Reads the name of a type of keys and values: `f32`, `bf16` or `f16`.
///
/// # Errors
/// [`Error::CacheType`] for another name.
pub fn parse_cache_type(text: &str) -> Result<CacheType> {
    let named = |cache: &CacheType| cache.as_str() == text.trim();
    let found = CacheType::ALL.into_iter().find(named);
    found.ok_or_else(|| Error::CacheType {
        text: text.to_owned(),
    })
}

/// Reads the name of a type to compute in: `f32`, `f16`, `bf16`, `q8_0`, `q4_0` or `stored`.
///
/// # Errors
/// [`Error::ComputeType`] for another name.
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
        for cache in CacheType::ALL {
            assert_eq!(parse_cache_type(cache.as_str()).unwrap(), cache);
        }
        let message = parse_cache_type("q8_0").unwrap_err().to_string();
        assert!(
            message.contains("q8_0") && message.contains("f32, bf16 or f16"),
            "{message}"
        );
        let message = parse_dtype("int8").unwrap_err().to_string();
        assert!(message.contains("f32, f16 or bf16"), "{message}");
    }
}
