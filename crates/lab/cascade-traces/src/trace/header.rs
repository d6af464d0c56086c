//! The first line of a trace: what was recorded, and how.

use cascade_config::{Config, DeviceSpec};
use cascade_core::{Architecture, Decoding, Fingerprint, Scorer, TokenId};
use cascade_engine::Options;
use cascade_models::{LoadedModel, ModelFile, ModelSource};
use serde::{Deserialize, Serialize};

use super::{Record, RecordedSampling};
use crate::{Error, ErrorKind, Result};

/// Version of the format that is written, and the only one that can be read.
pub const VERSION: u64 = 1;

/// The value of `format`.
pub(super) const FORMAT: &str = "cascade-trace";

/// The values of `decoding`.
const GREEDY: &str = "greedy";
const SAMPLED: &str = "sampled";

/// Metadata of a trace: what was recorded, and how. It contains no times, so a repeated or resumed
/// recording gives an identical file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Always `cascade-trace`.
    pub(super) format: String,
    /// [`VERSION`].
    pub(super) version: u64,
    /// Recorded by this program, or imported.
    pub provenance: Provenance,
    /// Name of the target: a model id of the hub, the name of a folder, or an embedded model.
    pub model: String,
    /// Commit or branch of the model, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// How the target reads its prompt.
    #[serde(with = "architecture")]
    pub architecture: Architecture,
    /// The target's data type: `f32`, `f16` or `bf16`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<String>,
    /// The target's device: `cpu` or `cuda:N`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The machine: operating system and CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Name and version of the program that recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Fingerprint of the vocabulary, as formatted by [`Fingerprint`].
    tokenizer: String,
    /// Number of columns of the target's logits.
    pub vocab_size: usize,
    /// Maximum number of positions of the target; absent if there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_context: Option<usize>,
    /// Tokens that end a text.
    pub eos: Vec<TokenId>,
    /// `greedy` or `sampled`.
    decoding: String,
    /// How tokens were sampled, if they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sampling: Option<RecordedSampling>,
    /// Maximum number of generated tokens.
    pub max_new_tokens: usize,
    /// Name of the dataset, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// Name of the prompt template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
}

/// What traces call a target of this source, and its revision if that was named.
pub fn name_of_target(source: &ModelSource) -> (String, Option<String>) {
    match source {
        ModelSource::Hub {
            id,
            tag: None,
            revision,
        } => (id.clone(), revision.clone()),
        // Only the folder's name: its location is private and may change.
        ModelSource::Folder(folder) | ModelSource::File(folder) => (
            folder.file_name().map_or_else(
                || folder.display().to_string(),
                |name| name.to_string_lossy().into_owned(),
            ),
            None,
        ),
        other => (other.to_string(), None),
    }
}

/// Where a trace comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// Token ids as this program decoded them with the target's weights.
    Measured,
    /// What another program wrote. If it wrote texts, they are tokenized again, so token boundaries
    /// may differ from those that the target generated.
    Imported,
}

impl Provenance {
    /// `measured` or `imported`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Imported => "imported",
        }
    }
}

impl Header {
    /// Header of a recording by this program. Optional fields are absent and can be set directly.
    pub fn measured(
        model: impl Into<String>,
        architecture: Architecture,
        tokenizer: &Fingerprint,
        vocab_size: usize,
        options: &Options,
    ) -> Self {
        let (decoding, sampling) = match options.decoding {
            Decoding::Greedy => (GREEDY, None),
            Decoding::Sampled(sampling) => {
                let recorded = RecordedSampling::new(&sampling, options.seed);
                (SAMPLED, Some(recorded))
            }
        };
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            provenance: Provenance::Measured,
            model: model.into(),
            revision: None,
            architecture,
            dtype: None,
            device: None,
            machine: None,
            program: None,
            tokenizer: tokenizer.to_string(),
            vocab_size,
            max_context: None,
            eos: Vec::new(),
            decoding: decoding.to_owned(),
            sampling,
            max_new_tokens: options.max_new_tokens,
            dataset: None,
            template: None,
        }
    }

    /// Header of a recording of a configuration's target, loaded on this device. Machine, program,
    /// dataset, template and end tokens are the caller's to set.
    pub fn of_target(
        config: &Config,
        target: &LoadedModel,
        device: DeviceSpec,
        options: &Options,
    ) -> Self {
        let (model, revision) = name_of_target(&config.target.source);
        let info = target.session().info();
        let fingerprint = target.tokenizer.fingerprint();
        let mut header = Self::measured(
            model,
            info.architecture,
            &fingerprint,
            info.vocab_size,
            options,
        );
        header.revision = commit(target).or(revision);
        header.dtype = Some(target.dtype.as_str().to_owned());
        header.device = Some(device.to_string());
        header.max_context = info.max_context;
        header
    }

    /// How tokens were sampled; `None` in greedy recordings.
    pub fn sampling(&self) -> Option<&RecordedSampling> {
        self.sampling.as_ref()
    }

    /// Says that so many of the target's most probable tokens are recorded at each position of a
    /// sampled recording.
    pub fn with_top_probabilities(mut self, tokens: usize) -> Self {
        if let Some(sampling) = &mut self.sampling {
            sampling.top_probabilities = Some(tokens);
        }
        self
    }

    /// The options of a replay: these, decoding as the recording did. What asks for nothing else
    /// decodes greedily, which stands for either.
    ///
    /// # Errors
    /// Options that sample otherwise.
    pub fn replay_options(&self, options: Options) -> Result<Options> {
        let recorded = match &self.sampling {
            None => Decoding::Greedy,
            Some(sampling) => Decoding::Sampled(sampling.sampling()?),
        };
        let asked = options.decoding;
        if !asked.is_greedy() && asked != recorded {
            let message = format!(
                "the recording has {}, and the replay asks for {}: record with the settings of the \
                 replay, or leave them out of it",
                RecordedSampling::describe(recorded),
                RecordedSampling::describe(asked)
            );
            return Err(Error::new(ErrorKind::Sampling, message));
        }
        Ok(options.with_decoding(recorded))
    }

    /// The vocabulary of all token ids.
    pub fn tokenizer(&self) -> Fingerprint {
        Fingerprint::from_stored(self.tokenizer.clone())
    }

    /// Returns what is wrong with the header itself, if anything.
    pub(super) fn problem(&self) -> Option<String> {
        let outside = self.eos.iter().find(|&&id| id as usize >= self.vocab_size);
        match outside {
            _ if self.problem_of_decoding().is_some() => self.problem_of_decoding(),
            Some(id) => Some(format!(
                "the end token {id} is outside the vocabulary of {}",
                self.vocab_size
            )),
            None => None,
        }
    }

    fn problem_of_decoding(&self) -> Option<String> {
        match (&*self.decoding, &self.sampling) {
            (GREEDY, None) => None,
            (SAMPLED, Some(sampling)) => sampling.problem(),
            (GREEDY | SAMPLED, _) => Some(format!(
                "\"decoding\" is {:?}, and \"sampling\" stands beside \"{SAMPLED}\" and nowhere else",
                self.decoding
            )),
            _ => Some(format!(
                "\"decoding\" is {:?}, neither \"{GREEDY}\" nor \"{SAMPLED}\"",
                self.decoding
            )),
        }
    }

    /// Returns what is wrong with a record under this header, if anything.
    pub(super) fn problem_of(&self, record: &Record) -> Option<String> {
        let Self { vocab_size, .. } = self;
        let output = &record.output;
        let ids = record.source.iter().chain(&record.context).chain(output);
        if let Some(id) = ids.into_iter().find(|&&id| id as usize >= *vocab_size) {
            return Some(format!(
                "token {id} is outside the vocabulary of {vocab_size}"
            ));
        }
        if self.misses_prompt(record) {
            return Some(match self.architecture {
                Architecture::DecoderOnly => {
                    "a decoder-only model reads its prompt from \"context\" and has no \"source\"".into()
                }
                Architecture::EncoderDecoder => {
                    "an encoder-decoder model reads its prompt from \"source\", and its \"context\" must be empty".into()
                }
            });
        }
        if let Some(margins) = record.margins.as_ref().filter(|g| g.len() != output.len()) {
            return Some(format!(
                "{} margins (\"gaps\") for {} output tokens",
                margins.len(),
                output.len()
            ));
        }
        self.problem_of_sampling(record)
            .or_else(|| self.problem_of_length(record))
            .or_else(|| self.problem_of_end(record))
    }

    fn problem_of_length(&self, record: &Record) -> Option<String> {
        let output = &record.output;
        // Only a prompt that fills the target's positions has no output.
        if output.is_empty() && record.finish != super::Finish::ContextFull {
            return Some(format!(
                "there is no output, although \"finish\" is \"{}\"; delete the line, or record it again",
                record.finish.as_str()
            ));
        }
        if output.len() > self.max_new_tokens {
            return Some(format!(
                "{} output tokens, but at most {} according to the header",
                output.len(),
                self.max_new_tokens
            ));
        }
        None
    }

    fn problem_of_sampling(&self, record: &Record) -> Option<String> {
        match (&self.sampling, record.seed) {
            (None, Some(_)) => Some("a greedy recording has no \"seed\"".into()),
            (Some(_), None) => Some("a sampled recording has a \"seed\" in each record".into()),
            _ => None,
        }
        .or_else(|| {
            let asked = self.sampling.as_ref().and_then(|s| s.top_probabilities);
            super::sampling::problem_of_top(asked, record, self.vocab_size)
        })
    }

    fn misses_prompt(&self, record: &Record) -> bool {
        match self.architecture {
            Architecture::DecoderOnly => !record.source.is_empty() || record.context.is_empty(),
            Architecture::EncoderDecoder => record.source.is_empty() || !record.context.is_empty(),
        }
    }

    fn problem_of_end(&self, record: &Record) -> Option<String> {
        let is_eos = |id: &TokenId| self.eos.contains(id);
        let first = record.output.iter().position(is_eos);
        let at_end = first.is_some_and(|at| at + 1 == record.output.len());
        match (first, record.finish) {
            (None, super::Finish::Eos) => {
                Some("\"finish\" is \"eos\", but the output has no end token".into())
            }
            (Some(at), _) if !at_end => Some(format!(
                "output token {at} is an end token, but the output continues after it"
            )),
            _ => None,
        }
    }
}

/// [`Architecture`] by its name.
mod architecture {
    use cascade_core::Architecture;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(
        architecture: &Architecture,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_str(architecture)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Architecture, D::Error> {
        let name = String::deserialize(from)?;
        let known = [Architecture::EncoderDecoder, Architecture::DecoderOnly];
        let found = known.into_iter().find(|known| known.to_string() == name);
        found.ok_or_else(|| {
            let [one, other] = known.map(|known| known.to_string());
            D::Error::custom(format!(
                "architecture {name:?} is neither {one:?} nor {other:?}"
            ))
        })
    }
}

/// The commit of a hub model: the cache names the folder of its files after it.
fn commit(target: &LoadedModel) -> Option<String> {
    let ModelFile::Disk(config) = &target.files.config else {
        return None;
    };
    let folder = config.parent()?;
    let in_snapshots = folder.parent()?.file_name()? == "snapshots";
    let name = folder.file_name()?.to_string_lossy().into_owned();
    in_snapshots.then_some(name)
}
