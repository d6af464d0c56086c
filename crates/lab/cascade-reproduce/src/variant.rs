//! Variants: the cascades that an experiment compares.

use std::fmt;

use cascade_engine::{Convention, KMatrix, Lenience};
use serde::{Deserialize, Serialize};

use crate::draft_rule::{DraftRule, TrainedName};
use crate::{Error, ErrorKind, Result};

/// Tokens that Max-Gram proposes at a time (Cascade Speculative Drafting, App. B).
pub(crate) const MAX_GRAM_TOKENS: usize = 10;

/// A drafter's place in the paper's cascades.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The largest neural drafter.
    Base,
    /// The smallest neural drafter; the same as [`Base`](Self::Base) where there is only one.
    Small,
    /// Max-Gram as the models' configuration has it: with its bigram table, if it names one.
    Mag,
    /// Max-Gram without a bigram table.
    MagAlone,
    /// The tree of all matches: with its table, if the models' configuration has one with a table.
    Tree,
    /// Prompt lookup of n-grams up to 3.
    PromptLookup,
    /// The first head of EAGLE of the models' configuration, of any of its versions.
    Eagle,
    /// The first heads of Medusa.
    Medusa,
}

impl Role {
    /// The roles of neural models.
    pub const NEURAL: [Self; 4] = [Self::Base, Self::Small, Self::Eagle, Self::Medusa];

    /// The roles that read the target's hidden states.
    pub(crate) const HEADS: [Self; 2] = [Self::Eagle, Self::Medusa];

    /// The paper's word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Small => "small",
            Self::Mag => "mag",
            Self::MagAlone => "mag without bigrams",
            Self::Tree => "tree",
            Self::PromptLookup => "prompt lookup",
            Self::Eagle => "EAGLE",
            Self::Medusa => "Medusa",
        }
    }

    /// Whether it is a neural model, which costs something.
    pub const fn is_neural(self) -> bool {
        matches!(self, Self::Base | Self::Small | Self::Eagle | Self::Medusa)
    }
}

/// One choice of hyperparameters, as the paper writes them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Tokens that the first drafter adds for the target; for speculative decoding, its k.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub k11: Option<usize>,
    /// Tokens that the draft for the target holds when the second drafter is done: a running sum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub k12: Option<usize>,
    /// Tokens that the second drafter adds for the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub k22: Option<usize>,
    /// λ of reviews by drafters; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lenience: Option<f32>,
    /// The whole K matrix, entries added, in place of k11, k12 and k22.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix: Option<Vec<Vec<usize>>>,
    /// What decides how long drafts are, within k11 if that is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<DraftRule>,
}

impl Setting {
    /// The trained network that its rule needs, if any.
    pub(crate) fn trained(&self) -> Option<&TrainedName> {
        self.rule.as_ref().and_then(DraftRule::trained)
    }

    /// The K matrix for these drafters. The last drafts ten tokens at a time if it is statistical.
    ///
    /// # Errors
    /// Hyperparameters that do not fit these drafters.
    pub fn k_matrix(&self, drafters: &[Role]) -> Result<KMatrix> {
        let rows = match &self.matrix {
            Some(matrix) => matrix.clone(),
            None => self.written_out(drafters)?,
        };
        if rows.len() != drafters.len() {
            let problem = format!("its K matrix has {} rows", rows.len());
            return Err(self.wrong(drafters, problem));
        }
        KMatrix::new(rows, Convention::Added)
            .map_err(|error| self.wrong(drafters, error.to_string()))
    }

    /// Its hyperparameters that are the largest of several values, as `k11 32`.
    pub(crate) fn at_largest_of(&self, tried: &[&Self]) -> Vec<String> {
        let own = self.numbers().into_iter().enumerate();
        let at_largest = own.filter_map(|(i, (name, own))| {
            let own = own?;
            let others = || tried.iter().filter_map(|setting| setting.numbers()[i].1);
            let largest = others().all(|other| other <= own) && others().any(|other| other < own);
            largest.then(|| format!("{name} {own}"))
        });
        at_largest.collect()
    }

    /// The numeric hyperparameters.
    fn numbers(&self) -> [(&'static str, Option<f32>); 4] {
        let number = |k: Option<usize>| k.map(|k| k as f32);
        [
            ("k11", number(self.k11)),
            ("k12", number(self.k12)),
            ("k22", number(self.k22)),
            ("λ", self.lenience),
        ]
    }

    /// The matrix that k11, k12 and k22 stand for.
    fn written_out(&self, drafters: &[Role]) -> Result<Vec<Vec<usize>>> {
        const M: usize = MAX_GRAM_TOKENS;
        let neural = drafters.iter().filter(|role| role.is_neural()).count();
        let missing = |what: &str| self.wrong(drafters, format!("{what} is missing"));
        // A schedule decides alone.
        if self.rule.as_ref().is_some_and(DraftRule::is_schedule) {
            let row = |i: usize| (0..drafters.len()).map(|j| usize::from(j >= i)).collect();
            return Ok((0..drafters.len()).map(row).collect());
        }
        let k11 = self.k11.ok_or_else(|| missing("k11"));
        match (neural, drafters.len() - neural) {
            (0, 0) => Ok(Vec::new()),
            (0, 1) => Ok(vec![vec![self.k11.unwrap_or(M)]]),
            (1, 0) => Ok(vec![vec![k11?]]),
            (1, 1) => Ok(vec![vec![k11?, M], vec![0, M]]),
            (2, statistical @ 0..=1) => {
                let k11 = k11?;
                let k12 = self.k12.ok_or_else(|| missing("k12"))?;
                let k22 = self.k22.ok_or_else(|| missing("k22"))?;
                let added = k12.checked_sub(k11).ok_or_else(|| {
                    let problem = format!("k12 is {k12}, below k11, and it is a running sum");
                    self.wrong(drafters, problem)
                })?;
                Ok(match statistical {
                    0 => vec![vec![k11, added], vec![0, k22]],
                    _ => vec![vec![k11, added, M], vec![0, k22, M], vec![0, 0, M]],
                })
            }
            _ => Err(self.wrong(drafters, "so many drafters need a `matrix`".to_owned())),
        }
    }

    /// A rule is of a drafter, and a network of one that has probabilities and hidden states.
    fn check_rule(&self, drafters: &[Role]) -> Result<()> {
        let Some(rule) = &self.rule else {
            return Ok(());
        };
        // Names and thresholds of a grid's lists were not read as rules.
        if let Err(problem) = rule.to_string().parse::<DraftRule>() {
            return Err(self.wrong(drafters, problem));
        }
        let problem = match drafters.first() {
            None => "nothing drafts, so that there is nothing to decide",
            Some(_) if drafters.len() > 1 && *rule != DraftRule::Online => {
                "a rule decides for one drafter"
            }
            Some(role) if rule.trained().is_some() && !role.is_neural() => {
                "a trained rule reads what only neural drafters compute"
            }
            Some(_) if self.matrix.is_some() => {
                "a rule has k11 for its longest draft, not a matrix"
            }
            Some(_) if rule.is_schedule() && self.k11.is_some() => {
                "it decides alone how much is drafted: leave k11 out"
            }
            Some(_) => return Ok(()),
        };
        Err(self.wrong(drafters, problem.to_owned()))
    }

    fn wrong(&self, drafters: &[Role], problem: String) -> Error {
        let message = format!(
            "the setting `{self}` for the drafters {}: {problem}; give k11, for two neural drafters k12 (a running \
             sum) and k22 as well, or a `matrix` with a row for each drafter",
            names(drafters)
        );
        Error::new(ErrorKind::Setting, message)
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if let Some(matrix) = &self.matrix {
            parts.push(format!("K = {matrix:?}").replace(", ", ","));
        }
        let ks = [("k11", self.k11), ("k12", self.k12), ("k22", self.k22)];
        parts.extend(
            ks.iter()
                .filter_map(|(name, k)| k.map(|k| format!("{name} {k}"))),
        );
        if let Some(lenience) = self.lenience.filter(|&lenience| lenience != 1.0) {
            parts.push(format!("λ {lenience}"));
        }
        parts.extend(self.rule.as_ref().map(DraftRule::to_string));
        f.write_str(&parts.join(", "))
    }
}

/// Drafters in one line, as the paper lists them.
pub(crate) fn names(drafters: &[Role]) -> String {
    match drafters {
        [] => "-".to_owned(),
        drafters => drafters
            .iter()
            .map(|role| role.name())
            .collect::<Vec<_>>()
            .join(", "),
    }
}

/// One cascade of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// Its id in records: drafters and hyperparameters.
    pub id: String,
    /// The row of the experiment that it belongs to.
    pub row: usize,
    /// Its drafters, largest first; none for plain decoding.
    pub drafters: Vec<Role>,
    /// Its hyperparameters.
    pub setting: Setting,
    /// The K matrix that they make.
    pub k: KMatrix,
    /// λ of reviews by drafters.
    pub lenience: Lenience,
    /// Children of the leading node of each depth of a neural drafter's drafts; 1 for chains.
    pub children: usize,
}

impl Variant {
    /// A variant of a row.
    ///
    /// # Errors
    /// Hyperparameters that do not fit the drafters.
    pub fn new(row: usize, drafters: &[Role], setting: Setting, children: usize) -> Result<Self> {
        let k = setting.k_matrix(drafters)?;
        setting.check_rule(drafters)?;
        let lenience = setting
            .lenience
            .map_or(Ok(Lenience::STRICT), Lenience::new)
            .map_err(|error| setting.wrong(drafters, error.to_string()))?;
        let mut id = names(drafters);
        if drafters.is_empty() {
            id = "plain".to_owned();
        } else if setting != Setting::default() {
            id = format!("{id}; {setting}");
        }
        if children > 1 {
            id = format!("{id}; {children} children");
        }
        Ok(Self {
            id,
            row,
            drafters: drafters.to_vec(),
            setting,
            k,
            lenience,
            children,
        })
    }

    /// Whether the target decodes alone.
    pub fn is_plain(&self) -> bool {
        self.drafters.is_empty()
    }

    /// Whether it looks at the answer.
    pub(crate) fn is_oracle(&self) -> bool {
        self.setting.rule == Some(DraftRule::Oracle)
    }

    /// The hyperparameters in words.
    pub fn describe(&self) -> String {
        match (self.setting.to_string(), self.children) {
            (setting, 0 | 1) if setting.is_empty() => "-".to_owned(),
            (setting, 0 | 1) => setting,
            (setting, children) => format!("{setting}, {children} children"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(rows: &[&[usize]]) -> KMatrix {
        let rows = rows.iter().map(|row| row.to_vec()).collect();
        KMatrix::new(rows, Convention::Added).unwrap()
    }

    fn setting(k11: usize, k12: Option<usize>, k22: Option<usize>) -> Setting {
        Setting {
            k11: Some(k11),
            k12,
            k22,
            ..Setting::default()
        }
    }

    #[test]
    fn the_papers_hyperparameters_become_matrices() {
        use Role::{Base, Mag, Small};
        let three = setting(8, Some(13), Some(1))
            .k_matrix(&[Base, Small, Mag])
            .unwrap();
        assert_eq!(three, added(&[&[8, 5, 10], &[0, 1, 10], &[0, 0, 10]]));
        let two = setting(10, None, None).k_matrix(&[Base, Mag]).unwrap();
        assert_eq!(two, added(&[&[10, 10], &[0, 10]]));
        let one = setting(11, None, None).k_matrix(&[Small]).unwrap();
        assert_eq!(one, added(&[&[11]]));
        let lookup = Setting::default().k_matrix(&[Role::PromptLookup]).unwrap();
        assert_eq!(lookup, added(&[&[10]]));
        assert_eq!(Setting::default().k_matrix(&[]).unwrap().size(), 0);
    }

    #[test]
    fn invalid_settings_are_refused() {
        use Role::{Base, Mag, Small};
        let falls = setting(8, Some(5), Some(1))
            .k_matrix(&[Base, Small, Mag])
            .unwrap_err();
        assert!(falls.to_string().contains("k12 is 5, below k11"), "{falls}");
        let missing = setting(8, None, None).k_matrix(&[Base, Small]).unwrap_err();
        assert!(missing.to_string().contains("k12 is missing"), "{missing}");
        let matrix = Setting {
            matrix: Some(vec![vec![1]]),
            ..Setting::default()
        };
        let size = matrix.k_matrix(&[Base, Mag]).unwrap_err();
        assert!(size.to_string().contains("has 1 rows"), "{size}");
    }

    #[test]
    fn the_edge_of_a_search_is_seen() {
        let all: Vec<Setting> = [(1, 4), (3, 4), (3, 8), (5, 8)]
            .map(|(k11, k12)| setting(k11, Some(k12), Some(1)))
            .into();
        let tried: Vec<&Setting> = all.iter().collect();
        assert!(all[1].at_largest_of(&tried).is_empty());
        assert_eq!(all[2].at_largest_of(&tried), ["k12 8"]);
        assert_eq!(all[3].at_largest_of(&tried), ["k11 5", "k12 8"]);
        assert!(all[3].at_largest_of(&tried[3..]).is_empty());
    }

    #[test]
    fn variants_are_named() {
        let variant = Variant::new(1, &[Role::Base, Role::Mag], setting(9, None, None), 1).unwrap();
        assert_eq!(variant.id, "base, mag; k11 9");
        assert_eq!(
            Variant::new(0, &[], Setting::default(), 1).unwrap().id,
            "plain"
        );
        let matrix = Setting {
            matrix: Some(vec![vec![1, 3], vec![0, 1]]),
            ..Setting::default()
        };
        let tree = Variant::new(2, &[Role::Small, Role::Mag], matrix, 8).unwrap();
        assert_eq!(tree.id, "small, mag; K = [[1,3],[0,1]]; 8 children");
        assert_eq!(tree.describe(), "K = [[1,3],[0,1]], 8 children");
    }
}
