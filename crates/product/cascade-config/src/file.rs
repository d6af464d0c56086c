//! The file format, key by key.

use std::fmt;
use std::marker::PhantomData;

use crate::stop_rule::StopRuleEntry;
use crate::Truncate;
use cascade_engine::{Convention, Expand, Placement, Siblings};
use cascade_ngram::{positive, DrafterKinds, StatisticalEntry};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, bound = "K: DrafterKinds")]
pub(crate) struct File<K> {
    pub(crate) target: NeuralEntry,
    #[serde(default)]
    pub(crate) drafters: Vec<DrafterEntry<K>>,
    pub(crate) k: Option<KEntry>,
    pub(crate) schedule: Option<String>,
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
    pub(crate) cache_dtype: Option<String>,
    pub(crate) device: Option<String>,
    pub(crate) rule: Option<String>,
    /// Always refused: the target verifies strictly, and the drafters' lenience is a top-level key.
    pub(crate) lenience: Option<f32>,
}

/// One drafter: exactly one of `model` and the keys of the statistical kinds `K`, with the keys
/// beside it.
#[derive(Debug)]
pub(crate) struct DrafterEntry<K> {
    pub(crate) model: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) tokenizer: Option<String>,
    pub(crate) dtype: Option<String>,
    pub(crate) cache_dtype: Option<String>,
    pub(crate) device: Option<String>,
    pub(crate) rule: Option<String>,
    pub(crate) branches: Option<BranchesEntry>,
    pub(crate) stop_rule: Option<StopRuleEntry>,
    pub(crate) classifier: Option<ClassifierKeys>,
    pub(crate) head: Option<HeadKeys>,
    /// Of a bigram drafter: successors that are proposed at each depth.
    pub(crate) width: Option<Positive>,
    pub(crate) statistical: Vec<StatisticalEntry>,
    kinds: PhantomData<K>,
}

/// The keys beside those of the statistical kinds.
const DRAFTER_KEYS: [&str; 12] = [
    "model",
    "name",
    "tokenizer",
    "dtype",
    "cache_dtype",
    "device",
    "rule",
    "branches",
    "stop_rule",
    "classifier",
    "head",
    "width",
];

impl<'de, K: DrafterKinds> Deserialize<'de> for DrafterEntry<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(DrafterVisitor(PhantomData))
    }
}

struct DrafterVisitor<K>(PhantomData<K>);

impl<'de, K: DrafterKinds> Visitor<'de> for DrafterVisitor<K> {
    type Value = DrafterEntry<K>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a drafter, as `model: …` or ")?;
        write!(f, "`{}: …`", K::KEYS.join(": …`, `"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entry = DrafterEntry {
            model: None,
            name: None,
            tokenizer: None,
            dtype: None,
            cache_dtype: None,
            device: None,
            rule: None,
            branches: None,
            stop_rule: None,
            classifier: None,
            head: None,
            width: None,
            statistical: Vec::new(),
            kinds: PhantomData,
        };
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "model" => once(&mut entry.model, "model", &mut map)?,
                "name" => once(&mut entry.name, "name", &mut map)?,
                "tokenizer" => once(&mut entry.tokenizer, "tokenizer", &mut map)?,
                "dtype" => once(&mut entry.dtype, "dtype", &mut map)?,
                "cache_dtype" => once(&mut entry.cache_dtype, "cache_dtype", &mut map)?,
                "device" => once(&mut entry.device, "device", &mut map)?,
                "rule" => once(&mut entry.rule, "rule", &mut map)?,
                "branches" => once(&mut entry.branches, "branches", &mut map)?,
                "stop_rule" => once(&mut entry.stop_rule, "stop_rule", &mut map)?,
                "classifier" => once(&mut entry.classifier, "classifier", &mut map)?,
                "head" => once(&mut entry.head, "head", &mut map)?,
                "width" => once(&mut entry.width, "width", &mut map)?,
                key => match K::next_value(key, &mut map)? {
                    Some(statistical) => entry.statistical.push(statistical),
                    None => return Err(unknown_key::<K, _>(key)),
                },
            }
        }
        Ok(entry)
    }
}

/// A count of 1 or more.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct Positive(#[serde(deserialize_with = "positive")] pub(crate) usize);

fn once<'de, T, A>(slot: &mut Option<T>, key: &'static str, map: &mut A) -> Result<(), A::Error>
where
    T: Deserialize<'de>,
    A: MapAccess<'de>,
{
    if slot.is_some() {
        return Err(A::Error::duplicate_field(key));
    }
    *slot = map.next_value()?;
    Ok(())
}

fn unknown_key<K: DrafterKinds, E: Error>(key: &str) -> E {
    let known: Vec<String> = DRAFTER_KEYS
        .iter()
        .chain(K::KEYS)
        .map(|key| format!("`{key}`"))
        .collect();
    let known = known.join(", ");
    E::custom(format!("unknown field `{key}`, expected one of {known}"))
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
    #[serde(default)]
    pub(crate) widths: Vec<usize>,
    #[serde(default)]
    #[serde(alias = "parents")]
    pub(crate) expand: Expand,
    #[serde(default)]
    pub(crate) siblings: Siblings,
}

/// The classifier that decides when a neural drafter stops.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClassifierKeys {
    pub(crate) file: String,
    pub(crate) threshold: Option<f32>,
    pub(crate) longest: Option<Positive>,
}

/// The acceptance head that decides when a neural drafter stops.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeadKeys {
    pub(crate) folder: String,
    pub(crate) threshold: Option<f32>,
    pub(crate) shortest: Option<Positive>,
    pub(crate) longest: Option<Positive>,
}

/// What applies to all drafts.
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
    pub(crate) max_prompt_tokens: Option<usize>,
    pub(crate) truncate_prompt: Option<Truncate>,
    pub(crate) lossy: Option<f64>,
}
