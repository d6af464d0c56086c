//! A launch that runs.

use crate::counts::Counts;
use crate::error::KernelFault;
use crate::history::History;
use crate::instruction::Kernel;
use crate::memory::{At, Memory};

/// A launch that runs.
pub(crate) struct ActiveLaunch<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) grid: [u32; 3],
    pub(crate) threads: u32,
    pub(crate) parameters: &'a [u8],
    pub(crate) overlaps: bool,
    pub(crate) memory: &'a mut Memory,
    pub(crate) history: &'a mut History,
    /// Counters, if there are any.
    pub(crate) counts: Option<&'a mut Counts>,
    /// Whether asynchronous copies happen when they are waited for, not at once.
    pub(crate) late: bool,
}

impl ActiveLaunch<'_> {
    pub(crate) fn parameter(&self, at: At) -> Result<&[u8], KernelFault> {
        let start = at.address as usize;
        let bytes = self.parameters.get(start..start.saturating_add(at.bytes));
        bytes.ok_or(KernelFault::Outside {
            space: "parameters",
            address: at.address,
            bytes: at.bytes,
        })
    }
}
