//! A checked configuration.

use std::sync::Arc;

use cascade_core::LevelId;
use cascade_engine::{
    AssumedCosts, Branching, DEFAULT_MAX_NODES, Error as CascadeError, KMatrix, Lenience,
    LevelSpec, NeuralSpec, Options, Placement, Rule, StopSequences, check_levels,
};
use cascade_models::{CacheType, DType, ModelSource};
use cascade_ngram::DrafterConfig;

use crate::locator::last_part;
use crate::{
    DeviceSpec, Error, PromptLimit, PromptTemplate, Result, SamplingSettings, ScheduleConfig,
    StopRuleConfig,
};

/// A configuration whose entries are valid, each by itself. Whether the models exist and fit each
/// other is checked when it is [assembled](Self::assemble).
///
/// It is read from YAML ([`open`](Self::open), [`parse`](Self::parse)), or put together:
/// ```
/// use cascade_config::{model_source, Config, Drafter, Neural};
/// use cascade_engine::{Convention, KMatrix, Lenience};
/// use cascade_ngram::MaxGramConfig;
///
/// let target = Neural::new(model_source("google/flan-t5-xxl")?);
/// let base = Drafter::neural(Neural::new(model_source("google/flan-t5-base")?));
/// let max_gram = Drafter::statistical(MaxGramConfig::default());
/// let k = KMatrix::new(vec![vec![8, 10], vec![0, 10]], Convention::Added)?;
/// let mut config = Config::new(target).with_drafters(vec![base, max_gram], k)?;
/// config.lenience = Lenience::new(3.0)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// What the configuration is called in messages: its path.
    pub label: String,
    /// The model whose answers are kept.
    pub target: Neural,
    /// The drafters, as many as the K matrix has rows, if there is one.
    pub(crate) drafters: Vec<Drafter>,
    pub(crate) schedule: ScheduleConfig,
    /// λ of drafters' reviews of neural drafts.
    pub lenience: Lenience,
    /// λ of drafters' reviews of statistical drafts.
    pub statistical_lenience: Lenience,
    /// Where the drafters of one row of the K matrix draft; without one it means nothing.
    pub placement: Placement,
    /// Nodes of a draft at most.
    pub max_nodes: usize,
    /// How questions become prompts, if that is said: see [`prompt`](Self::prompt).
    pub prompt: Option<PromptTemplate>,
    /// How a text is generated: length, end, sampling.
    pub generation: GenerationSettings,
    /// Where models compute that have no device of their own.
    pub device: DeviceSpec,
}

/// A neural model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Neural {
    /// What it is called in reports; by default the last part of its source.
    pub name: String,
    /// Where its files are.
    pub source: ModelSource,
    /// Where its tokenizer is, if not with the model.
    pub tokenizer: Option<ModelSource>,
    /// What it computes in, if not in what its device and file suggest: see
    /// [`dtype_on`](Self::dtype_on).
    pub dtype: Option<DType>,
    /// What keys and values are held in, if not what is usual: see
    /// [`LoadOptions`](cascade_models::LoadOptions).
    pub cache_dtype: Option<CacheType>,
    /// The rule of its reviews when tokens are sampled. If the target's is [`Rule::Coupled`], the
    /// default, all reviews are coupled; otherwise a drafter's `Coupled` is [`Rule::Iterated`].
    pub rule: Rule,
    /// Where it computes, if not on the configuration's device.
    pub device: Option<DeviceSpec>,
    /// Whether it is a [head](Self::head), which drafts from the target's hidden states.
    pub is_head: bool,
}

/// One drafter.
#[derive(Clone, Debug)]
pub enum Drafter {
    /// A neural model.
    Neural {
        /// The model.
        model: Box<Neural>,
        /// How its drafts branch.
        branching: Branching,
        /// When its turns end early.
        stop_rule: Option<StopRuleConfig>,
    },
    /// A drafter from statistics.
    Statistical {
        /// What it is called in reports.
        name: String,
        /// Its settings, which open it.
        config: Arc<dyn DrafterConfig>,
        /// When its turns end early.
        stop_rule: Option<StopRuleConfig>,
    },
}

/// How a text is generated.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GenerationSettings {
    /// Tokens to generate at most.
    pub max_new_tokens: usize,
    /// Whether a generation goes on after EOS, up to its length: for benches, and to verify long
    /// texts.
    pub ignore_eos: bool,
    /// How tokens are chosen.
    pub sampling: SamplingSettings,
    /// Seed of sampling.
    pub seed: u64,
    /// Texts that end a generation.
    pub stop: Option<StopSequences>,
    /// How long prompts may be; as long as the target takes them if nothing else is said.
    pub prompt_limit: Option<PromptLimit>,
}

impl Default for GenerationSettings {
    /// The engine's defaults: greedy decoding up to EOS.
    fn default() -> Self {
        let options = Options::default();
        Self {
            max_new_tokens: options.max_new_tokens,
            ignore_eos: false,
            sampling: SamplingSettings::default(),
            seed: options.seed,
            stop: options.stop,
            prompt_limit: None,
        }
    }
}

impl GenerationSettings {
    /// What the engine generates with. Whether EOS is ignored is a matter of the cascade.
    pub fn options(&self) -> Options {
        Options::default()
            .with_max_new_tokens(self.max_new_tokens)
            .with_decoding(self.sampling.decoding())
            .with_penalties(self.sampling.penalties())
            .with_seed(self.seed)
            .with_stop(self.stop.clone())
    }
}

impl Config {
    /// Plain decoding with `target`, on the first GPU if it can be used, else on the CPU.
    /// [`with_drafters`](Self::with_drafters) makes a cascade of it.
    pub fn new(target: Neural) -> Self {
        Self {
            label: "configuration".to_owned(),
            target,
            drafters: Vec::new(),
            schedule: KMatrix::default().into(),
            lenience: Lenience::STRICT,
            statistical_lenience: Lenience::STRICT,
            placement: Placement::default(),
            max_nodes: DEFAULT_MAX_NODES,
            prompt: None,
            generation: GenerationSettings::default(),
            device: DeviceSpec::default(),
        }
    }

    /// The drafters, largest first.
    pub fn drafters(&self) -> &[Drafter] {
        &self.drafters
    }

    /// The drafters, to change their settings.
    pub fn drafters_mut(&mut self) -> &mut [Drafter] {
        &mut self.drafters
    }

    /// Who drafts and how much.
    pub fn schedule(&self) -> &ScheduleConfig {
        &self.schedule
    }

    /// How much each drafter drafts, as many rows as drafters; `None` if the schedule is no K
    /// matrix.
    pub fn k(&self) -> Option<&KMatrix> {
        self.schedule.k()
    }

    /// How questions become prompts: as they are, if nothing else is said.
    pub fn prompt(&self) -> PromptTemplate {
        self.prompt.unwrap_or(PromptTemplate::Raw)
    }

    /// Sets the drafters, largest first, and the schedule: a K matrix that belongs to
    /// them, or [`ScheduleConfig::Online`].
    ///
    /// # Errors
    /// A K matrix that has not one row for each drafter.
    pub fn with_drafters(
        self,
        drafters: Vec<Drafter>,
        schedule: impl Into<ScheduleConfig>,
    ) -> Result<Self> {
        let schedule = schedule.into();
        match schedule.k().map(KMatrix::size) {
            Some(size) if size != drafters.len() => {
                let drafters = drafters.len();
                let source = CascadeError::KMatrixSize { size, drafters };
                Err(Error::cascade(&self.label, source))
            }
            _ => Ok(Self {
                drafters,
                schedule,
                ..self
            }),
        }
    }

    /// Sets the schedule.
    ///
    /// # Errors
    /// As [`with_drafters`](Self::with_drafters).
    pub fn with_schedule(mut self, schedule: impl Into<ScheduleConfig>) -> Result<Self> {
        let drafters = std::mem::take(&mut self.drafters);
        self.with_drafters(drafters, schedule)
    }

    /// Lets all models compute on a device, whatever they said before.
    pub(crate) fn set_device(&mut self, device: DeviceSpec) {
        self.device = device;
        self.target.device = None;
        for drafter in &mut self.drafters {
            if let Drafter::Neural { model, .. } = drafter {
                model.device = None;
            }
        }
    }

    /// The configuration, if its settings fit together: what would be refused after models are
    /// loaded is refused before.
    ///
    /// # Errors
    /// A drafter's rule that would never be used; a placement of drafters that nothing follows;
    /// what [`check_levels`] refuses.
    pub fn checked(self) -> Result<Self> {
        self.check_rules()?;
        self.check_networks()?;
        if self.placement == Placement::Merged && self.schedule == ScheduleConfig::Online {
            return Err(Error::entry(
                &self.label,
                "tree.placement",
                "it places the drafters of a row of the K matrix, and `schedule: online` has none",
                "remove it, or give `k`",
            ));
        }
        let chain = Branching::chain();
        let target = level(&self.target, &chain, false);
        let drafters = self.drafters.iter().map(|drafter| match drafter {
            Drafter::Neural {
                model, branching, ..
            } => level(model, branching, drafter.stop_rule().is_some()),
            Drafter::Statistical { name, config, .. } => LevelSpec::Statistical {
                name,
                takes_advice: config.takes_advice(),
            },
        });
        let levels: Vec<_> = std::iter::once(target).chain(drafters).collect();
        let mut schedule = self
            .schedule
            .schedule(self.placement, AssumedCosts::default(), None);
        match check_levels(&levels, &mut *schedule) {
            Ok(_) => Ok(self),
            Err(error) => Err(Error::cascade(&self.label, error)),
        }
    }

    fn check_rules(&self) -> Result<()> {
        if self.target.rule != Rule::Coupled {
            return Ok(());
        }
        match self
            .neural_drafters()
            .find(|(_, drafter)| drafter.rule != Rule::Coupled)
        {
            None => Ok(()),
            Some((key, drafter)) => Err(Error::entry(
                &self.label,
                format!("{key}.rule"),
                format!(
                    "it is `{}`, but the target's rule is `coupled`, by which all models draw",
                    drafter.rule
                ),
                "remove it, or give the target a `rule` too",
            )),
        }
    }

    /// Refuses a stop rule that reads hidden states of a drafter that computes none.
    pub(crate) fn check_networks(&self) -> Result<()> {
        for (j, drafter) in self.drafters.iter().enumerate() {
            let kind = match drafter {
                Drafter::Neural { model, .. } if !model.is_head => continue,
                Drafter::Neural { .. } => "a head",
                Drafter::Statistical { .. } => "a statistical drafter",
            };
            if let Some(network) = drafter.stop_rule().and_then(StopRuleConfig::network) {
                return Err(Error::entry(
                    &self.label,
                    format!("drafters[{j}].stop_rule.{network}"),
                    format!("{kind} computes nothing that a {network} could read"),
                    "take another stop rule, or none",
                ));
            }
        }
        Ok(())
    }

    /// The target alone: plain decoding, to compare with.
    pub fn plain(&self) -> Self {
        Self {
            drafters: Vec::new(),
            schedule: KMatrix::default().into(),
            ..self.clone()
        }
    }

    /// Settings that are valid but probably unintended, in sentences.
    pub fn warnings(&self) -> Vec<String> {
        let drafter = |level: LevelId| &self.drafters[level.0 - 1];
        let reviews = |level| matches!(drafter(level), Drafter::Neural { .. });
        let idle = self
            .k()
            .map(|k| k.idle_drafters(reviews))
            .unwrap_or_default().into_iter().map(|level| {
            format!(
                "{}: drafter `{}` never drafts: its column of the K matrix is 0 in every row that is used",
                self.label,
                drafter(level).name()
            )
        });
        let in_vain = self.generation.sampling.truncates_in_vain().then(|| {
            format!(
                "{}: generation.top_k, top_p and min_p do nothing at temperature 0, which is greedy decoding",
                self.label
            )
        });
        idle.chain(self.clipped()).chain(in_vain).collect()
    }

    /// Rows of the K matrix that ask for more than a draft may hold.
    fn clipped(&self) -> impl Iterator<Item = String> + '_ {
        let rows = self.k().map_or(&[][..], KMatrix::rows).iter().enumerate();
        rows.filter_map(move |(row, entries)| {
            let asked = entries.iter().fold(0usize, |sum, &entry| sum.saturating_add(entry));
            (asked > self.max_nodes).then(|| {
                format!(
                    "{}: row {row} of the K matrix asks for {asked} tokens, and tree.max_nodes is {}: \
                     the drafts are cut there",
                    self.label, self.max_nodes
                )
            })
        })
    }
}

fn level<'a>(model: &'a Neural, branching: &'a Branching, stops: bool) -> LevelSpec<'a> {
    LevelSpec::Neural(NeuralSpec {
        name: &model.name,
        rule: &model.rule,
        branching,
        stops,
    })
}

impl Neural {
    /// A model in its default type with the tokenizer of its own.
    pub fn new(source: ModelSource) -> Self {
        Self {
            name: last_part(&source.to_string()),
            dtype: None,
            source,
            tokenizer: None,
            cache_dtype: None,
            rule: Rule::default(),
            device: None,
            is_head: false,
        }
    }

    /// A [head](cascade_models::Head) over `target`, whose tokenizer it has.
    pub fn head(source: ModelSource, target: &Self) -> Self {
        Self {
            tokenizer: Some(target.tokenizer_source().clone()),
            is_head: true,
            ..Self::new(source)
        }
    }

    /// Where its tokenizer is.
    pub(crate) fn tokenizer_source(&self) -> &ModelSource {
        self.tokenizer.as_ref().unwrap_or(&self.source)
    }

    /// What it computes in on a CPU or a GPU. If nothing is said, a GGUF file as it is
    /// [stored](DType::Stored), and others in f32 on a CPU, and on a GPU in bf16, for which it is
    /// made.
    pub fn dtype_on(&self, cpu: bool) -> DType {
        match (self.dtype, cpu) {
            (Some(dtype), _) => dtype,
            (None, _) if self.source.is_gguf() => DType::Stored,
            (None, false) => DType::BF16,
            (None, true) => DType::F32,
        }
    }
}

impl Drafter {
    /// A neural model that drafts chains.
    pub fn neural(model: Neural) -> Self {
        Self::Neural {
            model: Box::new(model),
            branching: Branching::chain(),
            stop_rule: None,
        }
    }

    /// A drafter from statistics, called what its kind is called by default.
    pub fn statistical<C: DrafterConfig>(config: C) -> Self {
        let config: Arc<dyn DrafterConfig> = Arc::new(config);
        Self::Statistical {
            name: config.own_name(),
            config,
            stop_rule: None,
        }
    }

    /// When its turns end early.
    pub fn stop_rule(&self) -> Option<&StopRuleConfig> {
        match self {
            Self::Neural { stop_rule, .. } | Self::Statistical { stop_rule, .. } => {
                stop_rule.as_ref()
            }
        }
    }

    /// The stop rule, to change it.
    pub fn stop_rule_mut(&mut self) -> &mut Option<StopRuleConfig> {
        match self {
            Self::Neural { stop_rule, .. } | Self::Statistical { stop_rule, .. } => stop_rule,
        }
    }

    /// Sets what the drafter is called in reports.
    pub fn named(mut self, new: impl Into<String>) -> Self {
        match &mut self {
            Self::Neural { model, .. } => model.name = new.into(),
            Self::Statistical { name, .. } => *name = new.into(),
        }
        self
    }

    /// What the drafter is called in reports.
    pub fn name(&self) -> &str {
        match self {
            Self::Neural { model, .. } => &model.name,
            Self::Statistical { name, .. } => name,
        }
    }

    /// Its settings, if it is a statistical drafter of this kind.
    pub fn settings<C: DrafterConfig>(&self) -> Option<&C> {
        match self {
            Self::Neural { .. } => None,
            Self::Statistical { config, .. } => config.downcast_ref(),
        }
    }
}
