//! A GGUF file with its matrices rounded to another type.

use std::collections::BTreeMap;
use std::io::{self, Write};

use cascade_cpu::Format;
use cascade_hub::WeightFormat;
use rayon::prelude::*;

use super::blocks::BlockType;
use super::header::TensorInfo;
use super::{settings, Gguf, GgufWeights, Part};
use crate::weights::fits;
use crate::{DType, Error, ModelFiles, Result};

/// Values that are unpacked at a time.
const AT_ONCE: usize = 1 << 22;
/// Where tensors begin is a multiple of this, unless the file says otherwise.
const ALIGNMENT: u64 = 32;
/// Of the ways in which blocks are packed, since 2023.
const QUANTIZATION_VERSION: u32 = 2;

/// What [`quantize_gguf`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quantized {
    /// Matrices that have the type now.
    pub matrices: usize,
    /// Bytes that were written.
    pub bytes: u64,
    /// What the user should know, in sentences.
    pub warnings: Vec<String>,
}

/// Writes the model in a GGUF file, or in all parts of one, as one GGUF file whose matrices are
/// rounded to `dtype`. Everything else stays: the tokenizer and all settings are copied byte by
/// byte, but for those that say how the file is packed, and tensors that are no matrices keep their
/// type.
///
/// The same file gives the same bytes on every machine, and loading what was written as it is
/// [stored](DType::Stored) gives the model that loading the original in `dtype` gives. A matrix
/// whose rows have no whole blocks is written in f32.
///
/// # Errors
/// [`Error::NoGguf`] for files in another format; [`Error::QuantizeType`] for [`DType::Stored`]; a
/// file that is damaged or has settings or tensors that are not known; [`Error::TooLargeForType`];
/// [`Error::Write`].
pub fn quantize_gguf(files: &ModelFiles, dtype: DType, out: &mut dyn Write) -> Result<Quantized> {
    if files.weight_format != WeightFormat::Gguf {
        return Err(Error::NoGguf {
            model: files.name.clone(),
        });
    }
    let target = Target::of(dtype)?;
    // Refuses what is not understood.
    GgufWeights::open(&files.weights)?;
    let gguf = Gguf::open(&files.weights)?;
    settings::config(&gguf)?;
    let tensors: Vec<Planned<'_>> = gguf
        .tensors()
        .map(|(part, tensor)| Planned::new(part, tensor, target))
        .collect();
    let mut out = Counted { out, bytes: 0 };
    write_header(&gguf, &tensors, target, &mut out)?;
    for tensor in &tensors {
        tensor.write(&mut out)?;
        out.pad(alignment(&gguf)).map_err(write_error)?;
    }
    Ok(Quantized {
        matrices: tensors.iter().filter(|tensor| tensor.rounded).count(),
        bytes: out.bytes,
        warnings: warnings(&tensors, target),
    })
}

/// A type that matrices are rounded to.
#[derive(Clone, Copy)]
struct Target {
    kind: BlockType,
    format: Format,
    /// What `general.file_type` says of such a file.
    file_type: u32,
}

impl Target {
    fn of(dtype: DType) -> Result<Self> {
        let (kind, format, file_type) = match dtype {
            DType::F32 => (BlockType::F32, Format::F32, 0),
            DType::F16 => (BlockType::F16, Format::F16, 1),
            DType::Q4_0 => (BlockType::Q4_0, Format::Q4_0, 2),
            DType::Q8_0 => (BlockType::Q8_0, Format::Q8_0, 7),
            DType::BF16 => (BlockType::BF16, Format::BF16, 32),
            DType::Stored => return Err(Error::QuantizeType),
        };
        Ok(Self {
            kind,
            format,
            file_type,
        })
    }

    const F32: Self = Self {
        kind: BlockType::F32,
        format: Format::F32,
        file_type: 0,
    };
}

/// A tensor, and the format that it is written in.
struct Planned<'a> {
    part: &'a Part,
    tensor: &'a TensorInfo,
    /// The type to round to; nothing if it is copied.
    to: Option<Target>,
    /// Whether it is a matrix that has the type that was asked for.
    rounded: bool,
}

impl<'a> Planned<'a> {
    fn new(part: &'a Part, tensor: &'a TensorInfo, target: Target) -> Self {
        let matrix = is_matrix(tensor);
        let whole = matrix && tensor.shape[1].is_multiple_of(target.kind.values());
        let to = match (matrix, whole) {
            (false, _) => None,
            (true, true) => Some(target),
            (true, false) => Some(Target::F32),
        };
        Self {
            part,
            tensor,
            to: to.filter(|to| to.kind != tensor.kind),
            rounded: whole,
        }
    }

    fn kind(&self) -> BlockType {
        self.to.map_or(self.tensor.kind, |to| to.kind)
    }

    /// Bytes that it takes in the new file.
    fn bytes(&self) -> u64 {
        let values: usize = self.tensor.shape.iter().product();
        (values / self.kind().values() * self.kind().bytes()) as u64
    }

    fn write(&self, out: &mut impl Write) -> Result<()> {
        let bytes = &self.part.bytes[self.tensor.data.clone()];
        let Some(to) = self.to else {
            return out.write_all(bytes).map_err(write_error);
        };
        let (from, inputs) = (self.tensor.kind, self.tensor.shape[1]);
        let row = inputs / from.values() * from.bytes();
        for rows in bytes.chunks(row * (AT_ONCE / inputs).max(1)) {
            let values = from.unpack(rows);
            let rounded: Option<Vec<Vec<u8>>> = values
                .par_chunks_exact(4 * inputs)
                .map(|row| rounded(to, row))
                .collect();
            let rounded = rounded.ok_or_else(|| Error::TooLargeForType {
                tensor: self.tensor.name.clone(),
                dtype: to.format.to_string(),
            })?;
            for row in rounded {
                out.write_all(&row).map_err(write_error)?;
            }
        }
        Ok(())
    }
}

/// Whether loading holds a tensor in the type that is asked for. The biases of T5's attention are a
/// table, whatever their shape.
fn is_matrix(tensor: &TensorInfo) -> bool {
    let weight = tensor.name.ends_with(".weight") && !tensor.name.ends_with("attn_rel_b.weight");
    weight && tensor.shape.len() == 2
}

/// A row of little-endian f32 in a type, if it has numbers for all values.
fn rounded(to: Target, row: &[u8]) -> Option<Vec<u8>> {
    let values: Vec<f32> = row
        .as_chunks()
        .0
        .iter()
        .map(|bytes| f32::from_le_bytes(*bytes))
        .collect();
    let mut blocks = vec![0; values.len() / to.kind.values() * to.kind.bytes()];
    cascade_cpu::quantize(to.format, &values, &mut blocks);
    fits(to.format, &values, &blocks).then_some(blocks)
}

/// Settings that say how the original was packed or cut into parts.
fn is_of_packing(key: &str) -> bool {
    let packing = ["general.file_type", "general.quantization_version"];
    packing.contains(&key) || key.starts_with("quantize.") || key.starts_with("split.")
}

fn alignment(gguf: &Gguf) -> u64 {
    // Headers with anything else were refused.
    let stated = gguf.unsigned("general.alignment").ok().flatten();
    stated.unwrap_or(ALIGNMENT)
}

fn write_header(
    gguf: &Gguf,
    tensors: &[Planned<'_>],
    target: Target,
    out: &mut Counted<'_>,
) -> Result<()> {
    let first = gguf.first();
    let kept = first.header.entries.iter();
    let kept: Vec<&[u8]> = kept
        .filter(|(key, _)| !is_of_packing(key))
        .map(|(_, place)| &first.bytes[place.clone()])
        .collect();
    let mut header = b"GGUF".to_vec();
    header.extend(3u32.to_le_bytes());
    header.extend((tensors.len() as u64).to_le_bytes());
    header.extend((kept.len() as u64 + 2).to_le_bytes());
    header.extend(kept.concat());
    for (key, value) in [
        ("general.file_type", target.file_type),
        ("general.quantization_version", QUANTIZATION_VERSION),
    ] {
        put_text(&mut header, key);
        // An unsigned number of 32 bits.
        header.extend(4u32.to_le_bytes());
        header.extend(value.to_le_bytes());
    }
    let mut offset = 0u64;
    for planned in tensors {
        put_text(&mut header, &planned.tensor.name);
        let sizes = planned.tensor.shape.iter().rev();
        header.extend((sizes.len() as u32).to_le_bytes());
        sizes.for_each(|&size| header.extend((size as u64).to_le_bytes()));
        header.extend(planned.kind().number().to_le_bytes());
        header.extend(offset.to_le_bytes());
        offset = (offset + planned.bytes()).next_multiple_of(alignment(gguf));
    }
    out.write_all(&header).map_err(write_error)?;
    out.pad(alignment(gguf)).map_err(write_error)
}

fn put_text(header: &mut Vec<u8>, text: &str) {
    header.extend((text.len() as u64).to_le_bytes());
    header.extend(text.as_bytes());
}

fn warnings(tensors: &[Planned<'_>], target: Target) -> Vec<String> {
    let mut before: BTreeMap<&str, usize> = BTreeMap::new();
    let floats = [
        BlockType::F32,
        BlockType::F16,
        BlockType::BF16,
        BlockType::F64,
    ];
    for planned in tensors {
        // F32 has the numbers of all types.
        let lossy = planned.to.is_some_and(|to| to.kind != BlockType::F32);
        if lossy && !floats.contains(&planned.tensor.kind) {
            *before.entry(planned.tensor.kind.name()).or_default() += 1;
        }
    }
    let twice = before.into_iter().map(|(kind, count)| {
        format!(
            "matrices that were in {kind} ({count}) are rounded for the second time, which costs \
             quality; a file in f16 or bf16 gives a better one"
        )
    });
    let uneven = tensors
        .iter()
        .filter(|planned| is_matrix(planned.tensor) && !planned.rounded);
    let uneven = Some(uneven.count())
        .filter(|&count| count > 0)
        .map(|count| {
            let values = target.kind.values();
            format!(
                "matrices whose rows have no whole blocks of {values} ({count}) are written in f32"
            )
        });
    twice.chain(uneven).collect()
}

fn write_error(source: io::Error) -> Error {
    Error::Write { source }
}

/// Counts what is written.
struct Counted<'a> {
    out: &'a mut dyn Write,
    bytes: u64,
}

impl Counted<'_> {
    fn pad(&mut self, alignment: u64) -> io::Result<()> {
        let missing = self.bytes.next_multiple_of(alignment) - self.bytes;
        self.write_all(&vec![0; missing as usize])
    }
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
