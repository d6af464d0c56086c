//! Weights as PyTorch saves them: `pytorch_model.bin`, a zip archive with a pickle of tensors and
//! one entry for each storage.
//!
//! Why not candle's reader: it reads pickles without running them too, but panics on
//! some, runs out of memory on others, passes over what it does not know, and refuses views that
//! are not contiguous.

mod archive;
#[cfg(test)]
mod tests;
mod unpickle;

use std::borrow::Cow;
use std::collections::HashMap;

use cascade_hub::ModelFile;

use self::archive::Archive;
use self::unpickle::PickledTensor;
use crate::bytes::Bytes;
use crate::dtype::FloatType;
use crate::error::Fault;
use crate::tensor::{Order, Tensor, TensorInfo, WeightFile};

pub(crate) const FORMAT: &str = "PyTorch";

/// Maps a file that `torch.save` wrote from a dictionary of tensors and reads its pickle, without
/// running code: what is not a dictionary of tensors is refused by name. Reads no tensors.
///
/// # Errors
/// A file that cannot be read, is cut off, or holds anything else.
pub(crate) fn open(file: &ModelFile) -> crate::Result<WeightFile> {
    let (name, bytes) = (file.to_string(), Bytes::open(file)?);
    match read(&bytes) {
        Ok(tensors) => Ok(WeightFile::new(name, vec![bytes], tensors)),
        Err(fault) => Err(fault.corrupt(&name, FORMAT)),
    }
}

/// How a tensor lies in a storage.
pub(crate) struct View {
    /// The entry of the archive that is the storage, and its checksum.
    entry: String,
    crc32: u32,
    /// Bytes of an element.
    width: usize,
    /// In elements, from one to the next of each dimension.
    strides: Vec<usize>,
    /// In elements.
    offset: usize,
}

impl View {
    /// Compares the checksum of the storage, which torch can be told to leave out.
    pub(crate) fn check(&self, storage: &[u8]) -> Result<(), Fault> {
        let (entry, expected, found) = (&self.entry, self.crc32, crc32fast::hash(storage));
        if expected == 0 || found == expected {
            Ok(())
        } else {
            let said = format!("{found:08x}, not {expected:08x}");
            Err(format!("the checksum of its entry {entry} is {said}").into())
        }
    }

    /// Whether the elements lie one after the other.
    fn is_contiguous(&self, shape: &[usize]) -> bool {
        let mut expected = 1;
        let mut dimensions = shape.iter().zip(&self.strides).rev();
        dimensions.all(|(&n, &stride)| {
            let fits = n == 1 || stride == expected;
            expected *= n;
            fits
        })
    }

    /// The elements of a tensor of `shape`, row-major; the view was checked against the storage.
    pub(crate) fn values<'a>(&self, storage: &'a [u8], shape: &[usize]) -> Cow<'a, [u8]> {
        let (width, elements) = (self.width, shape.iter().product::<usize>());
        let start = self.offset * width;
        if self.is_contiguous(shape) {
            return Cow::Borrowed(&storage[start..start + elements * width]);
        }
        let mut values = Vec::with_capacity(elements * width);
        let mut index = vec![0; shape.len()];
        for _ in 0..elements {
            let steps = index.iter().zip(&self.strides);
            let at = start + steps.map(|(i, stride)| i * stride).sum::<usize>() * width;
            values.extend_from_slice(&storage[at..at + width]);
            advance(&mut index, shape);
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

fn read(bytes: &[u8]) -> Result<HashMap<String, Tensor>, Fault> {
    refuse_others(bytes)?;
    let archive = Archive::open(bytes)?;
    let tensors = unpickle::state_dict(archive.pickle(bytes)?).map_err(not_tensors)?;
    let checked = |(name, pickled): (String, PickledTensor)| {
        let placed = tensor(&archive, pickled);
        let tensor = placed.map_err(|problem| format!("tensor {name}: {problem}"))?;
        Ok::<_, Fault>((name, tensor))
    };
    tensors.into_iter().map(checked).collect()
}

/// Refuses files that people have in place of an archive, each with its own cure.
fn refuse_others(bytes: &[u8]) -> Result<(), Fault> {
    /// What torch wrote before 1.6 begins with a pickle of this number.
    const OLD_MAGIC: &[u8] = &[
        0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19,
    ];
    if let Some(pointer) = Fault::of_pointer(bytes) {
        return Err(pointer);
    }
    let is_tar = bytes.get(257..262) == Some(b"ustar");
    if bytes.starts_with(OLD_MAGIC) || is_tar {
        return Err(Fault {
            problem: "it is in the form that torch wrote before version 1.6".to_owned(),
            cure: "save it again with a newer torch in Python: \
                   torch.save(torch.load(FILE, map_location=\"cpu\"), FILE)",
        });
    }
    if bytes.starts_with(b"PK\x03\x04") {
        return Ok(());
    }
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(16)]).into_owned();
    Err(format!("it is not a zip archive: it begins with {start:?}").into())
}

fn not_tensors(reason: String) -> Fault {
    Fault {
        problem: format!("its pickle is not a dictionary of tensors: {reason}"),
        cure: "nothing in a pickle is ever run here; take the model in safetensors, or save its \
               state_dict() alone with torch.save",
    }
}

/// Checks that sizes and strides stay within a tensor's storage, and do not repeat it.
fn check_extent(tensor: &PickledTensor) -> Result<(), String> {
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
fn tensor(archive: &Archive, pickled: PickledTensor) -> Result<Tensor, String> {
    let (entry, place) = archive.storage(&pickled.storage.key)?;
    let bytes = place.bytes.len();
    let (element, elements) = (pickled.storage.element, pickled.storage.elements);
    if elements.checked_mul(element.width) != Some(bytes) {
        let name = element.name;
        return Err(format!(
            "its storage {entry} has {bytes} bytes, not {elements} elements of {name}"
        ));
    }
    check_extent(&pickled)?;
    Ok(Tensor {
        info: TensorInfo {
            shape: pickled.shape,
            dtype: element.name.to_owned(),
        },
        kind: FloatType::named(element.name).map(Into::into),
        part: 0,
        bytes: place.bytes.clone(),
        order: Order::View(View {
            entry,
            crc32: place.crc32,
            width: element.width,
            strides: pickled.strides,
            offset: pickled.offset,
        }),
    })
}
