//! The tensors of a GGUF file under the names that checkpoints of Hugging Face have.

use std::borrow::Cow;
use std::collections::HashMap;

use cascade_cpu::Format;
use cascade_hub::ModelFile;

use super::header::TensorInfo as Place;
use super::names::{self, Meaning, Rows};
use super::settings::{self, Family};
use super::{blocks::BlockType, Gguf, Part};
use crate::dtype::FloatType;
use crate::tensor::{Blocks, Encoding, InPlace, Stored, TensorFile, TensorInfo};
use crate::{DType, Error, Result};

/// A GGUF file, or all parts of one.
///
/// A tensor is unpacked when it is read, into f32; floats that backends know are given as they are.
pub(crate) struct GgufWeights {
    gguf: Gguf,
    /// Part, place in it and order of rows, by name.
    tensors: HashMap<String, (usize, usize, Rows)>,
    /// Heads of queries, and of keys and values.
    heads: (usize, usize),
}

impl GgufWeights {
    /// Maps the files and finds their tensors.
    ///
    /// # Errors
    /// As [`Gguf::open`]; a tensor that is not known: it would change what the model computes.
    pub(crate) fn open(files: &[ModelFile]) -> Result<Self> {
        let gguf = Gguf::open(files)?;
        let family = Family::of(&gguf)?;
        let ungated = family == Family::T5 && !gguf.has("enc.blk.0.ffn_gate.weight");
        let mut tensors = HashMap::new();
        for (index, part) in gguf.parts.iter().enumerate() {
            for (place, tensor) in part.header.tensors.iter().enumerate() {
                match names::meaning(family, &tensor.name) {
                    Meaning::Aside => {}
                    Meaning::Unknown => return Err(unknown(part, tensor)),
                    Meaning::Weight(mut renamed) => {
                        if ungated {
                            renamed.name = names::ungated(&renamed.name);
                        }
                        let entry = (index, place, renamed.rows);
                        if tensors.insert(renamed.name, entry).is_some() {
                            return Err(twice(part, tensor));
                        }
                    }
                }
            }
        }
        let heads = settings::heads(&gguf, family)?;
        Ok(Self {
            gguf,
            tensors,
            heads,
        })
    }

    fn get(&self, tensor: &str) -> Option<(&Part, &Place, Rows)> {
        let &(part, place, rows) = self.tensors.get(tensor)?;
        let part = &self.gguf.parts[part];
        Some((part, &part.header.tensors[place], rows))
    }

    /// The bytes of a tensor, rows in the order of a checkpoint.
    fn rows<'a>(&self, part: &'a Part, place: &Place, rows: Rows) -> Result<Cow<'a, [u8]>> {
        let bytes = &part.bytes[place.data.clone()];
        let heads = match rows {
            Rows::Same => return Ok(Cow::Borrowed(bytes)),
            Rows::QueryPairs => self.heads.0,
            Rows::KeyPairs => self.heads.1,
        };
        // Of a bias, each number is a row, which cannot be if they are packed together.
        let count = place.shape[0];
        if !count.is_multiple_of(2 * heads) || !bytes.len().is_multiple_of(count) {
            return Err(part.unusable(format!(
                "tensor {} has {count} rows, which are not pairs for each of {heads} heads",
                place.name
            )));
        }
        Ok(Cow::Owned(halves(bytes, count, count / (2 * heads))))
    }
}

impl TensorFile for GgufWeights {
    fn name(&self) -> &str {
        self.gguf.file()
    }

    fn tensors(&self) -> Vec<(String, TensorInfo)> {
        let names = self.tensors.keys().filter_map(|name| {
            let (_, place, _) = self.get(name)?;
            let info = TensorInfo {
                shape: place.shape.clone(),
                dtype: place.kind.name().to_owned(),
            };
            Some((name.clone(), info))
        });
        names.collect()
    }

    fn load(&self, tensor: &str) -> Result<Option<Stored<'_>>> {
        let Some((part, place, rows)) = self.get(tensor) else {
            return Ok(None);
        };
        let bytes = self.rows(part, place, rows)?;
        Ok(Some(match place.kind.as_float() {
            Some(dtype) => Stored { dtype, bytes },
            None => Stored {
                dtype: FloatType::F32,
                bytes: Cow::Owned(place.kind.unpack(&bytes)),
            },
        }))
    }

    fn blocks(&self, tensor: &str, dtype: DType) -> Result<Option<Blocks<'_>>> {
        let Some((part, place, rows)) = self.get(tensor) else {
            return Ok(None);
        };
        let format = match place.kind {
            BlockType::Q8_0 | BlockType::Q5_0 | BlockType::Iq4Nl => Format::Q8_0,
            BlockType::Q4_0 => Format::Q4_0,
            BlockType::Q4K => Format::Q4K,
            BlockType::Q5K => Format::Q5K,
            BlockType::Q6K | BlockType::Q3K => Format::Q6K,
            _ => return Ok(None),
        };
        if !takes(dtype, format) {
            return Ok(None);
        }
        let bytes = self.rows(part, place, rows)?;
        let bytes = match place.kind {
            BlockType::Q5_0 | BlockType::Iq4Nl | BlockType::Q3K => {
                Cow::Owned(place.kind.widened(&bytes))
            }
            _ => bytes,
        };
        Ok(Some(Blocks { format, bytes }))
    }

    fn part(&self, part: usize) -> &[u8] {
        &self.gguf.parts[part].bytes
    }

    fn in_place(&self, tensor: &str) -> Option<InPlace> {
        let &(part, place, rows) = self.tensors.get(tensor)?;
        let place = &self.gguf.parts[part].header.tensors[place];
        let encoding = match place.kind {
            BlockType::Q8_0 => Encoding::Blocks(Format::Q8_0),
            BlockType::Q4_0 => Encoding::Blocks(Format::Q4_0),
            BlockType::Q4K => Encoding::Blocks(Format::Q4K),
            BlockType::Q5K => Encoding::Blocks(Format::Q5K),
            BlockType::Q6K => Encoding::Blocks(Format::Q6K),
            kind => Encoding::Floats(kind.as_float()?),
        };
        (rows == Rows::Same).then(|| InPlace {
            encoding,
            part,
            bytes: place.data.clone(),
        })
    }

    fn note(&self) -> Option<String> {
        let parts = self.gguf.parts.iter();
        let mut longer = parts.filter(|part| part.header.behind > 0);
        longer.next().map(|part| {
            format!(
                "{} is {} bytes longer than its tensors take: unless something was added to it, \
                 they are damaged",
                part.file, part.header.behind
            )
        })
    }

    fn let_go(&self, tensor: &str) {
        if let Some((part, place, _)) = self.get(tensor) {
            part.bytes.let_go(place.data.clone());
        }
    }
}

/// Whether a type takes blocks of a format: its own, and all of them as they are stored.
fn takes(dtype: DType, format: Format) -> bool {
    match dtype {
        DType::Stored => true,
        DType::Q8_0 => format == Format::Q8_0,
        DType::Q4_0 => format == Format::Q4_0,
        DType::F32 | DType::BF16 | DType::F16 => false,
    }
}

/// Rows in which neighbours are rotated together, in the order of a checkpoint: of each head, the
/// first numbers of all pairs, then the second ones.
fn halves(bytes: &[u8], count: usize, pairs: usize) -> Vec<u8> {
    let width = bytes.len() / count;
    let heads = bytes.chunks_exact(2 * pairs * width);
    let mut ordered = Vec::with_capacity(bytes.len());
    for head in heads {
        for first in [0, 1] {
            let rows = head.chunks_exact(width).skip(first).step_by(2);
            rows.for_each(|row| ordered.extend_from_slice(row));
        }
    }
    ordered
}

fn unknown(part: &Part, tensor: &Place) -> Error {
    part.unusable(format!(
        "tensor {} is not known here, and would change what the model computes",
        tensor.name
    ))
}

fn twice(part: &Part, tensor: &Place) -> Error {
    part.unusable(format!(
        "tensor {} is in two parts of the model",
        tensor.name
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_in_the_order_of_a_checkpoint() {
        // Two heads of six rows of two bytes, numbered as they were in the checkpoint.
        let stored = [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11].map(|row: u8| [row, row]);
        let expected: Vec<u8> = (0..12).flat_map(|row| [row, row]).collect();
        assert_eq!(halves(stored.as_flattened(), 12, 3), expected);
    }
}
