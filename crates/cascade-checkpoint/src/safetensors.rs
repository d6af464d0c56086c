//! Weights in the safetensors format.

use std::borrow::Cow;
use std::io::Read;
use std::ops::Range;

use cascade_hub::ModelFile;
use safetensors::tensor::{Metadata, TensorInfo as Described};
use safetensors::{Dtype, SafeTensorError, SafeTensors};

use crate::bytes::Bytes;
use crate::dtype::FloatType;
use crate::error::{download_again, DOWNLOAD_AGAIN};
use crate::tensor::{longs_of, Encoding, InPlace, Stored, TensorFile, TensorInfo};
use crate::{Error, ErrorKind, Result};

/// Bytes of a safetensors file that hold the length of its header.
const PREFIX: u64 = 8;
/// The longest header that the format allows.
const MAX_HEADER: u64 = 100_000_000;
const FORMAT: &str = "safetensors";

/// One safetensors file, its header checked.
pub(crate) struct Safetensors {
    name: String,
    bytes: Bytes,
    metadata: Metadata,
    /// Where the first tensor begins.
    start: usize,
}

impl Safetensors {
    /// Maps the file and checks its header against its length. Reads the header only.
    ///
    /// # Errors
    /// A file that cannot be read, is cut off, or is no safetensors file.
    pub(crate) fn open(file: &ModelFile) -> Result<Self> {
        let bytes = Bytes::open(file)?;
        check(file, bytes.len() as u64, &mut &bytes[..])?;
        let parsed = SafeTensors::read_metadata(&bytes);
        let (header, metadata) = parsed.map_err(|error| corrupt(file, explain(&error)))?;
        Ok(Self {
            name: file.to_string(),
            bytes,
            metadata,
            start: PREFIX as usize + header,
        })
    }

    /// What the header says of a tensor, and where that lies.
    fn place(&self, tensor: &str) -> Option<(Dtype, Range<usize>)> {
        let info = self.metadata.info(tensor)?;
        let (start, end) = info.data_offsets;
        Some((info.dtype, self.start + start..self.start + end))
    }

    /// Where the values of a tensor of floats lie.
    fn floats(&self, tensor: &str) -> Option<(FloatType, Range<usize>)> {
        let (dtype, place) = self.place(tensor)?;
        let dtype = match dtype {
            Dtype::F32 => FloatType::F32,
            Dtype::F16 => FloatType::F16,
            Dtype::BF16 => FloatType::BF16,
            Dtype::F64 => FloatType::F64,
            _ => return None,
        };
        Some((dtype, place))
    }
}

impl TensorFile for Safetensors {
    fn name(&self) -> &str {
        &self.name
    }

    fn tensors(&self) -> Vec<(String, TensorInfo)> {
        let info = |info: &Described| TensorInfo {
            shape: info.shape.clone(),
            dtype: info.dtype.to_string(),
        };
        let tensors = self.metadata.tensors().into_iter();
        tensors.map(|(name, of)| (name, info(of))).collect()
    }

    fn load(&self, tensor: &str) -> Result<Option<Stored<'_>>> {
        let floats = self.floats(tensor);
        Ok(floats.map(|(dtype, place)| Stored {
            dtype,
            bytes: Cow::Borrowed(&self.bytes[place]),
        }))
    }

    fn part(&self, _part: usize) -> &[u8] {
        &self.bytes
    }

    fn longs(&self, tensor: &str) -> Result<Option<Vec<i64>>> {
        let place = self.place(tensor);
        let longs = place.filter(|(dtype, _)| *dtype == Dtype::I64);
        Ok(longs.map(|(_, place)| longs_of(&self.bytes[place])))
    }

    fn in_place(&self, tensor: &str) -> Option<InPlace> {
        let (dtype, bytes) = self.floats(tensor)?;
        Some(InPlace {
            encoding: Encoding::Floats(dtype),
            part: 0,
            bytes,
        })
    }

    fn let_go(&self, tensor: &str) {
        if let Some((_, place)) = self.place(tensor) {
            self.bytes.let_go(place);
        }
    }
}

/// Checks the length of a file against what its header says, for errors better than the parser's.
fn check(file: &ModelFile, length: u64, reader: &mut impl Read) -> Result<()> {
    let wrong_length = |expected| {
        let cure = download_again(&file.to_string());
        let found = format!("{file} is {length} bytes long but its header describes {expected}");
        let message = format!("{found}; it was cut off or damaged, {cure}");
        Error::new(ErrorKind::Damaged, message)
    };
    let io = |source| Error::io(file, source);
    if length < PREFIX {
        return Err(wrong_length(PREFIX));
    }
    let mut prefix = [0; PREFIX as usize];
    reader.read_exact(&mut prefix).map_err(io)?;
    if &prefix == b"version " {
        let reason = "it is a pointer that git leaves in place of a large file";
        let cure = "run `git lfs pull` in its folder, or download the file itself";
        return Err(Error::corrupt(&file.to_string(), FORMAT, reason, cure));
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
    Error::corrupt(&file.to_string(), FORMAT, &reason, DOWNLOAD_AGAIN)
}

/// The parser's own words.
fn explain(error: &SafeTensorError) -> String {
    match error {
        SafeTensorError::InvalidOffset(name) => {
            format!("the place of tensor {name} is not where the tensor before it ends")
        }
        error => error.to_string(),
    }
}
