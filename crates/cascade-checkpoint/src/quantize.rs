//! Writing a model as a GGUF file, with its matrices rounded to a type.
//!
//! [`requantize`] writes a GGUF file anew. [`convert`] writes a checkpoint of Hugging Face, of
//! which whoever knows its architecture gives a [`Description`]; [`check`] reads what was written
//! and compares it with the original.

mod convert;
mod description;
mod tokenizer;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;

use cascade_hub::ModelFile;

use crate::blocks::BlockType;
use crate::gguf::write::{Entries, Planned, Target, write};
use crate::gguf::{Gguf, settings, weights};
use crate::{DType, Result};

pub use self::convert::{Original, check, convert};
pub use self::description::{Description, FusedRows, Setting};
pub use crate::gguf::settings::Family;

/// What [`requantize`] or [`convert`] wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quantized {
    /// Matrices that have the type now.
    pub matrices: usize,
    /// Bytes that were written.
    pub bytes: u64,
}

/// Writes the model of a GGUF file, or of all parts of one, with its matrices rounded to `dtype`.
/// Everything else stays: the tokenizer and all settings are copied byte by byte, but for those
/// that say how the file is packed, and tensors that are no matrices keep their type. A matrix
/// whose rows have no whole blocks is written in f32.
///
/// `tell` hears what the user should know, in sentences, before anything is written.
///
/// # Errors
/// For [`DType::Stored`]; a file that is damaged or has settings or tensors that are not known;
/// weights that are not finite, or that the type has no number for; what the system says.
pub fn requantize(
    files: &[ModelFile],
    dtype: DType,
    tell: &mut dyn FnMut(&str),
    out: &mut dyn Write,
) -> Result<Quantized> {
    let target = Target::of(dtype)?;
    // Refuses what is not understood.
    weights::open(files)?;
    let gguf = Gguf::open(files)?;
    let config = settings::config(&gguf)?;
    if let Some(window) = config["sliding_window"].as_u64() {
        tell(&unknown_window(window as usize));
    }
    let mut entries = Entries::default();
    let first = gguf.first();
    let mut kept: Vec<_> = first.header.metadata.iter().collect();
    kept.retain(|(key, _)| !is_of_packing(key));
    kept.sort_by_key(|(_, value)| value.entry.start);
    kept.iter()
        .for_each(|(_, value)| entries.copy(&first.bytes[value.entry.clone()]));
    let tensors: Vec<Planned<'_>> = gguf
        .tensors()
        .map(|(part, tensor)| {
            let (name, shape) = (tensor.name.clone(), tensor.shape.clone());
            Planned::new(name, shape, tensor.kind, target, None, || {
                part.finite(tensor)?;
                Ok(Cow::Borrowed(&part.bytes[tensor.data.clone()]))
            })
        })
        .collect();
    warnings(&tensors, target)
        .iter()
        .for_each(|warning| tell(warning));
    let bytes = write(entries, &tensors, target, first.header.alignment, out)?;
    Ok(Quantized::of(&tensors, bytes))
}

/// What the user should know of a window in a file of architecture `llama`.
pub(crate) fn unknown_window(window: usize) -> String {
    format!(
        "the model sees {window} tokens at most, and other programs (llama.cpp) do not read that of \
         a file of this architecture: longer texts go on in another way there"
    )
}

impl Quantized {
    pub(crate) fn of(tensors: &[Planned<'_>], bytes: u64) -> Self {
        Self {
            matrices: tensors.iter().filter(|tensor| tensor.rounded).count(),
            bytes,
        }
    }
}

/// Settings that say how the original was packed or cut into parts.
fn is_of_packing(key: &str) -> bool {
    let packing = ["general.file_type", "general.quantization_version"];
    packing.contains(&key) || key.starts_with("quantize.") || key.starts_with("split.")
}

/// What the user should know of how tensors are rounded.
pub(crate) fn warnings(tensors: &[Planned<'_>], target: Target) -> Vec<String> {
    let mut before: BTreeMap<&str, usize> = BTreeMap::new();
    let floats = [
        BlockType::F32,
        BlockType::F16,
        BlockType::BF16,
        BlockType::F64,
    ];
    for planned in tensors {
        if planned.is_lossy() && !floats.contains(&planned.from) {
            *before.entry(planned.from.name()).or_default() += 1;
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
        .filter(|planned| planned.matrix && !planned.rounded);
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cascade_hub::{HubOptions, ModelSource};

    use super::*;
    use crate::gguf::names;
    use crate::{Checkpoint, FloatType};

    /// The message with which one of the tensors of a file is refused.
    fn refusal(source: &ModelSource) -> String {
        let files = source.files(&HubOptions::new("", ""), false).unwrap();
        let checkpoint = Checkpoint::open(&files).unwrap();
        let infos = checkpoint.infos().into_iter();
        let mut errors = infos.filter_map(|(name, info)| {
            let [outputs, inputs] = info.shape[..] else {
                return checkpoint.finite(&name, &info.shape).err();
            };
            match checkpoint
                .blocks(&name, [outputs, inputs], DType::Stored)
                .unwrap()
            {
                None => checkpoint.finite(&name, &info.shape).err(),
                Some(blocks) => {
                    let scales = crate::Scales::of_format(blocks.format);
                    let named = checkpoint.named(&name);
                    let checked = named.check_blocks(scales, &blocks.bytes, &info.shape);
                    // However it is read.
                    let unpacked = checkpoint.finite(&name, &info.shape);
                    assert_eq!(checked.is_ok(), unpacked.is_ok(), "{name}");
                    checked.err()
                }
            }
        });
        let error = errors.next().expect("a weight is not finite");
        error.to_string()
    }

    #[test]
    fn weights_that_are_not_numbers_are_refused_however_they_are_stored() {
        let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/goldens/gguf");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("damaged.gguf");
        let source = ModelSource::File(path.clone());
        for name in [
            "llama-f32",
            "llama3-q8_0",
            "mistral-f16",
            "qwen2-q4_0",
            "qwen3-k",
            "qwen3-minima",
            "t5-v1.1-q8_0",
        ] {
            let whole = std::fs::read(goldens.join(format!("{name}.gguf"))).unwrap();
            let gguf = Gguf::of_bytes(name, whole.clone()).unwrap();
            let family = Family::of(&gguf).unwrap();
            for (_, tensor) in gguf.tensors() {
                let names::Meaning::Weight(own) = names::meaning(family, false, &tensor.name)
                else {
                    continue;
                };
                // In the last block.
                let infinity: &[u8] = match tensor.kind.as_float() {
                    Some(FloatType::F32) => &[0, 0, 0x80, 0x7f],
                    _ if tensor.kind == BlockType::Mxfp4 => &[0xff],
                    _ => &[0, 0x7c],
                };
                let scale = tensor.kind.scales().places.first().copied().unwrap_or(0);
                let at = tensor.data.end - tensor.kind.bytes() + scale;
                let mut damaged = whole.clone();
                damaged[at..at + infinity.len()].copy_from_slice(infinity);
                std::fs::write(&path, damaged).unwrap();
                let message = refusal(&source);
                let whose = format!("damaged.gguf: tensor {} has ", own.name);
                assert!(
                    message.contains(&whose) && message.contains("finite"),
                    "{message}"
                );
                let files = [ModelFile::Disk(path.clone())];
                for dtype in [DType::Q4_0, DType::Q8_0, DType::F32] {
                    let written = requantize(&files, dtype, &mut |_| {}, &mut Vec::new());
                    let error = written.unwrap_err();
                    let whose = format!("damaged.gguf: tensor {} has ", tensor.name);
                    assert!(error.to_string().contains(&whose), "{error}");
                }
            }
        }
    }
}
