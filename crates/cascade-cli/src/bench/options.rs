//! What both benches are told of models without files.

use std::sync::Arc;

use anyhow::{anyhow, bail, Context, Result};
use cascade_models::{
    parse_device, parse_dtype, random_model, shape, shape_names, DType, Device, HubOptions,
    LoadOptions, Model,
};
use clap::Args;

/// A shape in a model's place.
#[derive(Debug, Args)]
pub(crate) struct ShapeArgs {
    /// The shape of a released model, without its files: flan-t5-xxl, -xl, -large, -base or -small, vicuna-7b or vicuna-68m.
    #[arg(long, value_name = "SHAPE", value_parser = known, requires = "random_weights")]
    shape: Option<String>,

    /// Yes, random weights: what the model says means nothing, only what it costs.
    #[arg(long)]
    random_weights: bool,
}

impl ShapeArgs {
    /// The shape, if there is one.
    pub(crate) fn shape(&self) -> Result<Option<&str>> {
        if self.random_weights && self.shape.is_none() {
            bail!("--random-weights goes with --shape: files have weights of their own");
        }
        Ok(self.shape.as_deref())
    }
}

fn known(name: &str) -> Result<String, String> {
    match shape(name) {
        Some(_) => Ok(name.to_owned()),
        None => Err(format!("there is {}", shape_names().join(", "))),
    }
}

/// Where and in what to compute: the type is f32 on the CPU and bf16 on a GPU if none is given.
pub(crate) fn load_options(device: &str, dtype: Option<&str>) -> Result<LoadOptions> {
    let device = parse_device(device)?;
    let dtype = match (dtype, &device) {
        (Some(dtype), _) => parse_dtype(dtype)?,
        (None, Device::Cpu) => DType::F32,
        (None, Device::Gpu(_)) => DType::BF16,
    };
    Ok(LoadOptions {
        device,
        dtype,
        hub: HubOptions::from_env(),
        progress: true,
        tokenizer: None,
    })
}

/// The model of a shape.
pub(crate) fn of_shape(name: &str, options: &LoadOptions) -> Result<Arc<Model>> {
    let config = shape(name).ok_or_else(|| anyhow!("there is no shape {name}"))?;
    random_model(config, options).with_context(|| format!("the shape {name}"))
}
