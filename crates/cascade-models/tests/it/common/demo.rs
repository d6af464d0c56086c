//! The demo checkpoints, and copies of them to damage.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cascade_models::{DType, Device, LoadOptions, Model, ModelSource, load};
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use tempfile::TempDir;

/// The folder of a demo checkpoint.
pub(crate) fn folder(name: &str) -> PathBuf {
    // Where the sources are now, if the test was built elsewhere.
    let here = std::env::var("CARGO_MANIFEST_DIR");
    Path::new(here.as_deref().unwrap_or(env!("CARGO_MANIFEST_DIR")))
        .join("../cascade-demo/models")
        .join(name)
}

/// A copy of a demo checkpoint.
pub(crate) fn copy(name: &str) -> TempDir {
    let copy = TempDir::new().unwrap();
    for file in fs::read_dir(folder(name)).unwrap() {
        let file = file.unwrap();
        let bytes = fs::read(file.path()).unwrap();
        fs::write(copy.path().join(file.file_name()), bytes).unwrap();
    }
    copy
}

/// The model in a folder, on a device.
pub(crate) fn load_on(folder: &Path, device: &Device, dtype: DType) -> Arc<Model> {
    let source = ModelSource::Folder(folder.to_owned());
    let options = LoadOptions {
        device: device.clone(),
        dtype,
        ..LoadOptions::default()
    };
    load(&source, &options).unwrap().model
}

/// Changes the bytes of the tensor `name` of a safetensors file, given with its shape.
pub(crate) fn edit_tensor(file: &Path, name: &str, edit: impl FnOnce(&mut [u8], &[usize])) {
    let mut bytes = fs::read(file).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let tensor = tensors.tensor(name).unwrap();
    let shape = tensor.shape().to_vec();
    let start = tensor.data().as_ptr() as usize - bytes.as_ptr() as usize;
    let length = tensor.data().len();
    edit(&mut bytes[start..start + length], &shape);
    fs::write(file, bytes).unwrap();
}

/// Splits the weights of a folder into `count` shards with an index.
pub(crate) fn shard(folder: &Path, count: usize) {
    let whole = folder.join("model.safetensors");
    let bytes = fs::read(&whole).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap().tensors();
    let mut map = BTreeMap::new();
    for part in 0..count {
        let file = format!("model-{:05}-of-{count:05}.safetensors", part + 1);
        let tensors: Vec<&(String, TensorView<'_>)> =
            tensors.iter().skip(part).step_by(count).collect();
        for (name, _) in &tensors {
            map.insert(name.clone(), file.clone());
        }
        let data = tensors.iter().map(|(name, view)| (name, view));
        let bytes = safetensors::serialize(data, None).unwrap();
        fs::write(folder.join(file), bytes).unwrap();
    }
    let index = serde_json::json!({ "metadata": {}, "weight_map": map });
    fs::write(
        folder.join("model.safetensors.index.json"),
        index.to_string(),
    )
    .unwrap();
    fs::remove_file(whole).unwrap();
}
