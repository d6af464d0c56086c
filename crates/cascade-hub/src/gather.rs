//! From a folder or a repository to the files of a model.

use std::collections::{BTreeMap, BTreeSet};

use crate::adapter;
use crate::file_source::FileSource;
use crate::files::{
    ADDED_TOKENS, CONFIG, FORMATS, GENERATION_CONFIG, SPECIAL_TOKENS, TOKENIZER, TOKENIZER_CONFIG,
    WEIGHTS,
};
use crate::name::is_plain_name;
use crate::{
    Error, ErrorKind, ModelFile, ModelFiles, Result, TokenizerFiles, VocabularyFiles, WeightFormat,
};

/// Heads that are released under names of their own.
const HEADS: [(WeightFormat, &str); 2] = [
    (WeightFormat::Safetensors, "medusa_lm_head.safetensors"),
    (WeightFormat::PyTorch, "medusa_lm_head.pt"),
];
/// Models of SentencePiece: LLaMA calls them by the first name, T5 by the second.
const SENTENCE_PIECE: [&str; 2] = ["tokenizer.model", "spiece.model"];

/// Finds all files of a model, with `tokenizer` in place of its own if there is one.
pub(crate) fn gather(
    name: String,
    tokenizer: Option<TokenizerFiles>,
    place: &mut FileSource<'_>,
) -> Result<ModelFiles> {
    let config = place.find(CONFIG)?;
    adapter::refuse(place, config.is_some())?;
    let Some(config) = config else {
        return Err(place.unknown(CONFIG).unwrap_or_else(|| place.no_config()));
    };
    let generation_config = place.find(GENERATION_CONFIG)?;
    let tokenizer = match tokenizer {
        Some(tokenizer) => tokenizer,
        None => find_tokenizer(place)?,
    };
    // The largest files last, so that a missing tokenizer shows before 13 GB are downloaded.
    let weights = find_weights(place)?;
    Ok(ModelFiles {
        name,
        config,
        generation_config,
        tokenizer,
        weight_format: weights.format,
        weights: weights.files,
        weight_map: weights.map,
    })
}

pub(crate) fn find_tokenizer(place: &mut FileSource<'_>) -> Result<TokenizerFiles> {
    if let Some(json) = place.find(TOKENIZER)? {
        return Ok(TokenizerFiles::Json(with_what_lies_beside(json, place)?));
    }
    for name in SENTENCE_PIECE {
        if let Some(model) = place.find(name)? {
            let files = with_what_lies_beside(model, place)?;
            return Ok(TokenizerFiles::SentencePiece(files));
        }
    }
    // What has no tokenizer because it is no model is called what it is.
    let model = place.find(CONFIG)?.is_some();
    adapter::refuse(place, model)?;
    let error = place.unknown(TOKENIZER);
    Err(error.unwrap_or_else(|| no_tokenizer(place)))
}

fn with_what_lies_beside(
    vocabulary: ModelFile,
    place: &mut FileSource<'_>,
) -> Result<VocabularyFiles> {
    Ok(VocabularyFiles {
        vocabulary,
        config: place.find(TOKENIZER_CONFIG)?,
        special_tokens: place.find(SPECIAL_TOKENS)?,
        added_tokens: place.find(ADDED_TOKENS)?,
    })
}

fn no_tokenizer(place: &FileSource<'_>) -> Error {
    let names = place.names();
    let raw = ["vocab.json", "vocab.txt", "tiktoken.model"]
        .into_iter()
        .find(|raw| names.iter().any(|name| name == raw));
    let found = raw.map_or_else(String::new, |raw| {
        format!(" (there is only {raw}, in a form that is not read here)")
    });
    let message = format!(
        "{place} has no tokenizer: tokenizer.json, tokenizer.model and spiece.model are missing{found}; make one with \
         transformers in Python: AutoTokenizer.from_pretrained(\"{}\").save_pretrained(FOLDER), where FOLDER then needs \
         config.json and the weights too",
        place.python_name()
    );
    Error::new(ErrorKind::Missing, message)
}

fn no_weights(place: &FileSource<'_>) -> Error {
    const ENDS: [&str; 7] = [
        ".gguf",
        ".h5",
        ".msgpack",
        ".bin",
        ".pt",
        ".pth",
        ".safetensors",
    ];
    let names = place.names();
    let is_weights = |name: &&String| ENDS.iter().any(|end| name.ends_with(end));
    let found = names
        .iter()
        .find(is_weights)
        .map_or_else(String::new, |name| format!(" (there is {name})"));
    let message = format!(
        "{place} has no weights: neither model.safetensors nor pytorch_model.bin is there, nor an index of \
         either{found}; give a model whose weights are in one of these, under these names"
    );
    Error::new(ErrorKind::Missing, message)
}

/// The weights of a model.
struct Weights {
    format: WeightFormat,
    files: Vec<ModelFile>,
    /// Which of the files has a tensor.
    map: BTreeMap<String, usize>,
}

fn find_weights(place: &mut FileSource<'_>) -> Result<Weights> {
    let models = FORMATS.map(|(format, whole, index)| (format, whole, Some(index)));
    let heads = HEADS.map(|(format, name)| (format, name, None));
    for (format, whole, index) in models.into_iter().chain(heads) {
        if let Some(file) = place.find(whole)? {
            return Ok(Weights {
                format,
                files: vec![file],
                map: BTreeMap::new(),
            });
        }
        if let Some(index) = index.map_or(Ok(None), |index| place.find(index))? {
            return shards(place, format, &index);
        }
    }
    let error = place.unknown(WEIGHTS);
    Err(error.unwrap_or_else(|| no_weights(place)))
}

fn shards(place: &mut FileSource<'_>, format: WeightFormat, index: &ModelFile) -> Result<Weights> {
    let shard_of = read_index(index)?;
    let names: BTreeSet<&String> = shard_of.values().collect();
    let mut files = Vec::with_capacity(names.len());
    for &shard in &names {
        let Some(file) = place.find(shard)? else {
            return Err(place.unknown(shard).unwrap_or_else(|| {
                let message = format!(
                    "{index} names {shard}, which {place} does not have; copy or download that file too, all of them \
                     must lie beside the index"
                );
                Error::new(ErrorKind::Missing, message)
            }));
        };
        files.push(file);
    }
    let position: BTreeMap<&String, usize> = names.into_iter().zip(0..).collect();
    let place_of = |(tensor, shard): (&String, &String)| (tensor.clone(), position[shard]);
    Ok(Weights {
        format,
        files,
        map: shard_of.iter().map(place_of).collect(),
    })
}

/// The file of each tensor that an index names.
fn read_index(index: &ModelFile) -> Result<BTreeMap<String, String>> {
    let bad = |problem: String| {
        let cure = "restore the index from the model it came from";
        Error::new(ErrorKind::Damaged, format!("{index}: {problem}; {cure}"))
    };
    let json: serde_json::Value = serde_json::from_slice(&index.read()?).map_err(|source| {
        let cure = "restore it from the model it came from";
        let message = format!("{index} is not valid JSON: {source}; {cure}");
        Error::new(ErrorKind::Damaged, message)
    })?;
    let map = json
        .get("weight_map")
        .and_then(|map| map.as_object())
        .ok_or_else(|| bad("there is no \"weight_map\" from tensors to files".into()))?;
    if map.is_empty() {
        return Err(bad("\"weight_map\" is empty".into()));
    }
    let shard = |(tensor, file): (&String, &serde_json::Value)| {
        let name = file.as_str().filter(|name| is_plain_name(name));
        let problem = || bad(format!("{tensor} is in {file}, which is not a file name"));
        Ok((tensor.clone(), name.ok_or_else(problem)?.to_owned()))
    };
    map.iter().map(shard).collect()
}
