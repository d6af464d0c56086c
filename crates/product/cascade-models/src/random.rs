//! Models of any shape with random weights: to measure what forwards cost, without the files of a
//! model.

use std::sync::Arc;

use candle_core::{Device, Tensor};
#[cfg(feature = "gpu")]
use cascade_gpu::TensorSource;
use rayon::prelude::*;
use serde_json::Value;

use crate::config::ModelConfig;
use crate::estimate::check_weights;
use crate::weights::{Provider, Role};
use crate::{DType, Error, LoadOptions, Model, ModelFile, Result};

/// A model of the shape that `config` (the content of a config.json) describes, with random
/// weights, on the device and in the type of `options`. It needs no files. What it says means
/// nothing; what it costs is what the real model costs.
///
/// Weights are spread evenly around 0 with a variance of 1 / inputs, and norms have weight 1, so
/// that activations stay as large as they are in trained models. The same configuration gives the
/// same weights on the same kind of device.
///
/// # Errors
/// [`Error::DoesNotFit`] before anything is allocated; [`Error::Config`] for a configuration that
/// no model can be built from; whatever the device fails with.
pub fn random_model(config: Value, options: &LoadOptions) -> Result<Arc<Model>> {
    let file = ModelFile::Embedded {
        name: "the configuration of a model with random weights".to_owned(),
        bytes: &[],
    };
    let config = ModelConfig::parse(&file, &config)?;
    check_weights(&file, &config, &options.device, options.dtype)?;
    let model = Model::new(&config, &RandomWeights, &options.device, options.dtype)?;
    Ok(Arc::new(model))
}

/// Any tensor that is asked for, a function of its name, shape and role.
struct RandomWeights;

impl RandomWeights {
    /// The greatest magnitude of values of variance 1 / inputs, or 1 / outputs for a bias.
    fn scale(shape: &[usize]) -> f32 {
        let count = shape.last().copied().unwrap_or(1);
        (3.0 / count as f32).sqrt()
    }

    fn values(name: &str, shape: &[usize], role: Role) -> Vec<f32> {
        let count = shape.iter().product::<usize>();
        if role == Role::Norm {
            return vec![1.0; count];
        }
        let (seed, scale) = (seed(name), Self::scale(shape));
        let places = (0..count as u64).into_par_iter();
        places.map(|i| scale * value(seed, i)).collect()
    }
}

#[cfg(feature = "gpu")]
impl cascade_gpu::Weights for RandomWeights {
    fn tensor(&self, _: &str, shape: &[usize]) -> cascade_gpu::Result<TensorSource<'_>> {
        // The device makes the values itself, and those of norms 1.
        Ok(TensorSource::Random(Self::scale(shape)))
    }
}

impl Provider for RandomWeights {
    /// All but a head of its own where the embedding is the head.
    fn has(&self, name: &str) -> bool {
        name != "lm_head.weight"
    }

    fn read(&self, name: &str, shape: &[usize], role: Role, dtype: DType) -> Result<Tensor> {
        let tensor = Tensor::from_vec(Self::values(name, shape, role), shape, &Device::Cpu);
        let converted = tensor.and_then(|tensor| tensor.to_dtype(dtype.tensor_type()));
        converted.map_err(Error::tensor)
    }

    #[cfg(feature = "gpu")]
    fn for_gpu(&self) -> &dyn cascade_gpu::Weights {
        self
    }
}

/// The FNV-1a hash of a name.
fn seed(name: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// The `i`th value of a sequence, between -1 and 1: the finalizer of MurmurHash3, whose values in
/// turn look random.
fn value(seed: u64, i: u64) -> f32 {
    let mut x = seed.wrapping_add(i);
    x = (x ^ x >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ x >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^= x >> 33;
    (x >> 40) as f32 * (2.0 / (1u64 << 24) as f32) - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_spread_evenly_and_follow_from_name_and_shape() {
        let shape = [500, 300];
        let values = RandomWeights::values("a.weight", &shape, Role::Matrix);
        assert_eq!(
            values,
            RandomWeights::values("a.weight", &shape, Role::Matrix)
        );
        assert_ne!(
            values,
            RandomWeights::values("b.weight", &shape, Role::Matrix)
        );
        let mean = |of: fn(f64) -> f64| {
            let sum: f64 = values.iter().map(|&value| of(value.into())).sum();
            sum / values.len() as f64
        };
        assert!(mean(|value| value).abs() < 1e-3);
        assert!((300.0 * mean(|value| value * value) - 1.0).abs() < 1e-2);
        assert_eq!(
            RandomWeights::values("norm.weight", &[3], Role::Norm),
            [1.0; 3]
        );
    }

    #[test]
    fn biases_are_no_norms() {
        let bias = RandomWeights::values("q_proj.bias", &[300], Role::Bias);
        assert!(bias.iter().all(|x| x.abs() <= 0.1));
        assert_ne!(bias[0], bias[1]);
    }
}
