//! Writes GGUF files of version 3.

use std::borrow::Cow;
use std::io::{self, Write};

use cascade_cpu::Format;
use rayon::prelude::*;

use crate::blocks::BlockType;
use crate::tensor::fits;
use crate::{DType, Error, ErrorKind, FloatType, Result};

/// Values that are unpacked at a time.
const AT_ONCE: usize = 1 << 22;
/// Where tensors begin is a multiple of this, unless the file says otherwise.
pub(crate) const ALIGNMENT: u64 = 32;
/// The version of how blocks are packed, since 2023.
const QUANTIZATION_VERSION: u32 = 2;

/// A type that matrices are rounded to.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) kind: BlockType,
    format: Format,
    /// What `general.file_type` says of such a file.
    file_type: u32,
}

impl Target {
    pub(crate) const F32: Self = Self {
        kind: BlockType::F32,
        format: Format::F32,
        file_type: 0,
    };

    /// # Errors
    /// For [`DType::Stored`].
    pub(crate) fn of(dtype: DType) -> Result<Self> {
        let (kind, format, file_type) = match dtype {
            DType::F32 => return Ok(Self::F32),
            DType::F16 => (BlockType::F16, Format::F16, 1),
            DType::Q4_0 => (BlockType::Q4_0, Format::Q4_0, 2),
            DType::Q8_0 => (BlockType::Q8_0, Format::Q8_0, 7),
            DType::BF16 => (BlockType::BF16, Format::BF16, 32),
            DType::Stored => return Err(Error::quantize_type()),
        };
        Ok(Self {
            kind,
            format,
            file_type,
        })
    }
}

/// Settings of a file, in its own form.
#[derive(Clone, Default)]
pub(crate) struct Entries {
    bytes: Vec<u8>,
    count: u64,
}

impl Entries {
    /// An entry of another file, as it is there.
    pub(crate) fn copy(&mut self, entry: &[u8]) {
        self.bytes.extend(entry);
        self.count += 1;
    }

    /// All entries of `others`.
    pub(crate) fn append(&mut self, others: Self) {
        self.bytes.extend(others.bytes);
        self.count += others.count;
    }

    fn put(&mut self, key: &str, kind: u32, value: &[u8]) {
        put_text(&mut self.bytes, key);
        self.bytes.extend(kind.to_le_bytes());
        self.bytes.extend(value);
        self.count += 1;
    }

    fn put_list(&mut self, key: &str, kind: u32, count: usize, values: &[u8]) {
        let mut list = kind.to_le_bytes().to_vec();
        list.extend((count as u64).to_le_bytes());
        list.extend(values);
        self.put(key, 9, &list);
    }

    pub(crate) fn unsigned(&mut self, key: &str, value: u32) {
        self.put(key, 4, &value.to_le_bytes());
    }

    pub(crate) fn number(&mut self, key: &str, value: f32) {
        self.put(key, 6, &value.to_le_bytes());
    }

    pub(crate) fn flag(&mut self, key: &str, value: bool) {
        self.put(key, 7, &[value.into()]);
    }

    pub(crate) fn text(&mut self, key: &str, value: &str) {
        let mut text = Vec::new();
        put_text(&mut text, value);
        self.put(key, 8, &text);
    }

    pub(crate) fn texts<'a>(&mut self, key: &str, values: impl Iterator<Item = &'a str>) {
        let (mut texts, mut count) = (Vec::new(), 0);
        for value in values {
            put_text(&mut texts, value);
            count += 1;
        }
        self.put_list(key, 8, count, &texts);
    }

    pub(crate) fn bytes(&mut self, key: &str, values: &[u8]) {
        self.put_list(key, 0, values.len(), values);
    }

    pub(crate) fn integers(&mut self, key: &str, values: impl ExactSizeIterator<Item = i32>) {
        let count = values.len();
        let bytes: Vec<u8> = values.flat_map(i32::to_le_bytes).collect();
        self.put_list(key, 5, count, &bytes);
    }

    pub(crate) fn numbers(&mut self, key: &str, values: &[f32]) {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.put_list(key, 6, values.len(), &bytes);
    }
}

/// A tensor, where its values are, and the format that it is written in.
pub(crate) struct Planned<'a> {
    pub(crate) name: String,
    /// Sizes, outermost first.
    pub(crate) shape: Vec<usize>,
    /// What its values are stored in.
    pub(crate) from: BlockType,
    /// The type to round to; nothing if it is copied.
    to: Option<Target>,
    /// Whether it is a matrix.
    pub(crate) matrix: bool,
    /// Whether it is one that has the type that was asked for.
    pub(crate) rounded: bool,
    values: Box<dyn Fn() -> Result<Cow<'a, [u8]>> + 'a>,
}

impl<'a> Planned<'a> {
    /// A matrix is rounded to `target`, or to f32 if its rows have no whole blocks. Anything else
    /// is written in `other`, or as it is.
    pub(crate) fn new(
        name: String,
        shape: Vec<usize>,
        from: BlockType,
        target: Target,
        other: Option<Target>,
        values: impl Fn() -> Result<Cow<'a, [u8]>> + 'a,
    ) -> Self {
        let matrix = is_matrix(&name, &shape);
        let whole = matrix && shape[1].is_multiple_of(target.kind.values());
        let to = match (matrix, whole) {
            (false, _) => other,
            (true, true) => Some(target),
            (true, false) => Some(Target::F32),
        };
        Self {
            name,
            shape,
            from,
            to: to.filter(|to| to.kind != from),
            matrix,
            rounded: whole,
            values: Box::new(values),
        }
    }

    /// Whether values lose precision.
    pub(crate) fn is_lossy(&self) -> bool {
        // F32 has the numbers of all types.
        self.to.is_some_and(|to| to.kind != BlockType::F32)
    }

    fn kind(&self) -> BlockType {
        self.to.map_or(self.from, |to| to.kind)
    }

    /// Numbers that it has.
    pub(crate) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Bytes that it takes in the new file.
    fn bytes(&self) -> u64 {
        (self.len() / self.kind().values() * self.kind().bytes()) as u64
    }

    fn write(&self, out: &mut dyn Write) -> Result<()> {
        let bytes = (self.values)()?;
        let Some(to) = self.to else {
            return out.write_all(&bytes).map_err(write_error);
        };
        let inputs = self.shape.last().copied().unwrap_or(1);
        let row = inputs / self.from.values() * self.from.bytes();
        for rows in bytes.chunks(row * (AT_ONCE / inputs).max(1)) {
            let values = self.from.unpack(rows);
            let rounded: Option<Vec<Vec<u8>>> = values
                .par_chunks_exact(4 * inputs)
                .map(|row| rounded(to, row))
                .collect();
            let too_large = || Error::too_large_for_type(&self.name, &to.format.to_string());
            let rounded = rounded.ok_or_else(too_large)?;
            for row in rounded {
                out.write_all(&row).map_err(write_error)?;
            }
        }
        Ok(())
    }
}

/// Whether loading holds a tensor in the type that is asked for. The biases of T5's attention are a
/// table, whatever their shape.
fn is_matrix(name: &str, shape: &[usize]) -> bool {
    let weight = name.ends_with(".weight") && !name.ends_with("attn_rel_b.weight");
    weight && shape.len() == 2
}

/// A row of little-endian f32 in a type, if it has numbers for all values.
fn rounded(to: Target, row: &[u8]) -> Option<Vec<u8>> {
    let values = FloatType::F32.to_f32(row);
    let mut blocks = vec![0; values.len() / to.kind.values() * to.kind.bytes()];
    cascade_cpu::quantize(to.format, &values, &mut blocks);
    fits(to.format, &blocks).then_some(blocks)
}

/// Writes a file, and returns its length. The description of its packing is added to `entries`.
///
/// # Errors
/// A weight that the type has no number for, what the system says, and what the values of tensors
/// are missing for.
pub(crate) fn write(
    mut entries: Entries,
    tensors: &[Planned<'_>],
    target: Target,
    alignment: u64,
    out: &mut dyn Write,
) -> Result<u64> {
    entries.unsigned("general.file_type", target.file_type);
    entries.unsigned("general.quantization_version", QUANTIZATION_VERSION);
    let mut header = b"GGUF".to_vec();
    header.extend(3u32.to_le_bytes());
    header.extend((tensors.len() as u64).to_le_bytes());
    header.extend(entries.count.to_le_bytes());
    header.extend(entries.bytes);
    let mut offset = 0u64;
    for planned in tensors {
        put_text(&mut header, &planned.name);
        let sizes = planned.shape.iter().rev();
        header.extend((sizes.len() as u32).to_le_bytes());
        sizes.for_each(|&size| header.extend((size as u64).to_le_bytes()));
        header.extend(planned.kind().number().to_le_bytes());
        header.extend(offset.to_le_bytes());
        offset = (offset + planned.bytes()).next_multiple_of(alignment);
    }
    header.resize(header.len().next_multiple_of(alignment as usize), 0);
    out.write_all(&header).map_err(write_error)?;
    for tensor in tensors {
        tensor.write(out)?;
        let missing = tensor.bytes().next_multiple_of(alignment) - tensor.bytes();
        let padding = vec![0; missing as usize];
        out.write_all(&padding).map_err(write_error)?;
    }
    Ok(header.len() as u64 + offset)
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}

fn write_error(source: io::Error) -> Error {
    let message = format!("cannot write the model: {source}");
    Error::new(ErrorKind::Io, message)
}
