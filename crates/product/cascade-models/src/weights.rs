//! Weights by name: from the files of a checkpoint, or from whoever has them.
//!
//! Each format has a reader ([`TensorFile`]) in a file of its own; a [`Checkpoint`] is one or more
//! files of one format.

mod bytes;
mod file;
mod finite;
mod pack;
mod pytorch;
mod rows;
mod safetensors;
mod tensors;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[cfg(feature = "gpu")]
use cascade_gpu::{StorageDType, TensorSource};
use cascade_hub::WeightFormat;

pub(crate) use self::bytes::Bytes;
pub(crate) use self::file::{Blocks, FloatType, Stored, TensorFile, TensorInfo};
pub(crate) use self::finite::{Named, Scales};
#[cfg(feature = "gpu")]
use self::pack::q8_0;
pub(crate) use self::pack::{fits, format_for, pack, pack_blocks, Held};
pub(crate) use self::rows::{Encoding, InPlace, Rows};
pub use self::tensors::{read_tensors, NamedTensor};
use crate::gguf::GgufWeights;
use crate::{DType, Device, Error, ModelFile, ModelFiles, Result};

/// Gives the weights of a model by name, as a checkpoint of Hugging Face names them.
pub trait WeightSource: Send + Sync {
    /// Whether there is a tensor `name`.
    fn has(&self, name: &str) -> bool;

    /// The values of the tensor `name`, row-major. NaN and infinities are refused where they would
    /// be rounded; else they show in the logits.
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

/// Where the weights of a model come from, whatever the backend. What files give is finite.
pub(crate) trait Provider {
    /// Whether there is a tensor `name`.
    fn has(&self, name: &str) -> bool;

    /// The tensor `name` in f32.
    fn read(&self, name: &str, shape: &[usize], role: Role) -> Result<Vec<f32>>;

    /// The matrix `name`, `[rows, inputs]`, where it lies, if it is there what it would be in
    /// memory.
    ///
    /// # Errors
    /// As [`pack`](Self::pack).
    fn rows(&self, _name: &str, _shape: [usize; 2], _dtype: DType) -> Result<Option<Rows>> {
        Ok(None)
    }

    /// The matrix `name`, `[outputs, inputs]`, as the CPU's kernels read it.
    fn pack(&self, name: &str, shape: [usize; 2], dtype: DType) -> Result<Held>;

    /// The same weights for GPUs.
    #[cfg(feature = "gpu")]
    fn for_gpu(&self) -> &dyn cascade_gpu::Weights;
}

/// Somebody's own weights.
pub(crate) struct Given<'a>(pub(crate) &'a dyn WeightSource);

impl Given<'_> {
    fn stored(&self, name: &str, shape: &[usize]) -> Result<Stored<'static>> {
        let values = self.0.values(name, shape)?;
        Ok(Stored {
            dtype: FloatType::F32,
            bytes: Cow::Owned(values.into_iter().flat_map(f32::to_le_bytes).collect()),
        })
    }

    fn named(tensor: &str) -> Named<'_> {
        Named { file: None, tensor }
    }
}

impl Provider for Given<'_> {
    fn has(&self, name: &str) -> bool {
        self.0.has(name)
    }

    fn read(&self, name: &str, shape: &[usize], _: Role) -> Result<Vec<f32>> {
        self.0.values(name, shape)
    }

    fn pack(&self, name: &str, shape: [usize; 2], dtype: DType) -> Result<Held> {
        pack(Self::named(name), &self.stored(name, &shape)?, shape, dtype)
    }

    #[cfg(feature = "gpu")]
    fn for_gpu(&self) -> &dyn cascade_gpu::Weights {
        self
    }
}

#[cfg(feature = "gpu")]
impl cascade_gpu::Weights for Given<'_> {
    fn tensor(&self, name: &str, shape: &[usize]) -> cascade_gpu::Result<TensorSource<'_>> {
        let stored = self.stored(name, shape).map_err(carried)?;
        Ok(TensorSource::Values {
            stored: StorageDType::F32,
            bytes: stored.bytes,
        })
    }

    fn blocks(&self, name: &str, shape: [usize; 2]) -> cascade_gpu::Result<TensorSource<'_>> {
        let stored = self.stored(name, &shape).map_err(carried)?;
        quantized(Self::named(name), &stored, shape)
    }
}

/// Blocks of 8 bits of values of any type, for the GPU's loader.
#[cfg(feature = "gpu")]
fn quantized(
    name: Named<'_>,
    stored: &Stored<'_>,
    shape: [usize; 2],
) -> cascade_gpu::Result<TensorSource<'static>> {
    let blocks = q8_0(name, stored, shape).map_err(carried)?;
    Ok(TensorSource::Values {
        stored: StorageDType::Q8,
        bytes: Cow::Owned(blocks),
    })
}

/// An error on its way through the GPU's loader, which [`Error`]'s conversion takes out again.
#[cfg(feature = "gpu")]
fn carried(error: Error) -> cascade_gpu::Error {
    cascade_gpu::Error::Weights(Box::new(error))
}

/// The tensors of one or more files.
///
/// Remembers which were read. Files are mapped into memory; tensors are copied to the device when
/// they are read, one at a time, but for [`Rows`], which keep the files open.
#[derive(Clone)]
pub(crate) struct Checkpoint {
    inner: Arc<Inner>,
}

struct Inner {
    files: Vec<Box<dyn TensorFile>>,
    tensors: HashMap<String, Entry>,
    /// Whether they are of a decoder without its head, as its base class saves them.
    headless: bool,
    /// Names of the tensors that were read.
    used: Mutex<HashSet<String>>,
}

/// Where a tensor is.
struct Entry {
    file: usize,
    /// What the file calls it.
    own: String,
    info: TensorInfo,
}

impl Checkpoint {
    /// Opens the weights of a model, and checks what the files say of their tensors. Reads no
    /// tensors.
    ///
    /// If two files have a tensor of one name, the index decides, else the later one counts.
    ///
    /// # Errors
    /// A file that cannot be read, is cut off, or is not of its format; a tensor that is not where
    /// the index says.
    pub(crate) fn open(model: &ModelFiles) -> Result<Self> {
        let files = open(model)?;
        let mut tensors = HashMap::new();
        for (index, file) in files.iter().enumerate() {
            for (name, info) in file.tensors() {
                match model.weight_map.get(&name) {
                    Some(&place) if place != index => {}
                    _ => {
                        let (file, own) = (index, name.clone());
                        tensors.insert(name, Entry { file, own, info });
                    }
                }
            }
        }
        let misplaced = |(name, &file): &(&String, &usize)| {
            tensors.get(*name).is_none_or(|entry| entry.file != file)
        };
        if let Some((name, &file)) = model.weight_map.iter().find(misplaced) {
            return Err(Error::MisplacedTensor {
                file: files[file].name().to_owned(),
                tensor: name.clone(),
            });
        }
        let headless = is_base_model(&tensors);
        Ok(Self {
            inner: Arc::new(Inner {
                files,
                tensors: match headless {
                    true => with_prefix(tensors),
                    false => tensors,
                },
                headless,
                used: Mutex::default(),
            }),
        })
    }

    /// The files, joined for messages.
    pub(crate) fn files(&self) -> String {
        let files: Vec<&str> = self.inner.files.iter().map(|file| file.name()).collect();
        match files.as_slice() {
            [first, .., last] => format!("{first} … {last}"),
            files => files.concat(),
        }
    }

    /// Names of the tensors that were not read so far, in order.
    pub(crate) fn unused(&self) -> BTreeSet<String> {
        let used = self.used();
        let names = self.inner.tensors.keys();
        names
            .filter(|name| !used.contains(*name))
            .cloned()
            .collect()
    }

    /// What the user should know of the files, in sentences.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> + '_ {
        self.inner.files.iter().filter_map(|file| file.note())
    }

    /// What the files say of their tensors, by name.
    pub(crate) fn infos(&self) -> BTreeMap<String, TensorInfo> {
        let all = self.inner.tensors.iter();
        all.map(|(name, entry)| (name.clone(), entry.info.clone()))
            .collect()
    }

    /// What a model of these weights computes in on a device where `dtype` is asked for: on a GPU,
    /// [`DType::Stored`] is what all matrices have, or bf16.
    pub(crate) fn dtype_on(&self, device: &Device, dtype: DType) -> DType {
        if device.is_cpu() || dtype != DType::Stored {
            return dtype;
        }
        // Tables of biases by distance are read in f32 whatever they are in.
        let is_matrix = |(name, entry): &(&String, &Entry)| {
            entry.info.shape.len() == 2 && !name.contains("relative_attention_bias")
        };
        let entries = self.inner.tensors.iter().filter(is_matrix);
        let mut matrices = entries.map(|(_, entry)| &entry.info);
        let Some(first) = matrices.next() else {
            return DType::BF16;
        };
        match (
            matrices.all(|info| info.dtype == first.dtype),
            &*first.dtype,
        ) {
            (true, "F32" | "F64") => DType::F32,
            (true, "F16") => DType::F16,
            (true, "Q8_0") => DType::Q8_0,
            _ => DType::BF16,
        }
    }

    fn used(&self) -> MutexGuard<'_, HashSet<String>> {
        self.inner
            .used
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the tensor `name` is, which has the shape that is expected.
    fn entry(&self, name: &str, expected: &[usize]) -> Result<&Entry> {
        let Some(entry) = self.inner.tensors.get(name) else {
            if self.inner.headless && name == HEAD {
                return Err(Error::NoHead {
                    files: self.files(),
                });
            }
            return Err(Error::MissingTensor {
                files: self.files(),
                tensor: name.to_owned(),
                expected: format!("{expected:?}"),
            });
        };
        let file = &self.inner.files[entry.file];
        if entry.info.shape != expected {
            return Err(Error::WrongShape {
                file: file.name().to_owned(),
                tensor: name.to_owned(),
                expected: format!("{expected:?}"),
                found: format!("{:?}", entry.info.shape),
            });
        }
        Ok(entry)
    }

    /// What messages call the tensor `tensor`.
    fn named<'a>(&'a self, tensor: &'a str) -> Named<'a> {
        let entry = self.inner.tensors.get(tensor);
        Named {
            file: entry.map(|entry| self.inner.files[entry.file].name()),
            tensor: entry.map_or(tensor, |entry| &entry.own),
        }
    }

    /// The values of the tensor `name`, all of them finite, where they lie if they can be taken as
    /// they are.
    pub(crate) fn finite(&self, name: &str, expected: &[usize]) -> Result<Stored<'_>> {
        let stored = self.load(name, expected)?;
        stored.finite(self.named(name), expected)?;
        Ok(stored)
    }

    /// The same, whatever the values are.
    pub(crate) fn load(&self, name: &str, expected: &[usize]) -> Result<Stored<'_>> {
        let entry = self.entry(name, expected)?;
        let file = &self.inner.files[entry.file];
        let stored = file
            .load(&entry.own)?
            .ok_or_else(|| Error::UnsupportedTensorType {
                file: file.name().to_owned(),
                tensor: name.to_owned(),
                dtype: entry.info.dtype.clone(),
            })?;
        self.used().insert(name.to_owned());
        Ok(stored)
    }
}

/// The tensor that gives logits.
pub(crate) const HEAD: &str = "lm_head.weight";
/// What tensors of a decoder are called in the class that adds a head to it.
const PREFIX: &str = "model.";

/// Whether tensors are called as the base class of a decoder calls them.
fn is_base_model(tensors: &HashMap<String, Entry>) -> bool {
    let prefixed = |name: &String| name.starts_with(PREFIX);
    tensors.contains_key("embed_tokens.weight") && !tensors.keys().any(prefixed)
}

/// The same tensors as the class calls them that has a head too.
fn with_prefix(tensors: HashMap<String, Entry>) -> HashMap<String, Entry> {
    let renamed = |(name, entry): (String, Entry)| match name.starts_with("lm_head.") {
        true => (name, entry),
        false => (format!("{PREFIX}{name}"), entry),
    };
    tensors.into_iter().map(renamed).collect()
}

fn open(model: &ModelFiles) -> Result<Vec<Box<dyn TensorFile>>> {
    match model.weight_format {
        // The parts of a model tell only together what they are.
        WeightFormat::Gguf => Ok(vec![Box::new(GgufWeights::open(&model.weights)?)]),
        format => model
            .weights
            .iter()
            .map(|file| open_file(format, file))
            .collect(),
    }
}

fn open_file(format: WeightFormat, file: &ModelFile) -> Result<Box<dyn TensorFile>> {
    match format {
        WeightFormat::Safetensors => Ok(Box::new(safetensors::Safetensors::open(file)?)),
        WeightFormat::PyTorch => Ok(Box::new(pytorch::PyTorch::open(file)?)),
        other => Err(Error::UnsupportedWeights {
            file: file.to_string(),
            format: format!("{other:?}"),
        }),
    }
}

impl Provider for Checkpoint {
    fn has(&self, name: &str) -> bool {
        self.inner.tensors.contains_key(name)
    }

    fn read(&self, name: &str, shape: &[usize], _: Role) -> Result<Vec<f32>> {
        let stored = self.finite(name, shape)?;
        Ok(stored.dtype.to_f32(&stored.bytes))
    }

    fn rows(&self, name: &str, shape: [usize; 2], dtype: DType) -> Result<Option<Rows>> {
        self.entry(name, &shape)?;
        let place = self.in_place(name);
        let Some(place) = place.filter(|place| place.encoding.is(dtype)) else {
            return Ok(None);
        };
        place.check(self.named(name), &shape)?;
        self.let_go(name);
        self.used().insert(name.to_owned());
        Ok(Some(Rows::new(self.clone(), name, shape)))
    }

    fn pack(&self, name: &str, shape: [usize; 2], dtype: DType) -> Result<Held> {
        let held = self.packed(name, shape, dtype)?;
        self.let_go(name);
        Ok(held)
    }

    #[cfg(feature = "gpu")]
    fn for_gpu(&self) -> &dyn cascade_gpu::Weights {
        self
    }
}

impl Checkpoint {
    /// Gives up memory in which a tensor was read.
    fn let_go(&self, name: &str) {
        if let Some(entry) = self.inner.tensors.get(name) {
            self.inner.files[entry.file].let_go(&entry.own);
        }
    }

    /// A tensor where it lies, if its rows can be read there.
    fn in_place(&self, name: &str) -> Option<InPlace<'_>> {
        let entry = self.inner.tensors.get(name)?;
        self.inner.files[entry.file].in_place(&entry.own)
    }

    fn packed(&self, name: &str, shape: [usize; 2], dtype: DType) -> Result<Held> {
        let entry = self.entry(name, &shape)?;
        let file = &self.inner.files[entry.file];
        if let Some(blocks) = file.blocks(&entry.own, dtype)? {
            self.used().insert(name.to_owned());
            return pack_blocks(self.named(name), &blocks, shape);
        }
        let mut held = pack(self.named(name), &self.load(name, &shape)?, shape, dtype)?;
        let stored = &entry.info.dtype;
        if dtype == DType::Stored && held.note.is_none() && !is_float(stored) {
            held.note = Some(format!(
                "f32 instead of {stored}, which there are no kernels for"
            ));
        }
        Ok(held)
    }
}

#[cfg(feature = "gpu")]
impl cascade_gpu::Weights for Checkpoint {
    /// The tensor where it lies in the file, if the GPU knows its type.
    fn tensor(&self, name: &str, shape: &[usize]) -> cascade_gpu::Result<TensorSource<'_>> {
        let values = self.finite(name, shape).map_err(carried)?;
        let (stored, bytes) = match values.dtype {
            FloatType::BF16 => (StorageDType::BF16, values.bytes),
            FloatType::F16 => (StorageDType::F16, values.bytes),
            FloatType::F32 => (StorageDType::F32, values.bytes),
            FloatType::F64 => (StorageDType::F32, Cow::Owned(narrowed(&values.bytes))),
        };
        Ok(TensorSource::Values { stored, bytes })
    }

    /// Those of the file, if it has them; else what the CPU's quantizer makes of the values.
    fn blocks(&self, name: &str, shape: [usize; 2]) -> cascade_gpu::Result<TensorSource<'_>> {
        let entry = self.entry(name, &shape).map_err(carried)?;
        let file = &self.inner.files[entry.file];
        let Some(blocks) = file.blocks(&entry.own, DType::Q8_0).map_err(carried)? else {
            let values = self.load(name, &shape).map_err(carried)?;
            return quantized(self.named(name), &values, shape);
        };
        let scales = Scales::of_format(blocks.format);
        let checked = self.named(name).check_blocks(scales, &blocks.bytes, &shape);
        checked.map_err(carried)?;
        self.used().insert(name.to_owned());
        Ok(TensorSource::Values {
            stored: StorageDType::Q8,
            bytes: blocks.bytes,
        })
    }
}

/// Whether a format calls numbers so that are not packed in blocks.
fn is_float(dtype: &str) -> bool {
    matches!(dtype, "F64" | "F32" | "F16" | "BF16")
}

/// f64 as f32.
#[cfg(feature = "gpu")]
fn narrowed(bytes: &[u8]) -> Vec<u8> {
    let (values, _) = bytes.as_chunks::<8>();
    let narrow = |value: &[u8; 8]| (f64::from_le_bytes(*value) as f32).to_le_bytes();
    values.iter().flat_map(narrow).collect()
}
