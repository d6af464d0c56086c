//! A device that is played by the processor.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::counts::Counts;
use crate::error::{Fault, ReadError, Wrong};
use crate::grid::{self, Launching, Schedule};
use crate::history::History;
use crate::instruction::{Kernel, Module};
use crate::memory::Memory;
use crate::read;
use crate::warp::Warp;

/// A launch of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Its name.
    pub kernel: &'a str,
    /// Blocks along three dimensions.
    pub grid: [u32; 3],
    /// Threads of a block, along one dimension.
    pub threads: u32,
    /// The bytes of its parameters.
    pub parameters: &'a [u8],
    /// Whether it may start once all threads of the launch before have let it (`griddepcontrol.launch_dependents`), so that it must wait
    /// (`griddepcontrol.wait`) before it touches what that one has touched, and before it ends.
    pub overlaps: bool,
}

/// A device that is played by the processor: kernels of a text, and memory.
#[derive(Debug)]
pub struct Machine {
    module: Module,
    schedule: Schedule,
    memory: Memory,
    history: History,
    launches: u64,
    /// What kernels did, by name, if that is counted.
    counts: Option<BTreeMap<String, Counts>>,
    /// Warps of earlier launches, by kernel: making registers takes longer than running a small kernel.
    spare: FxHashMap<String, Vec<Warp>>,
}

impl Machine {
    /// A machine without kernels.
    pub fn new(schedule: Schedule) -> Self {
        Self {
            module: Module::default(),
            schedule,
            memory: Memory::default(),
            history: History::default(),
            launches: 0,
            counts: None,
            spare: FxHashMap::default(),
        }
    }

    /// Adds the kernels of a text, in place of those of the same names.
    ///
    /// # Errors
    /// If the text has something that is not known here; nothing is added then.
    pub fn load(&mut self, ptx: &str) -> Result<(), ReadError> {
        let Module { kernels, constants } = read::module(ptx)?;
        self.spare.retain(|name, _| !kernels.contains_key(name));
        self.module.kernels.extend(kernels);
        self.module.constants.extend(constants);
        Ok(())
    }

    /// Bytes of a kernel's parameters.
    pub fn parameters(&self, kernel: &str) -> Option<usize> {
        let kernel = self.module.kernels.get(kernel);
        kernel.map(|kernel| kernel.parameters)
    }

    /// Counts what kernels do from now on, from nothing. That takes time.
    pub fn count(&mut self) {
        self.counts = Some(BTreeMap::new());
    }

    /// What kernels did since [`count`](Self::count), by name.
    pub fn counts(&self) -> impl Iterator<Item = (&str, Counts)> {
        let counts = self.counts.iter().flatten();
        counts.map(|(name, counts)| (name.as_str(), *counts))
    }

    /// A constant that the text declares (`.visible .global`), as its bytes.
    pub fn constant(&self, name: &str) -> Option<&[u8]> {
        self.module.constants.get(name).map(Vec::as_slice)
    }

    /// Memory of so many bytes, all ones. Its address is a multiple of 256, and no address beyond it is another's.
    pub fn allocate(&mut self, bytes: usize) -> u64 {
        self.memory.allocate(bytes)
    }

    /// Frees what was allocated at an address, which is never used again.
    pub fn free(&mut self, address: u64) {
        self.memory.free(address);
    }

    /// Bytes that are allocated.
    pub fn allocated(&self) -> usize {
        self.memory.allocated()
    }

    /// Memory, for the host to read or write.
    ///
    /// # Errors
    /// [`Wrong::Outside`].
    pub fn bytes(&mut self, address: u64, bytes: usize) -> Result<&mut [u8], Wrong> {
        self.memory.of_host(address, bytes)
    }

    /// Runs a kernel until all its threads have ended.
    ///
    /// # Errors
    /// What is wrong with the kernel or the launch. Memory is then as the kernel has left it.
    pub fn launch(&mut self, launch: Launch<'_>) -> Result<(), Fault> {
        let nowhere = |what| Fault {
            what,
            line: 0,
            block: [0; 3],
            thread: 0,
        };
        let known = self.module.kernels.get(launch.kernel);
        let kernel = known.ok_or_else(|| nowhere(Wrong::NoKernel(launch.kernel.to_owned())))?;
        check(kernel, &launch).map_err(nowhere)?;
        if self.history.launch() {
            self.memory.forget();
        }
        self.launches += 1;
        let (schedule, late) = match self.schedule {
            Schedule::Random(seed) => {
                let seed = seed.wrapping_add(self.launches);
                (Schedule::Random(seed), seed % 2 == 0)
            }
            schedule => (schedule, schedule == Schedule::Forward),
        };
        let name = launch.kernel;
        let mut launch = Launching {
            kernel,
            grid: launch.grid,
            threads: launch.threads,
            parameters: launch.parameters,
            overlaps: launch.overlaps,
            memory: &mut self.memory,
            history: &mut self.history,
            late,
            counts: None,
        };
        if let Some(counts) = &mut self.counts {
            let of_kernel = counts.entry(name.to_owned()).or_default();
            of_kernel.launches += 1;
            launch.counts = Some(of_kernel);
        }
        let mut spare = self.spare.remove(name).unwrap_or_default();
        // After a fault registers and copies of warps are anything: they are not kept.
        grid::run(&mut launch, schedule, &mut spare)?;
        self.spare.insert(name.to_owned(), spare);
        Ok(())
    }
}

fn check(kernel: &Kernel, launch: &Launch<'_>) -> Result<(), Wrong> {
    if launch.parameters.len() != kernel.parameters {
        return Err(Wrong::Parameters {
            given: launch.parameters.len(),
            taken: kernel.parameters,
        });
    }
    if launch.threads == 0 || launch.threads > kernel.max_threads {
        return Err(Wrong::Threads {
            given: launch.threads,
            most: kernel.max_threads,
        });
    }
    Ok(())
}
