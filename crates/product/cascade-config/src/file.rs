//! The file format: what may stand in a configuration, key by key.

use cascade_engine::{Convention, Expand, Placement, Siblings};
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
    #[serde(default)]
    pub(crate) tree: TreeEntry,
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
    pub(crate) rule: Option<String>,
    /// Refused by name: the target reviews strictly, a drafter's lenience stands at the top.
    pub(crate) lenience: Option<f32>,
}

/// One drafter: exactly one of `model`, `max_gram`, `bigram` and `prompt_lookup`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DrafterEntry {
    pub(crate) model: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) tokenizer: Option<String>,
    pub(crate) dtype: Option<String>,
    pub(crate) rule: Option<String>,
    pub(crate) branches: Option<BranchesEntry>,
    pub(crate) max_gram: Option<MaxGramEntry>,
    pub(crate) bigram: Option<String>,
    /// Of a bigram drafter: successors that are proposed at each depth.
    pub(crate) width: Option<usize>,
    pub(crate) prompt_lookup: Option<PromptLookupEntry>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MaxGramEntry {
    pub(crate) bigram: Option<String>,
    pub(crate) occurrence: Option<OccurrenceEntry>,
    pub(crate) min_match: Option<usize>,
    pub(crate) branches: Option<usize>,
    pub(crate) width: Option<usize>,
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
    pub(crate) branches: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KEntry {
    #[serde(default)]
    pub(crate) convention: Convention,
    pub(crate) matrix: Vec<Vec<usize>>,
}

/// How a neural drafter's drafts branch.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BranchesEntry {
    pub(crate) widths: Vec<usize>,
    #[serde(default)]
    #[serde(alias = "parents")]
    pub(crate) expand: Expand,
    #[serde(default)]
    pub(crate) siblings: Siblings,
}

/// What holds for all drafts.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TreeEntry {
    pub(crate) max_nodes: Option<usize>,
    #[serde(default)]
    pub(crate) placement: Placement,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GenerationEntry {
    pub(crate) max_new_tokens: Option<usize>,
    pub(crate) ignore_eos: Option<bool>,
    pub(crate) temperature: Option<f32>,
    pub(crate) top_k: Option<usize>,
    pub(crate) top_p: Option<f32>,
    pub(crate) min_p: Option<f32>,
    pub(crate) seed: Option<u64>,
    #[serde(default)]
    pub(crate) stop: Vec<String>,
}
