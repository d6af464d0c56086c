//! A checkpoint of Hugging Face as a GGUF file.
//!
//! What is written is read back by the reader of this crate and compared with the original, so that
//! nothing is lost that the reader knows of.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::ops::Range;

use cascade_core::{StatedSampling, TokenId};
use cascade_hub::{ModelFile, ModelFiles, TokenizerFiles};
use serde_json::Value as Json;

use super::description::{Description, FACTORS};
use super::{Quantized, tokenizer, unknown_window, warnings};
use crate::blocks::BlockType;
use crate::gguf::names::{self, Meaning, Renamed, Rows};
use crate::gguf::write::{ALIGNMENT, Entries, Planned, Target, write};
use crate::gguf::{self, Gguf, sampling, vocabulary, weights};
use crate::{Checkpoint, DType, Error, HEAD, Leftovers, Result, TensorInfo, Tokenizer};

/// A checkpoint of Hugging Face, and what is known of its model.
#[derive(Clone, Debug)]
pub struct Original<'a> {
    /// The files.
    pub files: &'a ModelFiles,
    /// What they describe.
    pub description: Description,
    /// The model's tokenizer.
    pub tokenizer: Tokenizer,
    /// Tokens that end an answer, in order.
    pub ends: Vec<TokenId>,
    /// The sampling that is recommended.
    pub recommended: StatedSampling,
    /// What the user should know of config.json and generation_config.json, which loading the file
    /// that is written cannot say any more.
    pub warnings: Vec<String>,
}

impl Original<'_> {
    fn cannot_say(&self, what: impl AsRef<str>) -> Error {
        Error::cannot_say(&self.files.name, what.as_ref())
    }
}

/// Writes the model of a folder of safetensors or PyTorch files with its matrices rounded to
/// `dtype`; a matrix whose rows have no whole blocks is written in f32, and so is what is no
/// matrix. Settings, tokenizer and the chat templates of `conversations` (the content of a
/// tokenizer_config.json) are said in the format's keys, and tokenizer.json is kept as a whole
/// besides. What the format cannot say is refused. [`check`] reads the file again and compares.
///
/// `tell` hears what the user should know, in sentences, before anything is written: what is lost,
/// and where other programs would take the file for another model, or for none.
///
/// # Errors
/// As [`requantize`](super::requantize); a model that the format has no keys for, and files that
/// have not the weights of the description.
pub fn convert(
    original: &Original<'_>,
    conversations: &Json,
    dtype: DType,
    tell: &mut dyn FnMut(&str),
    out: &mut dyn Write,
) -> Result<Quantized> {
    let target = Target::of(dtype)?;
    let checkpoint = Checkpoint::open(original.files)?;
    let stated = &original.description;
    let own_head = stated.keeps_head(&checkpoint)?;
    let mut entries = Entries::default();
    entries.text("general.architecture", stated.family.name());
    entries.text("general.type", "model");
    entries.text("general.name", last_part(&original.files.name));
    stated.put(&mut entries, own_head);
    sampling::put(&original.recommended, &mut entries);
    let mut told = original.warnings.clone();
    told.extend(stated.window.map(unknown_window));
    told.extend(tokenizer::put(original, conversations, &mut entries)?);
    let tensors = plan(original, &checkpoint, target, own_head, &mut told)?;
    told.extend(warnings(&tensors, target));
    told.iter().for_each(|warning| tell(warning));
    let bytes = write(entries, &tensors, target, ALIGNMENT, out)?;
    Ok(Quantized::of(&tensors, bytes))
}

/// The name of a folder without the path to it, which says nothing of the model.
fn last_part(name: &str) -> &str {
    let name = name.trim_end_matches('/');
    name.rsplit('/').next().unwrap_or(name)
}

/// Reads a file that [`convert`] has written again, and compares what it says with the original:
/// the settings, by `compare`, which gets what config.json would say of the file and whether its
/// head is a tensor of its own; the tokenizer; and the tokens that end an answer.
///
/// # Errors
/// What `compare` returns; a file that cannot be read; the first difference of the rest.
pub fn check<E: From<Error>>(
    original: &Original<'_>,
    written: &ModelFile,
    compare: impl FnOnce(&Json, bool) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let parts = [written.clone()];
    let gguf = Gguf::open(&parts)?;
    weights::open(&parts)?;
    compare(&gguf::config(&gguf)?, gguf.has("output.weight"))?;
    let tokenizer = Tokenizer::load(&TokenizerFiles::Gguf(written.clone()))?;
    if let Some(difference) = tokenizer::difference(&original.tokenizer, &tokenizer)? {
        return Err(original.cannot_say(difference).into());
    }
    let ends = vocabulary::ends(&gguf)?;
    let mut missing = original.ends.iter();
    match missing.find(|&&end| !ends.contains(&end.into())) {
        None => Ok(()),
        Some(end) => Err(original
            .cannot_say(format!("that token {end} ends an answer"))
            .into()),
    }
}

/// The tensors to write, in the order of the layers.
fn plan<'a>(
    original: &Original<'_>,
    checkpoint: &'a Checkpoint,
    target: Target,
    own_head: bool,
    warnings: &mut Vec<String>,
) -> Result<Vec<Planned<'a>>> {
    let stated = &original.description;
    let infos = checkpoint.infos();
    let mut tensors = Vec::new();
    let mut used = HashSet::new();
    for name in names::all(stated.family, stated.layers) {
        let meaning = names::meaning(stated.family, stated.ungated, &name);
        let Meaning::Weight(Renamed { name: own, rows }) = meaning else {
            continue;
        };
        if own == HEAD && !own_head {
            continue;
        }
        let Some(piece) = Piece::of(stated, &infos, &own, rows) else {
            continue;
        };
        used.insert(piece.tensor.clone());
        let stored = checkpoint.load(&piece.tensor, &piece.whole)?;
        let (shape, from) = (piece.shape(), BlockType::from(stored.dtype));
        piece.check().map_err(|what| original.cannot_say(what))?;
        let values = move || piece.values(checkpoint);
        let other = Some(Target::F32);
        tensors.push(Planned::new(name, shape, from, target, other, values));
    }
    tensors.extend(stated.factors());
    check_all_there(original, &tensors, own_head)?;
    leftovers(original, &infos, &used, warnings)?;
    Ok(tensors)
}

/// A tensor of the file as part of one of the checkpoint.
struct Piece {
    tensor: String,
    /// The shape of the checkpoint's tensor.
    whole: Vec<usize>,
    /// The rows that are taken of the checkpoint's tensor.
    taken: Range<usize>,
    /// The order of rows, and heads that they are of.
    rows: Rows,
    heads: usize,
}

impl Piece {
    /// What a checkpoint has of the tensor `own`.
    fn of(
        stated: &Description,
        infos: &BTreeMap<String, TensorInfo>,
        own: &str,
        rows: Rows,
    ) -> Option<Self> {
        let heads = match rows {
            Rows::Same => 1,
            Rows::QueryPairs => stated.heads.0,
            Rows::KeyPairs => stated.heads.1,
        };
        let (tensor, taken) = match stated.part(own) {
            Some((tensor, taken)) => (tensor, Some(taken)),
            None => (
                places(own)
                    .find(|place| infos.contains_key(*place))?
                    .to_owned(),
                None,
            ),
        };
        let whole = infos.get(&tensor)?.shape.clone();
        let count = whole.first().copied().unwrap_or(1);
        Some(Self {
            tensor,
            whole,
            taken: taken.unwrap_or(0..count),
            rows,
            heads,
        })
    }

    fn shape(&self) -> Vec<usize> {
        let mut shape = self.whole.clone();
        if let Some(rows) = shape.first_mut() {
            *rows = self.taken.len();
        }
        shape
    }

    /// Refuses tensors that have not the rows of all heads.
    fn check(&self) -> std::result::Result<(), String> {
        let even = self.rows == Rows::Same || self.taken.len().is_multiple_of(2 * self.heads);
        let there = self
            .whole
            .first()
            .is_none_or(|&rows| self.taken.end <= rows);
        if even && there {
            Ok(())
        } else {
            let (tensor, shape, heads) = (&self.tensor, &self.whole, self.heads);
            Err(format!(
                "tensor {tensor} of shape {shape:?} for {heads} heads"
            ))
        }
    }

    /// The values in the order of a GGUF file.
    fn values<'a>(&self, checkpoint: &'a Checkpoint) -> Result<Cow<'a, [u8]>> {
        let bytes = checkpoint.finite(&self.tensor, &self.whole)?.bytes;
        let row = bytes.len() / self.whole.first().copied().unwrap_or(1).max(1);
        let taken = self.taken.start * row..self.taken.end * row;
        let bytes = match bytes {
            Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[taken]),
            Cow::Owned(bytes) => Cow::Owned(bytes[taken].to_vec()),
        };
        let count = self.taken.len();
        Ok(match self.rows {
            Rows::Same => bytes,
            _ => Cow::Owned(neighbours(&bytes, count, count / (2 * self.heads))),
        })
    }
}

/// Where a tensor may be in a checkpoint; some files of T5 have the embedding under the name of one
/// stack only.
pub(super) fn places(name: &str) -> impl Iterator<Item = &str> {
    let others: &[&str] = match name {
        "shared.weight" => &["decoder.embed_tokens.weight", "encoder.embed_tokens.weight"],
        _ => &[],
    };
    [name].into_iter().chain(others.iter().copied())
}

/// Rows of a checkpoint in the order in which neighbours are rotated together: of each head, the
/// first and the second number of each pair.
fn neighbours(bytes: &[u8], count: usize, pairs: usize) -> Vec<u8> {
    let width = bytes.len() / count;
    let mut ordered = Vec::with_capacity(bytes.len());
    for head in bytes.chunks_exact(2 * pairs * width) {
        let (first, second) = head.split_at(pairs * width);
        for (a, b) in first.chunks_exact(width).zip(second.chunks_exact(width)) {
            ordered.extend_from_slice(a);
            ordered.extend_from_slice(b);
        }
    }
    ordered
}

/// Refuses a checkpoint that has not as many weights as its config.json says.
fn check_all_there(original: &Original<'_>, tensors: &[Planned<'_>], own_head: bool) -> Result<()> {
    let weights = tensors.iter().filter(|tensor| tensor.name != FACTORS);
    let found: usize = weights.map(Planned::len).sum();
    let (tied, with_head) = original.description.parameters;
    let described = if own_head { with_head } else { tied };
    if found == described {
        Ok(())
    } else {
        Err(original.cannot_say(format!(
            "a model of {described} weights, as config.json describes it, with {found} in the files"
        )))
    }
}

/// Refuses tensors of layers that no one asked for, and warns of others.
fn leftovers(
    original: &Original<'_>,
    infos: &BTreeMap<String, TensorInfo>,
    used: &HashSet<String>,
    warnings: &mut Vec<String>,
) -> Result<()> {
    let left = infos.keys().filter(|name| !used.contains(*name));
    let left = Leftovers::of(left.map(String::as_str));
    warnings.extend(left.warning("are left out"));
    match left.of_layers.first() {
        None => Ok(()),
        Some(layer) => Err(original.cannot_say(format!(
            "tensor {layer}, which config.json has no place for"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::settings::Family;

    #[test]
    fn rows_are_neighbours_that_were_half_a_head_apart() {
        let rows: Vec<u8> = (0..12).flat_map(|row| [row, row]).collect();
        let expected = [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11].map(|row: u8| [row, row]);
        assert_eq!(neighbours(&rows, 12, 3), expected.as_flattened());
    }

    #[test]
    fn every_name_that_is_written_is_known_to_the_reader_or_is_not_in_a_model() {
        for family in [Family::Llama, Family::Qwen2, Family::Qwen3, Family::T5] {
            let mut own = HashSet::new();
            for name in names::all(family, (2, 3)) {
                match names::meaning(family, false, &name) {
                    Meaning::Weight(renamed) => {
                        assert!(own.insert(renamed.name), "{name} has the name of another");
                    }
                    _ => {
                        // Norms of heads that the family does not have, biases of T5's positions
                        // in layers after the first.
                        let absent = ["_q_norm.", "_k_norm.", "attn_rel_b."];
                        assert!(absent.iter().any(|part| name.contains(part)), "{name}");
                    }
                }
            }
            // Weights and biases of nine parts, or ten and fifteen, and the tensors of no layer.
            let expected = match family {
                Family::Llama | Family::Qwen2 => 3 + 2 * 2 * 9,
                Family::Qwen3 => 3 + 2 * 2 * 11,
                Family::T5 => 4 + 2 * (2 * 9 + 1) + 2 * (3 * 14 + 1),
            };
            assert_eq!(own.len(), expected, "{family:?}");
        }
    }
}
