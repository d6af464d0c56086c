//! Weights by name, from the files of a checkpoint.
//!
//! Each format has a reader ([`TensorFile`]) in a file of its own; a [`Checkpoint`] is one or more
//! files of one format.

mod leftovers;
mod rows;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cascade_hub::{ModelFile, ModelFiles, WeightFormat};

pub use self::leftovers::Leftovers;
pub use self::rows::Rows;
use crate::finite::Named;
use crate::gguf::GgufWeights;
use crate::pytorch::PyTorch;
use crate::safetensors::Safetensors;
use crate::tensor::{Blocks, Stored, TensorFile, TensorInfo};
use crate::{DType, Error, ErrorKind, Result};

/// The tensors of one or more files.
///
/// Remembers which were read. Files are mapped into memory; tensors are copied to the device when
/// they are read, one at a time, but for [`Rows`], which keep the files open.
#[derive(Clone)]
pub struct Checkpoint {
    inner: Arc<Inner>,
}

type Files = Vec<Box<dyn TensorFile>>;

struct Inner {
    files: Files,
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
    pub fn open(model: &ModelFiles) -> Result<Self> {
        let files = open(model)?;
        let tensors = tensors(model, &files)?;
        if is_base_model(&tensors) {
            Ok(Self::new(files, with_prefix(tensors), true))
        } else {
            Ok(Self::new(files, tensors, false))
        }
    }

    /// Opens the files of something that is not a model, such as a drafting head: tensors keep the
    /// names that the files have for them.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_as_named(model: &ModelFiles) -> Result<Self> {
        let files = open(model)?;
        let tensors = tensors(model, &files)?;
        Ok(Self::new(files, tensors, false))
    }

    fn new(files: Files, tensors: HashMap<String, Entry>, headless: bool) -> Self {
        let used = Mutex::default();
        let inner = Arc::new(Inner {
            files,
            tensors,
            headless,
            used,
        });
        Self { inner }
    }

    /// The files, joined for messages.
    pub fn files(&self) -> String {
        let files: Vec<&str> = self.inner.files.iter().map(|file| file.name()).collect();
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
        self.inner.files.iter().filter_map(|file| file.note())
    }

    /// What the files say of their tensors, by name.
    pub fn infos(&self) -> BTreeMap<String, TensorInfo> {
        let all = self.inner.tensors.iter();
        all.map(|(name, entry)| (name.clone(), entry.info.clone()))
            .collect()
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
                return Err(self.no_head());
            }
            let found = format!("{} has no tensor {name}", self.files());
            let asked = format!("which config.json asks for with shape {expected:?}");
            return Err(other_model(&format!("{found}, {asked}")));
        };
        let file = &self.inner.files[entry.file];
        if entry.info.shape != expected {
            let found = format!(
                "{}: tensor {name} has shape {:?}",
                file.name(),
                entry.info.shape
            );
            let asked = format!("but config.json asks for {expected:?}");
            return Err(other_model(&format!("{found}, {asked}")));
        }
        Ok(entry)
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

    /// The type that a tensor is stored in, as the format calls it.
    pub fn stored_as(&self, name: &str) -> Option<&str> {
        let entry = self.inner.tensors.get(name);
        entry.map(|entry| &*entry.info.dtype)
    }

    /// What messages call the tensor `tensor`.
    pub fn named<'a>(&'a self, tensor: &'a str) -> Named<'a> {
        let entry = self.inner.tensors.get(tensor);
        Named {
            file: entry.map(|entry| self.inner.files[entry.file].name()),
            tensor: entry.map_or(tensor, |entry| &entry.own),
        }
    }

    /// The values of the tensor `name`, all of them finite, where they lie if they can be taken as
    /// they are.
    pub fn finite(&self, name: &str, expected: &[usize]) -> Result<Stored<'_>> {
        let stored = self.load(name, expected)?;
        stored.finite(self.named(name), expected)?;
        Ok(stored)
    }

    /// The values of the list `name`, whole numbers of 64 bits.
    ///
    /// # Errors
    /// If it is missing, or of another length or type.
    pub fn longs(&self, name: &str, length: usize) -> Result<Vec<i64>> {
        let entry = self.entry(name, &[length])?;
        let file = &self.inner.files[entry.file];
        let longs = file.longs(&entry.own)?;
        let unsupported = || Error::tensor_type(file.name(), name, &entry.info.dtype);
        let longs = longs.ok_or_else(unsupported)?;
        self.used().insert(name.to_owned());
        Ok(longs)
    }

    /// Reads a tensor, whatever its values are.
    pub fn load(&self, name: &str, expected: &[usize]) -> Result<Stored<'_>> {
        let entry = self.entry(name, expected)?;
        let file = &self.inner.files[entry.file];
        let unsupported = || Error::tensor_type(file.name(), name, &entry.info.dtype);
        let stored = file.load(&entry.own)?.ok_or_else(unsupported)?;
        self.used().insert(name.to_owned());
        Ok(stored)
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

/// Where each tensor of the files of a model is.
fn tensors(model: &ModelFiles, files: &[Box<dyn TensorFile>]) -> Result<HashMap<String, Entry>> {
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
        let message = format!(
            "{} has no tensor {name}, and the index beside it says that it has: they are not of one model; copy or \
             download all of them again",
            files[file].name()
        );
        return Err(Error::new(ErrorKind::Mismatch, message));
    }
    Ok(tensors)
}

fn open(model: &ModelFiles) -> Result<Files> {
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
        WeightFormat::Safetensors => Ok(Box::new(Safetensors::open(file)?)),
        WeightFormat::PyTorch => Ok(Box::new(PyTorch::open(file)?)),
        other => {
            let cure = "which is not read here; convert it to safetensors";
            let message = format!("{file} is in the format {other:?}, {cure}");
            Err(Error::new(ErrorKind::Unsupported, message))
        }
    }
}

impl Checkpoint {
    /// The matrix `name`, `[rows, inputs]`, where it lies, if its rows there are what they would be
    /// in memory in `dtype`. All its numbers were looked at.
    ///
    /// # Errors
    /// If it is missing, has another shape, or numbers that are not finite.
    pub fn rows(&self, name: &str, shape: [usize; 2], dtype: DType) -> Result<Option<Rows>> {
        let entry = self.entry(name, &shape)?;
        let file = &*self.inner.files[entry.file];
        let place = file.in_place(&entry.own);
        let Some(place) = place.filter(|place| place.encoding.is(dtype)) else {
            return Ok(None);
        };
        place.check(file, self.named(name), &shape)?;
        self.let_go(name);
        self.used().insert(name.to_owned());
        Ok(Some(Rows {
            name: name.to_owned(),
            inner: Arc::clone(&self.inner),
            file: entry.file,
            place,
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
        let entry = self.entry(name, &shape)?;
        let blocks = self.inner.files[entry.file].blocks(&entry.own, dtype)?;
        if blocks.is_some() {
            self.used().insert(name.to_owned());
        }
        Ok(blocks)
    }

    /// Gives up memory in which a tensor was read.
    pub fn let_go(&self, name: &str) {
        if let Some(entry) = self.inner.tensors.get(name) {
            self.inner.files[entry.file].let_go(&entry.own);
        }
    }
}
