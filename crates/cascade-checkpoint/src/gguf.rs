//! GGUF: a model as one file, the way llama.cpp reads and writes it.
//!
//! [`header`] reads what a file says of itself, from bytes that nobody vouches for; [`settings`]
//! says it as a config.json would, [`vocabulary`] makes a tokenizer of it, and [`weights`] gives
//! the tensors under the names that Hugging Face has for them, with the values that
//! [`crate::blocks`] unpacks.
//!
//! What is not understood is refused by name: a key or a tensor that is passed over may change what
//! the model says.

pub(crate) mod header;
pub(crate) mod names;
pub(crate) mod pre_tokenizers;
pub(crate) mod sampling;
pub(crate) mod settings;
#[cfg(test)]
mod tests;
pub(crate) mod vocabulary;
pub(crate) mod weights;
pub(crate) mod write;

use header::{Header, TensorInfo, Value, ValueType};

use std::fmt::Display;

use cascade_hub::ModelFile;

use crate::bytes::Bytes;
use crate::error::Fault;
use crate::finite::Named;
use crate::{Error, ErrorKind, Result};

pub(crate) use settings::config;

const OTHER_FILE: &str = "take another GGUF file of the model, or its safetensors files";

/// A GGUF file, or all parts of one that was split, headers checked.
pub(crate) struct Gguf {
    /// At least one; the first has the metadata.
    parts: Vec<GgufPart>,
}

/// One file of those that a GGUF file was split into, or the only one, its header read.
pub(crate) struct GgufPart {
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

/// What generation_config.json would say of sampling with the model in a GGUF file: the keys that
/// the file has under `general.sampling.`, and `true` for each that generation_config.json has not.
///
/// # Errors
/// A file that cannot be read; a key of another type.
pub fn gguf_generation_config(file: &ModelFile) -> Result<serde_json::Value> {
    sampling::generation_config(&Gguf::open_first(file)?)
}

impl Gguf {
    /// Maps the files and reads their headers.
    ///
    /// # Errors
    /// A file that cannot be read, is damaged, of another format or version, or has tensors of a
    /// type that is not known; parts that do not belong together.
    pub(crate) fn open(files: &[ModelFile]) -> Result<Self> {
        let parts = files.iter().map(GgufPart::open).collect::<Result<_>>()?;
        let gguf = Self { parts };
        gguf.check_parts()?;
        Ok(gguf)
    }

    /// Reads the header of the first file of a model, which has all settings and the tokenizer.
    ///
    /// # Errors
    /// As [`open`](Self::open), for that file.
    pub(crate) fn open_first(file: &ModelFile) -> Result<Self> {
        let parts = vec![GgufPart::open(file)?];
        Ok(Self { parts })
    }

    /// A file that is in memory, under the name that messages have for it.
    pub(crate) fn of_bytes(name: &str, bytes: Vec<u8>) -> Result<Self> {
        let parts = vec![GgufPart::of(name.to_owned(), Bytes::Owned(bytes))?];
        Ok(Self { parts })
    }

    /// Refuses parts that are not all parts of one model, in order.
    fn check_parts(&self) -> Result<()> {
        let expected = self.parts.len() as i128;
        for (index, part) in self.parts.iter().enumerate() {
            let stated = |key| {
                let numbers = part.header.metadata.get(key)?.integers(&part.bytes)?;
                numbers.first().copied()
            };
            let count = stated("split.count").unwrap_or(1).max(1);
            let number = stated("split.no").unwrap_or(0);
            if (number, count) != (index as i128, expected) {
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
    pub(crate) fn first(&self) -> &GgufPart {
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

    /// What `read` finds in the value of a key, which is a list or not, if there is one.
    fn read<'a, T>(
        &'a self,
        key: &str,
        (is_list, expected): (bool, &str),
        read: impl FnOnce(&'a Value, &'a [u8]) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        let found = Some(value).filter(|value| value.is_list == is_list);
        let found = found.and_then(|value| read(value, &self.first().bytes));
        found.ok_or_else(|| self.mistyped(key, expected)).map(Some)
    }

    pub(crate) fn text(&self, key: &str) -> Result<Option<&str>> {
        let text = self.read(key, (false, "a text"), |value, file| {
            value.texts(file)?.next()
        })?;
        let read = |text| std::str::from_utf8(text).map_err(|_| self.mistyped(key, "UTF-8"));
        text.map(read).transpose()
    }

    pub(crate) fn unsigned(&self, key: &str) -> Result<Option<u64>> {
        self.read(key, (false, "a whole number"), |value, file| {
            u64::try_from(*value.integers(file)?.first()?).ok()
        })
    }

    /// A number; f32 is given as the shortest decimal that rounds to it, which is what the file was
    /// made from.
    fn number(&self, key: &str) -> Result<Option<f64>> {
        self.read(key, (false, "a number"), |value, file| {
            let number = *value.numbers(file)?.first()?;
            let is_single = value.of == ValueType::F32;
            Some(if is_single {
                decimal(number as f32)
            } else {
                number
            })
        })
    }

    fn flag(&self, key: &str) -> Result<Option<bool>> {
        self.read(key, (false, "true or false"), Value::flag)
    }

    fn texts(&self, key: &str) -> Result<Option<Vec<&str>>> {
        let texts = self.read(key, (true, "a list of texts"), |value, file| {
            value.texts(file)
        })?;
        let checked = texts.map(|texts| {
            let checked = texts.zip(0..).map(|(text, index)| {
                let problem = || format!("`{key}` has an entry number {index} that is not UTF-8");
                std::str::from_utf8(text).map_err(|_| self.unusable(problem()))
            });
            checked.collect()
        });
        checked.transpose()
    }

    fn integers(&self, key: &str) -> Result<Option<Vec<i128>>> {
        self.read(key, (true, "a list of whole numbers"), Value::integers)
    }

    fn numbers(&self, key: &str) -> Result<Option<Vec<f64>>> {
        self.read(key, (true, "a list of numbers"), Value::numbers)
    }

    /// All tensors, with the parts they are in.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = (&GgufPart, &TensorInfo)> {
        let parts = self.parts.iter();
        parts.flat_map(|part| part.header.tensors.iter().map(move |tensor| (part, tensor)))
    }

    fn tensor(&self, name: &str) -> Option<(&GgufPart, &TensorInfo)> {
        self.tensors().find(|(_, tensor)| tensor.name == name)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.tensor(name).is_some()
    }
}

impl GgufPart {
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
        tensor.kind.check(name, bytes, &tensor.shape)
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
