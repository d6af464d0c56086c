//! Models on every device that tests run on: tiny ones on the CPU, the smallest demo checkpoints on
//! GPUs.
//!
//! The kernels for GPUs run in an emulator, and on the GPU that `CASCADE_TEST_DEVICE` names
//! (`cuda:0`), if it does.

use std::path::Path;
use std::sync::Arc;

use cascade_core::{Architecture, TokenId};
use cascade_models::{load, parse_device, DType, Device, LoadOptions, Model, ModelSource};

use super::{demo, tiny};

pub(crate) const GPU_TYPES: [DType; 4] = [DType::F32, DType::BF16, DType::F16, DType::Q8_0];

/// Devices that run kernels for GPUs, and whether they are fast.
pub(crate) fn gpus() -> Vec<(Device, bool)> {
    let emulated = Device::Gpu(cascade_gpu_emulator::emulated(
        cascade_gpu_emulator::ExecutionOrder::Forward,
    ));
    let named = std::env::var("CASCADE_TEST_DEVICE").ok();
    let real = named.map(|name| (parse_device(&name).unwrap(), true));
    std::iter::once((emulated, false)).chain(real).collect()
}

pub(crate) fn load_on(folder: &Path, device: &Device, dtype: DType) -> Arc<Model> {
    let source = ModelSource::Folder(folder.to_owned());
    let options = LoadOptions {
        device: device.clone(),
        dtype,
        ..LoadOptions::default()
    };
    load(&source, &options).unwrap().model
}

/// A demo checkpoint on every GPU in every type.
pub(crate) fn on_gpus(name: &str) -> Vec<(Arc<Model>, bool)> {
    let folder = demo::folder(name);
    let each = |(device, fast): (Device, bool)| {
        let folder = folder.clone();
        GPU_TYPES.map(|dtype| (load_on(&folder, &device, dtype), fast))
    };
    gpus().into_iter().flat_map(each).collect()
}

/// Models of both architectures on all devices, with `source` for those that have an encoder.
pub(crate) fn everywhere(source: &[TokenId]) -> Vec<(Arc<Model>, Vec<TokenId>)> {
    let gpus = ["demo-t5-small", "demo-llama-small"]
        .map(on_gpus)
        .into_iter()
        .flatten()
        .map(|(model, _)| model);
    let models = [tiny::t5(), tiny::llama()].into_iter().chain(gpus);
    let with_source = |model: Arc<Model>| match model.info().architecture {
        Architecture::EncoderDecoder => (model, source.to_vec()),
        Architecture::DecoderOnly => (model, Vec::new()),
    };
    models.map(with_source).collect()
}
