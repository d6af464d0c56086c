//! GGUF: a model as one file, the way llama.cpp reads and writes it.
//!
//! [`header`] reads what a file says of itself, from bytes that nobody vouches for; [`settings`]
//! says it as a config.json would, [`vocabulary`] makes a tokenizer of it, and [`weights`] gives
//! the tensors under the names that Hugging Face has for them, with the values that [`blocks`]
//! unpacks.
//!
//! What is not understood is refused by name: a key or a tensor that is passed over may change what
//! the model says.

pub(crate) mod blocks;
pub(crate) mod header;
pub(crate) mod names;
pub(crate) mod pre_tokenizers;
pub(crate) mod settings;
#[cfg(test)]
mod tests;
pub(crate) mod vocabulary;
mod weights;
pub(crate) mod write;

use header::{Fault, Header, List, TensorInfo, Value, ValueType};

use std::fmt::Display;

use cascade_hub::ModelFile;

use crate::bytes::Bytes;
use crate::finite::Named;
use crate::{Error, ErrorKind, Result};

pub(crate) use settings::config;
pub(crate) use weights::GgufWeights;

const OTHER_FILE: &str = "take another GGUF file of the model, or its safetensors files";

/// A GGUF file, or all parts of one that was split, headers checked.
pub(crate) struct Gguf {
    /// At least one; the first has the metadata.
    parts: Vec<Part>,
}

pub(crate) struct Part {
    file: String,
    pub(crate) bytes: Bytes,
    pub(crate) header: Header,
}

/// What tokenizer_config.json would say of conversations with the model in a GGUF file:
/// `chat_template` as one text, or as a list with names, and `bos_token`, `eos_token`, `unk_token`
/// and `pad_token`. Whatever the file does not have is absent.
///
/// # Errors
/// A file that cannot be read.
pub fn gguf_tokenizer_config(file: &ModelFile) -> Result<serde_json::Value> {
    vocabulary::tokenizer_config(&Gguf::open_first(file)?)
}

/// What config.json would say of the model in a GGUF file, or in all parts of one: the keys of the
/// Hugging Face class of the same architecture, with `eos_token_id`.
///
/// # Errors
/// A file that cannot be read; an architecture or a key that is not known, since it may change what
/// the model computes.
pub fn gguf_config(files: &[ModelFile]) -> Result<serde_json::Value> {
    settings::config(&Gguf::open(files)?)
}

impl Gguf {
    /// Maps the files and reads their headers.
    ///
    /// # Errors
    /// A file that cannot be read, is damaged, of another format or version, or has tensors of a
    /// type that is not known; parts that do not belong together.
    pub(crate) fn open(files: &[ModelFile]) -> Result<Self> {
        let parts = files.iter().map(Part::open).collect::<Result<_>>()?;
        let gguf = Self { parts };
        gguf.check_parts()?;
        Ok(gguf)
    }

    /// Reads the header of the first file of a model, which has all settings and the tokenizer.
    ///
    /// # Errors
    /// As [`open`](Self::open), for that file.
    pub(crate) fn open_first(file: &ModelFile) -> Result<Self> {
        let parts = vec![Part::open(file)?];
        Ok(Self { parts })
    }

    /// A file that is in memory, under the name that messages have for it.
    pub(crate) fn of_bytes(name: &str, bytes: Vec<u8>) -> Result<Self> {
        let parts = vec![Part::of(name.to_owned(), Bytes::Owned(bytes))?];
        Ok(Self { parts })
    }

    /// Refuses parts that are not all parts of one model, in order.
    fn check_parts(&self) -> Result<()> {
        let expected = self.parts.len() as u64;
        for (index, part) in self.parts.iter().enumerate() {
            let stated = |key| match part.header.metadata.get(key) {
                Some(Value::Unsigned(number)) => Some(*number),
                _ => None,
            };
            let count = stated("split.count").unwrap_or(1).max(1);
            let number = stated("split.no").unwrap_or(0);
            if (number, count) != (index as u64, expected) {
                return Err(part.fault(
                    format!(
                        "it is part {} of a model in {count} files, and not part {} of {expected}",
                        number + 1,
                        index + 1
                    ),
                    "give the first part, NAME-00001-of-0000N.gguf, under its original name and \
                     beside the others",
                ));
            }
        }
        Ok(())
    }

    /// The first part, which has the metadata.
    pub(crate) fn first(&self) -> &Part {
        &self.parts[0]
    }

    /// The file that messages name.
    pub(crate) fn file(&self) -> &str {
        &self.first().file
    }

    pub(crate) fn fault(&self, problem: impl Display, cure: impl Display) -> Error {
        self.first().fault(problem, cure)
    }

    fn unusable(&self, problem: impl Display) -> Error {
        self.first().unusable(problem)
    }

    /// The keys of the metadata, in order.
    fn keys(&self) -> impl Iterator<Item = &str> {
        self.first().header.metadata.keys().map(String::as_str)
    }

    pub(crate) fn value(&self, key: &str) -> Option<&Value> {
        self.first().header.metadata.get(key)
    }

    fn mistyped(&self, key: &str, expected: &str) -> Error {
        let found = self.value(key).map_or("nothing", Value::describe);
        self.unusable(format!("`{key}` is {found}, and should be {expected}"))
    }

    pub(crate) fn text(&self, key: &str) -> Result<Option<&str>> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Text(range)) => std::str::from_utf8(&self.first().bytes[range.clone()])
                .map(Some)
                .map_err(|_| self.mistyped(key, "UTF-8")),
            Some(_) => Err(self.mistyped(key, "a text")),
        }
    }

    pub(crate) fn unsigned(&self, key: &str) -> Result<Option<u64>> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Unsigned(number)) => Ok(Some(*number)),
            Some(Value::Signed(number)) if *number >= 0 => Ok(Some(*number as u64)),
            Some(_) => Err(self.mistyped(key, "a whole number")),
        }
    }

    /// A number; f32 is given as the shortest decimal that rounds to it, which is what the file was
    /// made from.
    fn number(&self, key: &str) -> Result<Option<f64>> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::F32(number)) => Ok(Some(decimal(*number))),
            Some(Value::F64(number)) => Ok(Some(*number)),
            Some(Value::Unsigned(number)) => Ok(Some(*number as f64)),
            Some(Value::Signed(number)) => Ok(Some(*number as f64)),
            Some(_) => Err(self.mistyped(key, "a number")),
        }
    }

    fn flag(&self, key: &str) -> Result<Option<bool>> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(self.mistyped(key, "true or false")),
        }
    }

    fn list(&self, key: &str) -> Result<Option<&List>> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::List(list)) => Ok(Some(list)),
            Some(_) => Err(self.mistyped(key, "a list")),
        }
    }

    fn texts(&self, key: &str) -> Result<Option<Vec<&str>>> {
        let Some(list) = self.list(key)? else {
            return Ok(None);
        };
        if list.of != ValueType::Text {
            return Err(self.mistyped(key, "a list of texts"));
        }
        let texts = list.texts(&self.first().bytes).zip(0..);
        let checked = texts.map(|(text, index)| {
            std::str::from_utf8(text).map_err(|_| {
                let problem = format!("`{key}` has an entry number {index} that is not UTF-8");
                self.unusable(problem)
            })
        });
        checked.collect::<Result<_>>().map(Some)
    }

    fn integers(&self, key: &str) -> Result<Option<Vec<i64>>> {
        let Some(list) = self.list(key)? else {
            return Ok(None);
        };
        let integers = list.integers(&self.first().bytes);
        let mistyped = || self.mistyped(key, "a list of whole numbers");
        integers.ok_or_else(mistyped).map(Some)
    }

    fn floats(&self, key: &str) -> Result<Option<Vec<f32>>> {
        let Some(list) = self.list(key)? else {
            return Ok(None);
        };
        let floats = list.floats(&self.first().bytes);
        let mistyped = || self.mistyped(key, "a list of numbers");
        floats.ok_or_else(mistyped).map(Some)
    }

    /// All tensors, with the parts they are in.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = (&Part, &TensorInfo)> {
        let parts = self.parts.iter();
        parts.flat_map(|part| part.header.tensors.iter().map(move |tensor| (part, tensor)))
    }

    fn tensor(&self, name: &str) -> Option<(&Part, &TensorInfo)> {
        self.tensors().find(|(_, tensor)| tensor.name == name)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.tensor(name).is_some()
    }
}

impl Part {
    fn open(file: &ModelFile) -> Result<Self> {
        Self::of(file.to_string(), Bytes::open(file)?)
    }

    fn of(file: String, bytes: Bytes) -> Result<Self> {
        match header::parse(&bytes) {
            Ok(header) => Ok(Self {
                file,
                bytes,
                header,
            }),
            Err(Fault { problem, cure }) => Err(damaged(&file, problem, cure)),
        }
    }

    /// Refuses a tensor with numbers that are not finite. Costs one pass over it.
    pub(crate) fn finite(&self, tensor: &TensorInfo) -> Result<()> {
        let name = Named {
            file: Some(&self.file),
            tensor: &tensor.name,
        };
        let bytes = &self.bytes[tensor.data.clone()];
        match tensor.kind.as_float() {
            Some(dtype) => name.check(dtype, bytes, &tensor.shape),
            None => name.check_blocks(tensor.kind.scales(), bytes, &tensor.shape),
        }
    }

    pub(crate) fn fault(&self, problem: impl Display, cure: impl Display) -> Error {
        damaged(&self.file, problem, cure)
    }

    /// The error of a file in place of which another is to be taken.
    fn unusable(&self, problem: impl Display) -> Error {
        self.fault(problem, OTHER_FILE)
    }
}

fn damaged(file: &str, problem: impl Display, cure: impl Display) -> Error {
    Error::new(ErrorKind::Damaged, format!("{file}: {problem}; {cure}"))
}

/// The shortest decimal number that rounds to `number`.
fn decimal(number: f32) -> f64 {
    number.to_string().parse().unwrap_or(f64::from(number))
}

#[cfg(test)]
mod numbers {
    use super::*;

    #[test]
    fn single_precision_is_read_as_the_decimal_it_was_written_from() {
        assert_eq!(decimal(1e-5_f32), 1e-5);
        assert_eq!(decimal(1e-6_f32), 1e-6);
        assert_eq!(decimal(500_000.0), 500_000.0);
        assert!(decimal(f32::NAN).is_nan());
        assert_eq!(decimal(f32::INFINITY), f64::INFINITY);
    }
}
