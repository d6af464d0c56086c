//! The file format: what may stand in a configuration, key by key.

use cascade_engine::Convention;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    pub(crate) target: NeuralEntry,
    #[serde(default)]
    pub(crate) drafters: Vec<DrafterEntry>,
    pub(crate) k: Option<KEntry>,
    pub(crate) lenience: Option<f32>,
    pub(crate) statistical_lenience: Option<f32>,
    pub(crate) prompt: Option<String>,
    #[serde(default)]
    pub(crate) generation: GenerationEntry,
    pub(crate) device: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NeuralEntry {
    pub(crate) model: String,
    pub(crate) name: Option<String>,
    pub(crate) tokenizer: Option<String>,
    pub(crate) dtype: Option<String>,
}

/// One drafter: exactly one of `model`, `max_gram`, `bigram` and `prompt_lookup`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DrafterEntry {
    pub(crate) model: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) tokenizer: Option<String>,
    pub(crate) dtype: Option<String>,
    pub(crate) max_gram: Option<MaxGramEntry>,
    pub(crate) bigram: Option<String>,
    pub(crate) prompt_lookup: Option<PromptLookupEntry>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MaxGramEntry {
    pub(crate) bigram: Option<String>,
    pub(crate) occurrence: Option<OccurrenceEntry>,
    pub(crate) min_match: Option<usize>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OccurrenceEntry {
    Earliest,
    Latest,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PromptLookupEntry {
    pub(crate) max_ngram: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KEntry {
    #[serde(default)]
    pub(crate) convention: Convention,
    pub(crate) matrix: Vec<Vec<usize>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GenerationEntry {
    pub(crate) max_new_tokens: Option<usize>,
    #[serde(default)]
    pub(crate) stop: Vec<String>,
}
