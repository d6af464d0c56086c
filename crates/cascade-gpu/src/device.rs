//! A device that kernels run on, and memory on it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytemuck::Pod;
use half::{bf16, f16};

use crate::driver::{Driver, Facts, Gpu, Graph};
use crate::launch::Launch;
use crate::{Address, DType, Result};

/// A device that kernels run on. Cloning gives another handle of the same.
#[derive(Clone, Debug)]
pub struct Device(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    driver: Box<dyn Driver>,
    /// Of [`Driver::facts`], which planning asks for often.
    slots: usize,
    /// Bytes of all buffers that there are.
    allocated: AtomicUsize,
    /// The most that they ever were.
    peak: AtomicUsize,
}

impl Device {
    /// The GPU number `ordinal`, as the driver counts. All handles of one GPU share its stream:
    /// what is launched through one comes before what is launched later through another.
    ///
    /// Whoever opens it first runs every kernel once, unless `CASCADE_GPU_SELF_TEST` is 0.
    ///
    /// # Errors
    /// [`Error::NoDriver`](crate::Error::NoDriver), [`Error::NoDevice`](crate::Error::NoDevice),
    /// [`Error::SelfTest`](crate::Error::SelfTest), and those of a driver or GPU that is too old.
    pub fn gpu(ordinal: usize) -> Result<Self> {
        static OPEN: Mutex<Vec<(usize, Weak<Shared>)>> = Mutex::new(Vec::new());
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(_, shared)| shared.strong_count() > 0);
        let known = open.iter().find(|&&(number, _)| number == ordinal);
        if let Some(shared) = known.and_then(|(_, shared)| shared.upgrade()) {
            return Ok(Self(shared));
        }
        let device = Self::of(Gpu::new(ordinal)?);
        if std::env::var_os("CASCADE_GPU_SELF_TEST").is_none_or(|value| value != "0") {
            device.check_kernels()?;
        }
        open.push((ordinal, Arc::downgrade(&device.0)));
        Ok(device)
    }

    /// A device behind another driver.
    pub fn of(driver: impl Driver + 'static) -> Self {
        Self(Arc::new(Shared {
            slots: driver.facts().slots,
            driver: Box::new(driver),
            allocated: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
        }))
    }

    fn driver(&self) -> &dyn Driver {
        &*self.0.driver
    }

    /// Its name.
    pub fn name(&self) -> String {
        self.facts().name
    }

    /// What it is and can do.
    pub fn facts(&self) -> Facts {
        self.driver().facts()
    }

    /// Blocks of a linear map that it holds at once.
    pub(crate) fn slots(&self) -> usize {
        self.0.slots
    }

    /// Bytes of its memory that are in use, by whomever, and all of them.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn memory(&self) -> Result<(usize, usize)> {
        self.driver().memory()
    }

    /// The most bytes that buffers took at once so far, those of other handles of the device
    /// included.
    pub fn peak(&self) -> usize {
        self.0.peak.load(Ordering::Relaxed)
    }

    /// Memory of `bytes` bytes, uninitialised.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub fn allocate(&self, bytes: usize) -> Result<Buffer> {
        let address = self.driver().allocate(bytes)?;
        let allocated = self.0.allocated.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.0.peak.fetch_max(allocated, Ordering::Relaxed);
        Ok(Buffer {
            device: self.clone(),
            address,
            bytes,
        })
    }

    /// Memory of `bytes` zeros.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate).
    pub(crate) fn zeroed(&self, bytes: usize) -> Result<Buffer> {
        let buffer = self.allocate(bytes)?;
        buffer.zero()?;
        Ok(buffer)
    }

    /// Memory that holds `values`.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate), and if the copy fails.
    pub fn upload(&self, values: &[impl Pod]) -> Result<Buffer> {
        let buffer = self.allocate(size_of_val(values))?;
        buffer.write(0, values)?;
        Ok(buffer)
    }

    /// Waits until everything launched is done.
    ///
    /// # Errors
    /// What launches failed with, which the driver reports only now.
    pub fn synchronize(&self) -> Result<()> {
        self.driver().synchronize()
    }

    /// Seconds that the device takes for what `work` launches.
    ///
    /// # Errors
    /// Those of `work`, and if the driver fails.
    pub fn time(&self, work: impl FnOnce() -> Result<()>) -> Result<f64> {
        let mut work = Some(work);
        self.driver()
            .time(&mut || work.take().map_or(Ok(()), |work| work()))
    }

    pub(crate) fn launch(&self, launch: &Launch) -> Result<()> {
        self.driver().launch(launch)
    }

    pub(crate) fn record(&self, launches: Vec<Launch>) -> Result<Program> {
        let graph = self.driver().record(&launches)?;
        Ok(Program { launches, graph })
    }

    pub(crate) fn run(&self, program: &Program) -> Result<()> {
        self.driver().run(&program.launches, program.graph.as_ref())
    }
}

/// Launches that are run as one: on a GPU a graph, which costs the host one call.
#[derive(Debug)]
pub(crate) struct Program {
    launches: Vec<Launch>,
    graph: Option<Graph>,
}

impl Program {
    pub(crate) fn launches(&self) -> &[Launch] {
        &self.launches
    }
}

/// Memory on a device, freed when it is dropped.
#[derive(Debug)]
pub struct Buffer {
    device: Device,
    address: Address,
    bytes: usize,
}

impl Buffer {
    /// Where it begins.
    pub(crate) fn address(&self) -> Address {
        self.address
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies `values` to where byte `at` is.
    ///
    /// # Errors
    /// If the driver fails.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn write(&self, at: usize, values: &[impl Pod]) -> Result<()> {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        assert!(at + bytes.len() <= self.bytes, "a write beyond a buffer");
        self.device
            .driver()
            .upload(self.address + at as Address, bytes)
    }

    /// Copies to `values` what lies from byte `at` on, once everything launched is done.
    ///
    /// # Errors
    /// What launches failed with, and if the driver fails.
    ///
    /// # Panics
    /// If there are not so many bytes.
    pub fn read(&self, at: usize, values: &mut [impl Pod]) -> Result<()> {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(values);
        assert!(at + bytes.len() <= self.bytes, "a read beyond a buffer");
        self.device
            .driver()
            .download(self.address + at as Address, bytes)
    }

    /// `count` activations from number `at` on, as they lie in memory in this type.
    pub(crate) fn activations(&self, dtype: DType, at: usize, count: usize) -> Result<Vec<f32>> {
        if dtype == DType::F32 {
            let mut values = vec![0f32; count];
            self.read(at * 4, &mut values)?;
            return Ok(values);
        }
        let mut halves = vec![0u16; count];
        self.read(at * 2, &mut halves)?;
        let to_f32 = |bits| match dtype {
            DType::F16 => f16::from_bits(bits).to_f32(),
            _ => bf16::from_bits(bits).to_f32(),
        };
        Ok(halves.into_iter().map(to_f32).collect())
    }

    /// Fills it with zeros.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn zero(&self) -> Result<()> {
        self.device.driver().zero(self.address, self.bytes)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let allocated = &self.device.0.allocated;
        allocated.fetch_sub(self.bytes, Ordering::Relaxed);
        self.device.driver().free(self.address);
    }
}
