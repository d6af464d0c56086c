//! Trained networks that decide when a drafter stops, as entries of a configuration.

use std::path::PathBuf;

use cascade_engine::{AcceptanceHead, Classifier, StopRule};
use cascade_models::LoadedModel;
use serde::{Deserialize, Serialize};

use crate::trained::{ClassifierFile, HeadFolder, HeadSettings, NetworkError};

/// DISCO's classifier of a drafter.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ClassifierEntry {
    /// The file.
    pub file: PathBuf,
    /// In place of the file's threshold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f32>,
    /// In place of the file's longest draft.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest: Option<usize>,
}

/// SpecDec++'s acceptance head of a drafter.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct HeadEntry {
    /// The folder.
    pub folder: PathBuf,
    /// In place of the folder's threshold, or of 0.7.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f32>,
    /// In place of the folder's shortest draft, or of 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shortest: Option<usize>,
    /// In place of the folder's longest draft, or of 20.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest: Option<usize>,
}

/// A trained network, and a warning.
pub(crate) type TrainedRule = (Box<dyn StopRule>, Option<String>);

/// What is wrong with an entry: the key, within `stop_rule`, and the problem.
type Problem = (&'static str, String);

impl ClassifierEntry {
    /// A file with the settings in it.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Self {
            file: file.into(),
            threshold: None,
            longest: None,
        }
    }

    pub(crate) fn check(&self) -> Result<(), Problem> {
        check_threshold("classifier.threshold", self.threshold)?;
        check_length("classifier.longest", self.longest)
    }

    /// Reads the file. A warning says if its drafter is another one: drafts are as long as they
    /// would be for that one, which changes the speed alone.
    pub(crate) fn open(&self, drafter: &LoadedModel) -> Result<TrainedRule, NetworkError> {
        let ClassifierFile { weights, settings } = ClassifierFile::open(&self.file)?;
        let threshold = self.threshold.unwrap_or(settings.threshold);
        let longest = self.longest.unwrap_or(settings.longest);
        let rule = Classifier::new(weights.into(), threshold, longest)?;
        let what = format!("classifier {}", self.file.display());
        Ok((
            Box::new(rule),
            other_drafter(&what, &settings.drafter, drafter),
        ))
    }
}

impl HeadEntry {
    /// A folder with the settings in it.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            threshold: None,
            shortest: None,
            longest: None,
        }
    }

    pub(crate) fn check(&self) -> Result<(), Problem> {
        check_threshold("head.threshold", self.threshold)?;
        check_length("head.shortest", self.shortest)?;
        check_length("head.longest", self.longest)
    }

    /// Reads the folder, and checks that its hidden states are those of the drafter. A warning as
    /// of a classifier.
    pub(crate) fn open(&self, drafter: &LoadedModel) -> Result<TrainedRule, NetworkError> {
        let HeadFolder { weights, settings } = HeadFolder::open(&self.folder)?;
        let expected = drafter.model.hidden_size();
        if weights.size() != expected {
            return Err(NetworkError::Size {
                folder: self.folder.clone(),
                found: weights.size(),
                drafter: drafter.name.clone(),
                expected,
            });
        }
        let trained =
            settings.unwrap_or_else(|| HeadSettings::new(&drafter.name, AcceptanceHead::THRESHOLD));
        let rule = AcceptanceHead::new(
            weights.into(),
            self.threshold.unwrap_or(trained.threshold),
            self.shortest.unwrap_or(trained.shortest),
            self.longest.unwrap_or(trained.longest),
        )?;
        let what = format!("head {}", self.folder.display());
        Ok((
            Box::new(rule),
            other_drafter(&what, &trained.drafter, drafter),
        ))
    }
}

fn check_threshold(key: &'static str, threshold: Option<f32>) -> Result<(), Problem> {
    match threshold.filter(|threshold| !(0.0..=1.0).contains(threshold)) {
        None => Ok(()),
        Some(threshold) => Err((
            key,
            format!(
                "it is {threshold}, and a threshold is a probability; give a number from 0 to 1"
            ),
        )),
    }
}

fn check_length(key: &'static str, length: Option<usize>) -> Result<(), Problem> {
    match length {
        Some(0) => Err((key, "it is 0; give 1 or more".to_owned())),
        _ => Ok(()),
    }
}

/// A warning that a network was trained for another drafter, if it was. One of the program's own
/// models is the same with and without `embedded:`.
fn other_drafter(what: &str, trained: &str, drafter: &LoadedModel) -> Option<String> {
    let bare = |name: &str| name.strip_prefix("embedded:").unwrap_or(name).to_owned();
    let drafts = &drafter.name;
    (bare(trained) != bare(drafts)).then(|| {
        format!(
            "the {what} was trained for the drafter `{trained}`, and `{drafts}` drafts: its drafts may be too short or \
             too long"
        )
    })
}
