//! From a folder or a repository to the files of a model.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use crate::files::{CONFIG, GENERATION_CONFIG, TOKENIZER, WEIGHTS};
use crate::name::is_plain_name;
use crate::repo::HubRepo;
use crate::{Error, ModelFile, ModelFiles, Result};

const WEIGHTS_INDEX: &str = "model.safetensors.index.json";

/// Something that has files by name.
pub(crate) enum Place<'a> {
    Folder(&'a Path),
    Hub(Box<HubRepo<'a>>),
}

impl Place<'_> {
    fn find(&mut self, name: &str) -> Result<Option<ModelFile>> {
        let path = match self {
            Self::Folder(folder) => Some(folder.join(name)).filter(|path| path.is_file()),
            Self::Hub(repo) => repo.find(name)?,
        };
        Ok(path.map(ModelFile::Disk))
    }

    /// The error if `find` may have returned `None` only because the hub could not be asked.
    fn unknown(&self, name: &str) -> Option<Error> {
        match self {
            Self::Folder(_) => None,
            Self::Hub(repo) => repo.missing(name),
        }
    }

    /// Names of the files there are, for hints.
    fn names(&self) -> Vec<String> {
        match self {
            Self::Folder(folder) => std::fs::read_dir(folder)
                .into_iter()
                .flatten()
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                .collect(),
            Self::Hub(repo) => repo.names(),
        }
    }

    fn no_config(&self) -> Error {
        match self {
            Self::Folder(_) => Error::MissingFile {
                place: self.to_string(),
                file: CONFIG.to_owned(),
                cure: "give the folder that holds config.json, tokenizer.json and \
                       model.safetensors"
                    .to_owned(),
            },
            Self::Hub(repo) => repo.not_found(CONFIG),
        }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => write!(f, "{}", folder.display()),
            Self::Hub(repo) => write!(f, "{repo}"),
        }
    }
}

/// Finds all files of a model, with `tokenizer` in place of its own if there is one.
pub(crate) fn gather(
    name: String,
    tokenizer: Option<ModelFile>,
    place: &mut Place<'_>,
) -> Result<ModelFiles> {
    let Some(config) = place.find(CONFIG)? else {
        return Err(place.unknown(CONFIG).unwrap_or_else(|| place.no_config()));
    };
    let generation_config = place.find(GENERATION_CONFIG)?;
    let tokenizer = match tokenizer {
        Some(tokenizer) => tokenizer,
        None => find_tokenizer(place)?,
    };
    // The largest files last, so that a missing tokenizer shows before 13 GB are downloaded.
    let weights = match place.find(WEIGHTS)? {
        Some(file) => vec![file],
        None => shards(place)?,
    };
    Ok(ModelFiles {
        name,
        config,
        generation_config,
        tokenizer,
        weights,
    })
}

pub(crate) fn find_tokenizer(place: &mut Place<'_>) -> Result<ModelFile> {
    match place.find(TOKENIZER)? {
        Some(tokenizer) => Ok(tokenizer),
        None => {
            let error = place.unknown(TOKENIZER);
            Err(error.unwrap_or_else(|| no_tokenizer(place)))
        }
    }
}

fn no_tokenizer(place: &Place<'_>) -> Error {
    let names = place.names();
    let raw = ["tokenizer.model", "spiece.model", "vocab.json", "vocab.txt"]
        .into_iter()
        .find(|raw| names.iter().any(|name| name == raw));
    let found = raw.map_or_else(String::new, |raw| {
        format!(" (there is only {raw}, in a form that is not read here)")
    });
    Error::NoTokenizer {
        place: place.to_string(),
        found,
        cure: format!(
            "make one with transformers in Python: \
             AutoTokenizer.from_pretrained(\"{place}\").save_pretrained(FOLDER), where FOLDER \
             then needs config.json and the weights too",
            place = python_name(place)
        ),
    }
}

fn no_weights(place: &Place<'_>) -> Error {
    let names = place.names();
    let ends = |ends: &[&str]| {
        let mut names = names.iter();
        names.find(|name| ends.iter().any(|end| name.ends_with(end)))
    };
    let bin = names.iter().find(|name| {
        name.starts_with("pytorch_model") && (name.ends_with(".bin") || name.ends_with(".json"))
    });
    let other = bin.or_else(|| ends(&[".gguf", ".h5", ".msgpack", ".pt", ".pth", ".safetensors"]));
    let found = other.map_or_else(String::new, |name| format!(" (there is {name})"));
    let cure = if bin.is_some() {
        format!(
            "convert the weights with transformers in Python: \
             AutoModel….from_pretrained(\"{}\").save_pretrained(FOLDER, safe_serialization=True) \
             with the class that \"architectures\" in config.json names",
            python_name(place)
        )
    } else {
        "give a model whose weights are in safetensors files".to_owned()
    };
    Error::NoWeights {
        place: place.to_string(),
        found,
        cure,
    }
}

/// What `from_pretrained` calls the place.
fn python_name(place: &Place<'_>) -> String {
    let name = place.to_string();
    match place {
        Place::Folder(_) => name,
        Place::Hub(_) => name.split('@').next().unwrap_or_default().to_owned(),
    }
}

fn shards(place: &mut Place<'_>) -> Result<Vec<ModelFile>> {
    let Some(index) = place.find(WEIGHTS_INDEX)? else {
        let error = place.unknown(WEIGHTS);
        return Err(error.unwrap_or_else(|| no_weights(place)));
    };
    let mut files = Vec::new();
    for shard in shard_names(&index)? {
        let Some(file) = place.find(&shard)? else {
            let error = place.unknown(&shard);
            return Err(error.unwrap_or_else(|| Error::MissingShard {
                index: index.to_string(),
                shard,
                place: place.to_string(),
            }));
        };
        files.push(file);
    }
    Ok(files)
}

/// The files that an index names, in order.
fn shard_names(index: &ModelFile) -> Result<BTreeSet<String>> {
    let bad = |problem: String| Error::BadIndex {
        file: index.to_string(),
        problem,
    };
    let json: serde_json::Value =
        serde_json::from_slice(&index.read()?).map_err(|source| Error::Json {
            file: index.to_string(),
            source,
        })?;
    let map = json.get("weight_map").and_then(|map| map.as_object());
    let map = map.ok_or_else(|| bad("there is no \"weight_map\" from tensors to files".into()))?;
    let mut names = BTreeSet::new();
    for (tensor, file) in map {
        match file.as_str().filter(|name| is_plain_name(name)) {
            Some(name) => names.insert(name.to_owned()),
            None => return Err(bad(format!("{tensor} is in {file}, which is no file name"))),
        };
    }
    match names.is_empty() {
        true => Err(bad("\"weight_map\" is empty".into())),
        false => Ok(names),
    }
}
