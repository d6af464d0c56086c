//! Models of any shape with random weights: to measure what forwards cost, without the files of a
//! model.

#[cfg(feature = "candle")]
use std::borrow::Cow;
use std::sync::Arc;

#[cfg(feature = "candle")]
use cascade_checkpoint::Blocks;
use cascade_checkpoint::FloatType;
use cascade_cpu::{Format, Packed, quantize};
use half::f16;
use rayon::prelude::*;
use serde_json::Value;

use crate::config::ModelConfig;
use crate::estimate::check_weights;
#[cfg(feature = "candle")]
use crate::weights::block_format;
use crate::weights::{PackedMatrix, Provider, Role, format_for};
use crate::{DType, Error, LoadOptions, Model, ModelFile, Result};

/// A model of the shape that `config` (the content of a config.json) describes, with random
/// weights, on the device and in the type of `options`. It needs no files. What it says means
/// nothing; what it costs is what the real model costs.
///
/// Weights are spread evenly around 0 with a variance of 1 / inputs, and norms have weight 1, so
/// that activations stay as large as they are in trained models. Equal configurations give equal
/// weights on every device, up to their type.
///
/// # Errors
/// [`DoesNotFit`](crate::Error::DoesNotFit) before anything is allocated;
/// [`Config`](crate::Error::Config) for a configuration that no model can be built from; whatever
/// the device fails with.
pub fn random_model(config: Value, options: &LoadOptions) -> Result<Arc<Model>> {
    let file = ModelFile::Embedded {
        name: "the configuration of a model with random weights".to_owned(),
        bytes: &[],
    };
    let config = ModelConfig::parse(&file, &config)?;
    let (device, overcommit) = (&options.device, options.overcommit);
    check_weights((&file, &config, None), options.dtype, device, overcommit)?;
    let model = Model::new(&config, &RandomWeights, device, options.types())?;
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

    #[cfg(feature = "candle")]
    fn blocks_of(format: Format, name: &str, [outputs, inputs]: [usize; 2]) -> Vec<u8> {
        let of = (seed(name), Self::scale(&[outputs, inputs]));
        let row_bytes = inputs / format.block_values() * format.block_bytes();
        let mut blocks = vec![0; outputs * row_bytes];
        let rows = blocks.par_chunks_mut(row_bytes).enumerate();
        rows.for_each(|(row, to)| fill_row(format, of, row * inputs, inputs, to));
        blocks
    }
}

impl Provider for RandomWeights {
    /// All but a head of its own where the embedding is the head.
    fn has(&self, name: &str) -> bool {
        name != "lm_head.weight"
    }

    fn read(&self, name: &str, shape: &[usize], role: Role) -> Result<Vec<f32>> {
        Ok(Self::values(name, shape, role))
    }

    fn pack(
        &self,
        name: &str,
        [outputs, inputs]: [usize; 2],
        dtype: DType,
    ) -> Result<PackedMatrix> {
        let (format, note) = format_for(dtype, FloatType::F32, inputs);
        let (seed, scale) = (seed(name), Self::scale(&[outputs, inputs]));
        let matrix = Packed::from_rows(format, inputs, outputs, |row, to| {
            fill_row(format, (seed, scale), row * inputs, inputs, to);
        })
        .map_err(Error::no_memory(name, format, [outputs, inputs]))?;
        Ok(PackedMatrix { matrix, note })
    }

    #[cfg(feature = "candle")]
    fn blocks(&self, name: &str, shape: [usize; 2], dtype: DType) -> Result<Option<Blocks<'_>>> {
        let format = block_format(dtype, shape);
        Ok(format.map(|format| Blocks {
            format,
            bytes: Cow::Owned(Self::blocks_of(format, name, shape)),
        }))
    }
}

/// Writes a row: values that are rounded, or, in blocks, random integers, which are cheaper.
fn fill_row(format: Format, (seed, scale): (u64, f32), first: usize, inputs: usize, to: &mut [u8]) {
    let half_of = match format {
        Format::Q8_0 => 127.0,
        Format::Q4_0 => 8.0,
        _ => {
            let places = first as u64..(first + inputs) as u64;
            let values: Vec<f32> = places.map(|i| scale * value(seed, i)).collect();
            return quantize(format, &values, to);
        }
    };
    let scale = f16::from_f32(scale / half_of).to_le_bytes();
    for (number, block) in to.chunks_exact_mut(format.block_bytes()).enumerate() {
        let (head, bytes) = block.split_at_mut(2);
        head.copy_from_slice(&scale);
        for (i, bytes) in bytes.chunks_mut(8).enumerate() {
            let place = (first / 32 + number) * 4 + i;
            bytes.copy_from_slice(&mixed(seed, place as u64).to_le_bytes());
        }
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
    (mixed(seed, i) >> 40) as f32 * (2.0 / (1u64 << 24) as f32) - 1.0
}

/// 64 bits that look random, the `i`th of a sequence.
fn mixed(seed: u64, i: u64) -> u64 {
    let mut x = seed.wrapping_add(i);
    x = (x ^ x >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ x >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ x >> 33
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
