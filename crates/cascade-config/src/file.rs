//! The file format, key by key: read and written by serde.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use cascade_engine::{Convention, Expand, Placement, Siblings};
use cascade_ngram::{DrafterConfig, DrafterKinds};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Error, IntoDeserializer, MapAccess, Visitor};
use serde::{forward_to_deserialize_any, Deserialize, Deserializer, Serialize, Serializer};

use crate::stop_rule::StopRuleEntry;
use crate::Truncate;

#[derive(Debug, Deserialize, Serialize)]
#[serde(
    deny_unknown_fields,
    bound(deserialize = "K: DrafterKinds", serialize = "")
)]
pub(crate) struct File<K> {
    pub(crate) target: Entry<TargetKeys>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) drafters: Vec<Entry<DrafterKeys<K>>>,
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

/// The target or a drafter: the keys of a model, and further ones.
#[derive(Debug, Serialize)]
pub(crate) struct Entry<X> {
    #[serde(flatten)]
    pub(crate) model: ModelKeys,
    #[serde(flatten)]
    pub(crate) further: X,
}

/// The keys of a model, all of which but its name a statistical drafter lacks.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelKeys {
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
}

/// Keys beside those of a model.
pub(crate) trait FurtherKeys: Default {
    /// All of them, for messages.
    fn names() -> Vec<&'static str>;

    /// Reads the value of `key`; `false`, with the map as it was, if it is none of them.
    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error>;

    /// What to do about a key that is unknown, if more can be said than which ones there are.
    fn hint(_key: &str) -> Option<String> {
        None
    }
}

/// Further keys of the target: none. It verifies strictly, and drafts nothing that could stop.
#[derive(Debug, Default, Serialize)]
pub(crate) struct TargetKeys {}

impl FurtherKeys for TargetKeys {
    fn names() -> Vec<&'static str> {
        Vec::new()
    }

    fn read<'de, A: MapAccess<'de>>(&mut self, _: &str, _: &mut A) -> Result<bool, A::Error> {
        Ok(false)
    }

    fn hint(key: &str) -> Option<String> {
        let hint = match key {
            "lenience" => {
                "the target always verifies strictly, or its answers would change; remove it: `lenience` at the top \
                 level loosens verification by the drafters"
            }
            "stop_rule" => "it ends the drafts of a drafter; give it to one of `drafters`",
            "branches" => "the target drafts nothing; give it to one of `drafters`",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// Further keys of a drafter. Exactly one of `model`, `head` and the keys of the statistical kinds
/// `K` is there.
#[derive(Debug, Serialize)]
#[serde(bound = "")]
pub(crate) struct DrafterKeys<K> {
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

fn by_key<S: Serializer>(
    drafters: &[Arc<dyn DrafterConfig>],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(drafters.iter().map(|config| (config.own_key(), &**config)))
}

impl<K> Default for DrafterKeys<K> {
    fn default() -> Self {
        Self {
            head: None,
            statistical: Vec::new(),
            branches: None,
            stop_rule: None,
            kinds: PhantomData,
        }
    }
}

impl<K: DrafterKinds> FurtherKeys for DrafterKeys<K> {
    fn names() -> Vec<&'static str> {
        let own = ["head", "branches", "stop_rule"];
        own.into_iter().chain(K::KEYS.iter().copied()).collect()
    }

    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        match key {
            "head" => once(&mut self.head, "head", map)?,
            "branches" => once(&mut self.branches, "branches", map)?,
            "stop_rule" => once(&mut self.stop_rule, "stop_rule", map)?,
            key => match K::next_value(key, map)? {
                Some(config) => self.statistical.push(config),
                None => return Ok(false),
            },
        }
        Ok(true)
    }

    fn hint(key: &str) -> Option<String> {
        match key {
            "classifier" => Some("it is a stop rule: `stop_rule: { classifier: … }`".to_owned()),
            "width" => Some("write it within the settings of the drafter".to_owned()),
            _ => None,
        }
    }
}

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

impl<'de, X: FurtherKeys> Deserialize<'de> for Entry<X> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntryVisitor(PhantomData))
    }
}

struct EntryVisitor<X>(PhantomData<X>);

impl<'de, X: FurtherKeys> Visitor<'de> for EntryVisitor<X> {
    type Value = Entry<X>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map, as `model: …`")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let mut further = X::default();
        let split = Split {
            map,
            of_model: &[],
            further: &mut further,
        };
        let model = ModelKeys::deserialize(split)?;
        Ok(Entry { model, further })
    }
}

/// A map whose keys that are not of a model go to `further`. Unlike `flatten`, it keeps nothing
/// back, so that errors have their line, and unknown keys are refused.
struct Split<'a, A, X> {
    map: A,
    /// The keys of a model, once serde has said which.
    of_model: &'static [&'static str],
    further: &'a mut X,
}

impl<'de, A: MapAccess<'de>, X: FurtherKeys> Deserializer<'de> for Split<'_, A, X> {
    type Error = A::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, A::Error> {
        MapAccessDeserializer::new(self.map).deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        visitor.visit_map(Split {
            of_model: fields,
            ..self
        })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

impl<'de, A: MapAccess<'de>, X: FurtherKeys> MapAccess<'de> for Split<'_, A, X> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        while let Some(key) = self.map.next_key::<String>()? {
            if self.of_model.contains(&key.as_str()) {
                return seed.deserialize(key.into_deserializer()).map(Some);
            }
            if !self.further.read(&key, &mut self.map)? {
                return Err(unknown_key::<X, _>(&key, self.of_model));
            }
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

fn unknown_key<X: FurtherKeys, E: Error>(key: &str, of_model: &[&str]) -> E {
    if let Some(hint) = X::hint(key) {
        return E::custom(format!("unknown field `{key}`: {hint}"));
    }
    let further = X::names();
    let known: Vec<String> = of_model
        .iter()
        .chain(&further)
        .map(|key| format!("`{key}`"))
        .collect();
    let known = known.join(", ");
    E::custom(format!("unknown field `{key}`, expected one of {known}"))
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
