//! What can go wrong on a GPU.

use thiserror::Error;

/// What can go wrong on a GPU.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// No driver is installed.
    #[error(
        "there is no NVIDIA driver (libcuda was not found): install one, or compute on the cpu"
    )]
    NoDriver,
    /// There are fewer GPUs than that.
    #[error("there is no GPU number {ordinal}: the driver knows {count}")]
    NoDevice {
        /// The number asked for, counted from 0.
        ordinal: usize,
        /// GPUs that there are.
        count: usize,
    },
    /// The GPU is older than the kernels' instructions.
    #[error("{name} has compute capability {major}.{minor}; kernels need 8.0 or later")]
    TooOld {
        /// The GPU's name.
        name: String,
        /// Major number of its compute capability.
        major: i32,
        /// Minor number of its compute capability.
        minor: i32,
    },
    /// The driver does not understand the kernels.
    #[error(
        "the driver, which knows {driver}, could not load the kernels, which need {needed}: {reason}{}{log}",
        if log.is_empty() { "" } else { "; its assembler says: " }
    )]
    Kernels {
        /// What the driver says.
        reason: String,
        /// What its assembler says, if anything.
        log: String,
        /// The last version of CUDA that the driver knows.
        driver: String,
        /// The first version that knows the kernels.
        needed: String,
    },
    /// Kernels that compute something else than the CPU.
    #[error(
        "{device} computes wrong numbers ({faults}): another driver may do better; until then \
         compute with `--device cpu`, and please report it"
    )]
    SelfTest {
        /// The GPU.
        device: String,
        /// Kernels, and what is wrong with them.
        faults: String,
    },
    /// The device's memory is full.
    #[error("{bytes} bytes do not fit into the GPU's memory, of which {free} bytes are free")]
    OutOfMemory {
        /// What was asked for.
        bytes: usize,
        /// What was left.
        free: usize,
    },
    /// A call to the driver failed.
    #[error("{call} failed: {reason}")]
    Driver {
        /// The driver's function.
        call: &'static str,
        /// What the driver says.
        reason: String,
    },
    /// A kernel is wrong; only the emulator notices.
    #[error("kernel {kernel} is wrong: {reason}")]
    Kernel {
        /// Its name.
        kernel: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A size that no kernel is made for.
    #[error("{what} is {size}, and kernels need {needed}")]
    Size {
        /// What has the size.
        what: String,
        /// The size.
        size: usize,
        /// What kernels need.
        needed: &'static str,
    },
    /// A weight could not be read.
    #[error(transparent)]
    Weights(Box<dyn std::error::Error + Send + Sync>),
}

/// The result of something done on a GPU.
pub type Result<T> = std::result::Result<T, Error>;
