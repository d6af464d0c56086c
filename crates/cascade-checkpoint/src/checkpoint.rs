//! Weights by name, from the files of a checkpoint.

mod leftovers;
mod rows;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cascade_hub::{ModelFile, ModelFiles, WeightFormat};

pub use self::leftovers::Leftovers;
pub use self::rows::Rows;
use crate::dtype::each;
use crate::finite::Named;
use crate::tensor::{Blocks, Order, Stored, Tensor, TensorInfo, WeightFile};
use crate::{DType, Error, ErrorKind, FloatType, Result};

/// The tensors of one or more files.
///
/// Remembers which were read. Files are mapped into memory; tensors are copied to the device when
/// they are read, one at a time, but for [`Rows`], which keep the files open.
#[derive(Clone)]
pub struct Checkpoint {
    inner: Arc<Inner>,
}

struct Inner {
    files: Vec<WeightFile>,
    tensors: HashMap<String, Entry>,
    /// Whether they are of a decoder without its head, as its base class saves them.
    headless: bool,
    /// Names of the tensors that were read.
    used: Mutex<HashSet<String>>,
}

/// Where a tensor is.
struct Entry {
    /// The number of its file.
    file: usize,
    /// What the file calls it.
    own: String,
    tensor: Tensor,
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
    pub fn open(model: &ModelFiles) -> Result<Self> {
        let mut inner = Inner::open(model.weight_format, &model.weights, &model.weight_map)?;
        if is_base_model(&inner.tensors) {
            inner.headless = true;
            inner.tensors = with_prefix(inner.tensors);
        }
        Ok(Self::of(inner))
    }

    /// Opens the files of something that is not a model, such as a drafting head: tensors keep the
    /// names that the files have for them.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_as_named(model: &ModelFiles) -> Result<Self> {
        Inner::open(model.weight_format, &model.weights, &model.weight_map).map(Self::of)
    }

    /// A file that belongs to no model.
    pub(crate) fn open_file(format: WeightFormat, file: ModelFile) -> Result<Self> {
        Inner::open(format, &[file], &BTreeMap::new()).map(Self::of)
    }

    fn of(inner: Inner) -> Self {
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The files, joined for messages.
    pub fn files(&self) -> String {
        let files: Vec<&str> = self.inner.files.iter().map(|file| &*file.name).collect();
        match files.as_slice() {
            [first, .., last] => format!("{first} … {last}"),
            files => files.concat(),
        }
    }

    /// Names of the tensors that were not read so far, in order.
    pub fn unused(&self) -> BTreeSet<String> {
        let used = self.used();
        let names = self.inner.tensors.keys();
        names
            .filter(|name| !used.contains(*name))
            .cloned()
            .collect()
    }

    /// What the user should know of the files, in sentences.
    pub fn notes(&self) -> impl Iterator<Item = String> + '_ {
        let files = self.inner.files.iter();
        files.filter_map(|file| file.note.clone())
    }

    /// What the files say of their tensors, by name.
    pub fn infos(&self) -> BTreeMap<String, TensorInfo> {
        let all = self.inner.tensors.iter();
        all.map(|(name, entry)| (name.clone(), entry.tensor.info.clone()))
            .collect()
    }

    fn used(&self) -> MutexGuard<'_, HashSet<String>> {
        self.inner
            .used
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn mark_used(&self, name: &str) {
        self.used().insert(name.to_owned());
    }

    /// The tensor `name`, which has the shape that is expected, and its file.
    fn tensor(&self, name: &str, expected: &[usize]) -> Result<(&WeightFile, &Tensor)> {
        let Some(entry) = self.inner.tensors.get(name) else {
            if self.inner.headless && name == HEAD {
                return Err(self.no_head());
            }
            let found = format!("{} has no tensor {name}", self.files());
            let asked = format!("which config.json asks for with shape {expected:?}");
            return Err(other_model(&format!("{found}, {asked}")));
        };
        let (file, shape) = (&self.inner.files[entry.file], &entry.tensor.info.shape);
        if shape != expected {
            let found = format!("{}: tensor {name} has shape {shape:?}", file.name);
            let asked = format!("but config.json asks for {expected:?}");
            return Err(other_model(&format!("{found}, {asked}")));
        }
        Ok((file, &entry.tensor))
    }

    /// The weights are those of a base class, which has no head to generate with.
    fn no_head(&self) -> Error {
        let message = format!(
            "{} has no lm_head.weight: it was saved from the model without its head, and config.json does not say that \
             its embedding is the head (tie_word_embeddings); take a model that generates",
            self.files()
        );
        Error::new(ErrorKind::Mismatch, message)
    }

    /// Whether there is a tensor `name`.
    pub fn has(&self, name: &str) -> bool {
        self.inner.tensors.contains_key(name)
    }

    /// What messages call the tensor `tensor`.
    pub fn named<'a>(&'a self, tensor: &'a str) -> Named<'a> {
        let entry = self.inner.tensors.get(tensor);
        Named {
            file: entry.map(|entry| &*self.inner.files[entry.file].name),
            tensor: entry.map_or(tensor, |entry| &entry.own),
        }
    }

    /// The values of the tensor `name`, all of them finite, where they lie if they can be taken as
    /// they are.
    pub fn finite(&self, name: &str, expected: &[usize]) -> Result<Stored<'_>> {
        let stored = self.load(name, expected)?;
        let named = self.named(name);
        named.check(stored.dtype, &stored.bytes, expected)?;
        Ok(stored)
    }

    /// The values of the list `name`, whole numbers of 64 bits.
    ///
    /// # Errors
    /// If it is missing, or of another length or type.
    pub fn longs(&self, name: &str, length: usize) -> Result<Vec<i64>> {
        let (file, tensor) = self.tensor(name, &[length])?;
        if tensor.info.dtype != "I64" {
            return Err(Error::tensor_type(&file.name, name, &tensor.info.dtype));
        }
        let bytes = file.values(tensor)?;
        self.mark_used(name);
        Ok(each(&bytes, i64::from_le_bytes))
    }

    /// Reads a tensor, whatever its values are: floats as they are stored, others as f32.
    pub fn load(&self, name: &str, expected: &[usize]) -> Result<Stored<'_>> {
        let (file, tensor) = self.tensor(name, expected)?;
        let Some(kind) = tensor.kind else {
            return Err(Error::tensor_type(&file.name, name, &tensor.info.dtype));
        };
        let bytes = file.values(tensor)?;
        self.mark_used(name);
        Ok(match kind.as_float() {
            Some(dtype) => Stored { dtype, bytes },
            None => Stored {
                dtype: FloatType::F32,
                bytes: Cow::Owned(kind.unpack(&bytes)),
            },
        })
    }

    /// The matrix `name`, `[rows, inputs]`, where it lies, if its rows there are what they would be
    /// in memory in `dtype`. All its numbers were looked at.
    ///
    /// # Errors
    /// If it is missing, has another shape, or numbers that are not finite.
    pub fn rows(&self, name: &str, shape: [usize; 2], dtype: DType) -> Result<Option<Rows>> {
        let (file, tensor) = self.tensor(name, &shape)?;
        let kind = tensor.kind.filter(|kind| kind.is_held_in(dtype));
        let (Some(kind), Order::Rows) = (kind, &tensor.order) else {
            return Ok(None);
        };
        kind.check(self.named(name), file.bytes(tensor), &shape)?;
        file.let_go(tensor);
        self.mark_used(name);
        Ok(Some(Rows {
            name: name.to_owned(),
            inner: Arc::clone(&self.inner),
            kind,
            shape,
        }))
    }

    /// The blocks of the matrix `name`, `[outputs, inputs]`, if `dtype` takes those of the file as
    /// they are, or without loss in another format. Nobody has looked at their scales.
    ///
    /// # Errors
    /// If it is missing or has another shape, or cannot be read.
    pub fn blocks(
        &self,
        name: &str,
        shape: [usize; 2],
        dtype: DType,
    ) -> Result<Option<Blocks<'_>>> {
        let (file, tensor) = self.tensor(name, &shape)?;
        let as_blocks = tensor.kind.and_then(|kind| Some((kind, kind.as_blocks()?)));
        let taken = as_blocks.filter(|(_, format)| dtype.takes(*format));
        let Some((kind, format)) = taken else {
            return Ok(None);
        };
        let mut bytes = file.values(tensor)?;
        if kind.format() != Some(format) {
            bytes = Cow::Owned(kind.widened(&bytes));
        }
        self.mark_used(name);
        Ok(Some(Blocks { format, bytes }))
    }

    /// Gives up memory in which a tensor was read.
    pub fn let_go(&self, name: &str) {
        if let Some(entry) = self.inner.tensors.get(name) {
            self.inner.files[entry.file].let_go(&entry.tensor);
        }
    }
}

/// Weights that config.json does not describe.
fn other_model(difference: &str) -> Error {
    let cure = "config.json does not describe these weights; take both from the same model";
    Error::new(ErrorKind::Mismatch, format!("{difference}: {cure}"))
}

/// The tensor that gives logits.
pub const HEAD: &str = "lm_head.weight";
/// What tensors of a decoder are called in the class that adds a head to it.
const PREFIX: &str = "model.";

/// Whether tensors are called as the base class of a decoder calls them.
fn is_base_model(tensors: &HashMap<String, Entry>) -> bool {
    let prefixed = |name: &String| name.starts_with(PREFIX);
    tensors.contains_key("embed_tokens.weight") && !tensors.keys().any(prefixed)
}

/// The tensors under the names that the class with a head has for them.
fn with_prefix(tensors: HashMap<String, Entry>) -> HashMap<String, Entry> {
    let renamed = |(name, entry): (String, Entry)| {
        if name.starts_with("lm_head.") {
            (name, entry)
        } else {
            (format!("{PREFIX}{name}"), entry)
        }
    };
    tensors.into_iter().map(renamed).collect()
}

impl Inner {
    /// Opens files of a format, and finds their tensors: where an index says, if there is one.
    fn open(
        format: WeightFormat,
        files: &[ModelFile],
        index: &BTreeMap<String, usize>,
    ) -> Result<Self> {
        let mut files = WeightFile::open(format, files)?;
        let mut tensors = HashMap::new();
        for (file, opened) in files.iter_mut().enumerate() {
            for (own, tensor) in std::mem::take(&mut opened.tensors) {
                if index.get(&own).is_none_or(|&place| place == file) {
                    tensors.insert(own.clone(), Entry { file, own, tensor });
                }
            }
        }
        let mut missing = index
            .iter()
            .filter(|(name, _)| !tensors.contains_key(*name));
        if let Some((name, &file)) = missing.next() {
            let message = format!(
                "{} has no tensor {name}, and the index beside it says that it has: they are not of one model; copy or \
                 download all of them again",
                files[file].name
            );
            return Err(Error::new(ErrorKind::Mismatch, message));
        }
        Ok(Self {
            files,
            tensors,
            headless: false,
            used: Mutex::default(),
        })
    }
}
