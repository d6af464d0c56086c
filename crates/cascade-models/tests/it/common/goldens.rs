//! Tensors of tests/goldens, which reference implementations wrote.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use candle_core::{Device, Tensor, safetensors};
use cascade_core::TokenId;
use cascade_models::{Result, WeightSource};

pub(crate) fn goldens() -> PathBuf {
    let here = std::env::var("CARGO_MANIFEST_DIR");
    let here = here.as_deref().unwrap_or(env!("CARGO_MANIFEST_DIR"));
    Path::new(here).join("../../tests/goldens")
}

/// The tensors of a file.
pub(crate) struct Golden(pub(crate) HashMap<String, Tensor>);

impl Golden {
    pub(crate) fn read(file: &Path) -> Self {
        Self(safetensors::load(file, &Device::Cpu).unwrap())
    }

    pub(crate) fn integers(&self, key: &str) -> Vec<i64> {
        self.0[key].to_vec1().unwrap()
    }

    pub(crate) fn tokens(&self, key: &str) -> Vec<TokenId> {
        self.integers(key).iter().map(|&t| t as TokenId).collect()
    }

    pub(crate) fn rows(&self, key: &str) -> Vec<Vec<f32>> {
        self.0[key].to_vec2().unwrap()
    }
}

impl WeightSource for Golden {
    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let tensor = &self.0[name];
        assert_eq!(tensor.dims(), shape, "{name}");
        Ok(tensor.flatten_all().unwrap().to_vec1().unwrap())
    }
}
