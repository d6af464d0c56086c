//! Plans: everything that the results of a run depend on.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::report::{Evidence, Sha256, Weights};
use crate::results::{Contents, write};
use crate::sampled::SamplingSetting;
use crate::trained::{self, PlannedRule};
use crate::{Definition, Error, ErrorKind, ExperimentKind, Result, Role, Variant};

/// The largest file of a folder of results that is read.
pub(crate) const LARGEST_OWN: u64 = 4 << 30;

/// The file of the plan, in the folder of the results.
pub(crate) const PLAN: &str = "plan.json";

/// Everything that results depend on: equal plans give equal results. It is kept with them, so
/// that they can be reported without the models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Name of the experiment.
    pub name: String,
    /// Its definition, as it was read.
    pub definition: String,
    /// What the models are called: `demo-t5`, a file.
    pub models_from: String,
    /// The models and tables, the target first.
    pub models: Vec<PlannedModel>,
    /// Options of Max-Gram, if it takes part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_gram: Option<String>,
    /// Whether real weights ran, or recorded outputs were replayed.
    pub evidence: Evidence,
    /// The prompts.
    pub suites: Vec<Suite>,
    /// Datasets of the definition that were left out.
    pub left_out: Vec<String>,
    /// Recorded answers that are longer than what is replayed of them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut: usize,
    /// Seed of the choice of prompts, of samples and of the bootstrap.
    pub seed: u64,
    /// Tokens to generate at most.
    pub max_new_tokens: usize,
    /// How tokens are drawn; absent for greedy decoding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling: Option<SamplingSetting>,
    /// Trained rules that take part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<PlannedRule>,
    /// Files with costs of forwards, if there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<String>,
    /// Number of variants.
    #[serde(rename = "arms")]
    pub variants: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A model of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedModel {
    /// Its place: `target`, `base`, `small`.
    pub place: String,
    /// Its parameters; 0 for a recording and for a table.
    pub parameters: usize,
    /// What it computes in; a recording and a table do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<String>,
    /// What it is, with the hashes of its files.
    pub weights: Weights,
}

/// The prompts of one dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// The dataset.
    pub dataset: String,
    /// What they are asked with.
    pub template: String,
    /// The prompts, in the order of the dataset.
    pub prompts: Vec<Asked>,
}

/// A prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// What the dataset calls it.
    pub id: String,
    /// Subject or category.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Hash of its tokens.
    pub tokens: Sha256,
}

impl Plan {
    /// Number of prompts.
    pub fn prompts(&self) -> usize {
        self.suites.iter().map(|suite| suite.prompts.len()).sum()
    }

    /// A prompt by its number in the experiment, which is less than [`prompts`](Self::prompts).
    pub(crate) fn asked(&self, prompt: usize) -> (&Suite, &Asked) {
        let suites = self.suites.iter();
        let all = suites.flat_map(|suite| suite.prompts.iter().map(move |asked| (suite, asked)));
        all.collect::<Vec<_>>()[prompt]
    }

    /// The experiment as it was defined.
    ///
    /// # Errors
    /// What [`Definition::parse`] fails with, if the plan is of another version.
    pub fn definition(&self) -> Result<Definition> {
        Definition::parse(&self.name, &self.definition)
    }

    /// The experiment as it was run: with its rows for a recording, if one was replayed.
    ///
    /// # Errors
    /// See [`definition`](Self::definition).
    pub(crate) fn definition_as_run(&self) -> Result<Definition> {
        let definition = self.definition()?;
        Ok(match self.evidence {
            Evidence::Replayed => definition.on_recording(),
            _ => definition,
        })
    }

    /// Everything that was run.
    ///
    /// # Errors
    /// See [`definition`](Self::definition).
    pub(crate) fn variants_of(&self, definition: &Definition) -> Result<Vec<Variant>> {
        let mut all =
            definition.variants_with(|name| trained::find(&self.rules, name).is_some())?;
        if definition.kind == ExperimentKind::Drafters {
            all.retain(|variant| self.lacks(&variant.drafters).is_none());
        }
        Ok(all)
    }

    /// The first neural drafter of these that did not take part, since the models do not have it.
    pub(crate) fn lacks(&self, drafters: &[Role]) -> Option<Role> {
        let lacks = |role: &Role| {
            role.is_neural() && self.models.iter().all(|model| model.place != role.name())
        };
        drafters.iter().copied().find(lacks)
    }

    /// What a folder of results is marked with.
    pub(crate) fn contents(&self) -> Contents {
        let fingerprint = Sha256::of(self.to_json().as_bytes()).to_string();
        let key = format!(
            "{} on {}, {}",
            self.name,
            self.models_from,
            &fingerprint[..16]
        );
        let records = (self.prompts() * self.variants) as u64;
        Contents { key, records }
    }

    fn to_json(&self) -> String {
        // Numbers, strings and lists: there is nothing that JSON could refuse.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Writes it to a folder of results.
    ///
    /// # Errors
    /// What the system says.
    pub fn save(&self, folder: &Path) -> Result<()> {
        write(&folder.join(PLAN), self.to_json().as_bytes())
    }

    /// Reads it from a folder of results.
    ///
    /// # Errors
    /// A folder that no run has made.
    pub fn of_folder(folder: &Path) -> Result<Self> {
        let problem = |problem: String| {
            let problem = format!("it is no folder of results: {problem}");
            Error::at(ErrorKind::NoResults, folder.display(), problem)
        };
        let text = cascade_core::fs::read_text(folder.join(PLAN), LARGEST_OWN)
            .map_err(|error| problem(format!("{PLAN}: {error}")))?;
        let plan: Self =
            serde_json::from_str(&text).map_err(|error| problem(format!("{PLAN}: {error}")))?;
        let definition = plan.definition();
        definition.map_err(|error| problem(format!("{PLAN}: {error}")))?;
        Ok(plan)
    }
}
