//! A model as a GGUF file with its matrices rounded to a type.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;

use cascade_hub::WeightFormat;
use serde_json::Value as Json;

use super::blocks::BlockType;
use super::write::{write, Entries, Planned, Target, ALIGNMENT};
use super::{convert, settings, Gguf, GgufWeights};
use crate::{DType, ModelFiles, Result};

/// What [`quantize`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quantized {
    /// Matrices that have the type now.
    pub matrices: usize,
    /// Bytes that were written.
    pub bytes: u64,
}

/// Writes a model as one GGUF file whose matrices are rounded to `dtype`. The same files give the
/// same bytes on every machine, and loading what was written as it is [stored](DType::Stored) gives
/// the model that loading the original in `dtype` gives. A matrix whose rows have no whole blocks
/// is written in f32.
///
/// `tell` hears what the user should know, in sentences, before anything is written: what is lost,
/// and where other programs would take the file for another model, or for none.
///
/// Of a GGUF file, or of all parts of one, everything else stays: the tokenizer and all settings
/// are copied byte by byte, but for those that say how the file is packed, and tensors that are no
/// matrices keep their type.
///
/// Of a folder of safetensors or PyTorch files, settings, tokenizer and the chat templates of
/// `conversations` (the content of a tokenizer_config.json) are said in the format's keys, tensors
/// that are no matrices are written in f32, and tokenizer.json is kept as a whole besides. What the
/// format cannot say is refused. Frequencies of LLaMA 3's rotations become factors in f32, which
/// may move them by one part in ten million. [`check_quantized`] reads the file again and compares.
///
/// # Errors
/// [`Error::QuantizeType`](crate::Error::QuantizeType) for [`DType::Stored`]; a file that is
/// damaged or has settings or tensors that are not known;
/// [`Error::CannotSay`](crate::Error::CannotSay) for a model that the format has no keys for;
/// [`Error::NotFinite`](crate::Error::NotFinite);
/// [`Error::TooLargeForType`](crate::Error::TooLargeForType);
/// [`Error::Write`](crate::Error::Write).
pub fn quantize(
    files: &ModelFiles,
    conversations: &Json,
    dtype: DType,
    tell: &mut dyn FnMut(&str),
    out: &mut dyn Write,
) -> Result<Quantized> {
    let target = Target::of(dtype)?;
    if files.weight_format != WeightFormat::Gguf {
        return convert::convert(files, conversations, target, tell, out);
    }
    // Refuses what is not understood.
    GgufWeights::open(&files.weights)?;
    let gguf = Gguf::open(&files.weights)?;
    let config = settings::config(&gguf)?;
    if let Some(window) = config["sliding_window"].as_u64() {
        tell(&unknown_window(window));
    }
    let mut entries = Entries::default();
    let first = gguf.first();
    let kept = first.header.entries.iter();
    let kept = kept.filter(|(key, _)| !is_of_packing(key));
    kept.for_each(|(_, place)| entries.copy(&first.bytes[place.clone()]));
    let tensors = gguf.tensors().map(|(part, tensor)| {
        let (name, shape) = (tensor.name.clone(), tensor.shape.clone());
        Planned::new(name, shape, tensor.kind, target, None, || {
            part.finite(tensor)?;
            Ok(Cow::Borrowed(&part.bytes[tensor.data.clone()]))
        })
    });
    let tensors: Vec<Planned<'_>> = tensors.collect();
    warnings(&tensors, target)
        .iter()
        .for_each(|warning| tell(warning));
    let bytes = write(entries, &tensors, target, alignment(&gguf), out)?;
    Ok(Quantized::of(&tensors, bytes))
}

/// What the user should know of a window in a file of architecture `llama`.
pub(super) fn unknown_window(window: u64) -> String {
    format!(
        "the model sees {window} tokens at most, and other programs (llama.cpp) do not read that of \
         a file of this architecture: longer texts go on in another way there"
    )
}

/// Reads the file that [`quantize`] has written again, and compares what it says with the original:
/// settings, tokenizer, and the tokens that end an answer.
///
/// # Errors
/// [`Error::CannotSay`](crate::Error::CannotSay) for the first difference.
pub fn check_quantized(files: &ModelFiles, written: &crate::ModelFile) -> Result<()> {
    match files.weight_format {
        WeightFormat::Gguf => Ok(()),
        _ => convert::check(files, written),
    }
}

impl Quantized {
    pub(super) fn of(tensors: &[Planned<'_>], bytes: u64) -> Self {
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

fn alignment(gguf: &Gguf) -> u64 {
    // Headers with anything else were refused.
    let stated = gguf.unsigned("general.alignment").ok().flatten();
    stated.unwrap_or(ALIGNMENT)
}

/// What the user should know of how tensors are rounded.
pub(super) fn warnings(tensors: &[Planned<'_>], target: Target) -> Vec<String> {
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
