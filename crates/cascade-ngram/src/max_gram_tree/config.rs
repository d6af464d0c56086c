//! The Max-Gram tree as an entry of a configuration.

use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use std::sync::Arc;

use cascade_core::Drafter;
use serde::de::{self, Unexpected};
use serde::{Deserialize, Deserializer, Serialize};

use super::hints::MOST_HINTS;
use super::{MaxGramTree, MaxGramTreeOptions, Weights};
use crate::config::{
    DrafterConfig, DrafterFactory, DrafterKey, OpenError, Resources, TableLocator,
};
use crate::NgramTable;

/// Settings of [`MaxGramTree`] with the places of its table and its weights:
/// `max_gram_tree: { table: TABLE, session_tokens: 0 }`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MaxGramTreeConfig {
    /// A static table that is part of the mixture. The more successors it holds of each context,
    /// the better; 16 is a good number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<TableLocator>,
    /// A file of [`Weights`], in place of the shipped ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<TableLocator>,
    /// As [`MaxGramTreeOptions::min_probability`].
    #[serde(
        deserialize_with = "probability",
        skip_serializing_if = "usual::min_probability"
    )]
    pub min_probability: f32,
    /// As [`MaxGramTreeOptions::session_tokens`].
    #[serde(skip_serializing_if = "usual::session_tokens")]
    pub session_tokens: usize,
    /// As [`MaxGramTreeOptions::hints`].
    #[serde(deserialize_with = "hints", skip_serializing_if = "usual::hints")]
    pub hints: usize,
    /// As [`MaxGramTreeOptions::learning_rate`].
    #[serde(
        deserialize_with = "probability",
        skip_serializing_if = "usual::learning_rate"
    )]
    pub learning_rate: f32,
}

/// For `skip_serializing_if`: whether a setting is at its default.
mod usual {
    use super::MaxGramTreeOptions;

    pub(super) fn min_probability(value: &f32) -> bool {
        *value == MaxGramTreeOptions::default().min_probability
    }

    pub(super) fn session_tokens(value: &usize) -> bool {
        *value == MaxGramTreeOptions::default().session_tokens
    }

    pub(super) fn hints(value: &usize) -> bool {
        *value == MaxGramTreeOptions::default().hints
    }

    pub(super) fn learning_rate(value: &f32) -> bool {
        *value == MaxGramTreeOptions::default().learning_rate
    }
}

/// A number within bounds. Errors are those of the visitor, so that they name the key.
struct Within<T> {
    range: RangeInclusive<T>,
    expected: &'static str,
}

impl de::Visitor<'_> for Within<f32> {
    type Value = f32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<f32, E> {
        if self.range.contains(&(value as f32)) {
            Ok(value as f32)
        } else {
            Err(E::invalid_value(Unexpected::Float(value), &self))
        }
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<f32, E> {
        self.visit_f64(value as f64)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<f32, E> {
        self.visit_f64(value as f64)
    }
}

impl de::Visitor<'_> for Within<usize> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<usize, E> {
        let found = usize::try_from(value)
            .ok()
            .filter(|value| self.range.contains(value));
        found.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(value), &self))
    }
}

fn probability<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f32, D::Error> {
    deserializer.deserialize_f64(Within {
        range: 0.0..=1.0,
        expected: "a number between 0 and 1",
    })
}

fn hints<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    deserializer.deserialize_u64(Within {
        range: 0..=MOST_HINTS,
        expected: "at most 8 tokens",
    })
}

impl Default for MaxGramTreeConfig {
    fn default() -> Self {
        let MaxGramTreeOptions {
            min_probability,
            session_tokens,
            hints,
            learning_rate,
        } = MaxGramTreeOptions::default();
        Self {
            table: None,
            weights: None,
            min_probability,
            session_tokens,
            hints,
            learning_rate,
        }
    }
}

impl MaxGramTreeConfig {
    /// The settings but the files.
    pub fn options(&self) -> MaxGramTreeOptions {
        MaxGramTreeOptions {
            min_probability: self.min_probability,
            session_tokens: self.session_tokens,
            hints: self.hints,
            learning_rate: self.learning_rate,
        }
    }
}

impl DrafterKey for MaxGramTreeConfig {
    const KEY: &'static str = "max_gram_tree";
}

impl DrafterConfig for MaxGramTreeConfig {
    fn open(&self, resources: &dyn Resources) -> Result<Arc<dyn DrafterFactory>, OpenError> {
        let table = self
            .table
            .as_ref()
            .map(|at| resources.table(at))
            .transpose()
            .map_err(OpenError::at(TABLE))?;
        let weights = self
            .weights
            .as_ref()
            .map(read_weights)
            .transpose()
            .map_err(|problem| OpenError::new(WEIGHTS, problem))?;
        let options = self.options();
        let drafter = MaxGramTree::new(options, table.clone());
        Ok(Arc::new(MaxGramTreeFactory {
            table,
            drafter: match weights {
                Some(weights) => drafter.with_weights(weights),
                None => drafter,
            },
        }))
    }

    fn files(&self) -> Vec<&Path> {
        let named = self.table.iter().chain(&self.weights);
        named.filter_map(TableLocator::file).collect()
    }

    fn tables(&mut self) -> Vec<(&'static str, &mut TableLocator)> {
        let table = self.table.as_mut().map(|table| (TABLE, table));
        let weights = self.weights.as_mut().map(|weights| (WEIGHTS, weights));
        table.into_iter().chain(weights).collect()
    }

    fn takes_advice(&self) -> bool {
        true
    }

    fn settings(&self) -> String {
        format!(
            "min_probability {}, session_tokens {}, hints {}, learning_rate {}",
            self.min_probability, self.session_tokens, self.hints, self.learning_rate
        )
    }

    fn with_drawn_settings(
        &self,
        draw: &mut dyn FnMut(Range<usize>) -> usize,
    ) -> Option<Arc<dyn DrafterConfig>> {
        Some(Arc::new(Self {
            min_probability: [0.0, 0.02, 0.3][draw(0..3)],
            session_tokens: [0, 40, 1 << 18][draw(0..3)],
            hints: [0, 1, MOST_HINTS][draw(0..3)],
            learning_rate: [0.0, 0.03, 1.0][draw(0..3)],
            ..self.clone()
        }))
    }
}

const TABLE: &str = "max_gram_tree.table";
const WEIGHTS: &str = "max_gram_tree.weights";

/// Reads a file of weights.
fn read_weights(locator: &TableLocator) -> Result<Weights, String> {
    match locator {
        TableLocator::File(path) => Weights::open(path),
        TableLocator::Embedded(_) => {
            Err("weights are not embedded; leave the key out for the shipped ones".to_owned())
        }
    }
}

struct MaxGramTreeFactory {
    table: Option<Arc<NgramTable>>,
    /// A drafter that has seen nothing.
    drafter: MaxGramTree,
}

impl DrafterFactory for MaxGramTreeFactory {
    fn drafter(&self) -> Box<dyn Drafter + Send> {
        Box::new(self.drafter.clone())
    }

    fn source(&self) -> String {
        match &self.table {
            None => "no tables".to_owned(),
            Some(table) => table.file().to_owned(),
        }
    }
}
