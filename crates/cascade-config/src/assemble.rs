//! From a configuration to a cascade.

use std::iter::once;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use cascade_chat::ChatTemplate;
use cascade_core::{ForwardTimes, Scorer, TextCodec, TokenId};
use cascade_engine::{
    AssumedCosts, AssumedTimes, Cascade, CascadeBuilder, OwnTime, Role, Schedule, Statement,
    ThreadClock,
};
use cascade_models::{LoadedModel, Model, Participant};

use crate::config::{Config, Drafter, Neural};
use crate::drafting::Parts;
use crate::prompt_limit::{GuardedCodec, encoder};
use crate::{AssembleOptions, Error, ModelPool, Result, ScheduleConfig, Target};

/// What a cascade is assembled from: a configuration, and what it does not say itself.
///
/// ```
/// use cascade_config::{AssembleOptions, Assembly, ChatTemplate, Config};
///
/// # cascade_demo::register();
/// let config = Config::open("embedded:demo-llama")?;
/// let pool = config.pool(&AssembleOptions::default());
/// let vicuna = ChatTemplate::vicuna();
/// let assembled = pool.assemble(Assembly::of(&config).chat(&vicuna))?;
/// assert_eq!(assembled.levels[0].name, config.target.name);
/// # Ok::<(), cascade_config::Error>(())
/// ```
#[must_use]
pub struct Assembly<'a> {
    config: &'a Config,
    chat: Option<&'a ChatTemplate>,
    target: Option<Target>,
    schedule: Option<Box<dyn Schedule>>,
    statements: Option<Sender<Statement>>,
    participant: Option<&'a Participant>,
}

impl<'a> Assembly<'a> {
    /// The cascade that a configuration describes.
    pub fn of(config: &'a Config) -> Self {
        Self {
            config,
            chat: None,
            target: None,
            schedule: None,
            statements: None,
            participant: None,
        }
    }

    /// Generates conversations in the form of a chat template, if there is one: the end-of-text
    /// token of its model ends an answer too, as not every generation_config.json names the token
    /// that ends a turn.
    pub fn chat(self, template: impl Into<Option<&'a ChatTemplate>>) -> Self {
        Self {
            chat: template.into(),
            ..self
        }
    }

    /// Takes another target. The configuration's own is neither loaded nor looked for, but for its
    /// tokenizer if a drafter has another; its name and its rule stay.
    pub fn target(self, target: Target) -> Self {
        Self {
            target: Some(target),
            ..self
        }
    }

    /// Takes another schedule.
    pub fn schedule(self, schedule: impl Schedule + 'static) -> Self {
        Self {
            schedule: Some(Box::new(schedule)),
            ..self
        }
    }

    /// Sends what became of drafters' statements, if the configuration's own schedule believes
    /// them. The channel has no bound: receive while generating.
    pub fn telling(self, statements: impl Into<Option<Sender<Statement>>>) -> Self {
        Self {
            statements: statements.into(),
            ..self
        }
    }

    /// Shares the forwards of all models with the other participants of a
    /// [`Batcher`](cascade_models::Batcher), if there is one: for programs that drive generations
    /// on threads of their own. [`assemble_batch`](ModelPool::assemble_batch) makes several
    /// cascades, and drives them.
    pub fn sharing(self, participant: impl Into<Option<&'a Participant>>) -> Self {
        Self {
            participant: participant.into(),
            ..self
        }
    }
}

impl<'a> From<&'a Config> for Assembly<'a> {
    fn from(config: &'a Config) -> Self {
        Self::of(config)
    }
}

/// A cascade and what it was made of.
#[non_exhaustive]
pub struct Assembled {
    /// The cascade, ready to generate.
    pub cascade: Cascade,
    /// Its models and drafters, the target first.
    pub levels: Vec<LevelInfo>,
    /// Settings that are valid but probably unintended, those of the models' own files included, in
    /// sentences.
    pub warnings: Vec<String>,
    /// What was decided in the user's place and should be said, in sentences: the CPU where
    /// `device: auto` found no GPU that works, drafters that leave some tokens out.
    pub notes: Vec<String>,
}

/// The target or a drafter of an assembled cascade.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelInfo {
    /// Its name in reports.
    pub name: String,
    /// Where it came from.
    pub source: String,
    /// What it does in the cascade.
    pub role: Role,
    /// Parameters of a neural model, of a head those that a forward reads; 0 for a statistical one.
    pub parameters: usize,
}

/// Where the sessions of a cascade come from.
pub(crate) struct Sessions<'a> {
    /// Shares their forwards with others, if somebody does, and counts their time.
    sharing: Option<(&'a Participant, OwnTime)>,
}

impl Sessions<'_> {
    pub(crate) fn of(&self, model: &Arc<Model>) -> Box<dyn Scorer + Send> {
        match &self.sharing {
            None => Box::new(model.session()),
            Some((participant, time)) => {
                let payer = Participant::clone(participant);
                time.counting(participant.session(model), move || payer.unpaid())
            }
        }
    }
}

impl Config {
    /// A pool for the models of this configuration, on its device.
    pub fn pool(&self, options: &AssembleOptions) -> ModelPool {
        ModelPool::new(self.device, options)
    }

    /// Loads all models and puts the cascade together. [`ModelPool::assemble`] does so with models
    /// that several cascades share.
    ///
    /// # Errors
    /// As [`ModelPool::assemble`].
    pub fn assemble(&self, options: &AssembleOptions) -> Result<Assembled> {
        self.pool(options).assemble(self)
    }
}

/// The only place where a configuration becomes a cascade.
impl ModelPool {
    /// The cascade of a configuration, or of an [`Assembly`]. What the pool has loaded already is
    /// not loaded again, so this is cheap for a configuration that differs in its settings only.
    ///
    /// # Errors
    /// A device that is not there; a model or a table that cannot be loaded; a drafter whose
    /// vocabulary or architecture differs from the target's; settings that do not fit together.
    pub fn assemble<'a>(&self, assembly: impl Into<Assembly<'a>>) -> Result<Assembled> {
        let Assembly {
            config,
            chat,
            target,
            schedule,
            statements,
            participant,
        } = assembly.into();
        config.check_networks()?;
        let sessions = Sessions {
            sharing: participant.map(|participant| (participant, OwnTime::default())),
        };
        let own = target
            .is_none()
            .then(|| ("target".to_owned(), &config.target));
        let drafters = config.neural_drafters();
        let loaded = drafters.filter(|(_, neural)| self.stand_in(&neural.name).is_none());
        self.check_memory(config, own.into_iter().chain(loaded))?;
        let (target, of_target) = match target {
            Some(target) => (shared_target(target, &sessions), Vec::new()),
            None => self.own_target(config, chat, &sessions)?,
        };
        let mut parts = Parts::default();
        parts.levels.push(target.info(&config.target.name));
        self.add_drafters(&mut parts, config, &target, &sessions)?;
        let live = target.times.is_none();
        let notes = self.notes_on_costs(live).chain(self.notes());
        let notes = notes.chain(parts.notes).collect();
        let own = || self.schedule(config, &parts.levels, &target, &sessions, statements);
        let schedule = schedule.map_or_else(own, Ok)?;
        let builder = parts.builder.schedule(schedule);
        let cascade = self.with_target(builder, config, target, &sessions).build();
        Ok(Assembled {
            cascade: cascade.map_err(|source| Error::cascade(&config.label, source))?,
            levels: parts.levels,
            warnings: [config.warnings(), parts.warnings, of_target].concat(),
            notes,
        })
    }

    /// The configuration's own target, and what should be known of it.
    fn own_target(
        &self,
        config: &Config,
        chat: Option<&ChatTemplate>,
        sessions: &Sessions<'_>,
    ) -> Result<(Target, Vec<String>)> {
        let heads = config.neural_drafters();
        for (key, head) in heads.filter(|(_, neural)| neural.is_head) {
            self.check_head(head, &config.target)
                .map_err(|source| Error::model(&config.label, &key, source))?;
        }
        let model = self.target(config)?;
        let mut warnings = loaded_warnings(&config.target.name, &model);
        // Only the target's: drafters choose nothing for good.
        warnings.extend(model.generation_warnings.iter().cloned());
        let stops = config.generation.stop.iter().flat_map(|stops| stops.iter());
        warnings.extend(stops.filter_map(|stop| model.tokenizer.stop_warning(stop)));
        let target = Target::from(&*model).with_eos(self.end_tokens(config, chat)?);
        Ok((shared_target(target, sessions), warnings))
    }

    /// The configuration's own schedule, with what forwards of these models are assumed to cost.
    fn schedule(
        &self,
        config: &Config,
        levels: &[LevelInfo],
        target: &Target,
        sessions: &Sessions<'_>,
        statements: Option<Sender<Statement>>,
    ) -> Result<Box<dyn Schedule>> {
        let mut assumed = assumed_costs(levels);
        assumed.fixed = self.options.fixed_costs;
        assumed.measured = match &target.times {
            None => self.costs(config, sessions)?,
            Some(times) => times_by_level(config, times),
        };
        let schedule = config.schedule();
        Ok(schedule.schedule(config.placement, assumed, statements))
    }

    /// What forwards of the levels cost: as the user's files say, else as measured, where anybody
    /// asks: the schedule, or texts that share forwards.
    fn costs(&self, config: &Config, sessions: &Sessions<'_>) -> Result<Vec<Option<ForwardTimes>>> {
        let known = if !self.options.costs.is_empty() {
            self.known_costs(neural_levels(config))?
        } else if matches!(config.schedule(), ScheduleConfig::Static(_))
            && sessions.sharing.is_none()
        {
            Vec::new()
        } else {
            self.measured_costs(config)
        };
        for (level, times) in neural_levels(config).zip(&known) {
            let model = level.and_then(|neural| self.loaded(neural));
            if let Some((model, times)) = model.zip(times.clone()) {
                model.model.set_forward_times(times);
            }
        }
        Ok(known)
    }

    fn measured_costs(&self, config: &Config) -> Vec<Option<ForwardTimes>> {
        let is_alone = self.is_alone(config);
        let is_model = |neural: &&Neural| !neural.is_head && self.stand_in(&neural.name).is_none();
        let of = |neural| self.own_times(neural, is_alone);
        let levels = neural_levels(config).map(|level| level.filter(is_model));
        levels.map(|level| level.and_then(of)).collect()
    }

    /// Adds the target, and what the configuration says of the whole cascade.
    fn with_target(
        &self,
        builder: CascadeBuilder,
        config: &Config,
        target: Target,
        sessions: &Sessions<'_>,
    ) -> CascadeBuilder {
        let times = target.times.as_ref();
        let scorer = match times {
            None => target.scorer,
            Some(times) => Box::new(times.of_level(0, target.scorer)),
        };
        let builder = builder
            .target_with(&config.target.name, scorer, config.target.rule)
            .eos(target.eos)
            .lenience(config.lenience)
            .statistical_lenience(config.statistical_lenience)
            .max_nodes(config.max_nodes)
            .notices(self.once());
        let builder = match (times, &sessions.sharing) {
            (Some(times), _) => builder.clock(times.clock.clone()),
            (None, Some((_, time))) => builder.work_clock(time.clone()),
            // What a busy machine adds to the time that passes is no cost of rows or drafters.
            (None, None) if target.model.is_some() && self.is_alone(config) => {
                builder.work_clock(ThreadClock)
            }
            (None, None) => builder,
        };
        match target.codec {
            Some(inner) => builder.codec(self.guarded(config, inner, target.model.as_ref())),
            None => builder,
        }
    }

    /// A codec that keeps to the configuration's limit of prompts.
    fn guarded(
        &self,
        config: &Config,
        inner: Arc<dyn TextCodec>,
        model: Option<&Arc<Model>>,
    ) -> Arc<GuardedCodec> {
        Arc::new(GuardedCodec {
            inner,
            limit: config.generation.prompt_limit,
            encoder: model.and_then(encoder),
            notices: self.notices(),
            said: Mutex::default(),
        })
    }

    /// The tokens that end an answer: those of the target and, in the form of a chat template, the
    /// end-of-text token of the template's model; none if the configuration ignores them.
    ///
    /// # Errors
    /// If the target cannot be loaded.
    pub fn end_tokens(&self, config: &Config, chat: Option<&ChatTemplate>) -> Result<Vec<TokenId>> {
        if config.generation.ignore_eos {
            return Ok(Vec::new());
        }
        let model = self.target(config)?;
        let mut ends = model.eos_token_ids.clone();
        let of_chat = chat
            .and_then(|template| template.special_token("eos_token"))
            .and_then(|end| model.tokenizer.token_to_id(end));
        ends.extend(of_chat.filter(|end| !model.eos_token_ids.contains(end)));
        Ok(ends)
    }

    /// The target of a configuration alone.
    ///
    /// # Errors
    /// A device that is not there; a model that cannot be loaded.
    pub fn target(&self, config: &Config) -> Result<Arc<LoadedModel>> {
        self.neural(config, "target", &config.target)
    }

    pub(crate) fn neural(
        &self,
        config: &Config,
        key: &str,
        neural: &Neural,
    ) -> Result<Arc<LoadedModel>> {
        let model = self.model(neural);
        model.map_err(|source| Error::model(&config.label, key, source))
    }
}

/// A target whose forwards are shared, if those of a cascade are and it is a model.
fn shared_target(target: Target, sessions: &Sessions<'_>) -> Target {
    match &target.model {
        Some(model) if sessions.sharing.is_some() => Target {
            scorer: sessions.of(model),
            ..target
        },
        _ => target,
    }
}

/// The target, and each drafter that is neural.
pub(crate) fn neural_levels(config: &Config) -> impl Iterator<Item = Option<&Neural>> {
    let drafters = config.drafters().iter().map(|drafter| match drafter {
        Drafter::Neural { model, .. } => Some(&**model),
        Drafter::Statistical { .. } => None,
    });
    once(Some(&config.target)).chain(drafters)
}

/// What the user should know of a model, under its name in reports.
pub(crate) fn loaded_warnings(name: &str, model: &LoadedModel) -> Vec<String> {
    let warnings = [model.model.warnings(), model.tokenizer.warnings()].concat();
    warnings_of(name, &model.name, &warnings)
}

/// Warnings about a model that comes from `source`.
pub(crate) fn warnings_of(name: &str, source: &str, warnings: &[String]) -> Vec<String> {
    let said = |warning: &String| format!("{name} ({source}): {warning}");
    warnings.iter().map(said).collect()
}

/// What forwards of the levels are assumed to take.
fn times_by_level(config: &Config, times: &AssumedTimes) -> Vec<Option<ForwardTimes>> {
    let mut neural = 0;
    let mut of = |level: Option<&Neural>| {
        level?;
        neural += 1;
        Some(times.times_of(neural - 1).clone().into())
    };
    neural_levels(config).map(&mut of).collect()
}

/// What forwards are assumed to cost before they are measured, and in sampled generations: reading
/// the weights takes time in proportion to the parameters.
fn assumed_costs(levels: &[LevelInfo]) -> AssumedCosts {
    let mut costs = AssumedCosts::default();
    let target = levels[0].parameters;
    if target > 0 {
        let drafters = levels[1..].iter().map(|level| level.parameters as f64);
        costs.drafters = drafters.map(|drafter| drafter / target as f64).collect();
    }
    costs
}
