//! Weights in safetensors files.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::safetensors::{Load, MmapedSafetensors, SliceSafetensors};
use candle_core::{DType, Device, Shape, Tensor};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder};
use cascade_gpu::{Content, Stored};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensorError};

use crate::{Error, ModelFile, Result};

/// Bytes of a safetensors file that hold the length of its header.
const PREFIX: u64 = 8;
/// The longest header that the format allows.
const MAX_HEADER: u64 = 100_000_000;
const DOWNLOAD_AGAIN: &str = "copy or download it again";

/// Where the weights of a model come from, whatever the device.
pub(crate) trait Provider: cascade_gpu::Weights {
    /// A builder for a model that computes in `dtype` on `device`; tensors are converted as they are read.
    fn var_builder(&self, dtype: DType, device: &Device) -> VarBuilder<'static>;

    /// Whether there is a tensor `name`.
    fn has(&self, name: &str) -> bool;
}

/// The tensors of one or more safetensors files, headers checked.
///
/// Hands out [`VarBuilder`]s that remember what went wrong, by file and tensor, and what was read. Files are mapped into
/// memory; tensors are copied to the device when they are asked for.
#[derive(Clone)]
pub(crate) struct Checkpoint {
    inner: Arc<Inner>,
}

struct Inner {
    shards: Vec<Shard>,
    /// Shard of each tensor. If two shards have a tensor of one name, the later one counts.
    routing: HashMap<String, usize>,
    record: Mutex<Record>,
}

struct Shard {
    file: String,
    data: Data,
}

enum Data {
    Mapped(MmapedSafetensors),
    Embedded(SliceSafetensors<'static>),
}

#[derive(Default)]
struct Record {
    used: HashSet<String>,
    failure: Option<Error>,
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
                record: Mutex::default(),
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
        let record = self.record();
        let all = self.inner.shards.iter().flat_map(Shard::tensors);
        all.filter(|(name, _)| !record.used.contains(name))
            .collect()
    }

    /// The first thing that went wrong in a [`VarBuilder`], better than its own account of it: it names file and tensor.
    /// Taken once.
    pub(crate) fn take_failure(&self) -> Option<Error> {
        self.record().failure.take()
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        let record = self.inner.record.lock();
        record.unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, expected: Option<&Shape>, name: &str, device: &Device) -> Result<Tensor> {
        Ok(self.view(expected, name)?.load(device)?)
    }

    /// The tensor `name` where it lies, of a type that can be converted.
    fn view(&self, expected: Option<&Shape>, name: &str) -> Result<TensorView<'_>> {
        let Some(&index) = self.inner.routing.get(name) else {
            return Err(Error::MissingTensor {
                files: self.files(),
                tensor: name.to_owned(),
                expected: expected.map_or_else(|| "of any size".to_owned(), show_shape),
            });
        };
        let view = self.inner.view(name)?;
        if let Some(expected) = expected.filter(|shape| shape.dims() != view.shape()) {
            let file = &self.inner.shards[index].file;
            return Err(Error::WrongShape {
                file: file.clone(),
                tensor: name.to_owned(),
                expected: show_shape(expected),
                found: show_shape(&Shape::from(view.shape())),
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

    fn serve(
        &self,
        expected: Option<&Shape>,
        name: &str,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Tensor> {
        let mut read = self.read(expected, name, device);
        if let Ok(tensor) = &read {
            read = tensor.to_dtype(dtype).map_err(Error::from);
        }
        let mut record = self.record();
        match read {
            Ok(tensor) => {
                record.used.insert(name.to_owned());
                Ok(tensor)
            }
            Err(error) => {
                let brief = candle_core::Error::Msg(error.to_string());
                record.failure.get_or_insert(error);
                Err(brief)
            }
        }
    }
}

impl Provider for Checkpoint {
    fn var_builder(&self, dtype: DType, device: &Device) -> VarBuilder<'static> {
        VarBuilder::from_backend(Box::new(self.clone()), dtype, device.clone())
    }

    fn has(&self, name: &str) -> bool {
        self.inner.routing.contains_key(name)
    }
}

impl cascade_gpu::Weights for Checkpoint {
    /// The tensor where it lies in the file.
    fn tensor(&self, name: &str, shape: &[usize]) -> cascade_gpu::Result<Content<'_>> {
        let expected = Shape::from(shape);
        let content = self.view(Some(&expected), name).and_then(|view| {
            let stored = match view.dtype() {
                Dtype::BF16 => Stored::Bf16,
                Dtype::F16 => Stored::F16,
                Dtype::F32 => Stored::F32,
                other => return Err(self.unsupported(name, other)),
            };
            // The view borrows from the files, which live as long as this checkpoint.
            Ok(Content::Numbers {
                stored,
                bytes: view.data(),
            })
        });
        let mut record = self.record();
        match content {
            Ok(content) => {
                record.used.insert(name.to_owned());
                Ok(content)
            }
            Err(error) => {
                let brief = error.to_string().into();
                record.failure.get_or_insert(error);
                Err(cascade_gpu::Error::Weights(brief))
            }
        }
    }
}

impl SimpleBackend for Checkpoint {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        _: Init,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Tensor> {
        self.serve(Some(&shape), name, dtype, device)
    }

    fn get_unchecked(
        &self,
        name: &str,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Tensor> {
        self.serve(None, name, dtype, device)
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.inner.routing.contains_key(name)
    }
}

impl Inner {
    fn view(&self, name: &str) -> Result<TensorView<'_>> {
        let index = self.routing.get(name).copied().unwrap_or_default();
        Ok(match &self.shards[index].data {
            Data::Mapped(tensors) => tensors.get(name)?,
            Data::Embedded(tensors) => tensors.get(name)?,
        })
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
    // SAFETY: the mapping must not change while it is read. We never write to it, and programs that write checkpoints
    // or fill the hub's cache make a new file and rename it. The mapping lives as long as loading does: tensors are
    // copied out of it. A file that is overwritten in place within that time gives wrong weights or a fault, as it does
    // in every program that maps weights.
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

fn show_shape(shape: &Shape) -> String {
    format!("{:?}", shape.dims())
}
