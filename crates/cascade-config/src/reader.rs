//! From a file and its entries to a checked configuration.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use cascade_core::StatedSampling;
use cascade_engine::{
    Branching, DEFAULT_MAX_NODES, Expand, KMatrix, Lenience, Rule, Siblings, StopSequences,
};
use cascade_models::{ModelSource, parse_cache_type, parse_dtype};
use cascade_ngram::{Builtin, DrafterConfig, DrafterKinds, TableLocator};

use crate::bounded_yaml::{LARGEST_CONFIG, from_yaml};
use crate::config::{Config, Drafter, GenerationSettings, Neural};
use crate::file::{BranchesEntry, Entry, File, GenerationEntry, KEntry};
use crate::locator::last_part;
use crate::stop_rule::StopRuleEntry;
use crate::{
    DeviceSpec, Error, PromptLimit, Result, SamplingSettings, ScheduleConfig, StopRuleConfig,
    locator,
};

/// The largest entry of a K matrix: as many tokens as no draft has, and few enough to be added up.
const LARGEST_QUOTA: usize = 1 << 20;

/// Entries of a K matrix that is shown as an example, and its rows at most.
const FIRST_TRY: &str = "4";
const SHOWN: usize = 4;

impl Config {
    /// Reads a file, or one of the program's own configurations, as `embedded:demo-t5`, if it is
    /// [registered](crate::register_embedded).
    ///
    /// # Errors
    /// A file that cannot be read, and everything that [`parse`](Self::parse) refuses.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let label = path.display().to_string();
        if let Some(text) = locator::config(&label)? {
            return Self::parse(text, &label, "");
        }
        let text = cascade_core::fs::read_text(path, LARGEST_CONFIG).map_err(|source| {
            Error::Unreadable {
                file: path.to_owned(),
                source,
            }
        })?;
        Self::parse(&text, &label, path.parent().unwrap_or(Path::new("")))
    }

    /// Reads YAML. `label` names the configuration in messages, and paths that start with a dot are
    /// relative to `base`.
    ///
    /// # Errors
    /// Text that is not YAML; keys that are unknown, missing, of the wrong kind, or at odds with
    /// each other; a K matrix that is not square, not upper triangular, or not as large as there
    /// are drafters; a K matrix and another schedule; a lenience below 1; a device that has no such
    /// name. Each names the configuration and the key.
    pub fn parse(text: &str, label: &str, base: impl AsRef<Path>) -> Result<Self> {
        Self::parse_with::<Builtin>(text, label, base)
    }

    /// Reads YAML as [`parse`](Self::parse) does, with drafters of the kinds `K`: those of this
    /// project are
    /// [`Builtin`](cascade_ngram::Builtin), and [`drafter_kinds!`](cascade_ngram::drafter_kinds)
    /// adds others.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_with<K: DrafterKinds>(
        text: &str,
        label: &str,
        base: impl AsRef<Path>,
    ) -> Result<Self> {
        let file = from_yaml(text).map_err(|source| Error::Syntax {
            file: label.to_owned(),
            source,
        })?;
        let base = base.as_ref();
        Reader { label, base }.config::<K>(file)
    }
}

/// Reads the entries of one configuration.
pub(crate) struct Reader<'a> {
    pub(crate) label: &'a str,
    pub(crate) base: &'a Path,
}

impl Reader<'_> {
    pub(crate) fn config<K: DrafterKinds>(&self, file: File<K>) -> Result<Config> {
        let File {
            target,
            drafters,
            k,
            schedule,
            lenience,
            statistical_lenience,
            tree,
            prompt,
            generation,
            device,
        } = file;
        let target = self.target(target)?;
        let drafters = self.drafters(drafters, &target)?;
        let max_nodes = match tree.max_nodes {
            Some(nodes) => self.positive("tree.max_nodes", nodes)?,
            None => DEFAULT_MAX_NODES,
        };
        let plain = Config {
            label: self.label.to_owned(),
            target,
            drafters: Vec::new(),
            schedule: ScheduleConfig::Online,
            lenience: self.lenience("lenience", lenience)?,
            statistical_lenience: self.lenience("statistical_lenience", statistical_lenience)?,
            placement: tree.placement,
            max_nodes,
            prompt: self.parsed(
                "prompt",
                prompt,
                "without one, the model's chat template asks",
            )?,
            generation: self.generation(&generation)?,
            device: self.device("device", device)?.unwrap_or_default(),
        };
        let schedule = self.schedule(schedule, k, drafters.len())?;
        plain.with_drafters(drafters, schedule)?.checked()
    }

    fn drafters<K: DrafterKinds>(
        &self,
        entries: Vec<Entry<K>>,
        target: &Neural,
    ) -> Result<Vec<Drafter>> {
        let entries = entries.into_iter().enumerate();
        entries
            .map(|(j, entry)| self.drafter(&format!("drafters[{j}]"), entry, target))
            .collect()
    }

    fn error(&self, key: &str, problem: impl Into<String>, cure: impl Into<String>) -> Error {
        Error::entry(self.label, key, problem, cure)
    }

    fn cascade(&self, source: impl Into<cascade_engine::Error>) -> Error {
        Error::cascade(self.label, source)
    }

    fn target<K>(&self, mut entry: Entry<K>) -> Result<Neural> {
        match entry.model.take() {
            Some(model) => self.neural("target", ("model", &model), entry),
            None => Err(self.error(
                "target.model",
                "it is missing",
                "name the model whose answers are kept",
            )),
        }
    }

    /// A head over `target`, in the place that `text` names.
    fn head<K>(&self, key: &str, text: &str, entry: Entry<K>, target: &Neural) -> Result<Neural> {
        if entry.tokenizer.is_some() {
            let cure = "remove it: a head has the tokenizer of its target";
            return Err(self.error(&format!("{key}.tokenizer"), "it is beside `head`", cure));
        }
        let mut head = self.neural(key, ("head", text), entry)?;
        if head.source.is_gguf() {
            let cure = "give the folder with config.json and its weights as released";
            let problem = "it is a GGUF file, in which no heads are read";
            return Err(self.error(&format!("{key}.head"), problem, cure));
        }
        head.tokenizer = Some(target.tokenizer_source().clone());
        head.is_head = true;
        Ok(head)
    }

    /// The model that the text behind the key `own` of an entry names.
    fn neural<K>(&self, key: &str, (own, text): (&str, &str), entry: Entry<K>) -> Result<Neural> {
        let at = |own: &str| format!("{key}.{own}");
        let wrong = |own: &str, source| Error::model(self.label, &at(own), source);
        let tokenizer = entry
            .tokenizer
            .map(|text| self.source(&at("tokenizer"), &text));
        let dtype = entry.dtype.as_deref().map(parse_dtype).transpose();
        let cache_dtype = entry.cache_dtype.as_deref().map(parse_cache_type);
        let default_rule = format!("`{}` is the default", Rule::default());
        Ok(Neural {
            source: self.source(&at(own), text)?,
            name: entry.name.unwrap_or_else(|| last_part(text)),
            tokenizer: tokenizer.transpose()?,
            dtype: dtype.map_err(|error| wrong("dtype", error.into()))?,
            cache_dtype: cache_dtype
                .transpose()
                .map_err(|error| wrong("cache_dtype", error))?,
            rule: self
                .parsed(&at("rule"), entry.rule, &default_rule)?
                .unwrap_or_default(),
            device: self.device(&at("device"), entry.device)?,
            is_head: false,
        })
    }

    /// What a text stands for, if there is one.
    fn parsed<T: FromStr<Err: fmt::Display>>(
        &self,
        key: &str,
        text: Option<String>,
        cure: &str,
    ) -> Result<Option<T>> {
        let parsed = text.map(|text| text.parse()).transpose();
        parsed.map_err(|error: T::Err| self.error(key, error.to_string(), cure))
    }

    fn device(&self, key: &str, text: Option<String>) -> Result<Option<DeviceSpec>> {
        self.parsed(key, text, "auto is the default")
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

    fn drafter<K: DrafterKinds>(
        &self,
        key: &str,
        mut entry: Entry<K>,
        target: &Neural,
    ) -> Result<Drafter> {
        let stop_rule = self.stop_rule(key, entry.stop_rule.take())?;
        let branches = entry.branches.take();
        let (model, head) = (entry.model.take(), entry.head.take());
        let model = match (model, head, entry.statistical.pop()) {
            (None, Some(head), None) => self.head(key, &head.0, entry, target)?,
            (Some(model), None, None) => self.neural(key, ("model", &model), entry)?,
            (None, None, Some(config)) if entry.statistical.is_empty() => {
                self.check_beside(key, &entry, branches.is_some())?;
                return self.statistical(key, entry.name, config, stop_rule);
            }
            _ => return Err(self.no_kind::<K>(key)),
        };
        Ok(Drafter::Neural {
            model: Box::new(model),
            branching: self.branching(key, branches)?,
            stop_rule,
        })
    }

    fn no_kind<K: DrafterKinds>(&self, key: &str) -> Error {
        let kinds = K::KEYS.join("`, `");
        let kinds = match kinds.rsplit_once(", ") {
            Some((others, last)) => format!("{others} and {last}"),
            None => kinds,
        };
        let cure = format!("give exactly one of `model`, `head`, `{kinds}`");
        self.error(key, "it has no kind, or more than one", cure)
    }

    /// Refuses keys beside a statistical kind, which has no use for them.
    fn check_beside<K>(&self, key: &str, entry: &Entry<K>, branches: bool) -> Result<()> {
        let of_model = [
            &entry.tokenizer,
            &entry.dtype,
            &entry.cache_dtype,
            &entry.device,
            &entry.rule,
        ];
        if branches || of_model.into_iter().any(Option::is_some) {
            return Err(self.error(
                key,
                "a statistical drafter has no tokenizer, no dtype, no cache_dtype, no device, no rule and no `branches` \
                 of its own",
                "remove them",
            ));
        }
        Ok(())
    }

    fn statistical(
        &self,
        key: &str,
        name: Option<String>,
        mut config: Arc<dyn DrafterConfig>,
        stop_rule: Option<StopRuleConfig>,
    ) -> Result<Drafter> {
        // Of a configuration that is written, tables have been resolved before.
        if let Some(config) = Arc::get_mut(&mut config) {
            for (own, table) in config.tables() {
                *table = self.table(&format!("{key}.{own}"), table)?;
            }
        }
        Ok(Drafter::Statistical {
            name: name.unwrap_or_else(|| config.own_name()),
            config,
            stop_rule,
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

    fn stop_rule(&self, key: &str, entry: Option<StopRuleEntry>) -> Result<Option<StopRuleConfig>> {
        let rule = entry.map(|entry| entry.rule(self.base)).transpose();
        rule.map_err(|(own, problem)| {
            let key = format!("{key}.stop_rule.{own}");
            let cure = "`stop_rule: { confidence: 0.4 }` is an example; without one, turns do not \
                        end early";
            self.error(&key, problem, cure)
        })
    }

    fn k_matrix(&self, entry: Option<KEntry>, drafters: usize) -> Result<KMatrix> {
        let Some(KEntry { convention, matrix }) = entry else {
            return match drafters {
                0 => Ok(KMatrix::default()),
                _ => Err(self.no_k_matrix(drafters)),
            };
        };
        let largest = matrix.iter().flatten().copied().max().unwrap_or(0);
        if largest > LARGEST_QUOTA {
            let cure =
                format!("give {LARGEST_QUOTA} or less; drafts have tree.max_nodes nodes at most");
            return Err(self.error("k.matrix", format!("an entry is {largest}"), cure));
        }
        KMatrix::new(matrix, convention).map_err(|error| self.cascade(error))
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

    fn lenience(&self, key: &str, value: Option<f32>) -> Result<Lenience> {
        let lenience = value.map_or(Ok(Lenience::STRICT), Lenience::new);
        lenience.map_err(|error| self.error(key, error.to_string(), "1 is the default"))
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
        let settings = SamplingSettings::try_from(StatedSampling {
            temperature: entry.temperature,
            top_k: entry.top_k,
            top_p: entry.top_p,
            min_p: entry.min_p,
            repetition_penalty: entry.repetition_penalty,
            presence_penalty: entry.presence_penalty,
            frequency_penalty: entry.frequency_penalty,
        });
        settings.map_err(|error| {
            let cure = "a temperature of 0 is greedy decoding, the default";
            self.error("generation", error.to_string(), cure)
        })
    }
}
