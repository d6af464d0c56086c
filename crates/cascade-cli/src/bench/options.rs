//! Arguments for models without files, shared by both benches.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use cascade_config::model_source;
use cascade_eval::read_bandwidth;
use cascade_models::{
    CacheType, DType, Device, LoadOptions, Model, parse_device, parse_dtype, random_model, shape,
    shape_names,
};
use clap::Args;
use serde_json::Value;

/// The shape of a model, with random weights.
#[derive(Debug, Args)]
pub struct ShapeArgs {
    /// Shape of a released model, without its files: flan-t5-xxl, -xl, -large, -base or -small,
    /// vicuna-13b, -7b or -68m, tinyllama-1.1b, llama-3.1-8b, llama-3.2-1b or -3b, qwen2.5-0.5b,
    /// -1.5b or -7b.
    #[arg(long, value_name = "SHAPE", value_parser = known, requires = "random_weights")]
    shape: Option<String>,

    /// Confirm random weights: the model's cost is meaningful, its output is not.
    #[arg(long)]
    random_weights: bool,
}

impl ShapeArgs {
    /// The shape, if given.
    pub fn shape(&self) -> Result<Option<&str>> {
        if self.random_weights && self.shape.is_none() {
            bail!("--random-weights needs --shape; model files have their own weights");
        }
        Ok(self.shape.as_deref())
    }
}

/// The name of a shape, if there is one.
pub fn known(name: &str) -> Result<String, String> {
    match shape(name) {
        Some(_) => Ok(name.to_owned()),
        None => Err(format!("known shapes: {}", shape_names().join(", "))),
    }
}

/// Device and data type of a model or a shape. The default type is that of `cascade run`: as stored
/// for a GGUF file, else f32 on the CPU and bf16 on a GPU.
pub fn load_options(
    model: Option<&str>,
    device: &str,
    dtype: Option<&str>,
    cache_dtype: Option<CacheType>,
) -> Result<LoadOptions> {
    let source = model.map(model_source).transpose()?;
    let is_gguf = source.is_some_and(|source| source.is_gguf());
    let device = parse_device(device)?;
    let dtype = match (dtype, &device) {
        (Some(dtype), _) => parse_dtype(dtype)?,
        (None, _) if is_gguf => DType::Stored,
        (None, device) if device.is_gpu() => DType::BF16,
        (None, _) => DType::F32,
    };
    Ok(LoadOptions {
        device,
        dtype,
        cache_dtype,
        progress: true,
        ..LoadOptions::default()
    })
}

/// One layer of a shape and its head, with random weights.
pub fn layer_of_shape(name: &str, options: &LoadOptions) -> Result<Arc<Model>> {
    let mut config = named(name)?;
    for layers in ["num_hidden_layers", "num_layers", "num_decoder_layers"] {
        if config.get(layers).is_some() {
            config[layers] = 1.into();
        }
    }
    random_model(config, options).with_context(|| format!("a layer of the shape {name}"))
}

/// A random model of a shape.
pub fn of_shape(name: &str, options: &LoadOptions) -> Result<Arc<Model>> {
    random_model(named(name)?, options).with_context(|| format!("the shape {name}"))
}

fn named(name: &str) -> Result<Value> {
    shape(name).ok_or_else(|| anyhow!("unknown shape {name}"))
}

/// Read bandwidth of the host's memory in bytes per second; nothing for a GPU.
pub fn bandwidth(device: &Device) -> Option<f64> {
    (!device.is_gpu()).then(read_bandwidth)
}
