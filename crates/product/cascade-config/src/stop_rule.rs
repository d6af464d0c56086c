//! When a drafter's turns end early: the stop rule of a drafter in a configuration.

use std::fmt;
use std::str::FromStr;

use cascade_engine::{
    AdaptiveConfidence, ConfidenceThreshold, FixedLength, LengthHeuristic, MdpThreshold, StopRule,
};
use serde::Deserialize;

/// The stop rule of a drafter: `stop_rule: { confidence: 0.4 }` in a configuration,
/// `confidence=0.4` on a command line.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum StopRuleConfig {
    /// [`FixedLength`].
    Length(usize),
    /// [`LengthHeuristic`].
    Heuristic {
        /// Tokens of the first draft.
        start: usize,
    },
    /// [`ConfidenceThreshold`].
    Confidence(f32),
    /// [`AdaptiveConfidence`].
    AdaptiveConfidence {
        /// The threshold at first.
        start: f32,
    },
    /// [`MdpThreshold`].
    Mdp {
        /// A token of the drafter in forwards of the reviewer, before both are measured.
        cost: f64,
        /// The theorem's Δ, in forwards of the reviewer.
        delta: f64,
    },
}

const START: usize = 5;
const THRESHOLD: f32 = 0.4;
const COST: f64 = 0.1;

/// Names of the rules, with their values.
const KNOWN: &str = "`length=N`, `heuristic[=START]`, `confidence=P`, `adaptive_confidence[=P]` \
                     and `mdp[=COST]`";

impl StopRuleConfig {
    /// A new rule.
    pub fn rule(&self) -> Box<dyn StopRule> {
        match *self {
            Self::Length(tokens) => Box::new(FixedLength::new(tokens)),
            Self::Heuristic { start } => Box::new(LengthHeuristic::new(start)),
            Self::Confidence(threshold) => Box::new(ConfidenceThreshold::new(threshold)),
            Self::AdaptiveConfidence { start } => Box::new(AdaptiveConfidence::new(start)),
            Self::Mdp { cost, delta } => Box::new(MdpThreshold::new(cost, delta)),
        }
    }

    /// Checks the values, and says what is wrong with which.
    fn checked(self) -> Result<Self, (&'static str, String)> {
        let wrong = |key, problem: &str| Err((key, problem.to_owned()));
        match self {
            Self::Length(0) => wrong("length", "it is 0; give 1 or more"),
            Self::Heuristic { start: 0 } => wrong("heuristic", "it starts at 0; give 1 or more"),
            Self::Confidence(p) if !(0.0..=1.0).contains(&p) => {
                wrong("confidence", "it is no probability; give 0 to 1")
            }
            Self::AdaptiveConfidence { start } if !(0.0..=1.0).contains(&start) => {
                wrong("adaptive_confidence", "it is no probability; give 0 to 1")
            }
            Self::Mdp { cost, .. } if !(cost > 0.0 && cost.is_finite()) => {
                wrong("mdp", "the cost is not above 0 and finite")
            }
            Self::Mdp { delta, .. } if !(delta >= 0.0 && delta.is_finite()) => {
                wrong("mdp", "delta is not 0 or above, and finite")
            }
            valid => Ok(valid),
        }
    }

    /// As a configuration writes it.
    pub(crate) fn to_yaml(self) -> String {
        match self {
            Self::Length(tokens) => format!("{{ length: {tokens} }}"),
            Self::Heuristic { start } => format!("{{ heuristic: {{ start: {start} }} }}"),
            Self::Confidence(p) => format!("{{ confidence: {p} }}"),
            Self::AdaptiveConfidence { start } => {
                format!("{{ adaptive_confidence: {{ start: {start} }} }}")
            }
            Self::Mdp { cost, delta } => {
                format!("{{ mdp: {{ cost: {cost}, delta: {delta} }} }}")
            }
        }
    }
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
        let count = || -> Result<Option<usize>, String> {
            let count = value.map(|value| value.parse().map_err(|_| number(name, value)));
            count.transpose()
        };
        let share = || -> Result<Option<f64>, String> {
            let share = value.map(|value| value.parse().map_err(|_| number(name, value)));
            share.transpose()
        };
        let needs = || format!("`{name}` needs a value, as in `{name}=…`");
        let rule = match name {
            "length" => Self::Length(count()?.ok_or_else(needs)?),
            "heuristic" => Self::Heuristic {
                start: count()?.unwrap_or(START),
            },
            "confidence" => Self::Confidence(share()?.ok_or_else(needs)? as f32),
            "adaptive_confidence" | "adaptive-confidence" => Self::AdaptiveConfidence {
                start: share()?.map_or(THRESHOLD, |start| start as f32),
            },
            "mdp" => Self::Mdp {
                cost: share()?.unwrap_or(COST),
                delta: 0.0,
            },
            _ => return Err(format!("there is no stop rule `{name}`; there are {KNOWN}")),
        };
        rule.checked().map_err(|(_, problem)| problem)
    }
}

fn number(name: &str, value: &str) -> String {
    format!("`{name}` is {value:?}, and needs a number")
}

/// The entry of a file: exactly one of its keys.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StopRuleEntry {
    length: Option<usize>,
    heuristic: Option<HeuristicEntry>,
    confidence: Option<f32>,
    adaptive_confidence: Option<AdaptiveEntry>,
    mdp: Option<MdpEntry>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct HeuristicEntry {
    start: usize,
}

impl Default for HeuristicEntry {
    fn default() -> Self {
        Self { start: START }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct AdaptiveEntry {
    start: f32,
}

impl Default for AdaptiveEntry {
    fn default() -> Self {
        Self { start: THRESHOLD }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct MdpEntry {
    cost: f64,
    delta: f64,
}

impl Default for MdpEntry {
    fn default() -> Self {
        Self {
            cost: COST,
            delta: 0.0,
        }
    }
}

impl StopRuleEntry {
    /// The rule, or the key and the problem of what is wrong.
    pub(crate) fn rule(self) -> Result<StopRuleConfig, (&'static str, String)> {
        let length = self.length.map(StopRuleConfig::Length);
        let heuristic = self
            .heuristic
            .map(|entry| StopRuleConfig::Heuristic { start: entry.start });
        let confidence = self.confidence.map(StopRuleConfig::Confidence);
        let adaptive = self.adaptive_confidence;
        let adaptive =
            adaptive.map(|entry| StopRuleConfig::AdaptiveConfidence { start: entry.start });
        let mdp = self.mdp.map(|entry| StopRuleConfig::Mdp {
            cost: entry.cost,
            delta: entry.delta,
        });
        let all = [length, heuristic, confidence, adaptive, mdp];
        let mut named = all.into_iter().flatten();
        match (named.next(), named.next()) {
            (Some(rule), None) => rule.checked(),
            _ => Err((
                "",
                "it names no rule, or more than one; give exactly one of `length: N`, \
                 `heuristic: {}`, `confidence: P`, `adaptive_confidence: {}` and `mdp: {}`"
                    .to_owned(),
            )),
        }
    }
}
