//! From a configuration to a cascade.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cascade_chat::ChatTemplate;
use cascade_core::{
    Fingerprint, Scorer, ScorerInfo, Scores, SharedForward, TextCodec, TokenId, TokenTree, Want,
};
use cascade_engine::{
    AssumedCosts, AssumedTime, Branching, Cascade, CascadeBuilder, Clock, DraftVocabulary,
    NeuralOptions, Role, RowTimes, Rule, Schedule, SharedPrices, SystemClock, ThreadClock,
    VirtualClock, VirtualText,
};
use cascade_models::{BatchedSession, Head, LoadedModel, Model, Participant};
use cascade_ngram::DrafterFactory;

use crate::config::{Config, Drafter, Neural};
use crate::pool::{StandIn, Tables};
use crate::prompt_limit::{encoder, GuardedCodec};
use crate::vocabulary::shared;
use crate::{AssembleOptions, Error, ModelPool, Result, StopRuleConfig, TrainedRule};

/// The model whose answers are kept: one that was loaded, or anything else that scores, such as a
/// recording.
#[non_exhaustive]
pub struct Target {
    /// What answers.
    pub scorer: Box<dyn Scorer + Send>,
    /// Where it came from, for reports.
    pub source: String,
    /// Its vocabulary; drafters and tables must have the same.
    pub vocabulary: Fingerprint,
    /// Parameters of a model; 0 for anything else.
    pub parameters: usize,
    /// Tokens that end a text.
    pub eos: Vec<TokenId>,
    /// Its tokenizer; a target without one answers tokens, not texts.
    pub codec: Option<Arc<dyn TextCodec>>,
    /// Its weights, if it is a model or gives the hidden states of one: what heads are loaded for,
    /// and the encoding of long prompts is timed with.
    pub model: Option<Arc<Model>>,
    /// Times that forwards are assumed to take, in place of those of the machine's clock.
    pub times: Option<AssumedTimes>,
    /// The text that is generated, if others share these forwards; the clock is its own.
    pub text: Option<VirtualText>,
}

/// Times that the forwards of a cascade are assumed to take.
#[derive(Clone, Debug)]
pub struct AssumedTimes {
    /// The clock that they move; what is not a forward takes no time.
    pub clock: VirtualClock,
    /// Of the target.
    pub target: RowTimes,
    /// Of each neural drafter, largest first; of those that are missing, the last one's.
    pub drafters: Vec<RowTimes>,
}

impl Target {
    /// A target without end tokens and without a tokenizer.
    pub fn new(
        scorer: impl Scorer + Send + 'static,
        source: impl Into<String>,
        vocabulary: Fingerprint,
    ) -> Self {
        Self {
            scorer: Box::new(scorer),
            source: source.into(),
            vocabulary,
            parameters: 0,
            eos: Vec::new(),
            codec: None,
            model: None,
            times: None,
            text: None,
        }
    }

    fn part(&self, name: &str) -> Part {
        Part {
            name: name.to_owned(),
            source: self.source.clone(),
            role: Role::Target,
            parameters: self.parameters,
        }
    }

    /// The same with assumed times.
    pub fn with_times(self, times: AssumedTimes) -> Self {
        Self {
            times: Some(times),
            ..self
        }
    }

    /// The same with other texts in the forwards of assumed times, whose clock is the text's.
    pub fn with_text(self, text: Option<VirtualText>) -> Self {
        Self { text, ..self }
    }

    /// The same with tokens that end a text.
    pub fn with_eos(self, eos: impl IntoIterator<Item = TokenId>) -> Self {
        Self {
            eos: eos.into_iter().collect(),
            ..self
        }
    }

    /// The same with the model whose hidden states it gives: what heads are loaded for.
    pub fn with_model(self, model: Arc<Model>) -> Self {
        Self {
            model: Some(model),
            ..self
        }
    }

    /// The same with a tokenizer.
    pub fn with_codec(self, codec: Arc<dyn TextCodec>) -> Self {
        Self {
            codec: Some(codec),
            ..self
        }
    }
}

/// A session of its own on the model's weights, with the model's tokenizer and end tokens.
impl From<&LoadedModel> for Target {
    fn from(model: &LoadedModel) -> Self {
        let vocabulary = model.tokenizer.fingerprint();
        let target = Self::new(model.session(), &model.name, vocabulary)
            .with_eos(model.eos_token_ids.iter().copied())
            .with_codec(Arc::new(model.tokenizer.clone()));
        Self {
            parameters: model.num_parameters(),
            model: Some(Arc::clone(&model.model)),
            ..target
        }
    }
}

/// What makes a drafter of a configuration, any number of times.
#[derive(Clone)]
pub enum DrafterModel {
    /// Weights, which give sessions.
    Neural {
        /// The weights.
        model: Arc<LoadedModel>,
        /// The rule of its reviews.
        rule: Rule,
        /// How its drafts branch.
        branching: Branching,
        /// The tokens that mean the same in it and in the target.
        vocabulary: DraftVocabulary,
        /// Which tokens do not, in a sentence.
        note: Option<String>,
        /// When it stops drafting, if a network decides it, and what should be known of that.
        trained: Option<(TrainedRule, Option<String>)>,
    },
    /// A statistical drafter's tables and settings.
    Statistical(Arc<dyn DrafterFactory>),
}

/// A cascade and what it was made of.
#[non_exhaustive]
pub struct Assembled {
    /// The cascade, ready to generate.
    pub cascade: Cascade,
    /// Its models, the target first.
    pub parts: Vec<Part>,
    /// Settings that are valid but probably unintended, those of the models' own files included, in
    /// sentences.
    pub warnings: Vec<String>,
    /// What was decided in the user's place and should be said, in sentences: the CPU where
    /// `device: auto` found no GPU that works, drafters that leave some tokens out.
    pub notes: Vec<String>,
}

/// What the user should know of a model, under its name in reports.
fn model_warnings(name: &str, model: &LoadedModel) -> Vec<String> {
    let warnings = model
        .model
        .warnings()
        .iter()
        .chain(model.tokenizer.warnings());
    warnings
        .map(|warning| format!("{name} ({}): {warning}", model.name))
        .collect()
}

/// One model of an assembled cascade.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Part {
    /// Its name in reports.
    pub name: String,
    /// Where it came from.
    pub source: String,
    /// Its place in the cascade.
    pub role: Role,
    /// Parameters of a neural model, of a head those that a forward reads; 0 for a statistical one.
    pub parameters: usize,
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

/// Assembly: the only place where a configuration becomes a cascade.
impl ModelPool {
    /// The cascade of a configuration. What the pool has loaded already is not loaded again, so
    /// this is cheap for a configuration that differs in its settings only.
    ///
    /// # Errors
    /// A device that is not there; a model or a table that cannot be loaded; a drafter whose
    /// vocabulary or architecture differs from the target's; settings that do not fit together.
    pub fn assemble(&self, config: &Config) -> Result<Assembled> {
        self.assemble_for(config, None)
    }

    fn assemble_for(&self, config: &Config, chat: Option<&ChatTemplate>) -> Result<Assembled> {
        self.assemble_from(config, chat, Sessions::Own)
    }

    /// As [`assemble`](Self::assemble), or as [`assemble_for_chat`](Self::assemble_for_chat) with a
    /// template: a cascade whose models share forwards with those of the other participants of a
    /// [`Batcher`](cascade_models::Batcher), for programs that drive generations on threads of
    /// their own. [`assemble_batch`](Self::assemble_batch) makes several, and drives them.
    ///
    /// # Errors
    /// As [`assemble`](Self::assemble).
    pub fn assemble_taking_part(
        &self,
        config: &Config,
        chat: Option<&ChatTemplate>,
        participant: &Participant,
    ) -> Result<Assembled> {
        let sharing = Sharing::new(participant);
        self.assemble_from(config, chat, Sessions::Of(&sharing))
    }

    /// As [`assemble_with_target`](Self::assemble_with_target), with models that share forwards
    /// with those of other participants: the drafters, and the target if it is a model.
    ///
    /// # Errors
    /// As [`assemble_with_target`](Self::assemble_with_target).
    pub fn assemble_with_target_taking_part(
        &self,
        config: &Config,
        target: Target,
        participant: &Participant,
    ) -> Result<Assembled> {
        let sharing = Sharing::new(participant);
        let sessions = Sessions::Of(&sharing);
        let scorer = target.model.as_ref().map(|model| sessions.of(model));
        let target = match scorer {
            Some(scorer) => Target { scorer, ..target },
            None => target,
        };
        self.assembled(config, target, None, sessions)
    }

    fn assemble_from(
        &self,
        config: &Config,
        chat: Option<&ChatTemplate>,
        sessions: Sessions<'_>,
    ) -> Result<Assembled> {
        let target = [("target".to_owned(), &config.target)];
        self.check_memory(config, target.into_iter().chain(config.neural_drafters()))?;
        let heads = config.neural_drafters();
        for (key, head) in heads.filter(|(_, neural)| neural.is_head) {
            self.check_head(head, &config.target)
                .map_err(|source| Error::model(&config.label, &key, source))?;
        }
        let model = self.target(config)?;
        let target = Target {
            scorer: sessions.of(&model.model),
            ..Target::from(&*model).with_eos(self.end_tokens(config, chat)?)
        };
        let mut assembled = self.assembled(config, target, None, sessions)?;
        let mut of_target = model_warnings(&config.target.name, &model);
        // Drafters choose nothing for good.
        of_target.extend(model.generation_warnings.iter().cloned());
        assembled.warnings.extend(of_target);
        Ok(assembled)
    }

    /// As [`assemble`](Self::assemble), for conversations in the form of a chat template: the
    /// end-of-text token of its model ends an answer too, as not every generation_config.json names
    /// the token that ends a turn.
    ///
    /// # Errors
    /// As [`assemble`](Self::assemble).
    pub fn assemble_for_chat(&self, config: &Config, template: &ChatTemplate) -> Result<Assembled> {
        self.assemble_for(config, Some(template))
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

    /// The cascade of a configuration around `target`. The configuration's own target is neither
    /// loaded nor looked for, but for its tokenizer if a drafter has another; its name and its rule
    /// stay.
    ///
    /// # Errors
    /// As [`assemble`](Self::assemble), the configuration's target left out.
    pub fn assemble_with_target(&self, config: &Config, target: Target) -> Result<Assembled> {
        self.assembled(config, target, None, Sessions::Own)
    }

    /// As [`assemble_with_target`](Self::assemble_with_target), with a schedule in place of the
    /// configuration's.
    ///
    /// # Errors
    /// As [`assemble_with_target`](Self::assemble_with_target).
    pub fn assemble_with_schedule(
        &self,
        config: &Config,
        target: Target,
        schedule: impl Schedule + 'static,
    ) -> Result<Assembled> {
        self.assembled(config, target, Some(Box::new(schedule)), Sessions::Own)
    }

    fn assembled(
        &self,
        config: &Config,
        target: Target,
        schedule: Option<Box<dyn Schedule>>,
        sessions: Sessions<'_>,
    ) -> Result<Assembled> {
        let loaded = config
            .neural_drafters()
            .filter(|(_, neural)| self.stand_in(&neural.name).is_none());
        self.check_memory(config, loaded)?;
        let models = self.drafting(config, &target)?;
        let drafters: Vec<_> = config.drafters().iter().zip(&models).collect();
        let mut parts = vec![target.part(&config.target.name)];
        parts.extend(drafters.iter().map(|(own, model)| model.part(own.name())));
        let of_drafters = drafters
            .iter()
            .flat_map(|(own, model)| model.warnings(own.name()));
        let warnings = config.warnings().into_iter().chain(of_drafters).collect();
        let live = target.times.is_none();
        let notes = self
            .notes_on_costs(live)
            .chain(self.notes())
            .chain(models.iter().filter_map(Drafting::note))
            .collect();
        let schedule = match schedule {
            Some(schedule) => schedule,
            None => {
                let prices = match (&target.text, live) {
                    (Some(text), _) => assumed_prices(config, text),
                    (None, true) => self.prices(config, sessions)?,
                    // Times that are assumed are those of a text alone.
                    (None, false) => Vec::new(),
                };
                self.schedule(config, &parts, live, prices)?
            }
        };
        let builder = self.builder(config, (target, sessions), schedule, &drafters);
        Ok(Assembled {
            cascade: builder
                .build()
                .map_err(|source| Error::cascade(&config.label, source))?,
            parts,
            warnings,
            notes,
        })
    }

    /// The configuration's own schedule, with what forwards of these models are assumed to cost.
    fn schedule(
        &self,
        config: &Config,
        parts: &[Part],
        live: bool,
        prices: Vec<Option<SharedPrices>>,
    ) -> Result<Box<dyn Schedule>> {
        let assumed = AssumedCosts {
            measured: if live {
                self.known_costs(levels(config))?
            } else {
                Vec::new()
            },
            fixed: self.options.fixed_costs,
            ..assumed_costs(parts)
        };
        Ok(config
            .schedule()
            .schedule(config.placement, assumed, prices))
    }

    /// What texts that share forwards know of each other's, by level.
    fn prices(&self, config: &Config, sessions: Sessions<'_>) -> Result<Vec<Option<SharedPrices>>> {
        if matches!(sessions, Sessions::Own) {
            return Ok(Vec::new());
        }
        let prices = levels(config).enumerate().map(|(level, neural)| {
            let Some(neural) = neural.filter(|neural| !neural.is_head) else {
                return Ok(None);
            };
            if self.stand_in(&neural.name).is_some() {
                return Ok(None);
            }
            self.prices_of(neural, level == 0).map(Some)
        });
        prices
            .collect::<cascade_models::Result<_>>()
            .map_err(Error::Device)
    }

    fn builder(
        &self,
        config: &Config,
        (target, sessions): (Target, Sessions<'_>),
        schedule: Box<dyn Schedule>,
        drafters: &[(&Drafter, &Drafting<'_>)],
    ) -> CascadeBuilder {
        let live = target.times.is_none();
        // Others may compute the forwards of a participant.
        let own = matches!(sessions, Sessions::Own);
        let alone = live && own && target.model.is_some();
        let alone = alone && self.is_alone(levels(config).flatten());
        let text = target.text;
        let mut times = target.times.map(|times| Times::new(times, text));
        let scorer = match &mut times {
            None => target.scorer,
            Some(times) => times.of_target(target.scorer),
        };
        let mut builder = Cascade::builder()
            .target_with(&config.target.name, scorer, config.target.rule)
            .eos(target.eos)
            .schedule(schedule)
            .lenience(config.lenience)
            .statistical_lenience(config.statistical_lenience)
            .max_nodes(config.max_nodes)
            .notices(self.once());
        if let Some(times) = &times {
            builder = builder.clock(times.assumed.clock.clone());
        }
        if alone {
            // What a busy machine adds to the time that passes is no cost of rows or drafters.
            builder = builder.work_clock(ThreadClock);
        }
        if let (true, Sessions::Of(sharing)) = (live, sessions) {
            builder = builder.work_clock(OwnTime(Arc::clone(&sharing.calls)));
        }
        if let Some(inner) = target.codec {
            builder = builder.codec(self.guarded(config, inner, target.model.as_ref()));
        }
        for (own, model) in drafters {
            builder = model.add(builder, own.name(), times.as_mut(), sessions);
            if let Some(rule) = own.stop_rule().and_then(StopRuleConfig::rule) {
                builder = builder.stop_rule(rule);
            }
        }
        builder
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

    /// The target of a configuration alone.
    ///
    /// # Errors
    /// A device that is not there; a model that cannot be loaded.
    pub fn target(&self, config: &Config) -> Result<Arc<LoadedModel>> {
        self.neural(config, "target", &config.target)
    }

    /// The drafters of a configuration alone, largest first; they must have the vocabulary of the
    /// target.
    ///
    /// # Errors
    /// As [`assemble_with_target`](Self::assemble_with_target).
    pub fn drafters(&self, config: &Config, vocabulary: &Fingerprint) -> Result<Vec<DrafterModel>> {
        let drafters = config.drafters().iter().enumerate();
        drafters
            .map(|(j, drafter)| {
                let key = format!("drafters[{j}]");
                match drafter {
                    Drafter::Neural { model, .. } if model.is_head => {
                        Err(no_target(config, &key, "here the target is not computed"))
                    }
                    _ => self.drafter(config, &key, drafter, vocabulary),
                }
            })
            .collect()
    }

    /// A head, for the target of a cascade.
    fn head(
        &self,
        config: &Config,
        key: &str,
        neural: &Neural,
        target: &Target,
    ) -> Result<Arc<Head>> {
        let Some(model) = &target.model else {
            let what = format!("the target, {}, is not computed", target.source);
            return Err(no_target(config, key, &what));
        };
        let head = self.head_of(neural, model);
        head.map_err(|source| Error::model(&config.label, key, source))
    }

    /// What drafts in a cascade: the configuration's drafters, or what stands for them.
    fn drafting(&self, config: &Config, target: &Target) -> Result<Vec<Drafting<'_>>> {
        let vocabulary = &target.vocabulary;
        let drafters = config.drafters().iter().enumerate();
        drafters
            .map(|(j, drafter)| {
                let key = format!("drafters[{j}]");
                let stand_in = self.stand_in(drafter.name());
                match (drafter, stand_in) {
                    (
                        Drafter::Neural {
                            model, branching, ..
                        },
                        Some(stand_in),
                    ) => {
                        let stands = format!("{} stands for the model", stand_in.source);
                        no_network(config, &key, drafter, &stands)?;
                        Ok(Drafting::StandIn {
                            stand_in,
                            options: NeuralOptions::new(model.rule, branching.clone()),
                        })
                    }
                    (
                        Drafter::Neural {
                            model, branching, ..
                        },
                        None,
                    ) if model.is_head => Ok(Drafting::Head {
                        head: self.head(config, &key, model, target)?,
                        options: NeuralOptions::new(model.rule, branching.clone())
                            .with_vocabulary(self.drafted(config, vocabulary)),
                    }),
                    _ => self
                        .drafter(config, &key, drafter, vocabulary)
                        .map(Drafting::Model),
                }
            })
            .collect()
    }

    /// What a head may draft: the tokens of its target's tokenizer. Rows behind them are padding.
    fn drafted(&self, config: &Config, vocabulary: &Fingerprint) -> DraftVocabulary {
        let tokenizer = self.target_tokenizer(&config.target, vocabulary);
        let end = tokenizer.and_then(|tokenizer| TokenId::try_from(tokenizer.id_bound()).ok());
        end.map_or_else(DraftVocabulary::default, DraftVocabulary::below)
    }

    fn drafter(
        &self,
        config: &Config,
        key: &str,
        drafter: &Drafter,
        vocabulary: &Fingerprint,
    ) -> Result<DrafterModel> {
        match drafter {
            Drafter::Neural {
                model,
                branching,
                stop_rule,
            } => {
                let model = (&**model, branching, stop_rule.as_ref());
                self.neural_drafter(config, key, model, vocabulary)
            }
            Drafter::Statistical { config: own, .. } => {
                no_network(config, key, drafter, "the drafter is statistical")?;
                let pool = self;
                let factory =
                    own.open(&Tables { pool, vocabulary })
                        .map_err(|error| Error::Drafter {
                            file: config.label.clone(),
                            key: format!("{key}.{}", error.key),
                            source: error.source,
                        });
                Ok(DrafterModel::Statistical(factory?))
            }
        }
    }

    fn neural_drafter(
        &self,
        config: &Config,
        key: &str,
        (neural, branching, rule): (&Neural, &Branching, Option<&StopRuleConfig>),
        vocabulary: &Fingerprint,
    ) -> Result<DrafterModel> {
        let model = self.neural(config, key, neural)?;
        let shared = shared(
            &config.label,
            (&neural.name, &model.tokenizer),
            (&config.target.name, vocabulary),
            || self.target_tokenizer(&config.target, vocabulary),
        )?;
        let trained = match rule {
            Some(rule) => rule
                .open_network(&model)
                .map_err(|source| no_rule(config, key, rule, source))?,
            None => None,
        };
        Ok(DrafterModel::Neural {
            model,
            rule: neural.rule,
            branching: branching.clone(),
            vocabulary: shared.vocabulary,
            note: shared.note,
            trained,
        })
    }

    fn neural(&self, config: &Config, key: &str, neural: &Neural) -> Result<Arc<LoadedModel>> {
        let model = self.model(neural);
        model.map_err(|source| Error::model(&config.label, key, source))
    }
}

/// Refuses a stop rule that reads what only a model computes, for a drafter that is none.
fn no_network(config: &Config, key: &str, drafter: &Drafter, what: &str) -> Result<()> {
    let Some(rule) = drafter.stop_rule() else {
        return Ok(());
    };
    let Some(network) = rule.network() else {
        return Ok(());
    };
    let problem = format!("{what} and computes nothing that a {network} could read; remove it");
    Err(no_rule(config, key, rule, problem.into()))
}

/// That there is no target that a head could read.
fn no_target(config: &Config, key: &str, what: &str) -> Error {
    Error::Entry {
        file: config.label.clone(),
        key: format!("{key}.head"),
        problem: format!("a head reads hidden states of its target, and {what}"),
        cure: "run the cascade with its own target, or take another drafter".to_owned(),
    }
}

/// What is wrong with the network of a stop rule.
fn no_rule(
    config: &Config,
    key: &str,
    rule: &StopRuleConfig,
    source: Box<dyn std::error::Error + Send + Sync>,
) -> Error {
    Error::Drafter {
        file: config.label.clone(),
        key: format!("{key}.stop_rule.{}", rule.network().unwrap_or_default()),
        source,
    }
}

/// Where the sessions of a cascade come from.
#[derive(Clone, Copy)]
enum Sessions<'a> {
    /// They compute by themselves.
    Own,
    /// They share forwards with those of other participants.
    Of(&'a Sharing),
}

/// Who shares forwards, and what its calls took so far.
struct Sharing {
    participant: Participant,
    calls: Arc<Calls>,
}

impl Sharing {
    fn new(participant: &Participant) -> Self {
        Self {
            participant: participant.clone(),
            calls: Arc::default(),
        }
    }
}

/// Nanoseconds of the calls of a generation that shares forwards.
#[derive(Debug, Default)]
struct Calls {
    /// Of the CPU, on the thread of the generation, which computes for others, too.
    cpu: AtomicU64,
    /// What it pays of them.
    parts: AtomicU64,
}

/// The time of a generation that shares forwards: what it pays of them, not how long it waits; and
/// between them the CPU time of its thread, not that of the others, which draft at the same time.
#[derive(Debug)]
struct OwnTime(Arc<Calls>);

impl Clock for OwnTime {
    fn now(&self) -> Duration {
        let of = |nanoseconds: &AtomicU64| Duration::from_nanos(nanoseconds.load(Relaxed));
        let own = ThreadClock.now().saturating_sub(of(&self.0.cpu));
        own + of(&self.0.parts)
    }
}

/// A session that shares forwards, whose calls are counted.
struct Counted {
    session: BatchedSession,
    participant: Participant,
    calls: Arc<Calls>,
}

impl Scorer for Counted {
    fn info(&self) -> ScorerInfo {
        self.session.info()
    }

    fn set_source(&mut self, source: &[TokenId]) -> cascade_core::Result<()> {
        self.session.set_source(source)
    }

    fn score(
        &mut self,
        context: &[TokenId],
        tree: &TokenTree,
        want: Want,
    ) -> cascade_core::Result<Scores> {
        let paid = || SystemClock.now().saturating_sub(self.participant.unpaid());
        let (cpu, before) = (ThreadClock.now(), paid());
        let scores = self.session.score(context, tree, want);
        let add = |to: &AtomicU64, time: Duration| to.fetch_add(time.as_nanos() as u64, Relaxed);
        add(&self.calls.parts, paid().saturating_sub(before));
        add(&self.calls.cpu, ThreadClock.now().saturating_sub(cpu));
        scores
    }

    fn shared_forward(&self) -> Option<SharedForward> {
        self.session.shared_forward()
    }
}

impl Sessions<'_> {
    fn of(self, model: &Arc<Model>) -> Box<dyn Scorer + Send> {
        match self {
            Self::Own => Box::new(model.session()),
            Self::Of(sharing) => Box::new(Counted {
                session: sharing.participant.session(model),
                participant: sharing.participant.clone(),
                calls: Arc::clone(&sharing.calls),
            }),
        }
    }
}

/// What texts that share forwards of assumed times know of each other's, by level.
fn assumed_prices(config: &Config, text: &VirtualText) -> Vec<Option<SharedPrices>> {
    let mut prices = text.prices().into_iter();
    let of_level = |neural: Option<&Neural>| neural.and_then(|_| prices.next().flatten());
    levels(config).map(of_level).collect()
}

/// The target, and each drafter that is neural.
fn levels(config: &Config) -> impl Iterator<Item = Option<&Neural>> {
    let drafters = config.drafters().iter().map(|drafter| match drafter {
        Drafter::Neural { model, .. } => Some(&**model),
        Drafter::Statistical { .. } => None,
    });
    std::iter::once(Some(&config.target)).chain(drafters)
}

/// A drafter of a cascade, or what stands for it.
enum Drafting<'a> {
    Model(DrafterModel),
    Head {
        head: Arc<Head>,
        options: NeuralOptions,
    },
    StandIn {
        stand_in: &'a StandIn,
        options: NeuralOptions,
    },
}

impl Drafting<'_> {
    fn part(&self, name: &str) -> Part {
        match self {
            Self::Model(model) => model.part(name),
            Self::Head { head, .. } => Part {
                name: name.to_owned(),
                source: head.name().to_owned(),
                role: Role::Drafter,
                parameters: head.parameters_per_forward(),
            },
            Self::StandIn { stand_in, .. } => Part {
                name: name.to_owned(),
                source: stand_in.source.clone(),
                role: Role::Drafter,
                parameters: stand_in.parameters,
            },
        }
    }

    fn note(&self) -> Option<String> {
        match self {
            Self::Model(DrafterModel::Neural { note, .. }) => note.clone(),
            Self::Model(DrafterModel::Statistical(_))
            | Self::Head { .. }
            | Self::StandIn { .. } => None,
        }
    }

    fn warnings(&self, name: &str) -> Vec<String> {
        match self {
            Self::Model(model) => model.warnings(name),
            Self::Head { head, .. } => {
                let warnings = head
                    .warnings()
                    .iter()
                    .map(|warning| format!("{name} ({}): {warning}", head.name()));
                warnings.collect()
            }
            Self::StandIn { .. } => Vec::new(),
        }
    }

    fn add(
        &self,
        builder: CascadeBuilder,
        name: &str,
        times: Option<&mut Times>,
        sessions: Sessions<'_>,
    ) -> CascadeBuilder {
        match self {
            Self::Model(model) => model.add(builder, name, times, sessions),
            Self::Head { head, options } => {
                let scorer = timed(Box::new(head.session()), times);
                builder.neural_with(name, scorer, options.clone())
            }
            Self::StandIn { stand_in, options } => {
                let scorer = timed((stand_in.session)(), times);
                builder.neural_with(name, scorer, options.clone())
            }
        }
    }
}

/// Assumed times, and the neural drafters that have theirs.
struct Times {
    assumed: AssumedTimes,
    text: Option<VirtualText>,
    drafters: usize,
}

impl Times {
    fn new(assumed: AssumedTimes, text: Option<VirtualText>) -> Self {
        Self {
            assumed,
            text,
            drafters: 0,
        }
    }

    fn of_target(&self, scorer: Box<dyn Scorer + Send>) -> Box<dyn Scorer + Send> {
        self.of(scorer, 0, self.assumed.target.clone())
    }

    fn of_drafter(&mut self, scorer: Box<dyn Scorer + Send>) -> Box<dyn Scorer + Send> {
        let drafters = &self.assumed.drafters;
        let times = drafters
            .get(self.drafters)
            .or(drafters.last())
            .unwrap_or(&self.assumed.target)
            .clone();
        self.drafters += 1;
        self.of(scorer, self.drafters, times)
    }

    fn of(
        &self,
        scorer: Box<dyn Scorer + Send>,
        level: usize,
        times: RowTimes,
    ) -> Box<dyn Scorer + Send> {
        Box::new(match self.text.clone() {
            None => AssumedTime::new(scorer, self.assumed.clock.clone(), times),
            Some(text) => AssumedTime::sharing(scorer, text, level, times),
        })
    }
}

/// A drafter with its assumed times, if there are any.
fn timed(scorer: Box<dyn Scorer + Send>, times: Option<&mut Times>) -> Box<dyn Scorer + Send> {
    match times {
        None => scorer,
        Some(times) => times.of_drafter(scorer),
    }
}

/// What forwards are assumed to cost before they are measured, and in sampled generations: reading
/// the weights takes time in proportion to the parameters.
fn assumed_costs(parts: &[Part]) -> AssumedCosts {
    let mut costs = AssumedCosts::default();
    let target = parts[0].parameters;
    if target > 0 {
        let drafters = parts[1..].iter().map(|part| part.parameters as f64);
        costs.drafters = drafters.map(|drafter| drafter / target as f64).collect();
    }
    costs
}

impl DrafterModel {
    fn warnings(&self, name: &str) -> Vec<String> {
        let Self::Neural { model, trained, .. } = self else {
            return Vec::new();
        };
        let of_rule = trained.as_ref().and_then(|(_, warning)| warning.clone());
        let mut warnings = model_warnings(name, model);
        warnings.extend(of_rule);
        warnings
    }

    fn part(&self, name: &str) -> Part {
        let (source, role, parameters) = match self {
            Self::Neural { model, .. } => {
                (model.name.clone(), Role::Drafter, model.num_parameters())
            }
            Self::Statistical(factory) => (factory.source(), Role::Statistical, 0),
        };
        Part {
            name: name.to_owned(),
            source,
            role,
            parameters,
        }
    }

    fn add(
        &self,
        builder: CascadeBuilder,
        name: &str,
        times: Option<&mut Times>,
        sessions: Sessions<'_>,
    ) -> CascadeBuilder {
        match self {
            Self::Neural {
                model,
                rule,
                branching,
                vocabulary,
                trained,
                ..
            } => {
                let options = NeuralOptions::new(*rule, branching.clone())
                    .with_vocabulary(vocabulary.clone());
                let scorer = timed(sessions.of(&model.model), times);
                let builder = builder.neural_with(name, scorer, options);
                match trained {
                    Some((rule, _)) => rule.add(builder),
                    None => builder,
                }
            }
            Self::Statistical(factory) => builder.statistical(name, factory.drafter()),
        }
    }
}
