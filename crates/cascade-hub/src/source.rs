//! Where a model's files are.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::file_source::FileSource;
use crate::files::is_gguf;
use crate::gather::{find_tokenizer, gather};
use crate::gguf;
use crate::name::{check_revision, is_hub_name, is_plain_name};
use crate::present;
use crate::repo::{HubRepo, RepoType};
use crate::{
    EmbeddedModel, Error, ErrorKind, HubOptions, ModelFile, ModelFiles, Result, TokenizerFiles,
};

/// Where a model's files are.
///
/// [`parse`](Self::parse) reads the form that people write; [`Display`](fmt::Display) writes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ModelSource {
    /// A folder in the layout of Hugging Face: `config.json`, a tokenizer (`tokenizer.json`,
    /// `tokenizer.model` or `spiece.model`), weights (`model.safetensors` or `pytorch_model.bin`,
    /// whole or as shards with an index) and perhaps `generation_config.json`.
    Folder(PathBuf),
    /// A model in one `.gguf` file, or in parts of which this is the first.
    File(PathBuf),
    /// A model of the Hugging Face hub.
    Hub {
        /// `org/name`.
        id: String,
        /// Which GGUF model of the repository it is, by the end of its file's name, such as
        /// `Q4_K_M`; the repository is a model in the layout of Hugging Face if `None`.
        tag: Option<String>,
        /// A branch, a tag or a commit; `main` if `None`.
        revision: Option<String>,
    },
    /// Files that are part of the program.
    Embedded(EmbeddedModel),
}

/// Where the files of a source are.
enum Located<'a> {
    Embedded(&'a EmbeddedModel),
    File(&'a Path),
    /// A GGUF model of a repository, by its tag.
    Tagged(FileSource<'a>, &'a str),
    Source(FileSource<'a>),
}

impl fmt::Display for ModelSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) | Self::File(path) => write!(f, "{}", path.display()),
            Self::Hub { id, tag, revision } => {
                f.write_str(id)?;
                if let Some(tag) = tag {
                    write!(f, ":{tag}")?;
                }
                revision.iter().try_for_each(|named| write!(f, "@{named}"))
            }
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
    /// Reads a source as people write it: what ends in `.gguf` and is no folder is a file; an
    /// existing path, or something that starts with `.`, `/` or `~`, is a folder; `org/name` and
    /// `org/name@revision` are models of the hub, and `org/name:Q4_K_M` is a GGUF model of one of
    /// its repositories. Touches the disk, but not the network.
    ///
    /// # Errors
    /// For anything else.
    pub fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        let path = expand_home(text);
        let (named, revision) = match text.split_once('@') {
            Some((named, revision)) => (named, Some(revision)),
            None => (text, None),
        };
        let (id, tag) = match named.split_once(':') {
            Some((id, tag)) => (id, Some(tag)),
            None => (named, None),
        };
        let in_repository = tag.is_some() && check_hub_id(id, None).is_ok() && !path.exists();
        if is_gguf(&path) && !path.is_dir() && !in_repository {
            return Ok(Self::File(path));
        }
        if !text.is_empty()
            && (text.starts_with(['.', '/', '~']) || path.is_absolute() || path.exists())
        {
            return Ok(Self::Folder(path));
        }
        check_hub_id(id, revision).map_err(|reason| no_model(text, reason))?;
        if tag.is_some_and(|tag| !is_plain_name(tag)) {
            return Err(no_model(text, "what stands after : names no GGUF file"));
        }
        Ok(Self::Hub {
            id: id.to_owned(),
            tag: tag.map(str::to_owned),
            revision: revision.map(str::to_owned),
        })
    }

    /// Whether it is a GGUF model, which holds its settings and its tokenizer.
    pub fn is_gguf(&self) -> bool {
        matches!(self, Self::File(_) | Self::Hub { tag: Some(_), .. })
    }

    /// Finds the files, downloading what the cache of the hub does not have, with progress on
    /// standard error if `progress`: a bar on a terminal, else a line now and then, and for
    /// failures after which the hub is asked again.
    ///
    /// # Errors
    /// A folder, a file or a shard that is missing; a hub that does not answer, refuses, or has no
    /// such model; a model of the hub without the feature `network`.
    pub fn files(&self, hub: &HubOptions, progress: bool) -> Result<ModelFiles> {
        self.files_with(None, hub, progress)
    }

    /// Finds the files with the tokenizer of another source, for models that come without one.
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

    /// Finds the tokenizer alone, downloading it if the cache of the hub does not have it. A folder
    /// needs to hold nothing else for that.
    ///
    /// # Errors
    /// As [`files`](Self::files), for the files of a tokenizer.
    pub fn tokenizer(&self, hub: &HubOptions, progress: bool) -> Result<TokenizerFiles> {
        match self.place(hub, progress)? {
            Located::Embedded(model) => Ok(model.tokenizer_files()),
            Located::File(path) => Ok(gguf::tokenizer(path)),
            Located::Tagged(mut place, tag) => Ok(gguf::tokenizer(&gguf::first(&mut place, tag)?)),
            Located::Source(mut place) => find_tokenizer(&mut place),
        }
    }

    /// The files on this machine that belong to the model, read or not, which nothing that is made
    /// of it may replace: those of its folder that are named as files of models are, all parts of a
    /// GGUF file, or the cache of the hub. Paths that do not exist may be among them.
    pub fn present_files(&self, hub: &HubOptions) -> Vec<PathBuf> {
        match self {
            Self::Folder(folder) => present::of_folder(folder),
            Self::File(file) => present::of_gguf(file),
            Self::Hub { .. } => vec![hub.cache.clone()],
            Self::Embedded(_) => Vec::new(),
        }
    }

    /// Finds further files by their names, downloading those that the cache of the hub does not
    /// have: for each name the file, if the model has it.
    ///
    /// # Errors
    /// As [`files`](Self::files); a hub that does not answer if none of the files is in its cache.
    pub fn further_files(
        &self,
        names: &[&str],
        hub: &HubOptions,
        progress: bool,
    ) -> Result<Vec<Option<ModelFile>>> {
        let mut place = match self.place(hub, progress)? {
            Located::Embedded(model) => {
                return Ok(names.iter().map(|name| model.further(name)).collect());
            }
            Located::File(_) | Located::Tagged(..) => return Ok(vec![None; names.len()]),
            Located::Source(place) => place,
        };
        let files = names
            .iter()
            .map(|name| place.find(name))
            .collect::<Result<Vec<_>>>()?;
        match names.first() {
            Some(name) if files.iter().all(Option::is_none) => {
                place.unknown(name).map_or(Ok(files), Err)
            }
            _ => Ok(files),
        }
    }

    fn files_with(
        &self,
        tokenizer: Option<TokenizerFiles>,
        hub: &HubOptions,
        progress: bool,
    ) -> Result<ModelFiles> {
        match self.place(hub, progress)? {
            Located::Embedded(model) => {
                let files = model.files();
                Ok(ModelFiles {
                    tokenizer: tokenizer.unwrap_or(files.tokenizer),
                    ..files
                })
            }
            Located::File(path) => gguf::files(self.to_string(), tokenizer, path),
            Located::Tagged(mut place, tag) => {
                let first = gguf::whole(&mut place, tag)?;
                gguf::files(self.to_string(), tokenizer, &first)
            }
            Located::Source(mut place) => gather(self.to_string(), tokenizer, &mut place)
                .map_err(|error| gguf::unnamed(&place, error)),
        }
    }

    fn place<'a>(&'a self, hub: &'a HubOptions, progress: bool) -> Result<Located<'a>> {
        match self {
            Self::Embedded(model) => Ok(Located::Embedded(model)),
            Self::File(path) if path.is_file() => Ok(Located::File(path)),
            Self::File(path) => {
                let message = format!("there is no file {}; check the path", path.display());
                Err(Error::new(ErrorKind::Missing, message))
            }
            Self::Folder(path) if path.is_dir() => Ok(Located::Source(FileSource::Folder(path))),
            Self::Folder(path) if path.exists() => Err(no_model(
                &self.to_string(),
                "it is a file, and a model is the whole folder around it, or a .gguf file",
            )),
            Self::Folder(path) => {
                let cure = "check the path, or give a model of the hub as org/name";
                let message = format!("there is no folder {}; {cure}", path.display());
                Err(Error::new(ErrorKind::Missing, message))
            }
            Self::Hub { id, tag, revision } => {
                let repo = HubRepo::new(RepoType::Model, id, revision.as_deref(), hub, progress)?;
                let place = FileSource::Hub(Box::new(repo));
                Ok(match tag {
                    Some(tag) => Located::Tagged(place, tag),
                    None => Located::Source(place),
                })
            }
        }
    }
}

fn no_model(text: &str, reason: &str) -> Error {
    let message = format!(
        "\"{text}\" names no model: {reason}; give a folder (./model) or a model of the hub (org/name, \
         org/name@revision, or org/name:Q4_K_M for a GGUF file)"
    );
    Error::new(ErrorKind::Name, message)
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
    check_revision(revision)
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
            let (id, tag) = (id.to_owned(), None);
            assert_eq!(source, ModelSource::Hub { id, tag, revision });
        }
    }

    #[test]
    fn gguf_files_are_models() {
        for file in ["model.gguf", "a/b.gguf", "./x.GGUF", "~/m-Q4_K_M.gguf"] {
            let source = ModelSource::parse(file).unwrap();
            assert!(matches!(source, ModelSource::File(_)), "{file}");
        }
        for (text, tag, revision) in [
            ("a/b-GGUF:Q4_K_M", "Q4_K_M", None),
            ("a/b:q8_0@main", "q8_0", Some("main")),
            ("a/b:sub/m-Q4_0.gguf", "sub/m-Q4_0.gguf", None),
        ] {
            let source = ModelSource::parse(text).unwrap();
            assert!(source.is_gguf(), "{text}");
            assert_eq!(source.to_string(), text);
            let ModelSource::Hub {
                tag: found,
                revision: of,
                ..
            } = source
            else {
                panic!("{text}");
            };
            assert_eq!((found.as_deref(), of.as_deref()), (Some(tag), revision));
        }
        let missing = ModelSource::parse("nowhere.gguf").unwrap();
        let error = missing.files(&HubOptions::from_env(), false).unwrap_err();
        assert!(
            error.to_string().contains("no file nowhere.gguf"),
            "{error}"
        );
    }

    #[test]
    fn refuses_what_names_nothing() {
        for (text, why) in [
            ("", "empty"),
            ("t5-small", "no such folder"),
            ("a/b/c", "org/name"),
            ("a/b@", "revision"),
            ("a/b@../../x", "revision"),
            ("a/b:", "names no GGUF file"),
            ("a/b:../x", "names no GGUF file"),
            ("b:Q4_0", "have an owner"),
            ("a b/c", "org/name"),
            ("a/..", "org/name"),
        ] {
            let message = ModelSource::parse(text).unwrap_err().to_string();
            assert!(message.contains(why), "{text}: {message}");
            assert!(message.contains("org/name@revision") && message.contains(":Q4_K_M"));
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
