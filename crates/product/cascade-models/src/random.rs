//! Models of any shape with random weights: for measuring what forwards cost, without the files of a model.

use std::sync::Arc;

use candle_core::{DType, Shape, Tensor};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder};
use cascade_gpu::Content;
use rayon::prelude::*;
use serde_json::Value;

use crate::load::{build, parameters, Kind};
use crate::weights::Provider;
use crate::{Error, LoadOptions, Model, ModelFile, Result};

/// A model of the shape that `config` (the content of a config.json) describes, with random weights, on the device and in the
/// type of `options`. It needs no files. What it says means nothing; what it costs is what the real model costs.
///
/// Weights are spread evenly around 0 with a variance of 1 / inputs, and norms have weight 1, so that activations stay as large
/// as they are in trained models. The same configuration gives the same weights on the same kind of device.
///
/// # Errors
/// [`Error::DoesNotFit`] before anything is allocated; [`Error::Config`] for a configuration that no model can be built from;
/// whatever the device fails with.
pub fn random_model(config: Value, options: &LoadOptions) -> Result<Arc<Model>> {
    let file = ModelFile::Embedded {
        name: "the configuration of a model with random weights".to_owned(),
        bytes: &[],
    };
    let kind = Kind::of(&file, &config)?;
    check_memory(parameters(kind, &file, config.clone())?, options)?;
    build(kind, &file, config, &RandomWeights, options)
}

/// Refuses weights that are larger than the memory that is free, as far as that is known.
fn check_memory(parameters: usize, options: &LoadOptions) -> Result<()> {
    let bytes = parameters * options.dtype.size_in_bytes();
    match options.device.free_memory()? {
        Some(free) if bytes > free => Err(Error::DoesNotFit {
            parameters,
            dtype: options.dtype.as_str().to_owned(),
            bytes,
            free,
            memory: if options.device.is_cpu() {
                "memory"
            } else {
                "the GPU's memory"
            },
        }),
        _ => Ok(()),
    }
}

/// Any tensor that is asked for, a function of its name and shape.
struct RandomWeights;

impl RandomWeights {
    /// The greatest weight of a tensor, if it is no norm's: those have one dimension.
    fn scale(shape: &[usize]) -> Option<f32> {
        match *shape {
            [_, inputs] => Some((3.0 / inputs as f32).sqrt()),
            _ => None,
        }
    }

    fn values(name: &str, shape: &Shape) -> Vec<f32> {
        let Some(scale) = Self::scale(shape.dims()) else {
            return vec![1.0; shape.elem_count()];
        };
        let seed = seed(name);
        let places = (0..shape.elem_count() as u64).into_par_iter();
        places.map(|i| scale * number(seed, i)).collect()
    }
}

impl cascade_gpu::Weights for RandomWeights {
    fn tensor(&self, _: &str, shape: &[usize]) -> cascade_gpu::Result<Content<'_>> {
        // The device makes the numbers itself, and those of norms 1.
        Ok(Content::Random(Self::scale(shape).unwrap_or(1.0)))
    }
}

impl Provider for RandomWeights {
    fn var_builder(&self, dtype: DType, device: &candle_core::Device) -> VarBuilder<'static> {
        VarBuilder::from_backend(Box::new(Self), dtype, device.clone())
    }

    fn has(&self, _: &str) -> bool {
        true
    }
}

impl SimpleBackend for RandomWeights {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        _: Init,
        dtype: DType,
        device: &candle_core::Device,
    ) -> candle_core::Result<Tensor> {
        Tensor::from_vec(Self::values(name, &shape), shape, device)?.to_dtype(dtype)
    }

    fn get_unchecked(
        &self,
        name: &str,
        _: DType,
        _: &candle_core::Device,
    ) -> candle_core::Result<Tensor> {
        candle_core::bail!("a random {name} needs a shape")
    }

    fn contains_tensor(&self, _: &str) -> bool {
        true
    }
}

/// A number of a name: FNV-1a.
fn seed(name: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// The `i`th number of a sequence, between -1 and 1: the finalizer of MurmurHash3, whose values in turn look random.
fn number(seed: u64, i: u64) -> f32 {
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
    fn numbers_are_spread_evenly_and_follow_from_name_and_shape() {
        let shape = Shape::from((500, 300));
        let values = RandomWeights::values("a.weight", &shape);
        assert_eq!(values, RandomWeights::values("a.weight", &shape));
        assert_ne!(values, RandomWeights::values("b.weight", &shape));
        let mean = |of: fn(f64) -> f64| {
            let sum: f64 = values.iter().map(|&value| of(value.into())).sum();
            sum / values.len() as f64
        };
        assert!(mean(|value| value).abs() < 1e-3);
        assert!((300.0 * mean(|value| value * value) - 1.0).abs() < 1e-2);
        assert_eq!(
            RandomWeights::values("norm.weight", &Shape::from(3)),
            [1.0; 3]
        );
    }
}
