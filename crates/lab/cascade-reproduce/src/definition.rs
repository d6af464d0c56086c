//! Experiments as files under `configs/reproduce/`.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

use cascade_config::{LARGEST_CONFIG, from_yaml};
use serde::{Deserialize, Serialize};

use crate::draft_rule::{DraftRule, Network, TrainedName};
use crate::sampled::SamplingSetting;
use crate::variant::{Role, Setting, Variant};
use crate::{Error, ErrorKind, Result};

macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../experiments/", $name, ".yaml")))),*]
    };
}

/// The experiments that are part of the program, in the order in which the papers have them.
static EMBEDDED: &[(&str, &str)] = embedded![
    "table1",
    "table2",
    "table3",
    "table4",
    "table5",
    "horizontal",
    "figure2",
    "spec-bench",
    "specdec",
    "disco",
    "transfer",
];

/// What an experiment is.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Its name: the file's name without its extension.
    #[serde(skip)]
    pub name: String,
    /// The text that it was read from.
    #[serde(skip)]
    pub text: String,
    /// A line.
    pub title: String,
    /// Description.
    pub about: String,
    /// Where in the paper its values are reported.
    pub source: String,
    /// What is done.
    pub kind: ExperimentKind,
    /// The models behind `--models demo` and `--models paper`.
    pub models: Option<ModelNames>,
    /// Names of the datasets.
    #[serde(default)]
    pub datasets: Vec<String>,
    /// Datasets of the paper by the datasets that stand for them and show the paper's figures.
    #[serde(default)]
    pub stands_for: BTreeMap<String, String>,
    /// Prompts of each dataset if nothing else is asked for.
    #[serde(default)]
    pub samples: usize,
    /// Tokens to generate at most.
    #[serde(default)]
    pub max_new_tokens: usize,
    /// What the rows are compared by, one table for each.
    #[serde(default)]
    pub metrics: Vec<Metric>,
    /// The rows of the paper's table. The first is plain decoding, unless a recording is replayed.
    #[serde(default)]
    pub rows: Vec<PaperRow>,
    /// What forwards are assumed to cost where lengths of drafts are compared.
    pub assumed: Option<AssumedCosts>,
    /// How the paper samples, for runs that are asked to; others decode greedily.
    pub sampled: Option<SamplingSetting>,
    /// What is compared on a recording, in place of the rows.
    pub recorded: Option<Recorded>,
    /// The row that gains over others.
    pub gain_of: Option<String>,
    /// What the paper reports of its trained heads.
    #[serde(default)]
    pub heads: Vec<PaperHead>,
    /// What the paper reports of its samples.
    #[serde(default)]
    pub splits: Vec<PaperSplit>,
    /// What must be known of the paper's figures, a sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Costs of forwards, in forwards of the target of one row. They are assumed, since what is drafted
/// must be a function of the experiment and not of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AssumedCosts {
    /// A forward of the drafter; 0 for a statistical one. Where drafters of all kinds are compared,
    /// each one's is its share of the target's parameters if nothing is said.
    #[serde(default)]
    pub drafter: Option<f64>,
    /// A further row of a forward, as a share of its first.
    pub row: f64,
}

/// What is compared on a recording.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// The models of recordings, if they are others.
    pub models: Option<ModelNames>,
    /// What forwards are assumed to cost, where lengths of drafts are compared.
    pub assumed: Option<AssumedCosts>,
    /// The row that gains over others.
    pub gain_of: Option<String>,
    /// The rows. The first is plain decoding.
    pub rows: Vec<PaperRow>,
}

/// A head of the paper (SpecDec++, Table 3).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperHead {
    /// Its name in rules: `w6-d3`.
    pub name: String,
    /// w_rej, the weight of rejected tokens in the loss.
    pub reject_weight: f64,
    /// D, the number of residual layers.
    pub depth: usize,
    /// Divergence on what it was trained on.
    pub train_kl: f64,
    /// Divergence on what it was not.
    pub eval_kl: f64,
    /// By dataset, the best throughput and the threshold that gave it.
    pub best: BTreeMap<String, (f64, f64)>,
}

/// Samples of the paper by what they were for (DISCO, Table 3).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperSplit {
    /// The dataset.
    pub dataset: String,
    /// Samples that were trained on; `None` where nothing was.
    pub training: Option<usize>,
    /// Samples that chose settings.
    pub validation: Option<usize>,
    /// Samples that figures are of.
    pub test: usize,
}

/// What is done in an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExperimentKind {
    /// Formulas are evaluated.
    Ewif,
    /// Cascades generate, and are compared by SWI and walltime.
    Cascades,
    /// Cascades generate, and are compared by acceptance at each position of a draft.
    Positions,
    /// Drafters are replayed on recorded outputs.
    Replay,
    /// Drafters of all kinds and cascades of them, live or on recorded outputs: compared by tokens
    /// per forward of the target and by walltime, by category. Rows are left out
    /// if the models lack a drafter of theirs.
    Drafters,
    /// One drafter under rules that decide how much it drafts, live or on recorded outputs:
    /// compared by what is discarded, how often the target verifies, and time.
    Lengths,
}

/// Configurations (`t5-xxl`, `vicuna-7b`, `demo-t5`, `demo-llama`) that name models.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelNames {
    /// For `--models demo`.
    pub demo: String,
    /// For `--models paper`.
    pub paper: String,
}

/// What rows are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// SWI by the paper's *model size* costs of the places in the cascade.
    ModelSize,
    /// SWI by the paper's *previous work* costs.
    PreviousWork,
    /// SWI by the parameters of the models that ran.
    Parameters,
    /// SWI by the time of single-row forwards on this machine.
    Measured,
    /// Tokens per second.
    Walltime,
    /// Milliseconds per token.
    Latency,
    /// Times as fast as plain decoding.
    Speedup,
    /// Milliseconds of a drafter's forward, by regression.
    DraftTime,
    /// Milliseconds of a target's forward, by regression.
    TargetTime,
    /// Share of the variance of times that the regression explains.
    R2,
    /// Mean number of tokens that an oracle drafts.
    OracleLength,
    /// Its standard deviation.
    OracleDeviation,
    /// F1 of the decisions to go on, in percent.
    F1,
    /// Gain of the experiment's rule over the row, in percent.
    Gain,
}

impl Metric {
    /// The metrics that rows of [`ExperimentKind::Lengths`] are compared by.
    pub(crate) const OF_LENGTHS: [Self; 3] = [Self::Walltime, Self::Latency, Self::Speedup];

    /// The metrics that cascades are compared by.
    const OF_CASCADES: [Self; 5] = [
        Self::ModelSize,
        Self::PreviousWork,
        Self::Parameters,
        Self::Measured,
        Self::Walltime,
    ];

    /// What it is called in files.
    fn key(self) -> String {
        let key = serde_json::to_value(self).unwrap_or_default();
        key.as_str().unwrap_or_default().to_owned()
    }

    /// What it is called in tables.
    pub const fn title(self) -> &'static str {
        match self {
            Self::ModelSize => "SWI, FLAN-T5 model sizes",
            Self::PreviousWork => "SWI, costs of previous work",
            Self::Parameters => "SWI, counted parameters",
            Self::Measured => "SWI, forwards timed here",
            Self::Walltime => "walltime",
            Self::Latency => "latency",
            Self::Speedup => "walltime × plain",
            Self::DraftTime => "forward of the drafter",
            Self::TargetTime => "forward of the target",
            Self::R2 => "R²",
            Self::OracleLength => "mean length",
            Self::OracleDeviation => "standard deviation",
            Self::F1 => "F1",
            Self::Gain => "gain",
        }
    }

    /// What cascades are compared by: of walltime, times plain decoding's.
    pub(crate) const fn compared(self) -> &'static str {
        match self {
            Self::Walltime => Self::Speedup.title(),
            metric => metric.title(),
        }
    }
}

/// A row of the paper's table: an algorithm, the settings of it that are tried, and its figures.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "struct Row")]
pub struct PaperRow {
    /// The paper's name of the algorithm.
    pub algorithm: String,
    /// The drafters, largest first.
    #[serde(default)]
    pub drafters: Vec<Role>,
    /// Children of the leading node of each depth.
    #[serde(default = "one")]
    pub children: usize,
    /// Hyperparameters that are tried: all combinations in which k12 is not below k11.
    #[serde(default)]
    pub grid: Grid,
    /// K matrices that are tried, entries added.
    #[serde(default)]
    pub matrices: Vec<Vec<Vec<usize>>>,
    /// By what the best of its settings is chosen.
    #[serde(default)]
    pub chosen_by: Criterion,
    /// The values that the paper reports.
    #[serde(default)]
    pub paper: Vec<PaperFigure>,
    /// Why the row is not run: it then has the paper's values alone, with this note.
    pub absent: Option<String>,
}

const fn one() -> usize {
    1
}

/// By what the best setting of a row is chosen where lengths of drafts are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Criterion {
    /// Modelled speed: counted forwards and their times.
    #[default]
    Speed,
    /// Measured time per token (DISCO, App. E). A replay has none, so nothing is chosen by it.
    Latency,
}

/// Values of hyperparameters. All combinations are tried. An empty list leaves its
/// hyperparameter out.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Grid {
    /// Values of k11.
    pub k11: Vec<usize>,
    /// Values of k12.
    pub k12: Vec<usize>,
    /// Values of k22.
    pub k22: Vec<usize>,
    /// Values of λ.
    pub lenience: Vec<f32>,
    /// Rules that decide how long drafts are.
    pub rules: Vec<DraftRule>,
    /// Names of trained heads, each tried with all `thresholds`; `""` for the one
    /// without a name.
    pub heads: Vec<String>,
    /// Names of trained classifiers, likewise.
    pub classifiers: Vec<String>,
    /// Thresholds of trained rules; what they were trained with if there are none.
    pub thresholds: Vec<f32>,
}

/// A value that the paper reports.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperFigure {
    /// On which dataset.
    pub dataset: String,
    /// What was measured.
    pub metric: Metric,
    /// The value.
    pub value: f64,
    /// The hyperparameters that gave it.
    #[serde(default)]
    pub setting: Setting,
}

impl Definition {
    /// The experiments that are part of the program.
    ///
    /// # Errors
    /// None, as a test makes sure.
    pub fn all() -> Result<Vec<Self>> {
        EMBEDDED
            .iter()
            .map(|(name, text)| Self::parse(name, text))
            .collect()
    }

    /// The experiment of a name.
    ///
    /// # Errors
    /// A name that no experiment has.
    pub fn named(name: &str) -> Result<Self> {
        let known = EMBEDDED.iter().find(|(known, _)| *known == name);
        let (name, text) = known.ok_or_else(|| {
            let known: Vec<&str> = EMBEDDED.iter().map(|(name, _)| *name).collect();
            let known = known.join(", ");
            let message = format!("there is no experiment `{name}`; there are {known}");
            Error::new(ErrorKind::Definition, message)
        })?;
        Self::parse(name, text)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// A file that cannot be read; those of [`parse`](Self::parse).
    pub fn open(path: &Path) -> Result<Self> {
        let text = cascade_core::fs::read_text(path, LARGEST_CONFIG).map_err(|source| {
            let problem = format!("cannot be read: {source}; check the path");
            Error::at(ErrorKind::Io, path.display(), problem)
        })?;
        let name = path
            .file_stem()
            .map_or_else(|| "experiment".into(), |name| name.to_string_lossy());
        // Messages name the file.
        let definition = Self::parse(&path.display().to_string(), &text).map_err(|error| {
            match error.kind() {
                ErrorKind::Setting => Error::content(path, error),
                _ => error,
            }
        })?;
        Ok(Self {
            name: name.into_owned(),
            ..definition
        })
    }

    /// Reads YAML, and checks what can be checked without models.
    ///
    /// # Errors
    /// Text that is no experiment, and rows that make none.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let mut definition: Self = from_yaml(text).map_err(|source| {
            let example = "configs/reproduce/table2.yaml is an example";
            Error::at(ErrorKind::Definition, name, format!("{source}; {example}"))
        })?;
        definition.name = name.to_owned();
        definition.text = text.to_owned();
        definition.check()?;
        Ok(definition)
    }

    fn check(&self) -> Result<()> {
        if self.kind == ExperimentKind::Ewif {
            return Ok(());
        }
        self.variants()?;
        self.check_metrics()?;
        self.check_rows()?;
        if let Some(Err(problem)) = self.sampled.map(SamplingSetting::decoding) {
            let cure = "give a temperature above 0, and `top_k`, `top_p` or `min_p`";
            return Err(self.wrong(format!("`sampled`: {problem}"), cure));
        }
        if self.kind != ExperimentKind::Replay {
            self.check_live()?;
        }
        let mut named = self.stands_for.iter().flat_map(|pair| [pair.0, pair.1]);
        if let Some(name) = named.find(|name| !self.datasets.contains(name)) {
            let problem = format!("`stands_for` names {name}, which is none of its datasets");
            return Err(self.wrong(problem, "name datasets of `datasets` on both sides"));
        }
        let problem = "`max_new_tokens` is missing";
        self.ensure(self.max_new_tokens > 0, problem, "give 1 or more")
    }

    fn wrong(&self, problem: impl Display, cure: impl Display) -> Error {
        Error::at(
            ErrorKind::Definition,
            &self.name,
            format!("{problem}; {cure}"),
        )
    }

    fn ensure(&self, right: bool, problem: impl Display, cure: &str) -> Result<()> {
        if right {
            Ok(())
        } else {
            Err(self.wrong(problem, cure))
        }
    }

    /// Refuses a row that was found.
    fn refuse(&self, row: Option<&PaperRow>, problem: &str, cure: &str) -> Result<()> {
        row.map_or(Ok(()), |row| {
            Err(self.wrong(format!("`{}` {problem}", row.algorithm), cure))
        })
    }

    /// Experiments other than replays begin with plain decoding, and name models and prompts.
    fn check_live(&self) -> Result<()> {
        let recorded = self.recorded.as_ref().map(|recorded| &recorded.rows);
        let mut all = std::iter::once(&self.rows).chain(recorded);
        self.ensure(
            all.all(|rows| rows.first().is_some_and(PaperRow::is_plain)),
            "the first row has drafters",
            "begin with plain decoding, which all others are compared with",
        )?;
        self.ensure(
            self.models.is_some(),
            "`models` is missing",
            "name the configurations for `demo` and `paper`",
        )?;
        self.ensure(
            !self.datasets.is_empty() && self.samples > 0,
            "it has no prompts",
            "give `datasets` and `samples`",
        )
    }

    /// The rows that it has for recordings.
    fn recorded_rows(&self) -> impl Iterator<Item = &PaperRow> {
        self.recorded.iter().flat_map(|recorded| &recorded.rows)
    }

    /// Its rows, and those that it has for recordings.
    fn all_rows(&self) -> impl Iterator<Item = &PaperRow> {
        self.rows.iter().chain(self.recorded_rows())
    }

    fn check_metrics(&self) -> Result<()> {
        let known = match self.kind {
            ExperimentKind::Lengths => &Metric::OF_LENGTHS[..],
            _ => &Metric::OF_CASCADES[..],
        };
        let other = self.metrics.iter().find(|metric| !known.contains(metric));
        other.map_or(Ok(()), |metric| {
            let problem = format!(
                "`metrics` has {}, which does not compare these rows",
                metric.key()
            );
            let known: Vec<String> = known.iter().map(|metric| metric.key()).collect();
            Err(self.wrong(problem, format!("give those of {}", known.join(", "))))
        })
    }

    fn check_rows(&self) -> Result<()> {
        // Only live runs that compare lengths have times to choose by.
        let live = self
            .rows
            .iter()
            .filter(|_| self.kind != ExperimentKind::Lengths);
        let mut untimed = live.chain(self.recorded_rows());
        self.refuse(
            untimed.find(|row| row.chosen_by == Criterion::Latency),
            "is chosen by latency, which is not measured",
            "leave `chosen_by` out: it is for rows of `kind: lengths` that run live",
        )?;
        let cure = "leave them out, or make it `kind: lengths`";
        let ruled = |such: fn(&DraftRule) -> bool| self.all_rows().find(|row| row.has_rule(such));
        match self.kind {
            // Lengths are compared of one drafter's chains, with known costs.
            ExperimentKind::Lengths => {
                self.check_costs()?;
                self.refuse(
                    self.all_rows()
                        .find(|row| row.drafters.len() > 1 || row.children > 1),
                    "drafts with several models, or trees",
                    "give it one drafter and chains: lengths are compared of these",
                )?;
                self.check_gains()
            }
            // Drafters of all kinds draft as much as their K matrices say, or as pays.
            ExperimentKind::Drafters => {
                let other = ruled(|rule| *rule != DraftRule::Online);
                self.refuse(other, "has rules for drafts other than `online`", cure)
            }
            // Rules of drafts, and rows for recordings, belong to experiments that compare them.
            _ => {
                self.refuse(ruled(|_| true), "has rules for drafts", cure)?;
                let cure = "leave `recorded` out, or make it `kind: lengths`";
                self.ensure(
                    self.recorded.is_none(),
                    "it has other rows for recordings",
                    cure,
                )
            }
        }
    }

    fn check_costs(&self) -> Result<()> {
        let cure = "give `drafter` and `row`, of 0 and above, in forwards of the target";
        let recorded = self.recorded.as_ref().map(|recorded| recorded.assumed);
        self.ensure(self.assumed.is_some(), "`assumed` is missing", cure)?;
        let problem = "`assumed` is missing in `recorded`";
        self.ensure(recorded != Some(None), problem, cure)?;
        let is_cost = |cost: f64| cost.is_finite() && (0.0..=1e6).contains(&cost);
        for AssumedCosts { drafter, row } in self.assumed.into_iter().chain(recorded.flatten()) {
            let said = drafter.map_or("none".to_owned(), |drafter| drafter.to_string());
            let problem = format!("`assumed` has drafter {said} and row {row}, which are no costs");
            self.ensure(drafter.is_some_and(is_cost) && is_cost(row), problem, cure)?;
        }
        Ok(())
    }

    /// What gains are of must be rows.
    fn check_gains(&self) -> Result<()> {
        let recorded = self.recorded.iter();
        let recorded = recorded.map(|recorded| (&recorded.gain_of, &recorded.rows));
        for (name, rows) in std::iter::once((&self.gain_of, &self.rows)).chain(recorded) {
            if let Some(name) = name {
                let known = rows.iter().any(|row| row.algorithm == *name);
                let problem = format!("`gain_of` names {name}, which is no row");
                self.ensure(known, problem, "give the `algorithm` of one")?;
            }
        }
        Ok(())
    }

    /// The experiment as it is on a recording: with the rows that it has for one, if any.
    #[must_use]
    pub fn on_recording(mut self) -> Self {
        if let Some(recorded) = self.recorded.take() {
            self.rows = recorded.rows;
            self.models = recorded.models.or(self.models);
            self.assumed = recorded.assumed;
            self.gain_of = recorded.gain_of;
            // These are of the paper's models.
            self.heads.clear();
            self.splits.clear();
            self.notes.clear();
        }
        self
    }

    /// The trained rules that its rows name, each once.
    pub fn trained(&self) -> Vec<TrainedName> {
        let mut all: Vec<TrainedName> = Vec::new();
        for setting in self.rows.iter().flat_map(PaperRow::settings) {
            let known = |one: &TrainedName| all.iter().any(|a| a.folder() == one.folder());
            if let Some(trained) = setting.trained().filter(|one| !known(one)) {
                all.push(trained.clone());
            }
        }
        all
    }

    /// The row that gains over others.
    pub(crate) fn gaining(&self) -> Option<&PaperRow> {
        let name = self.gain_of.as_ref()?;
        self.rows.iter().find(|row| row.algorithm == *name)
    }

    /// The dataset of the paper that `dataset` stands for.
    pub fn of_paper<'a>(&'a self, dataset: &'a str) -> &'a str {
        self.stands_for.get(dataset).map_or(dataset, String::as_str)
    }

    /// Everything that is run, each cascade once, in the order of the rows; rows that are absent
    /// are not.
    ///
    /// # Errors
    /// Hyperparameters that do not fit their drafters; nothing to run.
    pub fn variants(&self) -> Result<Vec<Variant>> {
        for (index, row) in self.recorded_rows().enumerate() {
            row.variants(index)?;
        }
        self.variants_with(|_| true)
    }

    /// Everything that is run with the trained rules that are there.
    ///
    /// # Errors
    /// See [`variants`](Self::variants).
    pub(crate) fn variants_with(&self, has: impl Fn(&TrainedName) -> bool) -> Result<Vec<Variant>> {
        let mut variants: Vec<Variant> = Vec::new();
        let there = |(_, row): &(usize, &PaperRow)| row.absent.is_none();
        for (index, row) in self.rows.iter().enumerate().filter(there) {
            for variant in row.variants(index)? {
                let there = variant.setting.trained().is_none_or(&has);
                if there && variants.iter().all(|known| known.id != variant.id) {
                    variants.push(variant);
                }
            }
        }
        if variants.is_empty() {
            Err(self.wrong("it has no rows", "give at least one"))
        } else {
            Ok(variants)
        }
    }
}

impl PaperRow {
    /// Whether it is plain decoding.
    fn is_plain(&self) -> bool {
        self.drafters.is_empty() && self.absent.is_none()
    }

    /// Whether a setting of the row has such a rule.
    fn has_rule(&self, such: impl Fn(&DraftRule) -> bool) -> bool {
        let settings = self.settings();
        let mut rules = settings.iter().filter_map(|setting| setting.rule.as_ref());
        rules.any(such)
    }

    /// All variants of the row, whether others have them too.
    ///
    /// # Errors
    /// Hyperparameters that do not fit the drafters.
    pub(crate) fn variants(&self, index: usize) -> Result<Vec<Variant>> {
        let settings = self.settings().into_iter();
        settings
            .map(|setting| Variant::new(index, &self.drafters, setting, self.children))
            .collect()
    }

    /// All settings: the grid, the matrices, and those of the paper's figures.
    fn settings(&self) -> Vec<Setting> {
        let mut settings = self.grid.settings();
        settings.extend(self.matrices.iter().map(|matrix| Setting {
            matrix: Some(matrix.clone()),
            ..Setting::default()
        }));
        let papers = self.paper.iter().map(|figure| &figure.setting);
        settings.extend(
            papers
                .filter(|&setting| *setting != Setting::default())
                .cloned(),
        );
        if settings.is_empty() {
            settings.push(Setting::default());
        }
        settings
    }

    /// The paper's figure for a dataset, if it has one.
    pub fn figure(&self, dataset: &str, metric: Metric) -> Option<&PaperFigure> {
        self.paper
            .iter()
            .find(|figure| figure.dataset == dataset && figure.metric == metric)
    }
}

impl Grid {
    fn settings(&self) -> Vec<Setting> {
        let mut settings = Vec::new();
        let rules = self.all_rules();
        if self.k11.is_empty() && rules.is_empty() {
            return settings;
        }
        let rules = optional(&rules);
        for k11 in optional(&self.k11) {
            for k12 in optional(&self.k12) {
                for k22 in optional(&self.k22) {
                    for lenience in optional(&self.lenience) {
                        settings.extend(rules.iter().map(|rule| Setting {
                            k11,
                            k12,
                            k22,
                            lenience,
                            matrix: None,
                            rule: rule.clone(),
                        }));
                    }
                }
            }
        }
        settings.retain(|setting| setting.k12.is_none() || setting.k12 >= setting.k11);
        settings
    }

    /// The rules, and each trained network with each threshold.
    fn all_rules(&self) -> Vec<DraftRule> {
        let heads = self.heads.iter().map(|name| (Network::Head, name));
        let classifiers = self
            .classifiers
            .iter()
            .map(|name| (Network::Classifier, name));
        let mut rules = self.rules.clone();
        for (network, name) in heads.chain(classifiers) {
            for threshold in optional(&self.thresholds) {
                rules.push(DraftRule::Trained(TrainedName {
                    network,
                    name: name.clone(),
                    threshold,
                }));
            }
        }
        rules
    }
}

/// The values, or none once.
fn optional<T: Clone>(values: &[T]) -> Vec<Option<T>> {
    match values {
        [] => vec![None],
        values => values.iter().cloned().map(Some).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_experiments_of_the_program_are_sound() {
        let all = Definition::all().unwrap();
        assert_eq!(all.len(), EMBEDDED.len());
        for definition in all
            .iter()
            .filter(|definition| definition.kind != ExperimentKind::Ewif)
        {
            let variants = definition.variants().unwrap();
            for (i, variant) in variants.iter().enumerate() {
                assert!(
                    variants[..i].iter().all(|other| other.id != variant.id),
                    "{}",
                    variant.id
                );
            }
        }
    }

    #[test]
    fn table2_has_the_papers_settings_and_a_search() {
        let table2 = Definition::named("table2").unwrap();
        let variants = table2.variants().unwrap();
        let ids: Vec<&str> = variants.iter().map(|variant| variant.id.as_str()).collect();
        assert_eq!(ids[0], "plain");
        for k in 1..=20 {
            for drafter in ["base", "small"] {
                let id = format!("{drafter}; k11 {k}");
                assert!(ids.contains(&id.as_str()), "{id}");
            }
        }
        assert!(ids.contains(&"base, small, mag; k11 8, k12 13, k22 1, λ 3"));
        assert!(ids.contains(&"base, small, mag; k11 5, k12 9, k22 1, λ 3"));
        let best = table2
            .rows
            .last()
            .unwrap()
            .figure("gsm8k", Metric::ModelSize)
            .unwrap();
        assert_eq!(best.value, 3.88);
    }

    #[test]
    fn hostile_definitions_are_refused() {
        let error = Definition::parse("x", "title: t").unwrap_err().to_string();
        assert!(
            error.contains("x: ") && error.contains("missing field"),
            "{error}"
        );
        let text = "{title: t, about: a, source: s, kind: cascades, rows: [{algorithm: A, drafters: [base]}]}";
        let error = Definition::parse("x", text).unwrap_err().to_string();
        assert!(error.contains("k11 is missing"), "{error}");
        let error = Definition::named("table9").unwrap_err().to_string();
        assert!(error.contains("table1, table2"), "{error}");
    }
}
