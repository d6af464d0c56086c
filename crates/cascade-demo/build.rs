//! Compresses the weights of the demo checkpoints, to two thirds.

#[cfg(not(feature = "models"))]
fn main() {}

#[cfg(feature = "models")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR")?);
    println!("cargo::rerun-if-changed=build.rs");
    for (name, shard) in [
        ("demo-t5-target-1", cascade_demo_t5_1::SHARD),
        ("demo-t5-target-2", cascade_demo_t5_2::SHARD),
        ("demo-llama-target-1", cascade_demo_llama_1::SHARD),
        ("demo-llama-target-2", cascade_demo_llama_2::SHARD),
    ] {
        std::fs::write(out.join(name), pack(shard)?)?;
    }
    for name in [
        "demo-t5-base",
        "demo-t5-small",
        "demo-llama-base",
        "demo-llama-small",
    ] {
        let path = format!("models/{name}/model.safetensors");
        println!("cargo::rerun-if-changed={path}");
        std::fs::write(out.join(name), pack(&std::fs::read(path)?)?)?;
    }
    Ok(())
}

/// All bytes at even places, then those at odd ones, deflated. In bf16 the latter have sign and
/// exponent, in which weights are much alike; the others are noise, and hardly shrink.
#[cfg(feature = "models")]
fn pack(file: &[u8]) -> std::io::Result<Vec<u8>> {
    use std::io::Write;

    let at = |first| file.iter().skip(first).step_by(2).copied();
    let planes: Vec<u8> = at(0).chain(at(1)).collect();
    let mut packed = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(&planes)?;
    packed.finish()
}
