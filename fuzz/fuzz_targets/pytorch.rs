//! Whatever the bytes: a pytorch_model.bin is refused, or its tensors can be read.
#![no_main]

use std::path::PathBuf;
use std::sync::OnceLock;

use cascade_models::{load, LoadOptions, ModelSource};
use libfuzzer_sys::fuzz_target;

/// A look-alike whose weights are replaced again and again.
fn folder() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let from = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/lookalikes/google/flan-t5-small");
        let folder = tempfile::tempdir().unwrap().keep();
        for file in ["config.json", "spiece.model"] {
            std::fs::copy(format!("{from}/{file}"), folder.join(file)).unwrap();
        }
        folder
    })
}

fuzz_target!(|bytes: &[u8]| {
    std::fs::write(folder().join("pytorch_model.bin"), bytes).unwrap();
    let options = LoadOptions { progress: false, ..LoadOptions::default() };
    let _ = load(&ModelSource::Folder(folder().clone()), &options);
});
