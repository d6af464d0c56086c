//! What a device is reached through.

mod nvidia;

use std::fmt;

pub(crate) use self::nvidia::Gpu;
pub use self::nvidia::Graph;
use crate::launch::Launch;
use crate::{Address, Result};

/// What a device is reached through: NVIDIA's driver, or something that emulates a GPU. Everything
/// runs in the order of calls, whichever thread they come from.
pub trait Driver: fmt::Debug + Send + Sync {
    /// What the device is and can do; the same at every call.
    fn facts(&self) -> Facts;

    /// Bytes of its memory that are in use, by whomever, and all of them.
    ///
    /// # Errors
    /// If the driver fails.
    fn memory(&self) -> Result<(usize, usize)>;

    /// Memory of `bytes` bytes, uninitialised, until it is [freed](Self::free).
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    fn allocate(&self, bytes: usize) -> Result<Address>;

    /// Gives memory back that was [allocated](Self::allocate) here.
    fn free(&self, address: Address);

    /// Copies bytes to the device.
    ///
    /// # Errors
    /// If the driver fails.
    fn upload(&self, to: Address, bytes: &[u8]) -> Result<()>;

    /// Copies bytes from the device, once everything launched is done.
    ///
    /// # Errors
    /// What launches failed with, and if the driver fails.
    fn download(&self, from: Address, bytes: &mut [u8]) -> Result<()>;

    /// Fills memory with zeros.
    ///
    /// # Errors
    /// If the driver fails.
    fn zero(&self, at: Address, bytes: usize) -> Result<()>;

    /// Waits until everything launched is done.
    ///
    /// # Errors
    /// What launches failed with, which may be reported only now.
    fn synchronize(&self) -> Result<()>;

    /// Seconds that the device takes for what `work`, which is called once, launches.
    ///
    /// # Errors
    /// Those of `work`, and if the driver fails.
    fn time(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<f64>;

    /// Launches a kernel.
    ///
    /// # Errors
    /// If the driver fails, or the kernel does where that is known at once.
    fn launch(&self, launch: &Launch) -> Result<()>;

    /// Records launches to be [run](Self::run) as one, where that is done by a graph.
    ///
    /// # Errors
    /// If the driver fails.
    fn record(&self, launches: &[Launch]) -> Result<Option<Graph>> {
        let _ = launches;
        Ok(None)
    }

    /// Runs recorded launches, by the graph that they were recorded as if there is one.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    fn run(&self, launches: &[Launch], graph: Option<&Graph>) -> Result<()>;
}

/// What a device is and can do, for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its name.
    pub name: String,
    /// The last version of CUDA that its driver knows.
    pub driver: String,
    /// Major and minor number of its compute capability.
    pub capability: (i32, i32),
    /// Blocks of a linear map that it holds at once, from which the order of sums follows.
    pub slots: usize,
    /// Whether recorded launches overlap (`CASCADE_GPU_OVERLAP=1`).
    pub overlaps: bool,
    /// Whether they could.
    pub can_overlap: bool,
}
