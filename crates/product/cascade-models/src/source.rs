//! Where a model's files are.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::hub::{is_hub_name, is_plain_name, is_revision, HubOptions, HubRepo};
use crate::{Error, Result};

const CONFIG: &str = "config.json";
const GENERATION_CONFIG: &str = "generation_config.json";
const TOKENIZER: &str = "tokenizer.json";
const WEIGHTS: &str = "model.safetensors";
const WEIGHTS_INDEX: &str = "model.safetensors.index.json";

/// Where a model's files are.
///
/// [`parse`](Self::parse) reads the form that people write; [`Display`](fmt::Display) writes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ModelSource {
    /// A folder in the layout of Hugging Face: `config.json`, `tokenizer.json`, `model.safetensors` (or shards with an
    /// index) and perhaps `generation_config.json`.
    Folder(PathBuf),
    /// A model of the Hugging Face hub.
    Hub {
        /// `org/name`.
        id: String,
        /// A branch, a tag or a commit; `main` if `None`.
        revision: Option<String>,
    },
    /// Files that are part of the program.
    Embedded(EmbeddedModel),
}

/// The files of a model as bytes of the program.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct EmbeddedModel {
    /// What the model is called in messages and reports.
    pub name: &'static str,
    /// `config.json`.
    pub config: &'static [u8],
    /// `generation_config.json`.
    pub generation_config: Option<&'static [u8]>,
    /// `tokenizer.json`.
    pub tokenizer: &'static [u8],
    /// `model.safetensors`.
    pub weights: &'static [u8],
}

impl fmt::Debug for EmbeddedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedModel")
            .field("name", &self.name)
            .field("weights", &format_args!("{} bytes", self.weights.len()))
            .finish_non_exhaustive()
    }
}

impl fmt::Display for ModelSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "{}", path.display()),
            Self::Hub { id, revision: None } => f.write_str(id),
            Self::Hub {
                id,
                revision: Some(revision),
            } => write!(f, "{id}@{revision}"),
            Self::Embedded(model) => f.write_str(model.name),
        }
    }
}

impl FromStr for ModelSource {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl ModelSource {
    /// Reads a source as people write it: an existing path, or something that starts with `.`, `/` or `~`, is a folder;
    /// `org/name` and `org/name@revision` are models of the hub. Touches the disk, but not the network.
    ///
    /// # Errors
    /// [`Error::BadSource`] for anything else.
    pub fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        let path = expand_home(text);
        if !text.is_empty()
            && (text.starts_with(['.', '/', '~']) || path.is_absolute() || path.exists())
        {
            return Ok(Self::Folder(path));
        }
        let (id, revision) = match text.split_once('@') {
            Some((id, revision)) => (id, Some(revision)),
            None => (text, None),
        };
        check_hub_id(id, revision).map_err(|reason| Error::BadSource {
            text: text.to_owned(),
            reason,
        })?;
        Ok(Self::Hub {
            id: id.to_owned(),
            revision: revision.map(str::to_owned),
        })
    }

    /// Finds the files, downloading what the cache of the hub does not have, with a progress bar on standard error if
    /// `progress`.
    ///
    /// # Errors
    /// A folder, a file or a shard that is missing; a hub that does not answer, refuses, or has no such model.
    pub fn files(&self, hub: &HubOptions, progress: bool) -> Result<ModelFiles> {
        self.files_with(None, hub, progress)
    }

    /// The same with the tokenizer of another source, for models that come without one.
    ///
    /// # Errors
    /// As [`files`](Self::files), for both sources.
    pub fn files_with_tokenizer_of(
        &self,
        other: &Self,
        hub: &HubOptions,
        progress: bool,
    ) -> Result<ModelFiles> {
        let tokenizer = other.tokenizer(hub, progress)?;
        self.files_with(Some(tokenizer), hub, progress)
    }

    /// Finds the tokenizer alone, downloading it if the cache of the hub does not have it. A folder needs to hold nothing
    /// else for that.
    ///
    /// # Errors
    /// As [`files`](Self::files), for `tokenizer.json`.
    pub fn tokenizer(&self, hub: &HubOptions, progress: bool) -> Result<ModelFile> {
        match self.place(hub, progress)? {
            Found::Embedded(model) => Ok(ModelFiles::embedded(model).tokenizer),
            Found::Place(mut place) => find_tokenizer(&mut place),
        }
    }

    fn files_with(
        &self,
        tokenizer: Option<ModelFile>,
        hub: &HubOptions,
        progress: bool,
    ) -> Result<ModelFiles> {
        match self.place(hub, progress)? {
            Found::Embedded(model) => {
                let files = ModelFiles::embedded(model);
                Ok(ModelFiles {
                    tokenizer: tokenizer.unwrap_or(files.tokenizer),
                    ..files
                })
            }
            Found::Place(mut place) => gather(self.to_string(), tokenizer, &mut place),
        }
    }

    fn place<'a>(&'a self, hub: &'a HubOptions, progress: bool) -> Result<Found<'a>> {
        match self {
            Self::Embedded(model) => Ok(Found::Embedded(model)),
            Self::Folder(path) if path.is_dir() => Ok(Found::Place(Place::Folder(path))),
            Self::Folder(path) if path.exists() => Err(Error::BadSource {
                text: self.to_string(),
                reason: "it is a file, and a model is the whole folder around it",
            }),
            Self::Folder(path) => Err(Error::NoFolder { path: path.clone() }),
            Self::Hub { id, revision } => {
                let repo = HubRepo::new(id, revision.as_deref(), hub, progress)?;
                Ok(Found::Place(Place::Hub(Box::new(repo))))
            }
        }
    }
}

fn expand_home(text: &str) -> PathBuf {
    let home = || std::env::var_os("HOME").or_else(|| std::env::var_os("USERPROFILE"));
    match text.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with(['/', '\\']) => match home() {
            Some(home) => PathBuf::from(home).join(rest.trim_start_matches(['/', '\\'])),
            None => PathBuf::from(text),
        },
        _ => PathBuf::from(text),
    }
}

fn check_hub_id(id: &str, revision: Option<&str>) -> std::result::Result<(), &'static str> {
    match id.split_once('/') {
        _ if id.is_empty() => return Err("it is empty"),
        None => return Err("there is no such folder, and the hub's names have an owner"),
        Some((owner, name)) if is_hub_name(owner) && is_hub_name(name) => {}
        Some(_) => return Err("there is no such folder, and it is not of the form org/name"),
    }
    match revision {
        Some("") => Err("the revision after @ is empty"),
        Some(text) if !is_revision(text) => Err("the revision after @ is no branch, tag or commit"),
        _ => Ok(()),
    }
}

/// One file of a model.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelFile {
    /// A file on disk.
    Disk(PathBuf),
    /// Bytes of the program.
    Embedded {
        /// What the file is called in messages.
        name: String,
        /// Its content.
        bytes: &'static [u8],
    },
}

impl ModelFile {
    /// The content of the file.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn read(&self) -> Result<Cow<'static, [u8]>> {
        match self {
            Self::Disk(path) => match std::fs::read(path) {
                Ok(bytes) => Ok(Cow::Owned(bytes)),
                Err(source) => Err(Error::Io {
                    file: self.to_string(),
                    source,
                }),
            },
            Self::Embedded { bytes, .. } => Ok(Cow::Borrowed(bytes)),
        }
    }
}

/// The path, or the name of an embedded file.
impl fmt::Display for ModelFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk(path) => write!(f, "{}", path.display()),
            Self::Embedded { name, .. } => f.write_str(name),
        }
    }
}

impl fmt::Debug for ModelFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ModelFile({self})")
    }
}

/// The files of a model, all of them there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelFiles {
    /// The source, as [`ModelSource`] writes it.
    pub name: String,
    /// `config.json`.
    pub config: ModelFile,
    /// `generation_config.json`, if the model has one.
    pub generation_config: Option<ModelFile>,
    /// `tokenizer.json`.
    pub tokenizer: ModelFile,
    /// The safetensors files: one, or the shards that the index names, in order of their names.
    pub weights: Vec<ModelFile>,
}

impl ModelFiles {
    fn embedded(model: &EmbeddedModel) -> Self {
        let file = |name: &str, bytes| ModelFile::Embedded {
            name: format!("{name} of {}", model.name),
            bytes,
        };
        Self {
            name: model.name.to_owned(),
            config: file(CONFIG, model.config),
            generation_config: model
                .generation_config
                .map(|bytes| file(GENERATION_CONFIG, bytes)),
            tokenizer: file(TOKENIZER, model.tokenizer),
            weights: vec![file(WEIGHTS, model.weights)],
        }
    }
}

/// What a source turned out to be.
enum Found<'a> {
    Embedded(&'a EmbeddedModel),
    Place(Place<'a>),
}

/// Something that has files by name.
enum Place<'a> {
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

fn gather(name: String, tokenizer: Option<ModelFile>, place: &mut Place<'_>) -> Result<ModelFiles> {
    let Some(config) = place.find(CONFIG)? else {
        return Err(place.unknown(CONFIG).unwrap_or_else(|| place.no_config()));
    };
    let generation_config = place.find(GENERATION_CONFIG)?;
    let tokenizer = match tokenizer {
        Some(tokenizer) => tokenizer,
        None => find_tokenizer(place)?,
    };
    // The largest files last: nothing is worse than to learn of a missing tokenizer after 13 GB.
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

fn find_tokenizer(place: &mut Place<'_>) -> Result<ModelFile> {
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
    let bad = |problem: String| Error::Config {
        file: index.to_string(),
        problem,
        cure: "restore the index from the model it came from".to_owned(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_folders_from_hub_models() {
        for folder in ["./x", "../x", ".", "/models/t5", "~/models", "src"] {
            let source = ModelSource::parse(folder).unwrap();
            assert!(matches!(source, ModelSource::Folder(_)), "{folder}");
        }
        for (text, id, revision) in [
            ("google/flan-t5-small", "google/flan-t5-small", None),
            (
                "lmsys/vicuna-7b-v1.5@main",
                "lmsys/vicuna-7b-v1.5",
                Some("main"),
            ),
            ("a/b@refs/pr/5", "a/b", Some("refs/pr/5")),
        ] {
            let source = ModelSource::parse(text).unwrap();
            assert_eq!(source.to_string(), text);
            let revision = revision.map(str::to_owned);
            let id = id.to_owned();
            assert_eq!(source, ModelSource::Hub { id, revision });
        }
    }

    #[test]
    fn refuses_what_names_nothing() {
        for (text, why) in [
            ("", "empty"),
            ("t5-small", "no such folder"),
            ("a/b/c", "org/name"),
            ("a/b@", "revision"),
            ("a/b@../../x", "revision"),
            ("a b/c", "org/name"),
            ("a/..", "org/name"),
        ] {
            let message = ModelSource::parse(text).unwrap_err().to_string();
            assert!(message.contains(why), "{text}: {message}");
            assert!(message.contains("org/name@revision"), "{message}");
        }
    }

    #[test]
    fn the_home_folder_is_expanded() {
        let home = std::env::var("HOME").unwrap();
        assert_eq!(expand_home("~/m"), Path::new(&home).join("m"));
        assert_eq!(expand_home("~"), Path::new(&home));
        assert_eq!(expand_home("~other/m"), Path::new("~other/m"));
    }
}
