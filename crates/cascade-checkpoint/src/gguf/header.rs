//! The header of a GGUF file: metadata, and where each tensor lies.
//!
//! Nothing here believes a number before it has compared it with the bytes there are: the time and
//! memory that parsing takes are bounded by the length of the file. Long lists stay where they are
//! and are decoded when they are asked for.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use super::blocks::BlockType;
use crate::error::DOWNLOAD_AGAIN;

const MAGIC: &[u8; 4] = b"GGUF";
/// Where tensors begin is a multiple of this unless the file says otherwise.
const ALIGNMENT: u64 = 32;
/// The most dimensions that a tensor of the format has.
const MAX_DIMENSIONS: u32 = 4;
/// Lists within lists; writers of models make none.
const MAX_DEPTH: u32 = 8;
/// The longest key that the format allows.
const MAX_KEY: usize = u16::MAX as usize;

/// What is wrong with a header, and what to do about it.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) problem: String,
    pub(crate) cure: &'static str,
}

type Parsed<T> = Result<T, Fault>;

/// What a file says of itself.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) metadata: BTreeMap<String, Value>,
    /// Keys in the order of the file, and where each lies with its value.
    pub(crate) entries: Vec<(String, Range<usize>)>,
    pub(crate) tensors: Vec<TensorInfo>,
    /// Bytes behind the last tensor and what it is padded with.
    pub(crate) behind: u64,
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

/// A value of the metadata; texts and lists are places in the file.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Unsigned(u64),
    Signed(i64),
    F32(f32),
    F64(f64),
    Bool(bool),
    Text(Range<usize>),
    List(List),
}

/// A list of the metadata, not decoded.
#[derive(Clone, Debug)]
pub(crate) struct List {
    pub(crate) of: ValueType,
    pub(crate) len: usize,
    data: Range<usize>,
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
        match self {
            Self::Unsigned(_) | Self::Signed(_) => "a whole number",
            Self::F32(_) | Self::F64(_) => "a number with a fraction",
            Self::Bool(_) => "true or false",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
        }
    }
}

impl List {
    /// The entries of a list of texts, of a file that begins with `file`.
    pub(crate) fn texts<'a>(&self, file: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let mut cursor = Cursor {
            bytes: &file[..self.data.end],
            at: self.data.start,
        };
        // They were read before, so that none is missing now.
        (0..self.len).map_while(move |_| cursor.text("a text").ok().map(|range| &file[range]))
    }

    /// The entries of a list of whole numbers.
    pub(crate) fn integers(&self, file: &[u8]) -> Option<Vec<i64>> {
        let data = &file[self.data.clone()];
        Some(match self.of {
            ValueType::U8 => data.iter().map(|&byte| i64::from(byte)).collect(),
            ValueType::I8 => data.iter().map(|&byte| i64::from(byte as i8)).collect(),
            ValueType::U32 => each(data, |bytes| u32::from_le_bytes(bytes).into()),
            ValueType::I32 => each(data, |bytes| i32::from_le_bytes(bytes).into()),
            ValueType::I64 => each(data, i64::from_le_bytes),
            ValueType::U64 => {
                let numbers = each(data, u64::from_le_bytes).into_iter();
                return numbers.map(|number| number.try_into().ok()).collect();
            }
            _ => return None,
        })
    }

    /// The entries of a list of numbers.
    pub(crate) fn floats(&self, file: &[u8]) -> Option<Vec<f32>> {
        match self.of {
            ValueType::F32 => Some(each(&file[self.data.clone()], f32::from_le_bytes)),
            _ => {
                let integers = self.integers(file)?;
                Some(integers.into_iter().map(|number| number as f32).collect())
            }
        }
    }
}

fn each<const N: usize, T>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|&chunk| read(chunk))
        .collect()
}

/// Reads the header of a file.
pub(crate) fn parse(bytes: &[u8]) -> Parsed<Header> {
    check_magic(bytes)?;
    let mut cursor = Cursor { bytes, at: 4 };
    check_version(cursor.u32("its version")?)?;
    let tensor_count = cursor.u64("the number of tensors")?;
    let entry_count = cursor.u64("the number of settings")?;
    let (metadata, entries) = cursor.metadata(entry_count)?;
    let alignment = alignment(&metadata)?;
    let mut tensors = cursor.tensors(tensor_count)?;
    let start = (cursor.at as u64).next_multiple_of(alignment);
    let mut next = 0;
    for tensor in &mut tensors {
        next = tensor
            .place(start, next, bytes.len())?
            .next_multiple_of(alignment);
    }
    let tensors = tensors.into_iter().map(|tensor| tensor.info).collect();
    Ok(Header {
        metadata,
        entries,
        tensors,
        behind: (bytes.len() as u64).saturating_sub(start + next),
    })
}

fn check_magic(bytes: &[u8]) -> Parsed<()> {
    if bytes.starts_with(MAGIC) {
        return Ok(());
    }
    if bytes.starts_with(b"version ") {
        return Err(Fault {
            problem: "it is a pointer that git leaves in place of a large file".to_owned(),
            cure: "run `git lfs pull` in its folder, or download the file itself",
        });
    }
    let older = [b"lmgg", b"fmgg", b"tjgg", b"algg"];
    if older.iter().any(|magic| bytes.starts_with(*magic)) {
        return Err(Fault {
            problem: "it is in the GGML format that GGUF replaced in 2023".to_owned(),
            cure: "take a newer file of the model",
        });
    }
    Err(Fault {
        problem: format!(
            "it is not a GGUF file: it begins with {:?}",
            String::from_utf8_lossy(&bytes[..bytes.len().min(4)])
        ),
        cure: DOWNLOAD_AGAIN,
    })
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

fn alignment(metadata: &BTreeMap<String, Value>) -> Parsed<u64> {
    match metadata.get("general.alignment") {
        None => Ok(ALIGNMENT),
        Some(&Value::Unsigned(bytes)) if bytes.is_power_of_two() && bytes <= 1 << 30 => Ok(bytes),
        Some(other) => Err(damaged(format!(
            "`general.alignment` is {other:?}, and not a power of two"
        ))),
    }
}

/// A tensor whose place is not yet checked.
struct Unplaced {
    info: TensorInfo,
    offset: u64,
    length: u64,
}

impl Unplaced {
    /// Finds the tensor in a file whose tensors lie behind `start`, those before it up to the
    /// offset `next`. Returns the offset at which it ends. Like llama.cpp, refuses gaps: a tensor
    /// of fewer bytes than there are up to the next one has another type or shape than it was
    /// written with.
    fn place(&mut self, start: u64, next: u64, file: usize) -> Parsed<u64> {
        let name = &self.info.name;
        if self.offset != next {
            return Err(damaged(format!(
                "tensor {name} begins at offset {}, and the tensors before it end at {next}",
                self.offset
            )));
        }
        // Neither overflows: the tensors before it end within the file, and no length is above i64.
        let (begin, end) = (start + next, (start + next).saturating_add(self.length));
        if end > file as u64 {
            return Err(damaged(format!(
                "it is {file} bytes long, but tensor {name} ends at byte {end}: it was cut off or \
                 damaged"
            )));
        }
        self.info.data = begin as usize..end as usize;
        Ok(end - start)
    }
}

fn damaged(problem: String) -> Fault {
    Fault {
        problem,
        cure: DOWNLOAD_AGAIN,
    }
}

/// Settings by key, and where each lies.
type Metadata = (BTreeMap<String, Value>, Vec<(String, Range<usize>)>);

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
            None => Err(damaged(format!(
                "it is {} bytes long, and {what} would take {count} bytes from byte {} on: it was \
                 cut off or damaged",
                self.bytes.len(),
                self.at
            ))),
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
            Ok(_) => Err(damaged(format!("{what} is longer than {MAX_KEY} bytes"))),
            Err(_) => Err(damaged(format!("{what} is not UTF-8"))),
        }
    }

    fn metadata(&mut self, count: u64) -> Parsed<Metadata> {
        let (mut metadata, mut entries) = (BTreeMap::new(), Vec::new());
        for index in 0..count {
            let start = self.at;
            let key = self.name(&format!("the key of setting {index} of {count}"))?;
            let value = self.value(&key)?;
            if metadata.contains_key(&key) {
                return Err(damaged(format!("`{key}` is set twice")));
            }
            entries.push((key.clone(), start..self.at));
            metadata.insert(key, value);
        }
        Ok((metadata, entries))
    }

    fn value_type(&mut self, key: &str) -> Parsed<ValueType> {
        let number = self.u32(key)?;
        ValueType::of(number)
            .ok_or_else(|| damaged(format!("`{key}` is of type {number}, which does not exist")))
    }

    fn value(&mut self, key: &str) -> Parsed<Value> {
        Ok(match self.value_type(key)? {
            ValueType::U8 => Value::Unsigned(u8::from_le_bytes(self.array(key)?).into()),
            ValueType::I8 => Value::Signed(i8::from_le_bytes(self.array(key)?).into()),
            ValueType::U16 => Value::Unsigned(u16::from_le_bytes(self.array(key)?).into()),
            ValueType::I16 => Value::Signed(i16::from_le_bytes(self.array(key)?).into()),
            ValueType::U32 => Value::Unsigned(u32::from_le_bytes(self.array(key)?).into()),
            ValueType::I32 => Value::Signed(i32::from_le_bytes(self.array(key)?).into()),
            ValueType::U64 => Value::Unsigned(self.u64(key)?),
            ValueType::I64 => Value::Signed(i64::from_le_bytes(self.array(key)?)),
            ValueType::F32 => Value::F32(f32::from_le_bytes(self.array(key)?)),
            ValueType::F64 => Value::F64(f64::from_le_bytes(self.array(key)?)),
            ValueType::Bool => match self.array(key)? {
                [0] => Value::Bool(false),
                [1] => Value::Bool(true),
                [other] => {
                    let problem = format!("`{key}` is {other}, neither true (1) nor false (0)");
                    return Err(damaged(problem));
                }
            },
            ValueType::Text => Value::Text(self.text(key)?),
            ValueType::List => Value::List(self.list(key, 0)?),
        })
    }

    fn list(&mut self, key: &str, depth: u32) -> Parsed<List> {
        if depth > MAX_DEPTH {
            return Err(damaged(format!(
                "`{key}` has lists within lists, {depth} deep"
            )));
        }
        let of = self.value_type(key)?;
        let len = self.u64(key)?;
        let start = self.at;
        match (of, of.size()) {
            (_, Some(size)) => _ = self.take(len.saturating_mul(size), key)?,
            (ValueType::Text, _) => {
                for _ in 0..len {
                    self.text(key)?;
                }
            }
            _ => {
                for _ in 0..len {
                    self.list(key, depth + 1)?;
                }
            }
        }
        Ok(List {
            of,
            // Each entry took at least a byte of the file.
            len: len as usize,
            data: start..self.at,
        })
    }

    fn tensors(&mut self, count: u64) -> Parsed<Vec<Unplaced>> {
        let mut tensors = Vec::new();
        let mut names = HashSet::new();
        for index in 0..count {
            let tensor = self.tensor(&format!("tensor {index} of {count}"))?;
            if !names.insert(tensor.info.name.clone()) {
                return Err(damaged(format!(
                    "tensor {} is there twice",
                    tensor.info.name
                )));
            }
            tensors.push(tensor);
        }
        Ok(tensors)
    }

    fn tensor(&mut self, what: &str) -> Parsed<Unplaced> {
        let name = self.name(&format!("the name of {what}"))?;
        let dimensions = self.u32(&name)?;
        if !(1..=MAX_DIMENSIONS).contains(&dimensions) {
            return Err(damaged(format!(
                "tensor {name} has {dimensions} dimensions"
            )));
        }
        let sizes: Vec<u64> = (0..dimensions)
            .map(|_| self.u64(&name))
            .collect::<Parsed<_>>()?;
        let kind = self.u32(&name)?;
        let kind = BlockType::of(kind).map_err(|known_as| unsupported(&name, kind, known_as))?;
        let offset = self.u64(&name)?;
        let length = kind.bytes_of(&sizes).ok_or_else(|| {
            damaged(format!(
                "tensor {name} of sizes {sizes:?} cannot be stored as {}, in blocks of {}",
                kind.name(),
                kind.values()
            ))
        })?;
        let shape = sizes.iter().rev().map(|&size| size as usize).collect();
        Ok(Unplaced {
            info: TensorInfo {
                name,
                shape,
                kind,
                data: 0..0,
            },
            offset,
            length,
        })
    }
}

fn unsupported(tensor: &str, kind: u32, known_as: Option<&'static str>) -> Fault {
    let kind = known_as.map_or_else(|| format!("number {kind}"), str::to_owned);
    Fault {
        problem: format!("tensor {tensor} is stored as type {kind}, which is not read here"),
        cure: "take a file of the model in F32, F16, BF16, Q8_0, Q6_K, Q5_K, Q4_K, Q3_K, Q2_K, \
               Q5_0, Q5_1, Q4_0, Q4_1, IQ4_XS or IQ4_NL",
    }
}
