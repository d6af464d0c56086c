//! What a drafter is as an entry of a configuration, and which kinds of entries there are.
//!
//! A drafter is one file: the drafter, its configuration (a [`DrafterConfig`], which serde reads
//! and writes) and what it opens (a [`DrafterFactory`]). It is registered by one name in a
//! [`drafter_kinds!`](crate::drafter_kinds) list, under the key that it has in a configuration.

use std::any::Any;
use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cascade_core::Drafter;
use serde::de::{self, MapAccess};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::NgramTable;

/// The settings of a statistical drafter.
///
/// ```
/// use std::sync::Arc;
/// use cascade_core::{Budget, Drafter, ScoredTree, TokenId, TokenTree};
/// use cascade_ngram::{
///     drafter_kinds, DrafterConfig, DrafterFactory, DrafterKey, OpenError, Resources,
/// };
///
/// /// Proposes the context's last token again.
/// struct Echo(usize);
///
/// impl Drafter for Echo {
///     fn set_source(&mut self, _: &[TokenId]) {}
///     fn propose(&mut self, context: &[TokenId], budget: Budget) -> ScoredTree {
///         let last = context.last().copied().into_iter();
///         TokenTree::chain(last.cycle().take(self.0.min(budget.depth))).into()
///     }
/// }
///
/// #[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
/// #[serde(deny_unknown_fields)]
/// struct EchoConfig { times: usize }
///
/// impl DrafterKey for EchoConfig {
///     const KEY: &'static str = "echo";
/// }
///
/// impl DrafterConfig for EchoConfig {
///     fn open(&self, _: &dyn Resources) -> Result<Arc<dyn DrafterFactory>, OpenError> {
///         let times = self.times;
///         Ok(Arc::new(move || Echo(times)))
///     }
/// }
///
/// // The one line: `- echo: { times: 3 }` is now an entry.
/// drafter_kinds!(struct WithEcho: EchoConfig, cascade_ngram::MaxGramConfig);
/// ```
pub trait DrafterConfig: Any + fmt::Debug + Send + Sync + erased_serde::Serialize + Keyed {
    /// Opens what the drafter needs. Tables come from `resources`, which opens each once;
    /// everything else that is slow to make belongs here too, since the factory is asked often.
    ///
    /// # Errors
    /// What cannot be opened, with the key that names it.
    fn open(&self, resources: &dyn Resources) -> Result<Arc<dyn DrafterFactory>, OpenError>;

    /// The tables that the settings name, each with its key in the drafter's entry
    /// (`max_gram.bigram`).
    fn tables(&mut self) -> Vec<(&'static str, &mut TableLocator)> {
        Vec::new()
    }

    /// The files that the settings name, which no output may replace. All kinds of drafters that
    /// name files say which.
    fn files(&self) -> Vec<&Path> {
        Vec::new()
    }

    /// Whether its drafters [mix](Drafter::takes_advice) their probabilities with a neural
    /// drafter's.
    fn takes_advice(&self) -> bool {
        false
    }

    /// The settings that shape drafts, in a few words; empty if there are none.
    fn settings(&self) -> String {
        String::new()
    }

    /// The drafter with other values of the settings that shape drafts, each drawn by `draw` from a
    /// range. They change the speed of a generation and not its answer, which tests show
    /// with this.
    fn with_drawn_settings(&self, draw: &mut Draw<'_>) -> Option<Arc<dyn DrafterConfig>> {
        let _ = draw;
        None
    }
}

/// Draws a number from a range.
pub type Draw<'a> = dyn FnMut(Range<usize>) -> usize + 'a;

erased_serde::serialize_trait_object!(DrafterConfig);

impl dyn DrafterConfig {
    /// What the drafter is called in reports if its entry gives it no name; `max-gram` for the key
    /// `max_gram`.
    pub fn own_name(&self) -> String {
        self.own_key().replace('_', "-")
    }

    /// The settings as those of one drafter, if they are.
    pub fn downcast_ref<C: DrafterConfig>(&self) -> Option<&C> {
        (self as &dyn Any).downcast_ref()
    }
}

/// How a drafter is named in a configuration.
pub trait DrafterKey {
    /// The key of its settings.
    const KEY: &'static str;
}

/// [`DrafterKey`] of settings whose type is not known; implemented for all that have one.
pub trait Keyed {
    /// [`DrafterKey::KEY`].
    fn own_key(&self) -> &'static str;
}

impl<C: DrafterKey> Keyed for C {
    fn own_key(&self) -> &'static str {
        C::KEY
    }
}

/// What makes drafters of one configuration, all over the same tables.
pub trait DrafterFactory: Send + Sync {
    /// A drafter of its own, which has seen nothing yet.
    fn drafter(&self) -> Box<dyn Drafter + Send>;

    /// What it drafts from, for reports.
    fn source(&self) -> String {
        "no tables".to_owned()
    }
}

/// A function that makes drafters.
impl<D: Drafter + Send + 'static, F: Fn() -> D + Send + Sync> DrafterFactory for F {
    fn drafter(&self) -> Box<dyn Drafter + Send> {
        Box::new(self())
    }
}

/// Where drafters get their tables.
pub trait Resources {
    /// The table at a place, for the target's vocabulary. The same place gives the same table.
    ///
    /// # Errors
    /// A table that is not there, is damaged, or has another vocabulary.
    fn table(&self, locator: &TableLocator) -> crate::Result<Arc<NgramTable>>;
}

/// Why a drafter cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("{key}: {source}")]
pub struct OpenError {
    /// The key of the drafter's entry that is at fault.
    pub key: String,
    /// What is wrong.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

impl OpenError {
    /// An error of what `key` names.
    pub fn new(
        key: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self {
            key: key.into(),
            source: source.into(),
        }
    }

    /// For `map_err`: errors of what `key` names.
    pub(crate) fn at(key: &'static str) -> impl Fn(crate::Error) -> Self {
        move |source| Self::new(key, source)
    }
}

/// Where a table is: a safetensors file, or `embedded:NAME` for a part of the program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TableLocator {
    /// A file.
    File(PathBuf),
    /// A part of the program, by its name.
    Embedded(String),
}

impl TableLocator {
    const EMBEDDED: &'static str = "embedded:";

    /// The file, if it is one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Embedded(_) => None,
        }
    }

    /// The place within the folder `base`, if it is a path that starts with a dot; otherwise the
    /// place itself.
    pub fn relative_to(&self, base: &Path) -> Self {
        match self {
            Self::File(path) if path.to_string_lossy().starts_with('.') => {
                Self::File(base.join(path))
            }
            other => other.clone(),
        }
    }
}

impl From<&str> for TableLocator {
    fn from(text: &str) -> Self {
        match text.strip_prefix(Self::EMBEDDED) {
            Some(name) => Self::Embedded(name.to_owned()),
            None => Self::File(PathBuf::from(text)),
        }
    }
}

impl fmt::Display for TableLocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Embedded(name) => write!(f, "{}{name}", Self::EMBEDDED),
        }
    }
}

impl<'de> Deserialize<'de> for TableLocator {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self::from(text.as_str()))
    }
}

/// As an absolute path, so that it is found wherever the text is read.
impl Serialize for TableLocator {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::File(path) => std::path::absolute(path)
                .map_err(|error| S::Error::custom(format!("{}: {error}", path.display())))?
                .serialize(serializer),
            Self::Embedded(_) => serializer.collect_str(self),
        }
    }
}

/// For `skip_serializing_if`: whether a setting is its type's default.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// For `skip_serializing_if`: whether a count is 1, the default.
pub(crate) fn is_one(count: &usize) -> bool {
    *count == 1
}

/// A count of 1 or more: for `deserialize_with`.
///
/// # Errors
/// 0, and what is no count.
pub fn positive<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    deserializer.deserialize_u64(Within {
        range: 1..=usize::MAX,
        expected: "1 or more",
    })
}

/// A visitor of a number within bounds. Errors come from here, so that they name the key.
pub(crate) struct Within<T> {
    pub(crate) range: RangeInclusive<T>,
    pub(crate) expected: &'static str,
}

impl de::Visitor<'_> for Within<usize> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<usize, E> {
        let found = usize::try_from(value).ok();
        found
            .filter(|value| self.range.contains(value))
            .ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(value), &self))
    }
}

/// Kinds of drafters that configurations may have; implemented by
/// [`drafter_kinds!`](crate::drafter_kinds).
pub trait DrafterKinds {
    /// The keys of their settings.
    const KEYS: &'static [&'static str];

    /// The settings that follow `key` in a map; `None`, with the map as it was, if it is no key of
    /// these kinds.
    ///
    /// # Errors
    /// Settings that are unknown, missing or of the wrong kind.
    fn next_value<'de, A: MapAccess<'de>>(
        key: &str,
        map: &mut A,
    ) -> Result<Option<Arc<dyn DrafterConfig>>, A::Error>;
}

/// Registers kinds of drafters by their configurations:
/// `drafter_kinds!(pub struct Name: AConfig, BConfig);` makes a [`DrafterKinds`] of types that are
/// [`DrafterConfig`], [`DrafterKey`], [`serde::Deserialize`] and [`serde::Serialize`].
#[macro_export]
macro_rules! drafter_kinds {
    ($(#[$doc:meta])* $visibility:vis struct $name:ident: $($config:ty),+ $(,)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        $visibility struct $name;

        impl $crate::DrafterKinds for $name {
            const KEYS: &'static [&'static str] = &[$(<$config as $crate::DrafterKey>::KEY),+];

            fn next_value<'de, A: $crate::serde::de::MapAccess<'de>>(
                key: &str,
                map: &mut A,
            ) -> ::std::result::Result<
                ::std::option::Option<::std::sync::Arc<dyn $crate::DrafterConfig>>,
                A::Error,
            > {
                $(if key == <$config as $crate::DrafterKey>::KEY {
                    let config = map.next_value::<$config>()?;
                    return Ok(Some(::std::sync::Arc::new(config)));
                })+
                Ok(None)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_tables_are_read_and_resolved() {
        let embedded = TableLocator::from("embedded:t5");
        assert_eq!(embedded, TableLocator::Embedded("t5".to_owned()));
        assert_eq!(embedded.relative_to(Path::new("/a")), embedded);
        assert_eq!(embedded.to_string(), "embedded:t5");
        let relative = TableLocator::from("./t5");
        let resolved = relative.relative_to(Path::new("/a"));
        assert_eq!(resolved, TableLocator::from("/a/./t5"));
        assert_eq!(resolved.relative_to(Path::new("/b")), resolved);
        let bare = TableLocator::from("t5");
        assert_eq!(bare.relative_to(Path::new("/a")), bare);
    }
}
