//! What is served: a configuration, its models, and how they are asked.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cascade_config::{
    Assembly, CacheUse, ChatTemplate, Config, DeviceSpec, LevelInfo, Message, ModelPool, Role,
    SamplingSettings, Truncate, Variables,
};
use cascade_core::{Architecture, Prompt, TextCodec, TokenId};
use cascade_engine::{Cascade, Options};
use cascade_models::{Batcher, Participant, Tokenizer};
use serde_json::{Value, json};

use crate::error::{ApiError, ApiResult};
use crate::metrics::Forwards;
use crate::prompt_length::{self, PromptRoom};
use crate::reading::Waiting;
use crate::session_pool::IdleSession;
use crate::speculation::SpeculationSettings;
use crate::{Error, Limits, Result};

/// Tokens of the warm-up.
const WARM_UP: usize = 8;
/// Tokens and time at most that plain decoding is timed with.
const TIMED: usize = 32;
const TIMING: Duration = Duration::from_secs(3);

/// Answers at once if nobody says how many: where they share forwards, and at most and at least
/// where they take turns.
const SHARING: usize = 16;
const IN_TURNS: usize = 8;
const AT_LEAST: usize = 4;

/// Contexts that a text may fill that is only counted, or that is shortened to fit.
const CONTEXTS: usize = 4;

/// A conversation as the model reads it.
pub(crate) struct Conversation {
    pub(crate) prompt: Prompt,
    pub(crate) text: String,
    /// Whether the answer goes on with the last message.
    pub(crate) continues: bool,
    /// What the client should know of it.
    pub(crate) warnings: Vec<String>,
}

/// A model that is served: weights and tables are loaded once, and sessions are made of them.
pub struct Served {
    pub(crate) config: Config,
    pool: ModelPool,
    template: Option<ChatTemplate>,
    codec: Arc<dyn TextCodec>,
    pub(crate) tokenizer: Tokenizer,
    architecture: Architecture,
    positions: Option<usize>,
    vocab_size: usize,
    /// Nodes of a draft at most, if a request has a K matrix and the configuration none.
    pub(crate) nodes_with_k: usize,
    /// Bytes of the longest token.
    longest_token: usize,
    pub(crate) levels: Vec<LevelInfo>,
    created: u64,
    batcher: Batcher,
    /// The forwards of all answers, as they are counted.
    pub(crate) forwards: Forwards,
    /// The memory of keys and values.
    pub(crate) caches: CacheUse,
    /// Whether sessions compute together; otherwise they take turns.
    shares_forwards: bool,
    first: std::sync::Mutex<Option<(Cascade, Participant)>>,
    plain_speed: f64,
    warnings: Vec<String>,
    notes: Vec<String>,
}

impl Served {
    /// Loads the models of a configuration, which the sampling completes that the target
    /// recommends. Without a template there are no chats. A few tokens are
    /// generated, to warm up and to time plain decoding.
    ///
    /// # Errors
    /// What the pool fails with; models that cannot generate.
    pub fn new(
        mut config: Config,
        pool: ModelPool,
        template: Option<ChatTemplate>,
    ) -> Result<Self> {
        let forwards = Forwards::new();
        let batcher = forwards.batcher();
        let participant = batcher.join();
        let assembled = pool.assemble(Assembly::of(&config).sharing(&participant))?;
        let target = pool.target(&config)?;
        let sampling = config.generation.sampling.completed_by(target.recommended);
        config.generation.sampling = sampling.map_err(cascade_config::Error::from)?;
        let mut cascade = assembled.cascade;
        let codec = Arc::clone(cascade.codec().ok_or(cascade_engine::Error::NoCodec)?);
        let plain_speed = warm_up(&mut cascade)?;
        forwards.begin(&target.model);
        let caches = pool.cache_use(&config)?;
        Ok(Self {
            codec,
            tokenizer: target.tokenizer.clone(),
            longest_token: prompt_length::longest_token(&target.tokenizer),
            architecture: target.info().architecture,
            positions: target.model.info().max_context,
            vocab_size: target.model.info().vocab_size,
            nodes_with_k: config.nodes_with_k(device(&config, target.model.gathers())),
            levels: assembled.levels,
            created: crate::unix_seconds(),
            batcher,
            forwards,
            caches,
            shares_forwards: target.model.gathers(),
            first: std::sync::Mutex::new(Some((cascade, participant))),
            plain_speed,
            warnings: assembled.warnings,
            notes: assembled.notes,
            template,
            config,
            pool,
        })
    }

    /// Has sessions take turns of one step, as they do on a GPU, in place of sharing forwards: to
    /// compare the two.
    pub fn taking_turns(self) -> Self {
        Self {
            shares_forwards: false,
            ..self
        }
    }

    /// Whether the answers that are generated at a time share forwards; otherwise they take turns.
    pub fn shares_forwards(&self) -> bool {
        self.shares_forwards
    }

    /// Settings that are valid but probably unintended, in sentences.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What was decided in the user's place, in sentences.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// How tokens are chosen unless a request says otherwise.
    pub fn sampling(&self) -> SamplingSettings {
        self.config.generation.sampling
    }

    /// What the target is called in reports.
    pub fn name(&self) -> &str {
        &self.config.target.name
    }

    /// Answers at once for a machine: 16 where they share forwards, and wait for memory that is not
    /// there; where they take turns, as many as there is memory for if each takes `max_context`
    /// tokens, from 4 to 8.
    ///
    /// # Errors
    /// Configurations of models that cannot be read.
    pub fn default_sessions(&self, max_context: usize) -> Result<usize> {
        if self.shares_forwards {
            return Ok(SHARING);
        }
        let tokens = self.max_context(max_context);
        let fit = self.pool.sessions_that_fit(&self.config, tokens)?;
        Ok(fit.unwrap_or(IN_TURNS).clamp(AT_LEAST, IN_TURNS))
    }

    /// Memory for the keys and values of all sessions, for a machine: nine tenths of what could be
    /// had when the models were loaded, on a CPU; `None` where that is not known.
    pub fn default_cache_memory(&self) -> Option<usize> {
        let free = self
            .caches
            .free
            .as_ref()
            .filter(|_| self.caches.is_counted())?;
        Some(free.bytes / 10 * 9)
    }

    /// Refuses limits that these models have no use for.
    ///
    /// # Errors
    /// [`Error::Option`].
    pub(crate) fn check(&self, limits: &Limits) -> Result<()> {
        match limits.cache_memory {
            Some(_) if !self.caches.is_counted() => Err(Error::Option {
                option: "--cache-memory",
                problem: "keys and values are counted on the CPU alone; lower --sessions or --max-context instead".into(),
            }),
            _ => Ok(()),
        }
    }

    /// What should be said of limits that these models do not fit: in sentences.
    ///
    /// # Errors
    /// Configurations of models that cannot be read.
    pub fn limit_warnings(&self, limits: &Limits) -> Result<Vec<String>> {
        let workers = (self.shares_forwards && limits.workers > 1).then(|| {
            "--workers changes nothing on a CPU: each answer has a thread of its own, and they share forwards"
                .to_owned()
        });
        let memory = self.memory_warning(limits)?;
        Ok(workers.into_iter().chain(memory).collect())
    }

    fn memory_warning(&self, limits: &Limits) -> Result<Option<String>> {
        let tokens = self.max_context(limits.max_context);
        let sessions = limits.sessions;
        if let Some(memory) = limits.cache_memory {
            return Ok(self.pool_warning(memory, tokens));
        }
        let problem = self.pool.check_caches(&self.config, sessions, tokens)?;
        Ok(problem.map(|problem| {
            format!("{problem}: {sessions} sessions of {tokens} tokens; lower --sessions or --max-context")
        }))
    }

    /// What should be said of a limit of the memory for keys and values.
    fn pool_warning(&self, memory: usize, tokens: usize) -> Option<String> {
        let gb = |bytes: usize| bytes as f64 / 1e9;
        if let Some(free) = self.caches.free.as_ref().filter(|free| memory > free.bytes) {
            return Some(format!(
                "--cache-memory is {:.1} GB, and {free}; lower it",
                gb(memory)
            ));
        }
        let longest = if self.has_encoder() {
            Prompt::new(self.architecture, vec![0; tokens])
        } else {
            Prompt::default()
        };
        let needed = self.caches.needed(&longest, tokens, self.config.max_nodes);
        (needed > memory).then(|| {
            format!(
                "keys and values of {tokens} tokens take {:.1} GB, and there are {:.1} GB for those of all answers: \
                 what may need more is refused; raise --cache-memory, or lower --max-context",
                gb(needed),
                gb(memory)
            )
        })
    }

    /// Tokens of a prompt and its answer at most.
    pub(crate) fn max_context(&self, limit: usize) -> usize {
        self.positions.unwrap_or(usize::MAX).min(limit)
    }

    /// The cascade of the warm-up, for the first request.
    pub(crate) fn first(&self) -> Option<IdleSession> {
        let (cascade, participant) = crate::lock(&self.first).take()?;
        Some(IdleSession {
            cascade,
            participant,
            settings: SpeculationSettings::of(&self.config, false),
            owner: None,
            source: Vec::new(),
            context: Vec::new(),
            since: Instant::now(),
        })
    }

    /// A cascade with sessions of its own, and the participant that they take part through.
    pub(crate) fn cascade(&self, settings: &SpeculationSettings) -> Result<(Cascade, Participant)> {
        let config = settings.apply(&self.config)?;
        let template = self.template.as_ref().filter(|_| settings.chat);
        let participant = self.batcher.join();
        let assembly = Assembly::of(&config).chat(template).sharing(&participant);
        let cascade = self.pool.assemble(assembly)?.cascade;
        Ok((cascade, participant))
    }

    /// Forwards of all answers that panicked.
    pub(crate) fn forward_panics(&self) -> u64 {
        self.batcher.counts().panics
    }

    /// Whether prompts are read by an encoder.
    pub(crate) fn has_encoder(&self) -> bool {
        self.architecture == Architecture::EncoderDecoder
    }

    /// How long prompts may be where so many tokens fit.
    pub(crate) fn prompt_room(&self, limit: usize) -> PromptRoom {
        let context = self.max_context(limit);
        let limit = self.config.generation.prompt_limit;
        let shortened = limit.is_some_and(|limit| limit.truncate != Truncate::Refuse);
        PromptRoom {
            context,
            most: context.saturating_mul(if shortened { CONTEXTS } else { 1 }),
        }
    }

    /// How long texts may be that are only counted.
    pub(crate) fn counted_room(&self, limit: usize) -> PromptRoom {
        let context = self.max_context(limit);
        PromptRoom {
            context,
            most: context.saturating_mul(CONTEXTS),
        }
    }

    /// The tokens of a text, as `cascade run` encodes a prompt. `special` tokens are put around it
    /// if the model wants any. Texts that are much longer than there is room for are refused.
    pub(crate) fn encode(
        &self,
        text: &str,
        special: bool,
        room: PromptRoom,
        waiting: &Waiting,
    ) -> ApiResult<Vec<TokenId>> {
        prompt_length::check(&self.tokenizer, self.longest_token, text, room, waiting)?;
        let tokens = if special {
            self.codec.encode(text)
        } else {
            self.codec.encode_verbatim(text)
        };
        tokens.map_err(|error| ApiError::field("prompt", error.to_string()))
    }

    /// The tokens of a prompt, which must have any text.
    pub(crate) fn prompt(
        &self,
        text: &str,
        room: PromptRoom,
        waiting: &Waiting,
    ) -> ApiResult<Prompt> {
        if text.trim().is_empty() {
            Err(ApiError::field("prompt", "it is empty; give a text"))
        } else {
            Ok(self.prompt_of(self.encode(text, true, room, waiting)?))
        }
    }

    /// A prompt of tokens.
    pub(crate) fn prompt_of(&self, tokens: Vec<TokenId>) -> Prompt {
        Prompt::new(self.architecture, tokens)
    }

    /// Refuses tokens that the model does not have.
    pub(crate) fn check_tokens(&self, tokens: &[TokenId]) -> std::result::Result<(), String> {
        let outside = |&&token: &&TokenId| token as usize >= self.vocab_size;
        match tokens.iter().find(outside) {
            Some(token) => Err(format!(
                "token {token} is outside the vocabulary of {}",
                self.vocab_size
            )),
            None => Ok(()),
        }
    }

    /// The prompt in which messages ask for an answer, be the last one the user's or the system's,
    /// or in which the model goes on with the last one, if that is the assistant's. `variables` are
    /// the request's own.
    pub(crate) fn conversation(
        &self,
        messages: &[Message],
        variables: Variables,
        room: PromptRoom,
        waiting: &Waiting,
    ) -> ApiResult<Conversation> {
        let wrong =
            |error: cascade_config::ChatError| ApiError::field("messages", error.to_string());
        let template = self.template_with(variables)?;
        let last = messages.last().map(Message::role);
        let continues = last == Some(Role::Assistant);
        let text = match last {
            Some(Role::Assistant) => template.render_begun(messages).map_err(wrong)?,
            Some(Role::System) => template.render(messages).map_err(wrong)?,
            _ => {
                Message::check_conversation(messages).map_err(wrong)?;
                template.render(messages).map_err(wrong)?
            }
        };
        if text.trim().is_empty() {
            return Err(ApiError::field(
                "messages",
                "the template makes nothing of them",
            ));
        }
        let special = !template.holds_special_tokens();
        let tokens = self.encode(&text, special, room, waiting)?;
        Ok(Conversation {
            prompt: self.prompt_of(tokens),
            continues,
            warnings: template.warnings(messages, &text),
            text,
        })
    }

    /// The template, with a request's own variables.
    fn template_with(&self, variables: Variables) -> ApiResult<Cow<'_, ChatTemplate>> {
        let template = self.template.as_ref().ok_or_else(|| {
            ApiError::invalid(
                "this model has no chat template, so it cannot be asked in messages; use /v1/completions, or start \
                 the server with --template vicuna or --template FILE.jinja",
            )
        })?;
        Ok(if variables.is_empty() {
            Cow::Borrowed(template)
        } else {
            let variables = template.variables().overridden_by(variables);
            Cow::Owned(template.clone().with_variables(variables))
        })
    }

    /// The entry of `/v1/models`.
    pub(crate) fn entry(&self, id: &str, max_context: usize) -> Value {
        let levels = self
            .levels
            .iter()
            .map(|level| json!({"name": level.name, "role": level.role.as_str()}));
        let own = self.sampling().stated();
        json!({
            "id": id,
            "object": "model",
            "created": self.created,
            "owned_by": "cascade",
            "max_model_len": max_context,
            "cascade": {
                "levels": levels.collect::<Vec<_>>(),
                "schedule": self.config.schedule().name(),
                "k": self.config.k().map(|k| k.rows()),
                "lenience": self.config.lenience.get(),
                "chat": self.template.is_some(),
                "max_tokens": self.config.generation.max_new_tokens,
                "temperature": decimal(Some(self.sampling().temperature())),
                "sampling": self.sampling().to_string(),
                "defaults": {
                    "top_p": decimal(own.top_p),
                    "repetition_penalty": decimal(own.repetition_penalty),
                    "presence_penalty": decimal(own.presence_penalty),
                    "frequency_penalty": decimal(own.frequency_penalty),
                },
                "plain_tokens_per_second": self.plain_speed,
            },
        })
    }
}

/// A number as it was written: 0.6, and not the f32 next to it.
fn decimal(number: Option<f32>) -> Option<f64> {
    number?.to_string().parse().ok()
}

/// Where the target computes, which gathers calls if that is the CPU.
fn device(config: &Config, gathers: bool) -> DeviceSpec {
    match config.target.device.unwrap_or(config.device) {
        _ if gathers => DeviceSpec::Cpu,
        DeviceSpec::Auto => DeviceSpec::Cuda(0),
        named => named,
    }
}

/// Generates a few tokens, and returns the tokens per second of plain decoding.
fn warm_up(cascade: &mut Cascade) -> Result<f64> {
    let options = Options::default();
    cascade.generate("Hello", &options.clone().with_max_new_tokens(WARM_UP))?;
    let options = options.with_max_new_tokens(TIMED).with_speculation(false);
    let mut generation = cascade.start("Hello", &options)?;
    // The first step reads the prompt.
    generation.step()?;
    let begun = Instant::now();
    let mut tokens = 0;
    while begun.elapsed() < TIMING {
        match generation.step()? {
            Some(step) => tokens += step.tokens.len(),
            None => break,
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    Ok(if tokens == 0 {
        0.0
    } else {
        tokens as f64 / seconds
    })
}
