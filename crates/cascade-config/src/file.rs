//! The file format, key by key: read and written by serde.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use cascade_engine::{Convention, Expand, Placement, Siblings};
use cascade_ngram::{DrafterConfig, DrafterKinds};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Truncate;
use crate::stop_rule::StopRuleEntry;

#[derive(Debug, Deserialize, Serialize)]
#[serde(
    deny_unknown_fields,
    bound(deserialize = "K: DrafterKinds", serialize = "")
)]
pub(crate) struct File<K> {
    #[serde(deserialize_with = "target")]
    pub(crate) target: Entry<K>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) drafters: Vec<Entry<K>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) k: Option<KEntry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) schedule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lenience: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) statistical_lenience: Option<f32>,
    #[serde(default, skip_serializing_if = "TreeEntry::is_empty")]
    pub(crate) tree: TreeEntry,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) prompt: Option<String>,
    #[serde(default)]
    pub(crate) generation: GenerationEntry,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) device: Option<String>,
}

/// The target or a drafter: the keys of a model, all of which but its name a statistical drafter
/// lacks, and those of a drafter. Of a drafter, exactly one of `model`, `head` and the keys of the
/// statistical kinds `K` is there.
#[derive(Debug, Serialize)]
#[serde(bound = "")]
pub(crate) struct Entry<K> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tokenizer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dtype: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cache_dtype: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) device: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) head: Option<HeadSource>,
    #[serde(flatten, serialize_with = "by_key")]
    pub(crate) statistical: Vec<Arc<dyn DrafterConfig>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) branches: Option<BranchesEntry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stop_rule: Option<StopRuleEntry>,
    #[serde(skip)]
    pub(crate) kinds: PhantomData<K>,
}

const MODEL_KEYS: [&str; 7] = [
    "model",
    "name",
    "tokenizer",
    "dtype",
    "cache_dtype",
    "device",
    "rule",
];

fn by_key<S: Serializer>(
    drafters: &[Arc<dyn DrafterConfig>],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(drafters.iter().map(|config| (config.own_key(), &**config)))
}

impl<K> Default for Entry<K> {
    fn default() -> Self {
        Self {
            model: None,
            name: None,
            tokenizer: None,
            dtype: None,
            cache_dtype: None,
            device: None,
            rule: None,
            head: None,
            statistical: Vec::new(),
            branches: None,
            stop_rule: None,
            kinds: PhantomData,
        }
    }
}

impl<K: DrafterKinds> Entry<K> {
    /// Reads the value of `key`; `false`, with the map as it was, if no model has this key.
    fn read_of_model<'de, A>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error>
    where
        A: MapAccess<'de>,
    {
        let slots = [
            &mut self.model,
            &mut self.name,
            &mut self.tokenizer,
            &mut self.dtype,
            &mut self.cache_dtype,
            &mut self.device,
            &mut self.rule,
        ];
        match MODEL_KEYS
            .iter()
            .zip(slots)
            .find(|(known, _)| **known == key)
        {
            Some((_, slot)) => once(slot, key, map).map(|()| true),
            None => Ok(false),
        }
    }

    /// Reads the value of `key` as [`read_of_model`](Self::read_of_model) does, of the keys of
    /// drafters alone.
    fn read_of_drafter<'de, A>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error>
    where
        A: MapAccess<'de>,
    {
        match key {
            "head" => once(&mut self.head, key, map)?,
            "branches" => once(&mut self.branches, key, map)?,
            "stop_rule" => once(&mut self.stop_rule, key, map)?,
            key => match K::next_value(key, map)? {
                Some(config) => self.statistical.push(config),
                None => return Ok(false),
            },
        }
        Ok(true)
    }
}

fn once<'de, T, A>(slot: &mut Option<T>, key: &str, map: &mut A) -> Result<(), A::Error>
where
    T: Deserialize<'de>,
    A: MapAccess<'de>,
{
    if slot.is_some() {
        return Err(A::Error::custom(format!("duplicate field `{key}`")));
    }
    *slot = map.next_value()?;
    Ok(())
}

impl<'de, K: DrafterKinds> Deserialize<'de> for Entry<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (is_target, kinds) = (false, PhantomData);
        deserializer.deserialize_map(EntryVisitor { is_target, kinds })
    }
}

fn target<'de, K: DrafterKinds, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Entry<K>, D::Error> {
    let (is_target, kinds) = (true, PhantomData);
    deserializer.deserialize_map(EntryVisitor { is_target, kinds })
}

/// Reads a map key by key. Unlike `flatten`, it keeps nothing back, so that errors have their line,
/// and unknown keys are refused.
struct EntryVisitor<K> {
    is_target: bool,
    kinds: PhantomData<K>,
}

impl<'de, K: DrafterKinds> Visitor<'de> for EntryVisitor<K> {
    type Value = Entry<K>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map, as `model: …`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entry<K>, A::Error> {
        let mut entry = Entry::default();
        while let Some(key) = map.next_key::<String>()? {
            let is_known = entry.read_of_model(&key, &mut map)?
                || (!self.is_target && entry.read_of_drafter(&key, &mut map)?);
            if !is_known {
                return Err(A::Error::custom(self.unknown(&key)));
            }
        }
        Ok(entry)
    }
}

impl<K: DrafterKinds> EntryVisitor<K> {
    /// What to say of an unknown key: what to do about it, or which ones there are.
    fn unknown(&self, key: &str) -> String {
        let hint = match (self.is_target, key) {
            (true, "lenience") => {
                "the target always verifies strictly, or its answers would change; remove it: \
                 `lenience` at the top level loosens verification by the drafters"
            }
            (true, "stop_rule") => "it ends the drafts of a drafter; give it to one of `drafters`",
            (true, "branches") => "the target drafts nothing; give it to one of `drafters`",
            (false, "classifier") => "it is a stop rule: `stop_rule: { classifier: … }`",
            (false, "width") => "write it within the settings of the drafter",
            _ => {
                let of_drafter = [&["head", "branches", "stop_rule"], K::KEYS].concat();
                let further = of_drafter.iter().filter(|_| !self.is_target);
                let known: Vec<&str> = MODEL_KEYS.iter().chain(further).copied().collect();
                let known = known.join("`, `");
                return format!("unknown field `{key}`, expected one of `{known}`");
            }
        };
        format!("unknown field `{key}`: {hint}")
    }
}

/// Where the files of a head that drafts are.
#[derive(Debug, Serialize)]
pub(crate) struct HeadSource(pub(crate) String);

impl<'de> Deserialize<'de> for HeadSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(HeadVisitor).map(Self)
    }
}

struct HeadVisitor;

impl Visitor<'_> for HeadVisitor {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the folder of a head that drafts; a network that ends drafts is a stop rule: \
             `stop_rule: { head: … }`",
        )
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KEntry {
    #[serde(default)]
    pub(crate) convention: Convention,
    pub(crate) matrix: Vec<Vec<usize>>,
}

/// How a neural drafter's drafts branch.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BranchesEntry {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) widths: Vec<usize>,
    #[serde(default)]
    pub(crate) expand: Expand,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) siblings: Siblings,
}

/// What applies to all drafts.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TreeEntry {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_nodes: Option<usize>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) placement: Placement,
}

impl TreeEntry {
    fn is_empty(&self) -> bool {
        self.max_nodes.is_none() && is_default(&self.placement)
    }
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GenerationEntry {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_new_tokens: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ignore_eos: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) top_k: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) top_p: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) min_p: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) repetition_penalty: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) presence_penalty: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) frequency_penalty: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seed: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) stop: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_prompt_tokens: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) truncate_prompt: Option<Truncate>,
}

/// For `skip_serializing_if`.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
