//! The mock library under the driver's name.

use std::io::Result;
use std::path::Path;

/// Links the mock library into a folder under the driver's name, for tests of crates that depend on
/// this one: the library lies beside the test program. Programs whose `LD_LIBRARY_PATH` is the
/// folder take it for the driver.
///
/// # Errors
/// If the library is missing, or the folder cannot be written to.
pub fn install(folder: &Path) -> Result<()> {
    let program = std::env::current_exe()?;
    let library = program.with_file_name("libcascade_cuda_mock.so");
    std::os::unix::fs::symlink(library.canonicalize()?, folder.join("libcuda.so"))
}
