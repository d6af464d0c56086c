//! When a drafter's turns end early: the stop rule of a drafter in a configuration.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use cascade_engine::{
    AdaptiveConfidence, ConfidenceThreshold, FixedLength, LengthHeuristic, MdpThreshold, StopRule,
};
use cascade_models::LoadedModel;
use serde::{Deserialize, Serialize};
use serde_yaml::with::singleton_map;

use crate::locator::path_text;
use crate::trained::NetworkError;
use crate::trained_rule::{ClassifierEntry, HeadEntry, TrainedRule};

/// When a drafter stops: `stop_rule: { confidence: 0.4 }` in a configuration, `confidence=0.4` on a
/// command line. A new rule is a variant here, in [`rule`](Self::rule) and, for the command line,
/// in `Display` and `FromStr`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum StopRuleConfig {
    /// [`FixedLength`].
    Length(usize),
    /// [`LengthHeuristic`].
    Heuristic {
        /// Tokens of the first draft.
        #[serde(default = "default_start")]
        start: usize,
    },
    /// [`ConfidenceThreshold`].
    Confidence(f32),
    /// [`AdaptiveConfidence`].
    AdaptiveConfidence {
        /// The threshold at first.
        #[serde(default = "default_threshold")]
        start: f32,
    },
    /// [`MdpThreshold`].
    Mdp {
        /// A token of the drafter in forwards of the reviewer, before both are measured.
        #[serde(default = "default_cost")]
        cost: f64,
        /// The theorem's Δ, in forwards of the reviewer.
        #[serde(default)]
        delta: f64,
    },
    /// A trained [`Classifier`](cascade_engine::Classifier), of a neural drafter alone.
    Classifier(ClassifierEntry),
    /// A trained [`AcceptanceHead`](cascade_engine::AcceptanceHead), of a neural drafter alone.
    Head(HeadEntry),
}

const fn default_start() -> usize {
    5
}

const fn default_threshold() -> f32 {
    0.4
}

const fn default_cost() -> f64 {
    0.1
}

/// Names of the rules without weights, with their values.
const KNOWN: &str = "`length=N`, `heuristic[=START]`, `confidence=P`, `adaptive_confidence[=P]` \
                     and `mdp[=COST]`";

impl StopRuleConfig {
    /// A new rule; `None` if a trained network decides, which has to be opened with the drafter.
    pub fn rule(&self) -> Option<Box<dyn StopRule>> {
        Some(match *self {
            Self::Length(tokens) => Box::new(FixedLength::new(tokens)),
            Self::Heuristic { start } => Box::new(LengthHeuristic::new(start)),
            Self::Confidence(threshold) => Box::new(ConfidenceThreshold::new(threshold)),
            Self::AdaptiveConfidence { start } => Box::new(AdaptiveConfidence::new(start)),
            Self::Mdp { cost, delta } => Box::new(MdpThreshold::new(cost, delta)),
            Self::Classifier(_) | Self::Head(_) => return None,
        })
    }

    /// What the trained network is that decides, if one does: its key.
    pub fn network(&self) -> Option<&'static str> {
        match self {
            Self::Classifier(_) => Some("classifier"),
            Self::Head(_) => Some("head"),
            _ => None,
        }
    }

    /// The trained network that decides, if one does, and what the user should know of it.
    pub(crate) fn open_network(
        &self,
        drafter: &LoadedModel,
    ) -> Result<Option<TrainedRule>, NetworkError> {
        match self {
            Self::Classifier(entry) => entry.open(drafter).map(Some),
            Self::Head(entry) => entry.open(drafter).map(Some),
            _ => Ok(None),
        }
    }

    /// The file or folder of the trained network.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Classifier(entry) => Some(&entry.file),
            Self::Head(entry) => Some(&entry.folder),
            _ => None,
        }
    }

    fn path_mut(&mut self) -> Option<&mut PathBuf> {
        match self {
            Self::Classifier(entry) => Some(&mut entry.file),
            Self::Head(entry) => Some(&mut entry.folder),
            _ => None,
        }
    }

    /// Checks the values, and says what is wrong with which.
    fn checked(self) -> Result<Self, (&'static str, String)> {
        let wrong = |key, problem: &str| Err((key, problem.to_owned()));
        match &self {
            Self::Length(0) => wrong("length", "it is 0; give 1 or more"),
            Self::Heuristic { start: 0 } => wrong("heuristic", "it starts at 0; give 1 or more"),
            Self::Confidence(p) if !is_probability(*p) => {
                wrong("confidence", "it is not a probability; give 0 to 1")
            }
            Self::AdaptiveConfidence { start } if !is_probability(*start) => wrong(
                "adaptive_confidence",
                "it is not a probability; give 0 to 1",
            ),
            Self::Mdp { cost, .. } if !(*cost > 0.0 && cost.is_finite()) => {
                wrong("mdp", "the cost is not above 0 and finite")
            }
            Self::Mdp { delta, .. } if !(*delta >= 0.0 && delta.is_finite()) => {
                wrong("mdp", "delta is not 0 or above, and finite")
            }
            Self::Classifier(entry) => entry.check().map(|()| self),
            Self::Head(entry) => entry.check().map(|()| self),
            _ => Ok(self),
        }
    }
}

fn is_probability(value: f32) -> bool {
    (0.0..=1.0).contains(&value)
}

impl fmt::Display for StopRuleConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(tokens) => write!(f, "length={tokens}"),
            Self::Heuristic { start } => write!(f, "heuristic={start}"),
            Self::Confidence(p) => write!(f, "confidence={p}"),
            Self::AdaptiveConfidence { start } => write!(f, "adaptive_confidence={start}"),
            Self::Mdp { cost, delta: 0.0 } => write!(f, "mdp={cost}"),
            Self::Mdp { cost, delta } => write!(f, "mdp={cost}, delta {delta}"),
            Self::Classifier(entry) => write!(f, "classifier {}", entry.file.display()),
            Self::Head(entry) => write!(f, "head {}", entry.folder.display()),
        }
    }
}

impl FromStr for StopRuleConfig {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let count = || value.map(|value| number(name, value)).transpose();
        let share = || value.map(|value| number::<f64>(name, value)).transpose();
        let needs = || format!("`{name}` needs a value, as in `{name}=…`");
        let rule = match name {
            "length" => Self::Length(count()?.ok_or_else(needs)?),
            "heuristic" => Self::Heuristic {
                start: count()?.unwrap_or_else(default_start),
            },
            "confidence" => Self::Confidence(share()?.ok_or_else(needs)? as f32),
            "adaptive_confidence" => Self::AdaptiveConfidence {
                start: share()?.map_or_else(default_threshold, |start| start as f32),
            },
            "mdp" => Self::Mdp {
                cost: share()?.unwrap_or_else(default_cost),
                delta: 0.0,
            },
            "classifier" | "head" => {
                return Err(format!(
                    "`{name}` reads a trained network: give it to a drafter of a configuration, as \
                     `stop_rule: {{ {name}: … }}`"
                ));
            }
            _ => return Err(format!("there is no stop rule `{name}`; there are {KNOWN}")),
        };
        rule.checked().map_err(|(_, problem)| problem)
    }
}

fn number<T: FromStr>(name: &str, value: &str) -> Result<T, String> {
    let number = value.parse();
    number.map_err(|_| format!("`{name}` is {value:?}, and needs a number"))
}

/// The entry of a file: a map of one key, the rule's name.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(transparent)]
pub(crate) struct StopRuleEntry(#[serde(with = "singleton_map")] StopRuleConfig);

impl StopRuleEntry {
    /// With an absolute path.
    pub(crate) fn of(mut rule: StopRuleConfig) -> Result<Self, String> {
        if let Some(path) = rule.path_mut() {
            *path = path_text(path)?.into();
        }
        Ok(Self(rule))
    }

    /// The rule, its path in `base` if it starts with a point, or the key and the problem of what
    /// is wrong.
    pub(crate) fn rule(self, base: &Path) -> Result<StopRuleConfig, (&'static str, String)> {
        let mut rule = self.0.checked()?;
        if let Some(path) = rule.path_mut()
            && path.to_string_lossy().starts_with('.')
        {
            *path = base.join(&path);
        }
        Ok(rule)
    }
}
