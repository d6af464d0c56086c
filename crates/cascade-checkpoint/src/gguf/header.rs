//! The header of a GGUF file: metadata, and where each tensor lies.
//!
//! Nothing here believes a number before it has compared it with the bytes there are: the time and
//! memory that parsing takes are bounded by the length of the file. Long lists stay where they are
//! and are decoded when they are asked for.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use super::write::ALIGNMENT;
use crate::blocks::BlockType;
use crate::dtype::each;
use crate::error::Fault;

const MAGIC: &[u8; 4] = b"GGUF";
/// The most dimensions that a tensor of the format has.
const MAX_DIMENSIONS: u32 = 4;
/// Lists within lists; writers of models make none.
const MAX_DEPTH: u32 = 8;
/// The longest key that the format allows.
const MAX_KEY: usize = u16::MAX as usize;

type Parsed<T> = Result<T, Fault>;

/// What a file says of itself.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) metadata: BTreeMap<String, Value>,
    pub(crate) tensors: Vec<TensorInfo>,
    /// Where tensors begin is a multiple of this.
    pub(crate) alignment: u64,
    /// Bytes behind the last tensor and what it is padded with.
    pub(crate) behind: usize,
}

/// A tensor, all of which is in the file.
#[derive(Debug)]
pub(crate) struct TensorInfo {
    pub(crate) name: String,
    /// The sizes of the tensor, outermost first: the file has them the other way round.
    pub(crate) shape: Vec<usize>,
    pub(crate) kind: BlockType,
    /// Where its values are.
    pub(crate) data: Range<usize>,
}

/// A value of the metadata, or a list of them, not decoded.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub(crate) is_list: bool,
    /// What it is, or what its entries are.
    pub(crate) of: ValueType,
    /// Entries of a list; else one.
    len: usize,
    data: Range<usize>,
    /// Where it lies with its key.
    pub(crate) entry: Range<usize>,
}

/// Types of values, in the order of their numbers in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueType {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    Text,
    List,
    U64,
    I64,
    F64,
}

impl ValueType {
    #[rustfmt::skip]
    const ALL: [Self; 13] = [
        Self::U8, Self::I8, Self::U16, Self::I16, Self::U32, Self::I32, Self::F32, Self::Bool,
        Self::Text, Self::List, Self::U64, Self::I64, Self::F64,
    ];

    fn of(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }

    /// Bytes of a value; texts and lists have no fixed number.
    fn size(self) -> Option<u64> {
        match self {
            Self::U8 | Self::I8 | Self::Bool => Some(1),
            Self::U16 | Self::I16 => Some(2),
            Self::U32 | Self::I32 | Self::F32 => Some(4),
            Self::U64 | Self::I64 | Self::F64 => Some(8),
            Self::Text | Self::List => None,
        }
    }
}

impl Value {
    /// What it is, for messages.
    pub(crate) fn describe(&self) -> &'static str {
        match self.of {
            _ if self.is_list => "a list",
            ValueType::F32 | ValueType::F64 => "a number with a fraction",
            ValueType::Bool => "true or false",
            ValueType::Text => "a text",
            ValueType::List => "a list",
            _ => "a whole number",
        }
    }

    /// The texts, of a file that begins with `file`.
    pub(crate) fn texts<'a>(&self, file: &'a [u8]) -> Option<impl Iterator<Item = &'a [u8]>> {
        let mut cursor = Cursor {
            bytes: &file[..self.data.end],
            at: self.data.start,
        };
        // They were read before, so that none is missing now.
        let texts =
            (0..self.len).map_while(move |_| cursor.text("a text").ok().map(|range| &file[range]));
        (self.of == ValueType::Text).then_some(texts)
    }

    /// The whole numbers.
    pub(crate) fn integers(&self, file: &[u8]) -> Option<Vec<i128>> {
        let data = &file[self.data.clone()];
        Some(match self.of {
            ValueType::U8 => each(data, |bytes| u8::from_le_bytes(bytes).into()),
            ValueType::I8 => each(data, |bytes| i8::from_le_bytes(bytes).into()),
            ValueType::U16 => each(data, |bytes| u16::from_le_bytes(bytes).into()),
            ValueType::I16 => each(data, |bytes| i16::from_le_bytes(bytes).into()),
            ValueType::U32 => each(data, |bytes| u32::from_le_bytes(bytes).into()),
            ValueType::I32 => each(data, |bytes| i32::from_le_bytes(bytes).into()),
            ValueType::U64 => each(data, |bytes| u64::from_le_bytes(bytes).into()),
            ValueType::I64 => each(data, |bytes| i64::from_le_bytes(bytes).into()),
            _ => return None,
        })
    }

    /// The numbers.
    pub(crate) fn numbers(&self, file: &[u8]) -> Option<Vec<f64>> {
        let data = &file[self.data.clone()];
        match self.of {
            ValueType::F32 => Some(each(data, |bytes| f32::from_le_bytes(bytes).into())),
            ValueType::F64 => Some(each(data, f64::from_le_bytes)),
            _ => {
                let integers = self.integers(file)?.into_iter();
                Some(integers.map(|number| number as f64).collect())
            }
        }
    }

    /// Whether it is true.
    pub(crate) fn flag(&self, file: &[u8]) -> Option<bool> {
        (self.of == ValueType::Bool).then(|| file[self.data.start] == 1)
    }
}

/// Reads the header of a file.
pub(crate) fn parse(bytes: &[u8]) -> Parsed<Header> {
    check_magic(bytes)?;
    let mut cursor = Cursor { bytes, at: 4 };
    check_version(cursor.u32("its version")?)?;
    let tensor_count = cursor.u64("the number of tensors")?;
    let entry_count = cursor.u64("the number of settings")?;
    let metadata = cursor.metadata(entry_count)?;
    let alignment = alignment(&metadata, bytes)?;
    let mut tensors = cursor.tensors(tensor_count)?;
    let start = cursor.at.next_multiple_of(alignment as usize);
    let mut next = 0;
    for tensor in &mut tensors {
        let end = tensor.place(start, next, bytes.len())?;
        next = end.next_multiple_of(alignment as usize);
    }
    Ok(Header {
        metadata,
        tensors,
        alignment,
        behind: bytes.len().saturating_sub(start + next),
    })
}

fn check_magic(bytes: &[u8]) -> Parsed<()> {
    if bytes.starts_with(MAGIC) {
        return Ok(());
    }
    if let Some(pointer) = Fault::of_pointer(bytes) {
        return Err(pointer);
    }
    let older = [b"lmgg", b"fmgg", b"tjgg", b"algg"];
    if older.iter().any(|magic| bytes.starts_with(*magic)) {
        return Err(Fault {
            problem: "it is in the GGML format that GGUF replaced in 2023".to_owned(),
            cure: "take a newer file of the model",
        });
    }
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(4)]).into_owned();
    Err(format!("it is not a GGUF file: it begins with {start:?}").into())
}

fn check_version(version: u32) -> Parsed<()> {
    let problem = match version {
        2 | 3 => return Ok(()),
        1 => "it is of version 1 of the format, which was replaced after two days".to_owned(),
        _ if version & 0xffff == 0 => "it is a big-endian file".to_owned(),
        _ => format!("it is of version {version} of the format; versions 2 and 3 are read"),
    };
    Err(Fault {
        problem,
        cure: "take a little-endian file of version 3, or make one with a current \
               convert_hf_to_gguf.py of llama.cpp",
    })
}

fn alignment(metadata: &BTreeMap<String, Value>, file: &[u8]) -> Parsed<u64> {
    let Some(stated) = metadata.get("general.alignment") else {
        return Ok(ALIGNMENT);
    };
    let numbers = stated.integers(file).unwrap_or_default();
    let number = numbers
        .first()
        .and_then(|&number| u64::try_from(number).ok());
    let usable = |bytes: &u64| bytes.is_power_of_two() && *bytes <= 1 << 30;
    number.filter(usable).ok_or_else(|| {
        let said = number.map_or(stated.describe().to_owned(), |number| number.to_string());
        format!("`general.alignment` is {said}, and not a power of two").into()
    })
}

impl TensorInfo {
    /// Finds the tensor in a file whose tensors lie behind `start`, those before it up to the
    /// offset `next`. Returns the offset at which it ends. Like llama.cpp, refuses gaps: a tensor
    /// of fewer bytes than there are up to the next one has another type or shape than it was
    /// written with.
    fn place(&mut self, start: usize, next: usize, file: usize) -> Parsed<usize> {
        let (name, offset) = (&self.name, self.data.start);
        if offset != next {
            let before = format!("and the tensors before it end at {next}");
            return Err(format!("tensor {name} begins at offset {offset}, {before}").into());
        }
        // The sum does not overflow: the tensors before it end within the file.
        let end = (start + next).saturating_add(self.data.len());
        if end > file {
            return Err(format!(
                "it is {file} bytes long, but tensor {name} ends at byte {end}: it was cut off or \
                 damaged"
            )
            .into());
        }
        self.data = start + next..end;
        Ok(end - start)
    }
}

/// Reads a file from front to back.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    /// The place of the next `count` bytes, which are part of `what`.
    fn take(&mut self, count: u64, what: &str) -> Parsed<Range<usize>> {
        let end = usize::try_from(count)
            .ok()
            .and_then(|count| self.at.checked_add(count));
        match end.filter(|&end| end <= self.bytes.len()) {
            Some(end) => Ok(std::mem::replace(&mut self.at, end)..end),
            None => Err(format!(
                "it is {} bytes long, and {what} would take {count} bytes from byte {} on: it was \
                 cut off or damaged",
                self.bytes.len(),
                self.at
            )
            .into()),
        }
    }

    fn array<const N: usize>(&mut self, what: &str) -> Parsed<[u8; N]> {
        let range = self.take(N as u64, what)?;
        let mut array = [0; N];
        array.copy_from_slice(&self.bytes[range]);
        Ok(array)
    }

    fn u32(&mut self, what: &str) -> Parsed<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    fn u64(&mut self, what: &str) -> Parsed<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    fn text(&mut self, what: &str) -> Parsed<Range<usize>> {
        let length = self.u64(what)?;
        self.take(length, what)
    }

    /// A name or a key.
    fn name(&mut self, what: &str) -> Parsed<String> {
        let range = self.text(what)?;
        match std::str::from_utf8(&self.bytes[range]) {
            Ok(name) if name.len() <= MAX_KEY => Ok(name.to_owned()),
            Ok(_) => Err(format!("{what} is longer than {MAX_KEY} bytes").into()),
            Err(_) => Err(format!("{what} is not UTF-8").into()),
        }
    }

    fn metadata(&mut self, count: u64) -> Parsed<BTreeMap<String, Value>> {
        let mut metadata = BTreeMap::new();
        for index in 0..count {
            let start = self.at;
            let key = self.name(&format!("the key of setting {index} of {count}"))?;
            let mut value = self.value(&key)?;
            value.entry = start..self.at;
            if metadata.contains_key(&key) {
                return Err(format!("`{key}` is set twice").into());
            }
            metadata.insert(key, value);
        }
        Ok(metadata)
    }

    fn value_type(&mut self, key: &str) -> Parsed<ValueType> {
        let number = self.u32(key)?;
        ValueType::of(number)
            .ok_or_else(|| format!("`{key}` is of type {number}, which does not exist").into())
    }

    fn value(&mut self, key: &str) -> Parsed<Value> {
        let of = self.value_type(key)?;
        if of == ValueType::List {
            return self.list(key, 0);
        }
        let start = self.at;
        self.entry(of, key, 0)?;
        let data = start..self.at;
        match (of, &self.bytes[data.clone()]) {
            (ValueType::Bool, &[other]) if other > 1 => {
                Err(format!("`{key}` is {other}, neither true (1) nor false (0)").into())
            }
            _ => Ok(Value {
                is_list: false,
                of,
                len: 1,
                data,
                entry: 0..0,
            }),
        }
    }

    /// Passes over a value, which is so many lists deep.
    fn entry(&mut self, of: ValueType, key: &str, depth: u32) -> Parsed<()> {
        match of.size() {
            Some(size) => _ = self.take(size, key)?,
            None if of == ValueType::Text => _ = self.text(key)?,
            None => _ = self.list(key, depth)?,
        }
        Ok(())
    }

    fn list(&mut self, key: &str, depth: u32) -> Parsed<Value> {
        if depth > MAX_DEPTH {
            return Err(format!("`{key}` has lists within lists, {depth} deep").into());
        }
        let of = self.value_type(key)?;
        let len = self.u64(key)?;
        let start = self.at;
        match of.size() {
            Some(size) => _ = self.take(len.saturating_mul(size), key)?,
            None => (0..len).try_for_each(|_| self.entry(of, key, depth + 1))?,
        }
        Ok(Value {
            is_list: true,
            of,
            // Each entry took at least a byte of the file.
            len: len as usize,
            data: start..self.at,
            entry: 0..0,
        })
    }

    fn tensors(&mut self, count: u64) -> Parsed<Vec<TensorInfo>> {
        let mut tensors = Vec::new();
        let mut names = HashSet::new();
        for index in 0..count {
            let tensor = self.tensor(&format!("tensor {index} of {count}"))?;
            if !names.insert(tensor.name.clone()) {
                return Err(format!("tensor {} is there twice", tensor.name).into());
            }
            tensors.push(tensor);
        }
        Ok(tensors)
    }

    fn tensor(&mut self, what: &str) -> Parsed<TensorInfo> {
        let name = self.name(&format!("the name of {what}"))?;
        let dimensions = self.u32(&name)?;
        if !(1..=MAX_DIMENSIONS).contains(&dimensions) {
            return Err(format!("tensor {name} has {dimensions} dimensions").into());
        }
        let sizes: Vec<u64> = (0..dimensions)
            .map(|_| self.u64(&name))
            .collect::<Parsed<_>>()?;
        let kind = self.u32(&name)?;
        let kind = BlockType::of(kind).map_err(|known_as| unsupported(&name, kind, known_as))?;
        let offset = self.u64(&name)?;
        let length = kind.bytes_of(&sizes).ok_or_else(|| {
            format!(
                "tensor {name} of sizes {sizes:?} cannot be stored as {}, in blocks of {}",
                kind.name(),
                kind.values()
            )
        })?;
        let shape = sizes.iter().rev().map(|&size| size as usize).collect();
        // Counted from where tensors begin, until it is known where that is.
        let [begin, end] = [offset, offset.saturating_add(length)]
            .map(|at| usize::try_from(at).unwrap_or(usize::MAX));
        Ok(TensorInfo {
            name,
            shape,
            kind,
            data: begin..end,
        })
    }
}

fn unsupported(tensor: &str, kind: u32, known_as: Option<&'static str>) -> Fault {
    let kind = known_as.map_or_else(|| format!("number {kind}"), str::to_owned);
    Fault {
        problem: format!("tensor {tensor} is stored as type {kind}, which is not read here"),
        cure: "take a file of the model in F32, F16, BF16, Q8_0, Q6_K, Q5_K, Q4_K, Q3_K, Q2_K, \
               Q5_0, Q5_1, Q4_0, Q4_1, IQ4_XS, IQ4_NL or MXFP4",
    }
}
