//! A device that is played by the processor.

use rustc_hash::FxHashMap;

use crate::error::{Fault, ReadError, Wrong};
use crate::grid::{self, Launching, Schedule};
use crate::history::History;
use crate::instruction::{Kernel, Module};
use crate::memory::Memory;
use crate::read;
use crate::warp::Warp;

/// A device that is played by the processor: kernels of a text, and memory.
#[derive(Debug)]
pub struct Machine {
    module: Module,
    order: Schedule,
    memory: Memory,
    history: History,
    launches: u64,
    /// Warps of earlier launches, by kernel: making registers takes longer than running a small kernel.
    spare: FxHashMap<String, Vec<Warp>>,
}

impl Machine {
    /// A machine that runs the kernels of a text.
    ///
    /// # Errors
    /// If the text has something that is not known here.
    pub fn new(ptx: &str, order: Schedule) -> Result<Self, ReadError> {
        Ok(Self {
            module: read::module(ptx)?,
            order,
            memory: Memory::default(),
            history: History::default(),
            launches: 0,
            spare: FxHashMap::default(),
        })
    }

    /// A constant that the text declares (`.visible .global`), as its bytes.
    pub fn constant(&self, name: &str) -> Option<&[u8]> {
        self.module.constants.get(name).map(Vec::as_slice)
    }

    /// Bytes of a kernel's parameters.
    pub fn parameters(&self, kernel: &str) -> Option<usize> {
        self.module
            .kernels
            .get(kernel)
            .map(|kernel| kernel.parameters)
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

    /// Runs a kernel over a grid of blocks of so many threads (of one dimension), until all have ended.
    ///
    /// # Errors
    /// What is wrong with the kernel or the launch. Memory is then as the kernel has left it.
    pub fn launch(
        &mut self,
        kernel: &str,
        grid: [u32; 3],
        threads: u32,
        parameters: &[u8],
    ) -> Result<(), Fault> {
        let nowhere = |what| Fault {
            what,
            line: 0,
            block: [0; 3],
            thread: 0,
        };
        let known = self.module.kernels.get(kernel);
        let found = known.ok_or_else(|| nowhere(Wrong::NoKernel(kernel.to_owned())))?;
        check(found, threads, parameters).map_err(nowhere)?;
        if self.history.launch() {
            self.memory.forget();
        }
        self.launches += 1;
        let (order, late) = match self.order {
            Schedule::Random(seed) => {
                let seed = seed.wrapping_add(self.launches);
                (Schedule::Random(seed), seed % 2 == 0)
            }
            order => (order, order == Schedule::Forward),
        };
        let mut launch = Launching {
            kernel: found,
            grid,
            threads,
            parameters,
            memory: &mut self.memory,
            history: &mut self.history,
            late,
        };
        let mut spare = self.spare.remove(kernel).unwrap_or_default();
        // After a fault registers and copies of warps are anything: they are not kept.
        grid::run(&mut launch, order, &mut spare)?;
        self.spare.insert(kernel.to_owned(), spare);
        Ok(())
    }
}

fn check(kernel: &Kernel, threads: u32, parameters: &[u8]) -> Result<(), Wrong> {
    if parameters.len() != kernel.parameters {
        return Err(Wrong::Parameters {
            given: parameters.len(),
            taken: kernel.parameters,
        });
    }
    if threads == 0 || threads > kernel.max_threads {
        return Err(Wrong::Threads {
            given: threads,
            most: kernel.max_threads,
        });
    }
    Ok(())
}
