//! Weights by name: from safetensors files, or from whoever has them.

#[cfg(feature = "gpu")]
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::safetensors::{Load, MmapedSafetensors, SliceSafetensors};
use candle_core::{CpuStorage, Device, Result as TensorResult, Storage, Tensor};
#[cfg(feature = "gpu")]
use cascade_gpu::{StorageDType, TensorSource};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensorError};

use crate::{DType, Error, ModelFile, Result};

/// Bytes of a safetensors file that hold the length of its header.
const PREFIX: u64 = 8;
/// The longest header that the format allows.
const MAX_HEADER: u64 = 100_000_000;
const DOWNLOAD_AGAIN: &str = "copy or download it again";

/// Gives the weights of a model by name, as a checkpoint of Hugging Face names them.
pub trait WeightSource: Send + Sync {
    /// Whether there is a tensor `name`.
    fn has(&self, name: &str) -> bool;

    /// The values of the tensor `name`, row-major.
    ///
    /// # Errors
    /// If it is missing or has another shape.
    fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>>;
}

/// What a tensor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A linear map or a table, `[outputs, inputs]`.
    Matrix,
    /// The bias of a linear map.
    Bias,
    /// The weight of a norm.
    Norm,
}

/// Where the weights of a model come from, whatever the backend.
pub(crate) trait Provider {
    /// Whether there is a tensor `name`.
    fn has(&self, name: &str) -> bool;

    /// The tensor `name` on the host, converted to `dtype`.
    fn read(&self, name: &str, shape: &[usize], role: Role, dtype: DType) -> Result<Tensor>;

    /// The same weights for GPUs.
    #[cfg(feature = "gpu")]
    fn for_gpu(&self) -> &dyn cascade_gpu::Weights;
}

/// Calls `read` with the values of a tensor in f32, without copying them if they are contiguous.
pub(crate) fn with_values<T>(tensor: &Tensor, read: impl FnOnce(&[f32]) -> T) -> TensorResult<T> {
    let tensor = tensor.to_dtype(candle_core::DType::F32)?.contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    let start = layout.start_offset();
    if let Storage::Cpu(CpuStorage::F32(values)) = &*storage {
        return Ok(read(&values[start..start + layout.shape().elem_count()]));
    }
    drop(storage);
    Ok(read(&tensor.flatten_all()?.to_vec1()?))
}

/// The values of a tensor in f32.
pub(crate) fn values(tensor: &Tensor) -> Result<Vec<f32>> {
    with_values(tensor, <[f32]>::to_vec).map_err(Error::tensor)
}

/// Somebody's own weights.
pub(crate) struct Given<'a>(pub(crate) &'a dyn WeightSource);

impl Provider for Given<'_> {
    fn has(&self, name: &str) -> bool {
        self.0.has(name)
    }

    fn read(&self, name: &str, shape: &[usize], _: Role, dtype: DType) -> Result<Tensor> {
        let tensor = Tensor::from_vec(self.0.values(name, shape)?, shape, &Device::Cpu);
        let converted = tensor.and_then(|tensor| tensor.to_dtype(dtype.tensor_type()));
        converted.map_err(Error::tensor)
    }

    #[cfg(feature = "gpu")]
    fn for_gpu(&self) -> &dyn cascade_gpu::Weights {
        self
    }
}

#[cfg(feature = "gpu")]
impl cascade_gpu::Weights for Given<'_> {
    fn tensor(&self, name: &str, shape: &[usize]) -> cascade_gpu::Result<TensorSource<'_>> {
        let values = self.0.values(name, shape).map_err(carried)?;
        Ok(TensorSource::Values {
            stored: StorageDType::F32,
            bytes: Cow::Owned(values.into_iter().flat_map(f32::to_le_bytes).collect()),
        })
    }
}

/// An error on its way through the GPU's loader, which [`Error`]'s conversion takes out again.
#[cfg(feature = "gpu")]
fn carried(error: Error) -> cascade_gpu::Error {
    cascade_gpu::Error::Weights(Box::new(error))
}

/// The tensors of one or more safetensors files, headers checked.
///
/// Remembers which were read. Files are mapped into memory; tensors are copied to the device when
/// they are read.
#[derive(Clone)]
pub(crate) struct Checkpoint {
    inner: Arc<Inner>,
}

struct Inner {
    shards: Vec<Shard>,
    /// Shard of each tensor. If two shards have a tensor of one name, the later one counts.
    routing: HashMap<String, usize>,
    /// Names of the tensors that were read.
    used: Mutex<HashSet<String>>,
}

struct Shard {
    file: String,
    data: Data,
}

enum Data {
    Mapped(MmapedSafetensors),
    Embedded(SliceSafetensors<'static>),
}

impl Checkpoint {
    /// Opens the files and checks their headers against their lengths. Reads the headers only.
    ///
    /// # Errors
    /// A file that cannot be read, is cut off, or is no safetensors file.
    pub(crate) fn open(files: &[ModelFile]) -> Result<Self> {
        let mut shards = Vec::with_capacity(files.len());
        let mut routing = HashMap::new();
        for file in files {
            let shard = Shard::open(file)?;
            for (name, _) in shard.tensors() {
                routing.insert(name, shards.len());
            }
            shards.push(shard);
        }
        Ok(Self {
            inner: Arc::new(Inner {
                shards,
                routing,
                used: Mutex::default(),
            }),
        })
    }

    /// The files, joined for messages.
    pub(crate) fn files(&self) -> String {
        let files: Vec<&str> = self.inner.shards.iter().map(|s| s.file.as_str()).collect();
        match files.as_slice() {
            [first, .., last] => format!("{first} … {last}"),
            files => files.concat(),
        }
    }

    /// Names and shapes of the tensors that were not read so far.
    pub(crate) fn unused(&self) -> BTreeMap<String, Vec<usize>> {
        let used = self.used();
        let all = self.inner.shards.iter().flat_map(Shard::tensors);
        all.filter(|(name, _)| !used.contains(name)).collect()
    }

    fn used(&self) -> MutexGuard<'_, HashSet<String>> {
        self.inner
            .used
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The tensor `name` where it lies, of a type that can be converted.
    fn view(&self, expected: &[usize], name: &str) -> Result<TensorView<'_>> {
        let Some(&index) = self.inner.routing.get(name) else {
            return Err(Error::MissingTensor {
                files: self.files(),
                tensor: name.to_owned(),
                expected: format!("{expected:?}"),
            });
        };
        let view = self.inner.view(name)?;
        if view.shape() != expected {
            return Err(Error::WrongShape {
                file: self.inner.shards[index].file.clone(),
                tensor: name.to_owned(),
                expected: format!("{expected:?}"),
                found: format!("{:?}", view.shape()),
            });
        }
        if !matches!(
            view.dtype(),
            Dtype::F32 | Dtype::F16 | Dtype::BF16 | Dtype::F64
        ) {
            return Err(self.unsupported(name, view.dtype()));
        }
        Ok(view)
    }

    fn unsupported(&self, name: &str, dtype: Dtype) -> Error {
        let shard = self.inner.routing.get(name).copied().unwrap_or_default();
        Error::UnsupportedTensorType {
            file: self.inner.shards[shard].file.clone(),
            tensor: name.to_owned(),
            dtype: dtype.to_string(),
        }
    }
}

impl Provider for Checkpoint {
    fn has(&self, name: &str) -> bool {
        self.inner.routing.contains_key(name)
    }

    fn read(&self, name: &str, shape: &[usize], _: Role, dtype: DType) -> Result<Tensor> {
        let tensor = self.view(shape, name)?.load(&Device::Cpu);
        let converted = tensor.and_then(|tensor| tensor.to_dtype(dtype.tensor_type()));
        self.used().insert(name.to_owned());
        converted.map_err(Error::tensor)
    }

    #[cfg(feature = "gpu")]
    fn for_gpu(&self) -> &dyn cascade_gpu::Weights {
        self
    }
}

#[cfg(feature = "gpu")]
impl cascade_gpu::Weights for Checkpoint {
    /// The tensor where it lies in the file.
    fn tensor(&self, name: &str, shape: &[usize]) -> cascade_gpu::Result<TensorSource<'_>> {
        let view = self.view(shape, name).map_err(carried)?;
        let stored = match view.dtype() {
            Dtype::BF16 => StorageDType::BF16,
            Dtype::F16 => StorageDType::F16,
            Dtype::F32 => StorageDType::F32,
            other => return Err(carried(self.unsupported(name, other))),
        };
        self.used().insert(name.to_owned());
        Ok(TensorSource::Values {
            stored,
            // The view borrows from the files, which live as long as this checkpoint.
            bytes: Cow::Borrowed(view.data()),
        })
    }
}

impl Inner {
    fn view(&self, name: &str) -> Result<TensorView<'_>> {
        let index = self.routing.get(name).copied().unwrap_or_default();
        let view = match &self.shards[index].data {
            Data::Mapped(tensors) => tensors.get(name),
            Data::Embedded(tensors) => tensors.get(name),
        };
        view.map_err(Error::tensor)
    }
}

impl Shard {
    fn open(file: &ModelFile) -> Result<Self> {
        let data = match file {
            ModelFile::Disk(path) => Data::Mapped(map(path, file)?),
            ModelFile::Embedded { bytes, .. } => {
                check(file, bytes.len() as u64, &mut &bytes[..])?;
                let tensors = SliceSafetensors::new(bytes);
                Data::Embedded(tensors.map_err(|error| corrupt(file, explain(&error)))?)
            }
        };
        Ok(Self {
            file: file.to_string(),
            data,
        })
    }

    fn tensors(&self) -> Vec<(String, Vec<usize>)> {
        let tensors = match &self.data {
            Data::Mapped(tensors) => tensors.tensors(),
            Data::Embedded(tensors) => tensors.tensors(),
        };
        let shape = |(name, view): (String, TensorView<'_>)| (name, view.shape().to_vec());
        tensors.into_iter().map(shape).collect()
    }
}

#[allow(unsafe_code)]
fn map(path: &Path, file: &ModelFile) -> Result<MmapedSafetensors> {
    let io = |source| Error::Io {
        file: file.to_string(),
        source,
    };
    let mut reader = File::open(path).map_err(io)?;
    let length = reader.metadata().map_err(io)?.len();
    check(file, length, &mut reader)?;
    // SAFETY: the mapping must not change while it is read. We never write to it, and programs that
    // write checkpoints or fill the hub's cache make a new file and rename it. The mapping lives as
    // long as loading does: tensors are copied out of it. A file that is overwritten in place
    // within that time gives wrong weights or a fault, as it does in every program that maps
    // weights.
    let mapped = unsafe { MmapedSafetensors::new(path) };
    mapped.map_err(|error| corrupt(file, explain(&error)))
}

/// Checks the length of a file against what its header says, for errors better than the parser's.
fn check(file: &ModelFile, length: u64, reader: &mut impl Read) -> Result<()> {
    let wrong_length = |expected| Error::WrongLength {
        file: file.to_string(),
        expected,
        found: length,
    };
    let io = |source| Error::Io {
        file: file.to_string(),
        source,
    };
    if length < PREFIX {
        return Err(wrong_length(PREFIX));
    }
    let mut prefix = [0; PREFIX as usize];
    reader.read_exact(&mut prefix).map_err(io)?;
    if &prefix == b"version " {
        return Err(Error::CorruptWeights {
            file: file.to_string(),
            reason: "it is a pointer that git leaves in place of a large file".to_owned(),
            cure: "run `git lfs pull` in its folder, or download the file itself",
        });
    }
    let header = u64::from_le_bytes(prefix);
    if header > MAX_HEADER {
        let reason = format!("its first 8 bytes say that its header takes {header} bytes");
        return Err(corrupt(file, reason));
    }
    if PREFIX + header > length {
        return Err(wrong_length(PREFIX + header));
    }
    let mut json = vec![0; header as usize];
    reader.read_exact(&mut json).map_err(io)?;
    match data_length(&json) {
        Some(data) if PREFIX.saturating_add(header).saturating_add(data) != length => Err(
            wrong_length(PREFIX.saturating_add(header).saturating_add(data)),
        ),
        // A header that is damaged in another way is for the parser to explain.
        _ => Ok(()),
    }
}

/// Where the last tensor ends, counted from the end of the header.
fn data_length(header: &[u8]) -> Option<u64> {
    let header: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(header).ok()?;
    let ends = header.iter().filter(|(name, _)| *name != "__metadata__");
    ends.map(|(_, tensor)| tensor.get("data_offsets")?.get(1)?.as_u64())
        .try_fold(0, |most: u64, end| Some(most.max(end?)))
}

fn corrupt(file: &ModelFile, reason: String) -> Error {
    Error::CorruptWeights {
        file: file.to_string(),
        reason,
        cure: DOWNLOAD_AGAIN,
    }
}

/// The parser's own words, without the path that candle puts around them.
fn explain(error: &candle_core::Error) -> String {
    match error {
        candle_core::Error::WithPath { inner, .. }
        | candle_core::Error::WithBacktrace { inner, .. } => explain(inner),
        candle_core::Error::SafeTensor(SafeTensorError::InvalidOffset(name)) => {
            format!("the place of tensor {name} is not where the tensor before it ends")
        }
        candle_core::Error::SafeTensor(error) => error.to_string(),
        error => error.to_string(),
    }
}
