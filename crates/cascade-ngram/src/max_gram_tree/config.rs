//! The Max-Gram tree as an entry of a configuration.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use cascade_core::Drafter;
use serde::de::{self, Unexpected};
use serde::{Deserialize, Deserializer, Serialize};

use super::hints::MOST_HINTS;
use super::{MaxGramTree, Weights};
use crate::config::{
    DrafterConfig, DrafterFactory, DrafterKey, Draw, OpenError, Resources, TableLocator, Within,
    is_default, is_one,
};

/// Settings of [`MaxGramTree`]: `max_gram_tree: { table: TABLE, session_tokens: 0 }`.
/// [`MaxGramTree::new`] leaves the places of table and weights unread: there they are given.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct MaxGramTreeConfig {
    /// A static table that is part of the mixture. The more successors it holds of each context,
    /// the better; 16 is a good number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<TableLocator>,
    /// A file of [`Weights`], in place of the shipped ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<TableLocator>,
    /// Paths whose probability, as the drafter estimates it, is smaller are not drafted; between 0
    /// (the budget is always spent, as far as there is anything to propose) and 1.
    #[serde(deserialize_with = "probability", skip_serializing_if = "is_default")]
    pub min_probability: f32,
    /// Tokens of other answers that are kept to draft from; 0 keeps none.
    #[serde(skip_serializing_if = "is_usual_session")]
    pub session_tokens: usize,
    /// How many of the target's most probable tokens are remembered after every drafted token,
    /// rejected ones included, up to 8. 1 is free, since the target computes that token anyway;
    /// more cost it the probabilities of a row. 0 remembers none.
    #[serde(deserialize_with = "hints", skip_serializing_if = "is_one")]
    pub hints: usize,
    /// How fast weights follow the text, per token; 0 keeps them as they are.
    #[serde(
        deserialize_with = "probability",
        skip_serializing_if = "is_usual_rate"
    )]
    pub learning_rate: f32,
}

/// The default of [`MaxGramTreeConfig::session_tokens`].
const SESSION_TOKENS: usize = 1 << 18;
/// The default of [`MaxGramTreeConfig::learning_rate`].
const LEARNING_RATE: f32 = 0.03;

impl Default for MaxGramTreeConfig {
    fn default() -> Self {
        Self {
            table: None,
            weights: None,
            min_probability: 0.0,
            session_tokens: SESSION_TOKENS,
            hints: 1,
            learning_rate: LEARNING_RATE,
        }
    }
}

fn is_usual_session(tokens: &usize) -> bool {
    *tokens == SESSION_TOKENS
}

fn is_usual_rate(rate: &f32) -> bool {
    *rate == LEARNING_RATE
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
        let drafter = MaxGramTree::new(self.clone(), table);
        Ok(Arc::new(match weights {
            Some(weights) => drafter.with_weights(weights),
            None => drafter,
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

    fn with_drawn_settings(&self, draw: &mut Draw<'_>) -> Option<Arc<dyn DrafterConfig>> {
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

impl DrafterFactory for MaxGramTree {
    fn drafter(&self) -> Box<dyn Drafter + Send> {
        Box::new(self.clone())
    }

    fn source(&self) -> String {
        match &self.table {
            None => "no tables".to_owned(),
            Some(table) => table.file().to_owned(),
        }
    }
}
