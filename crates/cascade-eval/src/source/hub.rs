//! Datasets of the Hugging Face hub.

use std::fmt;

use cascade_hub::{HubDataset, HubOptions};

use super::shards;
use crate::{Dataset, Error, ErrorKind, Result, Sample, Selection};

/// Files of a dataset repository of the hub. What is not named is the dataset's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HubData {
    /// `org/name`.
    pub repo: Option<String>,
    /// A branch, a tag or a commit; `main` by default.
    pub revision: Option<String>,
    /// A split as `configuration/split`, a file, or a pattern. By default the split that the
    /// dataset is usually measured on or, of a repository that is not the dataset's own, the only
    /// one.
    pub split: Option<String>,
}

/// The repository of a dataset, and the split of it that is usually measured on; `None` for the
/// only one.
fn home(dataset: &Dataset) -> Option<(&'static str, Option<&'static str>)> {
    Some(match dataset {
        Dataset::Gsm8k => ("openai/gsm8k", Some("main/test")),
        // All 57 subjects.
        Dataset::Mmlu => ("cais/mmlu", Some("all/test")),
        Dataset::HumanEval => ("openai/openai_humaneval", Some("openai_humaneval/test")),
        Dataset::Mbpp => ("google-research-datasets/mbpp", Some("full/test")),
        Dataset::Alpaca => ("tatsu-lab/alpaca", None),
        Dataset::MtBench => ("HuggingFaceH4/mt_bench_prompts", None),
        Dataset::CnnDailyMail => ("abisee/cnn_dailymail", Some("3.0.0/test")),
        Dataset::Problems(_) | Dataset::SpecBench | Dataset::Prompts { .. } => return None,
    })
}

impl HubData {
    /// `None` for what names a file.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("hub")?;
        let mut data = Self::default();
        let rest = match rest.strip_prefix(':') {
            // An `@` behind the second slash is part of a file's name.
            Some(rest) => {
                let end = rest
                    .match_indices(['/', '@'])
                    .find(|(at, sign)| *sign == "@" || rest[..*at].contains('/'));
                let (repo, rest) = rest.split_at(end.map_or(rest.len(), |(at, _)| at));
                data.repo = Some(repo.to_owned());
                rest
            }
            None if rest.is_empty() || rest.starts_with('@') => rest,
            None => return None,
        };
        let split = match rest.strip_prefix('@') {
            Some(rest) => {
                let (revision, split) = rest.split_at(revision_end(rest));
                data.revision = Some(revision.to_owned());
                split
            }
            None => rest,
        };
        let split = split.trim_matches('/');
        data.split = (!split.is_empty()).then(|| split.to_owned());
        Some(data)
    }

    pub(super) fn read(
        &self,
        dataset: &Dataset,
        selection: Selection,
        hub: &HubOptions,
        progress: bool,
    ) -> Result<Vec<Sample>> {
        let (repo, split) = self.place(dataset)?;
        let mut place = HubDataset::new(repo, self.revision.as_deref(), hub, progress)?;
        let names = place.files()?;
        let label = place.to_string();
        let chosen = shards::choose(&label, &names, split)?;
        #[cfg(not(feature = "tables"))]
        if chosen.iter().any(|name| name.ends_with(".parquet")) {
            let data = self.to_string();
            return Err(crate::dataset::without_tables(&label, dataset, &data));
        }
        let files = chosen.iter().map(|name| Ok(place.fetch(name)?));
        dataset
            .read_files(&label, files, selection)
            .map_err(Error::of_download)
    }

    fn place(&self, dataset: &Dataset) -> Result<(&str, Option<&str>)> {
        let home = home(dataset);
        let split = self.split.as_deref();
        match (self.repo.as_deref(), home) {
            (None, None) => Err(Error::new(
                ErrorKind::Missing,
                format!(
                    "the dataset {dataset} has no repository of its own on the hub; give a file, or another repository \
                     as hub:org/name"
                ),
            )),
            (None, Some((repo, usual))) => Ok((repo, split.or(usual))),
            (Some(repo), Some((own, usual))) if repo == own => Ok((repo, split.or(usual))),
            (Some(repo), _) => Ok((repo, split)),
        }
    }
}

/// Where the name of a revision ends. Those that the hub makes itself, such as the Parquet export
/// of any dataset, are of three parts: refs/convert/parquet, refs/pr/1.
fn revision_end(text: &str) -> usize {
    let own = ["refs/convert/", "refs/pr/"];
    let start = own
        .iter()
        .find(|own| text.starts_with(**own))
        .map_or(0, |own| own.len());
    text[start..].find('/').map_or(text.len(), |at| start + at)
}

impl fmt::Display for HubData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("hub")?;
        if let Some(repo) = &self.repo {
            write!(f, ":{repo}")?;
        }
        if let Some(revision) = &self.revision {
            write!(f, "@{revision}")?;
        }
        match &self.split {
            Some(split) => write!(f, "/{split}"),
            None => Ok(()),
        }
    }
}
