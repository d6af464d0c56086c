//! Trained rules: which of those that an experiment names are in a folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::draft_rule::{Network, TrainedName};
use crate::report::Sha256;
use crate::{Definition, Error, ErrorKind, Result};

/// Files of a network, in the order in which they are looked for, and whether results depend on
/// them.
const HEAD: [&str; 3] = ["config.json", "model.safetensors", "pytorch_model.bin"];
const CLASSIFIER: [&str; 1] = ["classifier.safetensors"];
/// The largest report of a training that is read.
const LARGEST_REPORT: u64 = 16 << 20;

/// A trained rule of a plan: results depend on its files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedRule {
    /// Its folder among the rules: `head-w6-d3`.
    pub folder: String,
    /// Hashes of its files.
    pub files: BTreeMap<String, Sha256>,
    /// What its training found, if it was trained here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training: Option<TrainingReport>,
}

/// What a training says of itself in `head.json` or `classifier.json`. Other keys are passed over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainingReport {
    /// The drafter that it is for.
    pub drafter: String,
    /// Recorded outputs by what they were for.
    pub outputs: TrainingOutputs,
    /// On the held-out ones.
    pub held_out: HeldOut,
}

/// Recorded outputs of a training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrainingOutputs {
    /// Outputs that were learned from.
    pub training: u64,
    /// Outputs that chose threshold and epoch.
    pub choice: u64,
    /// Outputs that were only reported on.
    pub held_out: u64,
}

/// Quality on held-out outputs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldOut {
    /// Mean cross-entropy, in nats. Of targets that decode greedily, where a token is accepted or
    /// not, it is the divergence from the truth.
    pub loss: f64,
    /// F1 of the predictions above ½.
    pub f1: f64,
}

/// The folder of trained rules, with what an experiment needs of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrainedRules {
    folder: PathBuf,
    pub(crate) planned: Vec<PlannedRule>,
}

impl TrainedRules {
    /// The rules that the definition names and the folder has; none without a folder.
    ///
    /// # Errors
    /// An experiment without trained rules, a folder that has none of them, and files that cannot
    /// be read.
    pub(crate) fn read(definition: &Definition, folder: Option<&Path>) -> Result<Self> {
        let Some(folder) = folder else {
            return Ok(Self::default());
        };
        let wanted = definition.trained();
        if wanted.is_empty() {
            let problem = "has no trained rules; leave --rules out";
            return Err(Error::request(&definition.name, problem));
        }
        let mut planned = Vec::new();
        for name in &wanted {
            planned.extend(planned_rule(folder, name)?);
        }
        if planned.is_empty() {
            let wanted: Vec<String> = wanted.iter().map(TrainedName::folder).collect();
            let message = format!(
                "{} has none of the trained rules of the experiment `{}`, which are the folders {} in it; make them \
                 with `cascade-lab train head` and `cascade-lab train classifier`, --out {}/NAME",
                folder.display(),
                definition.name,
                wanted.join(", "),
                folder.display()
            );
            Err(Error::new(ErrorKind::Request, message))
        } else {
            Ok(Self {
                folder: folder.to_owned(),
                planned,
            })
        }
    }

    /// Where a rule is.
    pub(crate) fn path(&self, name: &TrainedName) -> PathBuf {
        let folder = self.folder.join(name.folder());
        match name.network {
            Network::Head => folder,
            Network::Classifier => folder.join(CLASSIFIER[0]),
        }
    }
}

/// A trained rule of a plan.
pub(crate) fn find<'r>(planned: &'r [PlannedRule], name: &TrainedName) -> Option<&'r PlannedRule> {
    let folder = name.folder();
    planned.iter().find(|rule| rule.folder == folder)
}

/// What the training of a plan's rule found on its held-out outputs.
pub(crate) fn held_out(planned: &[PlannedRule], name: &TrainedName) -> Option<HeldOut> {
    Some(find(planned, name)?.training.as_ref()?.held_out)
}

fn planned_rule(folder: &Path, name: &TrainedName) -> Result<Option<PlannedRule>> {
    let own = folder.join(name.folder());
    if !own.is_dir() {
        return Ok(None);
    }
    let names: &[&str] = match name.network {
        Network::Head => &HEAD,
        Network::Classifier => &CLASSIFIER,
    };
    let mut files = BTreeMap::new();
    for &file in names {
        let path = own.join(file);
        if path.is_file() {
            files.insert(file.to_owned(), Sha256::of_file(&path)?);
        }
    }
    let network = name.network.word();
    if files.is_empty() {
        let problem = format!(
            "it has none of {}: no `cascade-lab train {network}` has ended there; go on with its --resume, or remove it",
            names.join(", ")
        );
        return Err(Error::content(&own, problem));
    }
    Ok(Some(PlannedRule {
        folder: name.folder(),
        files,
        training: training_report(&own.join(format!("{network}.json")))?,
    }))
}

/// `None` for a rule that was not trained here, as a released head.
fn training_report(file: &Path) -> Result<Option<TrainingReport>> {
    if !file.is_file() {
        return Ok(None);
    }
    let text =
        cascade_core::fs::read_text(file, LARGEST_REPORT).map_err(Error::io("read", file))?;
    let report = serde_json::from_str(&text).map_err(|error| {
        let problem = format!("{error}; it is what `cascade-lab train` writes: train again");
        Error::content(file, problem)
    })?;
    Ok(Some(report))
}
