//! An emulated GPU.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::counts::Counts;
use crate::error::{FaultSite, KernelFault};
use crate::grid::{self, ExecutionOrder};
use crate::history::History;
use crate::instruction::{Kernel, Module};
use crate::launch::ActiveLaunch;
use crate::memory::Memory;
use crate::warp::Warp;

/// A launch of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The kernel's name.
    pub kernel: &'a str,
    /// Blocks along three dimensions.
    pub grid: [u32; 3],
    /// Threads of a block, along one dimension.
    pub threads: u32,
    /// The bytes of its parameters.
    pub parameters: &'a [u8],
    /// Whether it may start once all threads of the launch before have let it
    /// (`griddepcontrol.launch_dependents`), so that it must wait (`griddepcontrol.wait`) before it
    /// touches what that one has touched, and before it ends.
    pub overlaps: bool,
}

/// An emulated GPU: kernels and memory.
#[derive(Debug)]
pub struct Machine {
    kernels: BTreeMap<String, Arc<Kernel>>,
    order: ExecutionOrder,
    memory: Memory,
    history: History,
    launches: u64,
    /// Counters by kernel, if there are any.
    counts: Option<BTreeMap<String, Counts>>,
    /// Warps of earlier launches, by kernel: to allocate registers takes longer than to run a small
    /// kernel.
    spare: FxHashMap<String, Vec<Warp>>,
}

impl Machine {
    /// A machine without kernels.
    pub fn new(order: ExecutionOrder) -> Self {
        Self {
            kernels: BTreeMap::new(),
            order,
            memory: Memory::default(),
            history: History::default(),
            launches: 0,
            counts: None,
            spare: FxHashMap::default(),
        }
    }

    /// Adds the kernels of a module; they replace those of the same names.
    pub fn load(&mut self, module: Module) {
        self.spare
            .retain(|name, _| !module.kernels.contains_key(name));
        self.kernels.extend(module.kernels);
    }

    /// The size of a kernel's parameters in bytes.
    pub fn parameters(&self, kernel: &str) -> Option<usize> {
        let kernel = self.kernels.get(kernel);
        kernel.map(|kernel| kernel.parameters)
    }

    /// Counts what kernels do from now on, from zero. Counting makes them slower.
    pub fn count(&mut self) {
        self.counts = Some(BTreeMap::new());
    }

    /// What kernels did since [`count`](Self::count), by name.
    pub fn counts(&self) -> impl Iterator<Item = (&str, Counts)> {
        let counts = self.counts.iter().flatten();
        counts.map(|(name, counts)| (name.as_str(), *counts))
    }

    /// Allocates memory, filled with ones (NaN in every float format). The address is a multiple of
    /// 256, and no address beyond the end belongs to another allocation.
    pub fn allocate(&mut self, bytes: usize) -> u64 {
        self.memory.allocate(bytes)
    }

    /// Frees the allocation at an address, which is never used again.
    pub fn free(&mut self, address: u64) {
        self.memory.free(address);
    }

    /// Bytes that are allocated.
    pub fn allocated(&self) -> usize {
        self.memory.allocated()
    }

    /// Memory that the host reads or writes.
    ///
    /// # Errors
    /// [`KernelFault::Outside`].
    pub fn bytes(&mut self, address: u64, bytes: usize) -> Result<&mut [u8], KernelFault> {
        self.memory.of_host(address, bytes)
    }

    /// Runs a kernel until all its threads have ended.
    ///
    /// # Errors
    /// If the kernel or the launch is wrong. Memory is then as the kernel has left it.
    pub fn launch(&mut self, launch: Launch<'_>) -> Result<(), FaultSite> {
        let nowhere = |what| FaultSite {
            what,
            line: 0,
            block: [0; 3],
            thread: 0,
        };
        let known = self.kernels.get(launch.kernel);
        let kernel =
            known.ok_or_else(|| nowhere(KernelFault::NoKernel(launch.kernel.to_owned())))?;
        check(kernel, &launch).map_err(nowhere)?;
        if self.history.launch() {
            self.memory.forget();
        }
        self.launches += 1;
        let (order, late) = of_launch(self.order, self.launches);
        let name = launch.kernel;
        let mut launch = ActiveLaunch {
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
        // After a fault the state of warps is undefined: they are not kept.
        grid::run(&mut launch, order, &mut spare)?;
        self.spare.insert(name.to_owned(), spare);
        Ok(())
    }
}

/// The order of a launch, by its number, and whether it is late.
fn of_launch(order: ExecutionOrder, number: u64) -> (ExecutionOrder, bool) {
    match order {
        ExecutionOrder::Random(seed) => {
            let seed = seed.wrapping_add(number);
            (ExecutionOrder::Random(seed), seed % 2 == 0)
        }
        order => (order, order == ExecutionOrder::Forward),
    }
}

fn check(kernel: &Kernel, launch: &Launch<'_>) -> Result<(), KernelFault> {
    if launch.parameters.len() != kernel.parameters {
        return Err(KernelFault::Parameters {
            given: launch.parameters.len(),
            taken: kernel.parameters,
        });
    }
    if launch.threads == 0 || launch.threads > kernel.max_threads {
        return Err(KernelFault::Threads {
            given: launch.threads,
            most: kernel.max_threads,
        });
    }
    Ok(())
}
