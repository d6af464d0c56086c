//! The tensors of a GGUF file under the names that checkpoints of Hugging Face have.

use std::collections::HashMap;

use cascade_hub::ModelFile;

use super::header::TensorInfo as Described;
use super::names::{self, Meaning, Renamed, Rows};
use super::settings::{self, Family};
use super::{Gguf, GgufPart};
use crate::tensor::{Order, Tensor, TensorInfo, WeightFile};
use crate::{Error, Result};

/// Maps a GGUF file, or all parts of one, and finds its tensors.
///
/// # Errors
/// As [`Gguf::open`]; a tensor that is not known: it would change what the model computes.
pub(crate) fn open(files: &[ModelFile]) -> Result<WeightFile> {
    let gguf = Gguf::open(files)?;
    let tensors = tensors(&gguf)?;
    let mut longer = gguf.parts.iter().filter(|part| part.header.behind > 0);
    let note = longer.next().map(|part| {
        format!(
            "{} is {} bytes longer than its tensors take: unless something was added to it, they are \
             damaged",
            part.file, part.header.behind
        )
    });
    let name = gguf.file().to_owned();
    let parts = gguf.parts.into_iter().map(|part| part.bytes).collect();
    let mut file = WeightFile::new(name, parts, tensors);
    file.note = note;
    Ok(file)
}

fn tensors(gguf: &Gguf) -> Result<HashMap<String, Tensor>> {
    let family = Family::of(gguf)?;
    let heads = settings::heads(gguf, family)?;
    let ungated = family == Family::T5 && !gguf.has("enc.blk.0.ffn_gate.weight");
    let mut tensors = HashMap::new();
    for (index, part) in gguf.parts.iter().enumerate() {
        for described in &part.header.tensors {
            let Renamed { name, rows } = match names::meaning(family, ungated, &described.name) {
                Meaning::Aside => continue,
                Meaning::Unknown => return Err(unknown(part, described)),
                Meaning::Weight(renamed) => renamed,
            };
            let info = TensorInfo {
                shape: described.shape.clone(),
                dtype: described.kind.name().to_owned(),
            };
            let tensor = Tensor {
                info,
                kind: Some(described.kind),
                part: index,
                bytes: described.data.clone(),
                order: order(part, described, rows, heads)?,
            };
            if tensors.insert(name, tensor).is_some() {
                return Err(twice(part, described));
            }
        }
    }
    Ok(tensors)
}

/// The order of rows of queries, or of keys and values, of so many `heads`.
fn order(part: &GgufPart, tensor: &Described, rows: Rows, heads: (usize, usize)) -> Result<Order> {
    let heads = match rows {
        Rows::Same => return Ok(Order::Rows),
        Rows::QueryPairs => heads.0,
        Rows::KeyPairs => heads.1,
    };
    // Of a bias, each number is a row, which cannot be if they are packed together.
    let count = tensor.shape[0];
    if count.is_multiple_of(2 * heads) && tensor.data.len().is_multiple_of(count) {
        let pairs = count / (2 * heads);
        return Ok(Order::Neighbours { pairs });
    }
    Err(part.unusable(format!(
        "tensor {} has {count} rows, which are not pairs for each of {heads} heads",
        tensor.name
    )))
}

fn unknown(part: &GgufPart, tensor: &Described) -> Error {
    part.unusable(format!(
        "tensor {} is not known here, and would change what the model computes",
        tensor.name
    ))
}

fn twice(part: &GgufPart, tensor: &Described) -> Error {
    part.unusable(format!(
        "tensor {} is in two parts of the model",
        tensor.name
    ))
}
