//! What both kinds of requests have in common.

use cascade_config::SamplingSettings;
use cascade_core::{InvalidSampling, StatedSampling, TokenId};
use cascade_engine::{Ends, Options, StopSequences};
use serde_json::Value;

use super::App;
use crate::error::ApiResult;
use crate::fields::Fields;
use crate::speculation::Speculation;

/// Alternatives of a prompt at most, as OpenAI has it.
const MOST_CHOICES: usize = 128;
/// Stop sequences at most; each costs time for each character.
const MOST_STOPS: usize = 64;
/// Bytes of all of them.
const STOP_BYTES: usize = 64 << 10;

/// How a request is answered.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The seed is that of the first choice.
    pub(crate) options: Options,
    /// Tokens of an answer at most, if the request says.
    pub(crate) max_tokens: Option<usize>,
    pub(crate) choices: usize,
    pub(crate) stream: Option<StreamOptions>,
    pub(crate) speculation: Speculation,
    /// What distinguishes clients that share a key.
    pub(crate) salt: Option<String>,
    /// Whether the ids of tokens are wanted, of the prompt and of the answer.
    pub(crate) token_ids: bool,
}

/// What a stream holds beside the text.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StreamOptions {
    pub(crate) include_usage: bool,
    /// Whether each chunk has the number of tokens so far.
    pub(crate) continuous_usage: bool,
    /// Our own: each step's pieces by their models, and the draft that was verified.
    pub(crate) include_drafts: bool,
}

impl Asked {
    /// Reads everything but the prompt and the log probabilities.
    pub(crate) fn read(app: &App, fields: &mut Fields, chat: bool) -> ApiResult<Self> {
        app.read_model(fields)?;
        let config = &app.served.config;
        let nodes = app.served.nodes_with_k;
        let speculation = Speculation::read(fields, (config, nodes), chat)?;
        let stream = read_stream(fields)?;
        let sampling = read_sampling(fields, config.generation.sampling)?;
        let options = config
            .generation
            .options()
            .with_decoding(sampling.decoding())
            .with_penalties(sampling.penalties())
            .with_speculation(speculation.enabled)
            .with_drafts_reported(stream.is_some_and(|stream| stream.include_drafts));
        let mut asked = Self {
            max_tokens: read_length(fields, chat)?,
            choices: fields.count("n", 1, MOST_CHOICES)?.unwrap_or(1),
            stream,
            speculation,
            salt: read_salt(fields)?,
            token_ids: fields.boolean("return_token_ids")?.unwrap_or(false),
            options,
        };
        if let Some(stop) = fields.take("stop") {
            asked.options.stop = read_stop(fields, stop)?;
        }
        asked.options.ends = read_ends(app, fields)?;
        asked.options.seed = match fields.seed("seed")? {
            Some(Some(seed)) => seed,
            // Samples are to differ; answers say which seed they had.
            None if asked.options.decoding.is_greedy() => asked.options.seed,
            None | Some(None) => random_seed(),
        };
        Ok(asked)
    }
}

/// One that every reader of JSON keeps, so that it can be sent back.
fn random_seed() -> u64 {
    u64::from(rand::random::<u32>())
}

fn read_salt(fields: &mut Fields) -> ApiResult<Option<String>> {
    let salt = fields.string("cache_salt")?;
    match salt.as_deref() {
        Some("") => Err(fields.wrong("cache_salt", "it is empty; give a text that nobody guesses")),
        _ => Ok(salt),
    }
}

fn read_stream(fields: &mut Fields) -> ApiResult<Option<StreamOptions>> {
    let stream = fields.boolean("stream")?.unwrap_or(false);
    let mut options = StreamOptions::default();
    if let Some(mut own) = fields.object("stream_options")? {
        if !stream && fields.is_strict() {
            return Err(fields.wrong(
                "stream_options",
                "it is for streams; also give `stream`: true",
            ));
        }
        options.include_usage = own.boolean("include_usage")?.unwrap_or(false);
        options.continuous_usage = own.boolean("continuous_usage_stats")?.unwrap_or(false);
        options.include_drafts = own.boolean("include_drafts")?.unwrap_or(false);
        // Padding against those who measure the lengths of encrypted chunks: here are no others.
        if own.boolean("include_obfuscation")? == Some(true) {
            own.ignore("include_obfuscation");
        }
        fields.finish_object(own)?;
    }
    Ok(stream.then_some(options))
}

/// `max_completion_tokens`, or `max_tokens` as it was called, or `n_predict` as llama.cpp has it.
/// An answer of no tokens is a prompt that is scored; a conversation has none, and means a length
/// that is not set.
fn read_length(fields: &mut Fields, chat: bool) -> ApiResult<Option<usize>> {
    let least = usize::from(chat && fields.is_strict());
    let mut length: Option<(&str, usize)> = None;
    for name in ["max_completion_tokens", "max_tokens", "n_predict"] {
        let own = fields.length(name, least)?.filter(|&own| own > 0 || !chat);
        if let (Some((first, length)), Some(own)) = (length, own)
            && own != length
        {
            let problem = format!("it is {own}, and `{first}` is {length}; give one of them");
            return Err(fields.wrong(name, problem));
        }
        length = length.or(own.map(|own| (name, own)));
    }
    Ok(length.map(|(_, length)| length))
}

/// Which tokens end the answer.
fn read_ends(app: &App, fields: &mut Fields) -> ApiResult<Ends> {
    let tokens = fields.counts("stop_token_ids", 0, u32::MAX as usize)?;
    let tokens: Vec<TokenId> = tokens
        .into_iter()
        .flatten()
        .map(|id| id as TokenId)
        .collect();
    let checked = app.served.check_tokens(&tokens);
    checked.map_err(|problem| fields.wrong("stop_token_ids", problem))?;
    let ends = Ends::at(tokens)
        .with_eos(!fields.boolean("ignore_eos")?.unwrap_or(false))
        .after(fields.count("min_tokens", 0, usize::MAX)?.unwrap_or(0));
    Ok(ends)
}

fn read_sampling(fields: &mut Fields, default: SamplingSettings) -> ApiResult<SamplingSettings> {
    let single = |value: Option<f64>| value.map(|value| value as f32);
    let mut temperature = single(fields.number("temperature")?);
    let mut top_p = single(fields.number("top_p")?);
    if top_p == Some(0.0) && !fields.is_strict() {
        // Of the most probable tokens only the first is left, as at temperature 0.
        (temperature, top_p) = (Some(0.0), None);
    }
    let min_p = single(fields.number("min_p")?);
    let repetition_penalty = single(read_repetition(fields)?);
    let presence_penalty = single(fields.number("presence_penalty")?);
    let frequency_penalty = single(fields.number("frequency_penalty")?);
    let mut default = default.stated();
    let top_k = match fields.integer("top_k")? {
        None => None,
        // All tokens, as other servers write it.
        Some(-1 | 0) => {
            default.top_k = None;
            None
        }
        Some(k) => Some(usize::try_from(k).map_err(|_| {
            fields.wrong(
                "top_k",
                format!("it is {k}; give 1 or more, or 0 for all tokens"),
            )
        })?),
    };
    let own = StatedSampling {
        temperature,
        top_k,
        top_p,
        min_p,
        repetition_penalty,
        presence_penalty,
        frequency_penalty,
    };
    let sampling = SamplingSettings::try_from(own.or(default));
    sampling.map_err(|error| fields.wrong(field_of(&error), error.to_string()))
}

/// `repetition_penalty`, or `repeat_penalty` as llama.cpp has it.
fn read_repetition(fields: &mut Fields) -> ApiResult<Option<f64>> {
    let own = fields.number("repetition_penalty")?;
    let other = fields.number("repeat_penalty")?;
    let tokens = fields.number("repeat_last_n")?;
    match (own, other) {
        (Some(own), Some(other)) if own != other => Err(fields.wrong(
            "repeat_penalty",
            format!("it is {other}, and `repetition_penalty` is {own}; give one of them"),
        )),
        (own, other) => {
            let penalty = own.or(other);
            if tokens.is_some_and(|tokens| tokens >= 0.0) && penalty.unwrap_or(1.0) != 1.0 {
                fields.warn(
                    "`repeat_last_n` changed nothing: the penalty is for tokens of the whole text",
                );
            }
            Ok(penalty)
        }
    }
}

/// The field that is at fault.
fn field_of(error: &InvalidSampling) -> &'static str {
    match error {
        InvalidSampling::Temperature(_) => "temperature",
        InvalidSampling::TopK => "top_k",
        InvalidSampling::TopP(_) => "top_p",
        InvalidSampling::MinP(_) => "min_p",
        InvalidSampling::RepetitionPenalty(_) => "repetition_penalty",
        InvalidSampling::PresencePenalty(_) => "presence_penalty",
        InvalidSampling::FrequencyPenalty(_) => "frequency_penalty",
    }
}

fn read_stop(fields: &Fields, stop: Value) -> ApiResult<Option<StopSequences>> {
    let wrong = |problem: String| fields.wrong("stop", problem);
    let list = match stop {
        Value::String(text) => vec![text],
        Value::Array(list) => {
            let texts = list.into_iter().map(|text| match text {
                Value::String(text) => Ok(text),
                _ => Err(wrong("give a text, or a list of texts".to_owned())),
            });
            texts.collect::<ApiResult<_>>()?
        }
        _ => return Err(wrong("give a text, or a list of texts".to_owned())),
    };
    let bytes: usize = list.iter().map(String::len).sum();
    if list.len() > MOST_STOPS || bytes > STOP_BYTES {
        return Err(wrong(format!(
            "there are {} texts of {bytes} bytes; give {MOST_STOPS} of {STOP_BYTES} bytes at most",
            list.len()
        )));
    }
    if list.is_empty() {
        return Ok(None);
    }
    let stops = StopSequences::new(list).map_err(|error| wrong(error.to_string()))?;
    Ok(Some(stops))
}
