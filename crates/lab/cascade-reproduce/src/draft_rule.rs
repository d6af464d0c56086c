//! What decides how long drafts are, where it is not a fixed number alone.

use std::fmt;
use std::str::FromStr;

use cascade_config::StopRuleConfig;
use serde::{Deserialize, Serialize};

/// Who decides how long a draft is: a stop rule, a trained network, a schedule, or an oracle. It is
/// written in a line, as in `heuristic=5`, `head:w6-d3=0.7`, `online`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DraftRule {
    /// A stop rule without weights: `heuristic=5`, `confidence=0.4`, `adaptive_confidence=0.4`,
    /// `mdp=0.15`.
    Stop(StopRuleConfig),
    /// A trained network: `classifier`, `classifier=0.5`, `head:w6-d3=0.7`.
    Trained(TrainedName),
    /// The online schedule: `online`.
    Online,
    /// The number of tokens that the target will keep: `oracle`. It needs the answer.
    Oracle,
}

/// A trained network in a folder of such.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainedName {
    /// What it is.
    pub network: Network,
    /// Its name among those of its kind; empty for the one without a name.
    pub name: String,
    /// In place of the threshold that it was trained with.
    pub threshold: Option<f32>,
}

/// What is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// SpecDec++'s acceptance head.
    Head,
    /// DISCO's classifier.
    Classifier,
}

impl Network {
    /// The word of rules and folders, and what `cascade-lab train` calls it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Classifier => "classifier",
        }
    }
}

impl TrainedName {
    /// Its folder among the trained rules: `head-w6-d3`, `classifier`.
    pub fn folder(&self) -> String {
        match self.name.as_str() {
            "" => self.network.word().to_owned(),
            name => format!("{}-{name}", self.network.word()),
        }
    }
}

impl DraftRule {
    /// The trained network that it needs, if any.
    pub const fn trained(&self) -> Option<&TrainedName> {
        match self {
            Self::Trained(trained) => Some(trained),
            _ => None,
        }
    }

    /// Whether it weighs times of forwards, which are assumed in experiments: what is drafted must
    /// not depend on the machine.
    pub const fn weighs_times(&self) -> bool {
        matches!(self, Self::Online | Self::Stop(StopRuleConfig::Mdp { .. }))
    }

    /// Whether it needs no largest number of tokens.
    pub const fn is_schedule(&self) -> bool {
        matches!(self, Self::Online | Self::Oracle)
    }
}

impl fmt::Display for DraftRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stop(rule) => rule.fmt(f),
            Self::Online => f.write_str("online"),
            Self::Oracle => f.write_str("oracle"),
            Self::Trained(trained) => {
                f.write_str(trained.network.word())?;
                if !trained.name.is_empty() {
                    write!(f, ":{}", trained.name)?;
                }
                match trained.threshold {
                    Some(threshold) => write!(f, "={threshold}"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl FromStr for DraftRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, threshold) = match text.split_once('=') {
            Some((kind, threshold)) => (kind, Some(threshold)),
            None => (text, None),
        };
        let (word, name) = kind.split_once(':').unwrap_or((kind, ""));
        let network = match word {
            "online" | "oracle" if kind != text || kind != word => {
                return Err(format!("`{text}`: `{word}` has no values"));
            }
            "online" => return Ok(Self::Online),
            "oracle" => return Ok(Self::Oracle),
            "head" => Network::Head,
            "classifier" => Network::Classifier,
            _ => {
                let rule = text.parse().map_err(|problem: String| {
                    format!("{problem}, `head[:NAME][=H]`, `classifier[:NAME][=P]`, `online` and `oracle`")
                })?;
                return Ok(Self::Stop(rule));
            }
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if !name.chars().all(is_plain) || (name.is_empty() && kind != word) {
            return Err(format!(
                "`{text}`: a name of letters, digits, `-` and `_` belongs after `{word}:`"
            ));
        }
        Ok(Self::Trained(TrainedName {
            network,
            name: name.to_owned(),
            threshold: threshold.map(|p| probability(text, p)).transpose()?,
        }))
    }
}

fn probability(rule: &str, text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(p) if (0.0..=1.0).contains(&p) => Ok(p),
        _ => Err(format!("`{rule}`: {text:?} is no probability; give 0 to 1")),
    }
}

impl TryFrom<String> for DraftRule {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<DraftRule> for String {
    fn from(rule: DraftRule) -> Self {
        rule.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_they_are_written() {
        for text in [
            "heuristic=5",
            "confidence=0.4",
            "adaptive_confidence=0.4",
            "mdp=0.15",
            "head",
            "head=0.7",
            "head:w6-d3=0.7",
            "classifier:mbpp",
            "classifier=0.5",
            "online",
            "oracle",
        ] {
            let rule: DraftRule = text.parse().unwrap();
            assert_eq!(rule.to_string(), text);
        }
        let head: DraftRule = "head:w6-d3=0.7".parse().unwrap();
        assert_eq!(head.trained().unwrap().folder(), "head-w6-d3");
        let own: DraftRule = "classifier".parse().unwrap();
        assert_eq!(own.trained().unwrap().folder(), "classifier");
    }

    #[test]
    fn what_is_no_rule_is_refused_by_name() {
        for (text, said) in [
            ("luck", "there is no stop rule `luck`"),
            ("head=2", "no probability"),
            ("head=NaN", "no probability"),
            ("head:../x", "a name of letters"),
            ("head:", "a name of letters"),
            ("oracle=1", "has no values"),
            ("online:x", "has no values"),
            ("heuristic=0", "give 1 or more"),
        ] {
            let error = text.parse::<DraftRule>().unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
