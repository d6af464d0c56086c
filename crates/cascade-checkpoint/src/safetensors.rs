//! Weights in the safetensors format.

use cascade_hub::ModelFile;
use safetensors::{SafeTensorError, SafeTensors};

use crate::bytes::Bytes;
use crate::dtype::FloatType;
use crate::error::{Fault, download_again};
use crate::tensor::{Order, Tensor, TensorInfo, WeightFile};
use crate::{Error, ErrorKind, Result};

/// Bytes of a safetensors file that hold the length of its header.
const PREFIX: usize = 8;
/// The longest header that the format allows.
const MAX_HEADER: u64 = 100_000_000;
const FORMAT: &str = "safetensors";

/// Maps a file and checks its header against its length. Reads the header only.
///
/// # Errors
/// A file that cannot be read, is cut off, or is no safetensors file.
pub(crate) fn open(file: &ModelFile) -> Result<WeightFile> {
    let (name, bytes) = (file.to_string(), Bytes::open(file)?);
    check(&name, &bytes)?;
    let parsed = SafeTensors::read_metadata(&bytes);
    let (header, metadata) = parsed.map_err(|error| corrupt(&name, explain(&error)))?;
    let start = PREFIX + header;
    let tensors = metadata.tensors().into_iter().map(|(tensor, described)| {
        let (begin, end) = described.data_offsets;
        let dtype = described.dtype.to_string();
        let tensor_of = Tensor {
            kind: FloatType::named(&dtype).map(Into::into),
            info: TensorInfo {
                shape: described.shape.clone(),
                dtype,
            },
            part: 0,
            bytes: start + begin..start + end,
            order: Order::Rows,
        };
        (tensor, tensor_of)
    });
    let tensors = tensors.collect();
    Ok(WeightFile::new(name, vec![bytes], tensors))
}

/// Checks the length of a file against what its header says, for errors better than the parser's.
fn check(file: &str, bytes: &[u8]) -> Result<()> {
    let length = bytes.len() as u64;
    let wrong_length = |expected: u64| {
        let cure = download_again(file);
        let found = format!("{file} is {length} bytes long but its header describes {expected}");
        let message = format!("{found}; it was cut off or damaged, {cure}");
        Error::new(ErrorKind::Damaged, message)
    };
    if let Some(pointer) = Fault::of_pointer(bytes) {
        return Err(pointer.corrupt(file, FORMAT));
    }
    let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX>() else {
        return Err(wrong_length(PREFIX as u64));
    };
    let header = u64::from_le_bytes(*prefix);
    if header > MAX_HEADER {
        let problem = format!("its first 8 bytes say that its header takes {header} bytes");
        return Err(corrupt(file, problem));
    }
    let end = PREFIX as u64 + header;
    let Some(json) = rest.get(..header as usize) else {
        return Err(wrong_length(end));
    };
    match data_length(json).map(|data| end.saturating_add(data)) {
        Some(expected) if expected != length => Err(wrong_length(expected)),
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

fn corrupt(file: &str, problem: String) -> Error {
    Fault::from(problem).corrupt(file, FORMAT)
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
