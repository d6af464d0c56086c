//! What can go wrong on the way to the files of a model or a dataset.

use std::path::PathBuf;

/// A result whose error is [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An error of this crate. Messages name the file or repository, what is wrong, and how to mend it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Text that names neither a folder nor a model of the hub.
    #[error(
        "\"{text}\" names no model: {reason}; give a folder (./model) or a model of the hub \
         (org/name or org/name@revision)"
    )]
    BadSource {
        /// What was given.
        text: String,
        /// Why it does not name a model.
        reason: &'static str,
    },

    /// Text that names no dataset of the hub.
    #[error(
        "\"{text}\" names no dataset of the hub: {reason}; give org/name or org/name@revision"
    )]
    BadDataset {
        /// What was given.
        text: String,
        /// Why it does not name a dataset.
        reason: &'static str,
    },

    /// The folder of a model does not exist.
    #[error(
        "there is no folder {}; check the path, or give a model of the hub as org/name",
        path.display()
    )]
    NoFolder {
        /// The folder.
        path: PathBuf,
    },

    /// The file of a model does not exist.
    #[error("there is no file {}; check the path", path.display())]
    NoFile {
        /// The file.
        path: PathBuf,
    },

    /// A file could not be read.
    #[error("cannot read {file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// What the system said.
        source: std::io::Error,
    },

    /// A pointer of git lfs, where a file was expected.
    #[error(
        "{file} is a pointer that git leaves in place of a large file; run `git lfs pull` in its \
         folder, or download the file itself"
    )]
    LfsPointer {
        /// The file.
        file: String,
    },

    /// A file without which a model cannot be loaded is not there.
    #[error("{place} has no {file}; {cure}")]
    MissingFile {
        /// The folder or model.
        place: String,
        /// The file.
        file: String,
        /// How to mend it.
        cure: String,
    },

    /// An adapter, which changes the weights of another model, in place of a model or beside one.
    #[error("{place} {what}: it was trained for {base}; {cure}")]
    Adapter {
        /// The folder or model.
        place: String,
        /// That it is an adapter, or has one beside its weights.
        what: String,
        /// The model whose weights it changes.
        base: String,
        /// How to mend it.
        cure: String,
    },

    /// No file of a tokenizer is there.
    #[error(
        "{place} has no tokenizer: tokenizer.json, tokenizer.model and spiece.model are \
         missing{found}; {cure}"
    )]
    NoTokenizer {
        /// The folder or model.
        place: String,
        /// What is there instead, as the end of a clause; may be empty.
        found: String,
        /// How to mend it.
        cure: String,
    },

    /// There are no weights in a format that is read.
    #[error(
        "{place} has no weights: neither model.safetensors nor pytorch_model.bin is there, nor an \
         index of either{found}; {cure}"
    )]
    NoWeights {
        /// The folder or model.
        place: String,
        /// What is there instead, as the end of a clause; may be empty.
        found: String,
        /// How to mend it.
        cure: String,
    },

    /// A part of a GGUF model that was split is not there.
    #[error(
        "{first} is the first of {count} parts, and {part} is not beside it; copy or download that \
         file too"
    )]
    MissingPart {
        /// The first part.
        first: String,
        /// The missing one.
        part: String,
        /// How many there are.
        count: usize,
    },

    /// A file that the index of a sharded checkpoint names is not there.
    #[error(
        "{index} names {shard}, which {place} does not have; copy or download that file too, \
         all of them must lie beside the index"
    )]
    MissingShard {
        /// The index.
        index: String,
        /// The file it names.
        shard: String,
        /// The folder or model.
        place: String,
    },

    /// A file is not the JSON it should be.
    #[error("{file} is not valid JSON: {source}; restore it from the model it came from")]
    Json {
        /// The file.
        file: String,
        /// What the parser said.
        source: serde_json::Error,
    },

    /// The hub did not answer, and the cache does not have the file.
    #[error(
        "cannot reach {endpoint} for {file} of {repo}: {reason}; check the connection and \
         HF_ENDPOINT, or give a local folder"
    )]
    HubUnreachable {
        /// The model or dataset, with its revision.
        repo: String,
        /// The file.
        file: String,
        /// Address of the hub.
        endpoint: String,
        /// What the network said.
        reason: String,
    },

    /// The hub refused to hand out a file.
    #[error(
        "{endpoint} refused {file} of {repo} (HTTP {status}): it does not exist, is private, or is \
         gated; check the name, accept the terms on its page, and put an \
         access token into HF_TOKEN (or log in with `hf auth login`)"
    )]
    HubDenied {
        /// The model or dataset, with its revision.
        repo: String,
        /// The file.
        file: String,
        /// Address of the hub.
        endpoint: String,
        /// 401 or 403.
        status: u16,
    },

    /// A repository whose terms must be accepted first.
    #[error(
        "{file} of {repo} is gated (HTTP {status}): accept the terms on {page} while logged in, {}; \
         if that is done, ask there whether access was granted",
        match token {
            true => "with the account that the token in HF_TOKEN (or of `hf auth login`) belongs to",
            false => "and put an access token of that account into HF_TOKEN (or run `hf auth login`)",
        }
    )]
    HubGated {
        /// The model or dataset, with its revision.
        repo: String,
        /// The file.
        file: String,
        /// Where the terms are.
        page: String,
        /// 401 or 403.
        status: u16,
        /// Whether a token was sent.
        token: bool,
    },

    /// An answer that contradicts itself, or that the cache could not keep safely.
    #[error(
        "{endpoint} answered for {file} of {repo} with what is not taken: {reason}; nothing of it \
         was kept; check HF_ENDPOINT and the connection, or give a local folder"
    )]
    HubUntrusted {
        /// The model or dataset, with its revision.
        repo: String,
        /// The file.
        file: String,
        /// Address of the hub.
        endpoint: String,
        /// What is wrong with the answer.
        reason: String,
    },

    /// A setting of the hub that cannot be used.
    #[error("{name}: {problem}; {cure}")]
    BadSetting {
        /// The setting: a variable of the environment.
        name: &'static str,
        /// What is wrong with it.
        problem: String,
        /// How to mend it.
        cure: &'static str,
    },

    /// The hub knows no such file, repository or revision.
    #[error(
        "{endpoint} has no {file} in {repo}: no such repository, revision or file; check the name \
         and the part after @"
    )]
    HubNotFound {
        /// The model or dataset, with its revision.
        repo: String,
        /// The file.
        file: String,
        /// Address of the hub.
        endpoint: String,
    },

    /// Downloads are forbidden and the cache does not have the file.
    #[error(
        "{file} of {repo} is not in the cache at {}, and HF_HUB_OFFLINE forbids downloads; \
         unset HF_HUB_OFFLINE once to download it, or give a local folder",
        cache.display()
    )]
    HubOffline {
        /// The model or dataset, with its revision.
        repo: String,
        /// The file.
        file: String,
        /// Folder of the cache.
        cache: PathBuf,
    },

    /// A download failed for another reason: the answer of the server, or the cache's disk.
    #[error(
        "downloading {file} of {repo} from {endpoint} failed: {reason}; try again, or give a \
         local folder"
    )]
    HubFailed {
        /// The model or dataset, with its revision.
        repo: String,
        /// The file.
        file: String,
        /// Address of the hub.
        endpoint: String,
        /// What went wrong.
        reason: String,
    },

    /// The index of a sharded checkpoint is not valid.
    #[error("{file}: {problem}; restore the index from the model it came from")]
    BadIndex {
        /// The index.
        file: String,
        /// What is wrong with it.
        problem: String,
    },

    /// A repository of the hub, in a program that was built without the network.
    #[error(
        "{repo} is on the Hugging Face hub, and this program was built without the feature \
         \"network\" of cascade-hub (\"hub\" of the crates above it); build it with the feature, or \
         give a local folder"
    )]
    NoNetwork {
        /// The model or dataset.
        repo: String,
    },
}
