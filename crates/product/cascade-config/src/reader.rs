//! From the entries of a file to checked values.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cascade_engine::{
    check_levels, AssumedCosts, Branching, Expand, KMatrix, Lenience, LevelSpec, LossBudget,
    NeuralSpec, Placement, Rule, Siblings, StopSequences,
};
use cascade_models::{parse_cache_type, parse_dtype, ModelSource};
use cascade_ngram::{DrafterConfig, DrafterKinds, StatisticalEntry, TableLocator};

use crate::classifier::ClassifierEntry;
use crate::config::{Config, Drafter, GenerationSettings, Neural};
use crate::file::{
    BranchesEntry, ClassifierKeys, DrafterEntry, File, GenerationEntry, HeadKeys, KEntry,
    NeuralEntry,
};
use crate::head::HeadEntry;
use crate::stop_rule::StopRuleEntry;
use crate::{
    locator, DeviceSpec, Error, PromptError, PromptLimit, PromptTemplate, Result, SamplingSettings,
    ScheduleConfig, StopRuleConfig,
};

/// The largest entry of a K matrix: as many tokens as no draft has, and few enough to be added up.
const LARGEST_QUOTA: usize = 1 << 20;

/// Entries of a K matrix that is shown as an example, and its rows at most.
const FIRST_TRY: &str = "4";
const SHOWN: usize = 4;

/// Reads the entries of one configuration.
pub(crate) struct Reader<'a> {
    pub(crate) label: &'a str,
    pub(crate) base: &'a Path,
}

impl Reader<'_> {
    pub(crate) fn config<K: DrafterKinds>(&self, file: File<K>) -> Result<Config> {
        let drafters = file
            .drafters
            .into_iter()
            .enumerate()
            .map(|(j, entry)| self.drafter(&format!("drafters[{j}]"), entry))
            .collect::<Result<Vec<_>>>()?;
        let generation = self.generation(&file.generation)?;
        let mut config = Config::new(self.neural("target", file.target)?);
        self.label.clone_into(&mut config.label);
        let schedule = self.schedule(file.schedule, file.k, drafters.len())?;
        config = config.with_drafters(drafters, schedule)?;
        self.check_rules(&config)?;
        self.check_levels(&config)?;
        config.lenience = self.lenience("lenience", file.lenience)?;
        config.statistical_lenience =
            self.lenience("statistical_lenience", file.statistical_lenience)?;
        config.placement = file.tree.placement;
        self.check_placement(&config)?;
        if let Some(nodes) = file.tree.max_nodes {
            config.max_nodes = self.positive("tree.max_nodes", nodes)?;
        }
        config.prompt = self.prompt(file.prompt)?;
        config.generation = generation;
        config.device = self.device("device", file.device)?.unwrap_or_default();
        Ok(config)
    }

    fn error(&self, key: &str, problem: impl Into<String>, cure: impl Into<String>) -> Error {
        Error::Entry {
            file: self.label.to_owned(),
            key: key.to_owned(),
            problem: problem.into(),
            cure: cure.into(),
        }
    }

    fn cascade(&self, source: impl Into<cascade_engine::Error>) -> Error {
        Error::cascade(self.label, source)
    }

    fn neural(&self, key: &str, entry: NeuralEntry) -> Result<Neural> {
        if entry.lenience.is_some() {
            return Err(self.error(
                &format!("{key}.lenience"),
                "the target always verifies strictly, or its answers would change",
                "remove it; `lenience` at the top level loosens verification by the drafters",
            ));
        }
        let source = self.source(&format!("{key}.model"), &entry.model)?;
        let tokenizer = entry
            .tokenizer
            .map(|text| self.source(&format!("{key}.tokenizer"), &text))
            .transpose()?;
        let dtype = entry.dtype.map(|text| {
            parse_dtype(&text).map_err(|source| Error::Model {
                file: self.label.to_owned(),
                key: format!("{key}.dtype"),
                source: Box::new(source.into()),
            })
        });
        let dtype = dtype.transpose()?;
        let cache_dtype = entry.cache_dtype.as_deref().map(parse_cache_type);
        let cache_dtype = cache_dtype.transpose().map_err(|source| Error::Model {
            file: self.label.to_owned(),
            key: format!("{key}.cache_dtype"),
            source: Box::new(source),
        })?;
        Ok(Neural {
            name: entry.name.unwrap_or_else(|| last_part(&entry.model)),
            source,
            tokenizer,
            dtype,
            cache_dtype,
            rule: self.rule(key, entry.rule)?,
            device: self.device(&format!("{key}.device"), entry.device)?,
            classifier: None,
            head: None,
        })
    }

    fn rule(&self, key: &str, name: Option<String>) -> Result<Rule> {
        match name {
            None => Ok(Rule::default()),
            Some(name) => name.parse().map_err(|error: cascade_engine::UnknownRule| {
                let cure = format!("`{}` is the default", Rule::default());
                self.error(&format!("{key}.rule"), error.to_string(), cure)
            }),
        }
    }

    /// Refuses a drafter's rule that would never be used.
    fn check_rules(&self, config: &Config) -> Result<()> {
        if config.target.rule != Rule::Coupled {
            return Ok(());
        }
        for (j, drafter) in config.drafters().iter().enumerate() {
            if let Drafter::Neural { model, .. } = drafter {
                if model.rule != Rule::Coupled {
                    return Err(self.error(
                        &format!("drafters[{j}].rule"),
                        format!(
                            "it is `{}`, but the target's rule is `coupled`, by which all models draw",
                            model.rule
                        ),
                        "remove it, or give the target a `rule` too",
                    ));
                }
            }
        }
        Ok(())
    }

    fn branching(&self, key: &str, entry: Option<BranchesEntry>) -> Result<Branching> {
        let Some(entry) = entry else {
            return Ok(Branching::chain());
        };
        let key = format!("{key}.branches.widths");
        if entry.expand == Expand::MostProbable {
            return self.most_probable(&key, &entry);
        }
        if entry.widths.is_empty() {
            let cure = "give the number of children at each depth; the last applies to all below";
            return Err(self.error(&key, "it is empty", cure));
        }
        for (depth, &width) in entry.widths.iter().enumerate() {
            self.positive(&format!("{key}[{depth}]"), width)?;
        }
        Ok(Branching {
            widths: entry.widths,
            expand: entry.expand,
            siblings: entry.siblings,
        })
    }

    /// Its tree takes the shape of the probabilities.
    fn most_probable(&self, key: &str, entry: &BranchesEntry) -> Result<Branching> {
        let default = Siblings::default();
        if !entry.widths.is_empty() || entry.siblings != default {
            return Err(self.error(
                key,
                "`expand: most_probable` has neither widths nor siblings",
                "leave them out: the tree has the most probable nodes, tree.max_nodes of them",
            ));
        }
        Ok(Branching {
            widths: vec![1],
            expand: Expand::MostProbable,
            siblings: default,
        })
    }

    fn source(&self, key: &str, text: &str) -> Result<ModelSource> {
        locator::model(text, self.base).map_err(|(problem, cure)| self.error(key, problem, cure))
    }

    /// The place of a table, which must have a name of the program's own tables or be a file.
    fn table(&self, key: &str, table: &TableLocator) -> Result<TableLocator> {
        if let TableLocator::Embedded(name) = table {
            locator::embedded_table(name)
                .map_err(|(problem, cure)| self.error(key, problem, cure))?;
        }
        Ok(table.relative_to(self.base))
    }

    fn drafter<K: DrafterKinds>(&self, key: &str, mut entry: DrafterEntry<K>) -> Result<Drafter> {
        self.check_beside(key, &entry)?;
        match (entry.model.take(), entry.statistical.pop()) {
            (Some(model), None) => self.neural_drafter(key, model, entry),
            (None, Some(statistical)) if entry.statistical.is_empty() => {
                self.statistical(key, statistical, entry)
            }
            _ => {
                let kinds = K::KEYS.join("`, `");
                let kinds = match kinds.rsplit_once(", ") {
                    Some((others, last)) => format!("{others} and {last}"),
                    None => kinds,
                };
                let cure = format!("give exactly one of `model`, `{kinds}`");
                Err(self.error(key, "it has no kind, or more than one", cure))
            }
        }
    }

    /// Refuses keys beside a kind that has no use for them.
    fn check_beside<K>(&self, key: &str, entry: &DrafterEntry<K>) -> Result<()> {
        let of_neural = entry.tokenizer.is_some()
            || entry.dtype.is_some()
            || entry.cache_dtype.is_some()
            || entry.device.is_some()
            || entry.rule.is_some()
            || entry.branches.is_some()
            || entry.classifier.is_some()
            || entry.head.is_some();
        if entry.model.is_none() && of_neural {
            return Err(self.error(
                key,
                "a statistical drafter has no tokenizer, no dtype, no cache_dtype, no device, no rule, no `branches`, no `classifier` and no `head` of its own",
                "remove them",
            ));
        }
        if entry.statistical.is_empty() && entry.width.is_some() {
            return Err(self.misplaced_width(key));
        }
        Ok(())
    }

    fn misplaced_width(&self, key: &str) -> Error {
        self.error(
            &format!("{key}.width"),
            "only a bigram table has a width here",
            "remove it; Max-Gram's belongs inside `max_gram`",
        )
    }

    fn neural_drafter<K>(
        &self,
        key: &str,
        model: String,
        entry: DrafterEntry<K>,
    ) -> Result<Drafter> {
        if entry.classifier.is_some() && entry.stop_rule.is_some() {
            return Err(self.error(
                &format!("{key}.stop_rule"),
                "a `classifier` is a stop rule too, and a drafter has one",
                "remove one of the two",
            ));
        }
        if entry.head.is_some() && (entry.classifier.is_some() || entry.stop_rule.is_some()) {
            return Err(self.error(
                &format!("{key}.head"),
                "a `head` is a stop rule too, and a drafter has one",
                "remove the other",
            ));
        }
        let classifier = entry.classifier.map(|keys| self.classifier(key, keys));
        let head = entry.head.map(|keys| self.head(key, keys));
        let neural = NeuralEntry {
            model,
            name: entry.name,
            tokenizer: entry.tokenizer,
            dtype: entry.dtype,
            cache_dtype: entry.cache_dtype,
            device: entry.device,
            rule: entry.rule,
            lenience: None,
        };
        let mut neural = self.neural(key, neural)?;
        neural.classifier = classifier.transpose()?;
        neural.head = head.transpose()?;
        Ok(Drafter::Neural {
            model: Box::new(neural),
            branching: self.branching(key, entry.branches)?,
            stop_rule: self.stop_rule(key, entry.stop_rule)?,
        })
    }

    fn classifier(&self, key: &str, keys: ClassifierKeys) -> Result<ClassifierEntry> {
        let ClassifierKeys {
            file,
            threshold,
            longest,
        } = keys;
        self.check_threshold(&format!("{key}.classifier.threshold"), threshold)?;
        Ok(ClassifierEntry {
            threshold,
            longest: longest.map(|longest| longest.0),
            ..ClassifierEntry::new(self.beside(file))
        })
    }

    fn head(&self, key: &str, keys: HeadKeys) -> Result<HeadEntry> {
        let HeadKeys {
            folder,
            threshold,
            shortest,
            longest,
        } = keys;
        self.check_threshold(&format!("{key}.head.threshold"), threshold)?;
        Ok(HeadEntry {
            threshold,
            shortest: shortest.map(|shortest| shortest.0),
            longest: longest.map(|longest| longest.0),
            ..HeadEntry::new(self.beside(folder))
        })
    }

    fn check_threshold(&self, key: &str, threshold: Option<f32>) -> Result<()> {
        match threshold.filter(|threshold| !(0.0..=1.0).contains(threshold)) {
            None => Ok(()),
            Some(threshold) => Err(self.error(
                key,
                format!("it is {threshold}, and a threshold is a probability"),
                "give a number from 0 to 1",
            )),
        }
    }

    /// A path, which is relative to the configuration if it begins with a point.
    fn beside(&self, path: String) -> PathBuf {
        match path.starts_with('.') {
            true => self.base.join(path),
            false => path.into(),
        }
    }

    fn statistical<K>(
        &self,
        key: &str,
        statistical: StatisticalEntry,
        entry: DrafterEntry<K>,
    ) -> Result<Drafter> {
        let mut config = statistical.config;
        if entry.width.is_some_and(|width| !config.set_width(width.0)) {
            return Err(self.misplaced_width(key));
        }
        for (own, table) in config.tables() {
            *table = self.table(&format!("{key}.{own}"), table)?;
        }
        Ok(Drafter::Statistical {
            name: entry.name.unwrap_or(statistical.default_name),
            config: Arc::<dyn DrafterConfig>::from(config),
            stop_rule: self.stop_rule(key, entry.stop_rule)?,
        })
    }

    fn positive(&self, key: &str, value: usize) -> Result<usize> {
        if value == 0 {
            return Err(self.error(key, "it is 0", "give 1 or more"));
        }
        Ok(value)
    }

    /// The schedule: a K matrix if there is one, else what pays.
    fn schedule(
        &self,
        name: Option<String>,
        k: Option<KEntry>,
        drafters: usize,
    ) -> Result<ScheduleConfig> {
        match (name.as_deref(), &k) {
            (None | Some("static"), Some(_)) | (Some("static"), None) => {
                Ok(self.k_matrix(k, drafters)?.into())
            }
            (None, None) if drafters == 0 => Ok(self.k_matrix(None, 0)?.into()),
            (None | Some("online"), None) => Ok(ScheduleConfig::Online),
            (Some("online"), Some(_)) => Err(self.error(
                "schedule",
                "it is `online`, which decides how much is drafted, and `k` says so too",
                "remove `k`, or write `schedule: static`",
            )),
            (Some(other), _) => Err(self.error(
                "schedule",
                format!("there is no schedule {other:?}"),
                "give `online` (what pays at present) or `static` (what `k` says)",
            )),
        }
    }

    /// Refuses a placement of drafters that nothing follows.
    fn check_placement(&self, config: &Config) -> Result<()> {
        match (config.schedule(), config.placement) {
            (ScheduleConfig::Online, Placement::Merged) => Err(self.error(
                "tree.placement",
                "it places the drafters of a row of the K matrix, and `schedule: online` has none",
                "remove it, or give `k`",
            )),
            _ => Ok(()),
        }
    }

    fn stop_rule(&self, key: &str, entry: Option<StopRuleEntry>) -> Result<Option<StopRuleConfig>> {
        let rule = entry.map(StopRuleEntry::rule).transpose();
        rule.map_err(|(own, problem)| {
            let key = match own {
                "" => format!("{key}.stop_rule"),
                own => format!("{key}.stop_rule.{own}"),
            };
            let cure = "`stop_rule: { confidence: 0.4 }` is an example; without one, turns do not \
                        end early";
            self.error(&key, problem, cure)
        })
    }

    fn k_matrix(&self, entry: Option<KEntry>, drafters: usize) -> Result<KMatrix> {
        let k = match entry {
            Some(entry) if self.largest_quota(&entry) > LARGEST_QUOTA => {
                let largest = self.largest_quota(&entry);
                let cure = format!(
                    "give {LARGEST_QUOTA} or less; drafts have tree.max_nodes nodes at most"
                );
                return Err(self.error("k.matrix", format!("an entry is {largest}"), cure));
            }
            Some(entry) => KMatrix::new(entry.matrix, entry.convention),
            None if drafters == 0 => KMatrix::new(Vec::new(), Default::default()),
            None => return Err(self.no_k_matrix(drafters)),
        };
        k.map_err(|error| self.cascade(error))
    }

    fn largest_quota(&self, entry: &KEntry) -> usize {
        entry.matrix.iter().flatten().copied().max().unwrap_or(0)
    }

    /// What to write: as many tokens of each drafter as a first try takes.
    fn no_k_matrix(&self, drafters: usize) -> Error {
        let row = |row: usize| {
            let entries = (0..drafters).map(|column| if column < row { "0" } else { FIRST_TRY });
            format!("[{}]", entries.collect::<Vec<_>>().join(", "))
        };
        let rows: Vec<String> = (0..drafters.min(SHOWN)).map(row).collect();
        let dots = if drafters > SHOWN { ", …" } else { "" };
        self.error(
            "k",
            format!("it is missing, and a cascade of {drafters} drafters needs a K matrix of as many rows and columns"),
            format!(
                "write how many tokens each drafter (column) adds for each reviewer (row), \
                 for example `k: {{ matrix: [{}{dots}] }}`; \
                 without `schedule: static`, what pays is drafted",
                rows.join(", ")
            ),
        )
    }

    /// Refuses before anything is loaded what the builder would refuse after.
    fn check_levels(&self, config: &Config) -> Result<()> {
        let chain = Branching::chain();
        let target = LevelSpec::Neural(NeuralSpec {
            name: &config.target.name,
            rule: &config.target.rule,
            branching: &chain,
            stops: false,
        });
        let drafters = config.drafters().iter().map(|drafter| match drafter {
            Drafter::Neural {
                model, branching, ..
            } => LevelSpec::Neural(NeuralSpec {
                name: &model.name,
                rule: &model.rule,
                branching,
                stops: drafter.stop_rule().is_some(),
            }),
            Drafter::Statistical { name, config, .. } => LevelSpec::Statistical {
                name,
                takes_advice: config.takes_advice(),
            },
        });
        let levels: Vec<_> = std::iter::once(target).chain(drafters).collect();
        let schedule = config
            .schedule()
            .schedule(config.placement, AssumedCosts::default());
        check_levels(&levels, &*schedule).map_err(|error| self.cascade(error))
    }

    fn lenience(&self, key: &str, value: Option<f32>) -> Result<Lenience> {
        let lenience = value.map_or(Ok(Lenience::STRICT), Lenience::new);
        lenience.map_err(|error| self.error(key, error.to_string(), "1 is the default"))
    }

    fn prompt(&self, name: Option<String>) -> Result<PromptTemplate> {
        match name {
            None => Ok(PromptTemplate::Raw),
            Some(name) => name.parse().map_err(|error: PromptError| {
                self.error("prompt", error.to_string(), "`raw` is the default")
            }),
        }
    }

    fn device(&self, key: &str, text: Option<String>) -> Result<Option<DeviceSpec>> {
        let device = text.map(|text| text.parse()).transpose();
        device.map_err(|error: cascade_models::Error| {
            self.error(key, error.to_string(), "auto is the default")
        })
    }

    fn generation(&self, entry: &GenerationEntry) -> Result<GenerationSettings> {
        let stop = match &entry.stop {
            none if none.is_empty() => None,
            some => Some(StopSequences::new(some).map_err(|error| self.cascade(error))?),
        };
        let defaults = GenerationSettings::default();
        Ok(GenerationSettings {
            max_new_tokens: entry.max_new_tokens.unwrap_or(defaults.max_new_tokens),
            ignore_eos: entry.ignore_eos.unwrap_or(defaults.ignore_eos),
            sampling: self.sampling(entry)?,
            seed: entry.seed.unwrap_or(defaults.seed),
            stop,
            prompt_limit: self.prompt_limit(entry)?,
            lossy: self.lossy(entry)?,
        })
    }

    fn lossy(&self, entry: &GenerationEntry) -> Result<Option<LossBudget>> {
        let budget = entry.lossy.map(LossBudget::new).transpose();
        budget.map_err(|error| {
            let cure = "0.01 is one percent of total variation per token";
            self.error("generation.lossy", error.to_string(), cure)
        })
    }

    fn prompt_limit(&self, entry: &GenerationEntry) -> Result<Option<PromptLimit>> {
        match (entry.max_prompt_tokens, entry.truncate_prompt) {
            (None, None) => Ok(None),
            (None, Some(_)) => Err(self.error(
                "generation.truncate_prompt",
                "there is no limit above which a prompt would be truncated",
                "give generation.max_prompt_tokens too",
            )),
            (Some(tokens), truncate) => Ok(Some(PromptLimit {
                max_tokens: self.positive("generation.max_prompt_tokens", tokens)?,
                truncate: truncate.unwrap_or_default(),
            })),
        }
    }

    fn sampling(&self, entry: &GenerationEntry) -> Result<SamplingSettings> {
        let temperature = entry.temperature.unwrap_or(0.0);
        let settings = SamplingSettings::new(temperature, entry.top_k, entry.top_p, entry.min_p);
        settings.map_err(|error| {
            let cure = "a temperature of 0 is greedy decoding, the default";
            self.error("generation", error.to_string(), cure)
        })
    }
}

/// `flan-t5-base` of `google/flan-t5-base@main`; `demo-t5-base` of `embedded:demo-t5-base`.
pub(crate) fn last_part(source: &str) -> String {
    let source = source.trim_end_matches('/');
    let without_revision = match source.split_once('@') {
        Some((id, _)) if !id.starts_with('.') => id,
        _ => source,
    };
    let last = without_revision.rsplit(['/', ':']).next();
    last.unwrap_or(source).to_owned()
}
