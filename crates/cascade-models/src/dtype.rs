//! What a model is held in.

use cascade_checkpoint::DType;
pub use cascade_cpu::CacheType;

use crate::{Error, Result};

/// What a model is held in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Types {
    pub(crate) weights: DType,
    /// The type of keys and values, if it was asked for.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_keys_and_values_have_names() {
        for cache in CacheType::ALL {
            assert_eq!(parse_cache_type(cache.as_str()).unwrap(), cache);
        }
        let message = parse_cache_type("q8_0").unwrap_err().to_string();
        assert!(
            message.contains("q8_0") && message.contains("f32, bf16 or f16"),
            "{message}"
        );
    }
}
