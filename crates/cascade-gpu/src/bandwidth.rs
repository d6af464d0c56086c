//! How fast a device's memory is: the bound of a forward at batch 1.

use crate::arguments::CopyArguments;
use crate::launch::{Kernel, Launch};
use crate::{Buffer, Device, Result};

/// Bytes per second, medians of several passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bandwidth {
    /// Read, with nothing written: what weights can be streamed at.
    pub read: f64,
    /// Read and written together by a copy: twice what is copied.
    pub copy: f64,
}

/// Passes of which the median is taken.
const PASSES: usize = 7;
/// Launches of one pass, so that it takes longer than to start it.
const LAUNCHES: usize = 4;
/// Bytes that a thread loads at once.
const QUAD: usize = 16;
const THREADS: usize = 256;
const BLOCKS: usize = 4096;

impl Device {
    /// Measures how fast the kernels read and copy `bytes` of memory, which no cache should hold.
    /// Takes twice as many.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory), and if the driver fails.
    pub fn bandwidth(&self, bytes: usize) -> Result<Bandwidth> {
        let [from, to] = [self.allocate(bytes)?, self.allocate(bytes)?];
        from.zero()?;
        to.zero()?;
        let quads = bytes / QUAD;
        let speed = |kernel, moved: usize| -> Result<f64> {
            let launch = launch(kernel, &from, &to, quads);
            Ok((moved * quads * QUAD) as f64 / self.seconds(&launch)?)
        };
        Ok(Bandwidth {
            read: speed(Kernel::ReadQuads, 1)?,
            copy: speed(Kernel::CopyQuads, 2)?,
        })
    }

    /// Seconds of one launch: the median of several passes, after one that warms up.
    fn seconds(&self, launch: &Launch) -> Result<f64> {
        let pass = || self.time(|| (0..LAUNCHES).try_for_each(|_| self.launch(launch)));
        pass()?;
        let mut times = (0..PASSES).map(|_| pass()).collect::<Result<Vec<f64>>>()?;
        times.sort_by(f64::total_cmp);
        Ok(times[PASSES / 2] / LAUNCHES as f64)
    }
}

fn launch(kernel: Kernel, from: &Buffer, to: &Buffer, quads: usize) -> Launch {
    let arguments = CopyArguments {
        from: from.address(),
        to: to.address(),
        quads: quads as u64,
    };
    let blocks = quads.div_ceil(THREADS).clamp(1, BLOCKS);
    Launch::new(kernel, [blocks, 1, 1], THREADS, arguments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulator::{emulated, ExecutionOrder};

    #[test]
    fn speeds_are_positive_and_memory_is_given_back() {
        let device = emulated(ExecutionOrder::Forward);
        let bandwidth = device.bandwidth(1 << 14).expect("there is memory");
        assert!(bandwidth.read > 0.0 && bandwidth.read.is_finite());
        assert!(bandwidth.copy > 0.0 && bandwidth.copy.is_finite());
        assert_eq!(device.memory().expect("it counts").0, 0);
        assert_eq!(device.peak(), 2 << 14);
    }

    #[test]
    fn a_copy_is_whole() {
        let device = emulated(ExecutionOrder::Forward);
        let words: Vec<u32> = (0..4 * 1031).collect();
        let from = device.upload(&words).expect("there is memory");
        let to = device.allocate(from.bytes()).expect("there is memory");
        let launch = launch(Kernel::CopyQuads, &from, &to, from.bytes() / QUAD);
        device.launch(&launch).expect("the kernel is right");
        let mut copied = vec![0u32; words.len()];
        to.read(0, &mut copied).expect("it was copied");
        assert_eq!(copied, words);
    }
}
