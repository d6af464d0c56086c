//! Weights as PyTorch saves them: `pytorch_model.bin`, a zip archive with a pickle of tensors and
//! one entry for each storage.
//!
//! Why not candle's reader: it reads pickles without running them too, but panics on
//! some, runs out of memory on others, passes over what it does not know, and refuses views that
//! are not contiguous.

mod archive;
mod opcode;
#[cfg(test)]
mod tests;
mod unpickle;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use cascade_hub::ModelFile;

use self::archive::Archive;
use self::unpickle::{Element, PickledTensor};
use crate::bytes::Bytes;
use crate::dtype::FloatType;
use crate::error::DOWNLOAD_AGAIN;
use crate::tensor::{longs_of, Stored, TensorFile, TensorInfo};
use crate::{Error, Result};

const FORMAT: &str = "PyTorch";

/// One file that `torch.save` wrote from a dictionary of tensors, its pickle read and checked
/// against the archive.
pub(crate) struct PyTorch {
    name: String,
    bytes: Bytes,
    archive: Archive,
    tensors: BTreeMap<String, View>,
    /// Storages whose checksums were found right.
    checked: Mutex<BTreeSet<String>>,
}

/// Part of a storage.
struct View {
    /// The entry of the archive that is the storage.
    entry: String,
    element: Element,
    shape: Vec<usize>,
    /// In elements, from one to the next of each dimension.
    strides: Vec<usize>,
    /// In elements.
    offset: usize,
}

/// What is wrong with a file, and what to do.
struct Problem {
    reason: String,
    cure: &'static str,
}

impl From<String> for Problem {
    fn from(reason: String) -> Self {
        Self {
            reason,
            cure: DOWNLOAD_AGAIN,
        }
    }
}

impl PyTorch {
    /// Maps the file and reads its pickle, without running code: what is not a dictionary of
    /// tensors of floats is refused by name. Reads no tensors.
    ///
    /// # Errors
    /// A file that cannot be read, is cut off, or holds anything else.
    pub(crate) fn open(file: &ModelFile) -> Result<Self> {
        let bytes = Bytes::open(file)?;
        let name = file.to_string();
        match read(&bytes) {
            Ok((archive, tensors)) => Ok(Self {
                name,
                bytes,
                archive,
                tensors,
                checked: Mutex::default(),
            }),
            Err(problem) => Err(corrupt(&name, problem)),
        }
    }

    /// The bytes of a storage, whose checksum is compared when they are first asked for.
    fn storage(&self, entry: &str) -> std::result::Result<&[u8], String> {
        let place = self.archive.place(entry)?;
        let range: Range<usize> = place.start..place.end;
        let bytes = self
            .bytes
            .get(range)
            .ok_or_else(|| format!("its entry {entry} is cut off"))?;
        let mut checked = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        // torch can be told to leave the checksums out.
        if place.crc32 != 0 && !checked.contains(entry) {
            let found = crc32fast::hash(bytes);
            if found != place.crc32 {
                return Err(format!(
                    "the checksum of its entry {entry} is {found:08x}, not {:08x}",
                    place.crc32
                ));
            }
            checked.insert(entry.to_owned());
        }
        Ok(bytes)
    }
}

impl TensorFile for PyTorch {
    fn name(&self) -> &str {
        &self.name
    }

    fn tensors(&self) -> Vec<(String, TensorInfo)> {
        let info = |view: &View| TensorInfo {
            shape: view.shape.clone(),
            dtype: view.element.to_string(),
        };
        let tensors = self.tensors.iter();
        tensors
            .map(|(name, view)| (name.clone(), info(view)))
            .collect()
    }

    fn load(&self, tensor: &str) -> Result<Option<Stored<'_>>> {
        let Some(view) = self.tensors.get(tensor) else {
            return Ok(None);
        };
        let dtype = match view.element {
            Element::F32 => FloatType::F32,
            Element::F16 => FloatType::F16,
            Element::BF16 => FloatType::BF16,
            Element::F64 => FloatType::F64,
            _ => return Ok(None),
        };
        let bytes = self.values(view)?;
        Ok(Some(Stored { dtype, bytes }))
    }

    fn longs(&self, tensor: &str) -> Result<Option<Vec<i64>>> {
        let view = self.tensors.get(tensor);
        let view = view.filter(|view| matches!(view.element, Element::I64));
        let longs = view.map(|view| Ok(longs_of(&self.values(view)?)));
        longs.transpose()
    }
}

impl PyTorch {
    /// The elements of a tensor, row-major.
    fn values(&self, view: &View) -> Result<Cow<'_, [u8]>> {
        if view.elements() == 0 {
            return Ok(Cow::Borrowed(&[]));
        }
        let storage = self
            .storage(&view.entry)
            .map_err(|reason| corrupt(&self.name, reason.into()))?;
        Ok(view.values(storage))
    }
}

impl View {
    fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether the elements lie one after the other.
    fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        self.shape
            .iter()
            .zip(&self.strides)
            .rev()
            .all(|(&n, &stride)| {
                let fits = n == 1 || stride == expected;
                expected *= n;
                fits
            })
    }

    /// The elements, row-major; the view was checked against the storage.
    fn values<'a>(&self, storage: &'a [u8]) -> Cow<'a, [u8]> {
        let width = self.element.width();
        let start = self.offset * width;
        if self.is_contiguous() {
            return Cow::Borrowed(&storage[start..start + self.elements() * width]);
        }
        let mut values = Vec::with_capacity(self.elements() * width);
        let mut index = vec![0; self.shape.len()];
        for _ in 0..self.elements() {
            let steps = index
                .iter()
                .zip(&self.strides)
                .map(|(i, stride)| i * stride);
            let at = start + steps.sum::<usize>() * width;
            values.extend_from_slice(&storage[at..at + width]);
            advance(&mut index, &self.shape);
        }
        Cow::Owned(values)
    }
}

/// The next index of a tensor, row-major.
fn advance(index: &mut [usize], shape: &[usize]) {
    for (i, &size) in index.iter_mut().zip(shape).rev() {
        *i += 1;
        if *i < size {
            return;
        }
        *i = 0;
    }
}

fn read(bytes: &[u8]) -> std::result::Result<(Archive, BTreeMap<String, View>), Problem> {
    refuse_others(bytes)?;
    let archive = Archive::open(bytes)?;
    let pickle = archive.pickle(bytes)?;
    let tensors = unpickle::state_dict(pickle).map_err(not_tensors)?;
    let checked = |(name, tensor): (String, PickledTensor)| {
        let view = view(&archive, tensor).map_err(|problem| format!("tensor {name}: {problem}"))?;
        Ok((name, view))
    };
    let tensors = tensors
        .into_iter()
        .map(checked)
        .collect::<std::result::Result<_, String>>()?;
    Ok((archive, tensors))
}

/// Refuses files that people have in place of an archive, each with its own cure.
fn refuse_others(bytes: &[u8]) -> std::result::Result<(), Problem> {
    /// What torch wrote before 1.6 begins with a pickle of this number.
    const OLD_MAGIC: &[u8] = &[
        0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19,
    ];
    let refuse = |reason: &str, cure| {
        let reason = reason.to_owned();
        Err(Problem { reason, cure })
    };
    let is_tar = bytes.get(257..262) == Some(b"ustar");
    if bytes.starts_with(b"version https://git-lfs") {
        return refuse(
            "it is a pointer that git leaves in place of a large file",
            "run `git lfs pull` in its folder, or download the file itself",
        );
    }
    if bytes.starts_with(OLD_MAGIC) || is_tar {
        return refuse(
            "it is in the form that torch wrote before version 1.6",
            "save it again with a newer torch in Python: \
             torch.save(torch.load(FILE, map_location=\"cpu\"), FILE)",
        );
    }
    if bytes.starts_with(b"PK\x03\x04") {
        return Ok(());
    }
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(16)]).into_owned();
    let reason = format!("it is not a zip archive: it begins with {start:?}");
    Err(reason.into())
}

fn not_tensors(reason: String) -> Problem {
    Problem {
        reason: format!("its pickle is not a dictionary of tensors: {reason}"),
        cure: "nothing in a pickle is ever run here; take the model in safetensors, or save its \
               state_dict() alone with torch.save",
    }
}

/// Checks that sizes and strides stay within a tensor's storage, and do not repeat it.
fn check_extent(tensor: &PickledTensor) -> std::result::Result<(), String> {
    let PickledTensor {
        shape,
        strides,
        offset,
        ..
    } = tensor;
    let held = tensor.storage.elements;
    let too_large = || {
        format!(
            "sizes {shape:?} with strides {strides:?} from {offset} on leave its storage of {held} elements"
        )
    };
    let mut sizes = shape.iter();
    let elements = sizes
        .try_fold(1usize, |n, &size| n.checked_mul(size))
        .ok_or_else(too_large)?;
    if elements > 0 {
        let mut steps = shape.iter().zip(strides);
        let last = steps.try_fold(*offset, |last, (&size, &stride)| {
            last.checked_add((size - 1).checked_mul(stride)?)
        });
        if last.is_none_or(|last| last >= held) {
            return Err(too_large());
        }
    }
    if elements > held {
        // Would take more memory than the file has bytes.
        Err(format!(
            "sizes {shape:?} with strides {strides:?} repeat the {held} elements of its storage"
        ))
    } else {
        Ok(())
    }
}

/// Checks a tensor against its storage in the archive.
fn view(archive: &Archive, tensor: PickledTensor) -> std::result::Result<View, String> {
    let entry = archive.storage_name(&tensor.storage.key);
    let place = archive.place(&entry)?;
    let bytes = place.end - place.start;
    let width = tensor.storage.element.width();
    if tensor.storage.elements.checked_mul(width) != Some(bytes) {
        return Err(format!(
            "its storage {entry} has {bytes} bytes, not {} elements of {}",
            tensor.storage.elements, tensor.storage.element
        ));
    }
    check_extent(&tensor)?;
    Ok(View {
        entry,
        element: tensor.storage.element,
        shape: tensor.shape,
        strides: tensor.strides,
        offset: tensor.offset,
    })
}

fn corrupt(file: &str, problem: Problem) -> Error {
    Error::corrupt(file, FORMAT, &problem.reason, problem.cure)
}
