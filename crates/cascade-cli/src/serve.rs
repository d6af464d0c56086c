//! `cascade serve`.

mod log;

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, Result};
use cascade_config::{AssembleOptions, ChatTemplate, Config, DeviceSpec, Notices, Variables};
use cascade_serve::{Faults, Limits, ServeOptions, Served, Server};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use tracing_subscriber::filter::LevelFilter;

use crate::args::{DecodingArgs, ModelArgs, size};
use crate::at_most;
use crate::costs::with_costs;
use crate::exit::ExitCode;
use crate::health;
use crate::models::configuration;
use crate::serve::log::Log;
use crate::templates::Asked;
use crate::terminal;

/// What answers if nothing is named: a model that reads conversations.
const DEFAULT_CONFIG: &str = "embedded:demo-llama";

/// More than any machine has memory, connections or patience for.
const MOST: usize = 1 << 20;

/// Each has a thread of its own.
const MOST_SESSIONS: usize = 4096;

/// Bytes of a file of keys.
const LARGEST_KEY_FILE: u64 = 64 << 10;

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    models: ModelArgs,

    /// Chat template: one of the program's (vicuna), a file (Jinja, or a tokenizer_config.json), or
    /// one of the model's by its name [default: the model's own].
    #[arg(long, value_name = "NAME|FILE")]
    template: Option<String>,

    /// Variables of the chat template, as a JSON object: '{"enable_thinking": false}'. A request's
    /// own `chat_template_kwargs` take precedence.
    #[arg(long, value_name = "JSON")]
    chat_template_kwargs: Option<Variables>,

    #[command(flatten)]
    decoding: DecodingArgs,

    /// Device of all models, overriding the configuration: auto, cpu, cuda:N or metal:N.
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceSpec>,

    #[command(flatten)]
    network: NetworkArgs,

    #[command(flatten)]
    limits: LimitArgs,

    /// Name of the model in requests and answers [default: the last part of its source].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Refuse requests with fields that are not read and with names of other models. Otherwise they
    /// are answered, and told what of them changed nothing.
    #[arg(long)]
    strict: bool,

    /// Serve the API only, without the web page.
    #[arg(long)]
    no_page: bool,

    /// Log format on standard error.
    #[arg(long, value_name = "FORM", default_value = "text")]
    log_format: LogFormat,

    /// Log level: info logs answers and refusals, debug every response.
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = log_level())]
    log_level: LevelFilter,

    /// Also log the texts of prompts and answers, which may be private.
    #[arg(long)]
    log_text: bool,

    /// Serve nothing, but ask the server that listens on --host and --port for its health. Exit
    /// status: 0 if it takes requests, 1 if not.
    #[arg(long)]
    check_health: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Network")]
struct NetworkArgs {
    /// Address to listen on; only with 127.0.0.1 and ::1 can no other machine connect.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: IpAddr,

    /// Port to listen on; 0 lets the system choose one.
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    port: u16,

    /// API key that requests must send as `Authorization: Bearer KEY`; repeat it for several. Other
    /// users of this machine can see arguments, so prefer the environment or a file.
    #[arg(
        long = "api-key",
        value_name = "KEY",
        env = "CASCADE_API_KEY",
        hide_env_values = true
    )]
    api_keys: Vec<String>,

    /// File of API keys, one per line; lines that begin with # are comments.
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,

    /// Allow requests of other machines without an API key.
    #[arg(long)]
    public: bool,

    /// Host name to accept besides those of this machine, as a reverse proxy forwards it; repeat it
    /// for several.
    #[arg(long = "allowed-host", value_name = "NAME")]
    allowed_hosts: Vec<String>,

    /// Origin that CORS allows, such as https://app.example, or `*` for all; repeat it for several.
    #[arg(long = "cors-origin", value_name = "ORIGIN")]
    cors_origins: Vec<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
struct LimitArgs {
    /// Maximum number of concurrent answers, each with its own caches on the shared weights; on a
    /// CPU they share forwards [default: 16; on a GPU as many as memory holds at --max-context, 4
    /// to 8].
    #[arg(long, value_name = "N", value_parser = at_most(MOST_SESSIONS))]
    sessions: Option<usize>,

    /// Memory for the keys and values of all answers on a CPU, such as 2GiB; an answer begins when
    /// what it may need is free [default: nine tenths of the free memory].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    cache_memory: Option<u64>,

    /// Maximum number of requests in the queue; further ones are refused with status 429.
    #[arg(long, value_name = "N", default_value_t = Limits::default().queue)]
    queue: usize,

    /// Number of worker threads on a GPU, where answers take turns; more than 1 helps if a step
    /// does not use all of it. On a CPU each answer has a thread of its own.
    #[arg(long, value_name = "N", default_value_t = Limits::default().workers, value_parser = at_most(1024))]
    workers: usize,

    /// Maximum number of tokens of a prompt and its answer together; the model may allow fewer.
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_context, value_parser = at_most(usize::MAX))]
    max_context: usize,

    /// Time limit of an answer in seconds, waiting included.
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = at_most(MOST))]
    timeout: usize,

    /// Time in seconds that answers have to end after SIGTERM or Ctrl-C.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    grace: usize,

    /// Maximum number of open connections.
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections, value_parser = at_most(MOST))]
    max_connections: usize,

    /// Maximum size of a request in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().body, value_parser = at_most(1 << 30))]
    max_body: usize,

    /// Maximum number of unread bytes of an answer; beyond them it is cancelled.
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().unread, value_parser = at_most(1 << 30))]
    max_unread: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// A line of text per event.
    Text,
    /// One JSON object per line.
    Json,
}

pub(crate) fn run(args: &ServeArgs) -> Result<ExitCode> {
    if args.check_health {
        return health::check(args.network.address());
    }
    let mut options = args.network.options()?;
    let (log, _ending) = Log::begin(io::stderr(), &options.lost_log_lines)?;
    log_to(log, args);
    options.limits = args.limits.limits();
    options.name.clone_from(&args.name);
    options.strict = args.strict;
    options.page = !args.no_page;
    options.log_text = args.log_text;
    options.faults = faults();
    // Refused before anything is loaded.
    options.check()?;
    let decoding = Some(&args.decoding);
    let config = configuration(&args.models, decoding, args.device, DEFAULT_CONFIG)?;
    let template = template(args, &config)?;
    let notices = Notices::new(|notice| tracing::warn!("{notice}"));
    let assembly = AssembleOptions::default().with_notices(notices);
    let assembly = with_costs(assembly.with_device(args.device), &args.models)?;
    let pool = config.pool(&assembly);
    let served = Served::new(config, pool, template)?;
    if args.limits.sessions.is_none() {
        options.limits.sessions = served.default_sessions(options.limits.max_context)?;
    }
    if options.limits.cache_memory.is_none() {
        options.limits.cache_memory = served.default_cache_memory();
    }
    say(&served, &options)?;
    let server = Server::bind(served, options)?;
    // For scripts that start it on port 0: where it listens is all of the output.
    let mut out = terminal::stdout();
    writeln!(out, "listening on http://{}", server.address())?;
    out.flush()?;
    log::log_panics();
    server.run()?;
    Ok(ExitCode::SUCCESS)
}

/// In a build with debug checks, for tests: with `CASCADE_FAULTS=N` every N-th stage of an answer
/// panics.
fn faults() -> Faults {
    let every = cfg!(debug_assertions).then(|| std::env::var("CASCADE_FAULTS").ok());
    let every = every.flatten().and_then(|every| every.parse().ok());
    let Some(every) = every.filter(|&every: &u64| every > 0) else {
        return Faults::default();
    };
    let stages = AtomicU64::new(0);
    Faults::new(move |stage| {
        let number = stages.fetch_add(1, Relaxed) + 1;
        assert!(
            !number.is_multiple_of(every),
            "a fault for tests: {stage:?}"
        );
    })
}

/// Logs what should be known of the models.
fn say(served: &Served, options: &ServeOptions) -> Result<()> {
    for note in served.notes() {
        tracing::info!("{note}");
    }
    tracing::info!(
        sessions = options.limits.sessions,
        share_forwards = served.shares_forwards(),
        sampling = %served.sampling(),
        "answers at once"
    );
    let of_limits = served.limit_warnings(&options.limits)?;
    for warning in served.warnings().iter().chain(&of_limits) {
        tracing::warn!("{warning}");
    }
    Ok(())
}

/// The template of conversations, if the model has one; one that was asked for must be there.
fn template(args: &ServeArgs, config: &Config) -> Result<Option<ChatTemplate>> {
    let asked = Asked {
        config,
        template: args.template.as_deref(),
        chat: false,
        system: None,
        variables: args.chat_template_kwargs.as_ref(),
    };
    if args.template.is_none() && !asked.has_conversations()? {
        tracing::warn!(
            "{} comes with no chat template: /v1/chat/completions is refused; choose one with --template",
            config.target.name
        );
        return Ok(None);
    }
    Ok(Some(asked.conversation()?.template))
}

impl NetworkArgs {
    fn address(&self) -> SocketAddr {
        SocketAddr::new(self.host, self.port)
    }

    fn options(&self) -> Result<ServeOptions> {
        let mut options = ServeOptions::default();
        options.address = self.address();
        options.api_keys.clone_from(&self.api_keys);
        if let Some(file) = &self.api_key_file {
            options.api_keys.extend(keys(file)?);
        }
        options.public = self.public;
        options.allowed_hosts.clone_from(&self.allowed_hosts);
        options.cors_origins.clone_from(&self.cors_origins);
        Ok(options)
    }
}

fn keys(file: &Path) -> Result<Vec<String>> {
    let text = cascade_core::fs::read_text(file, LARGEST_KEY_FILE)
        .with_context(|| format!("--api-key-file: {} cannot be read", file.display()))?;
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let keys: Vec<String> = lines.map(str::to_owned).collect();
    anyhow::ensure!(
        !keys.is_empty(),
        "--api-key-file: {} has no key; write one per line",
        file.display()
    );
    Ok(keys)
}

impl LimitArgs {
    fn limits(&self) -> Limits {
        let seconds = |seconds: usize| Duration::from_secs(seconds as u64);
        let mut limits = Limits::default();
        limits.sessions = self.sessions.unwrap_or(limits.sessions);
        let bytes = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
        limits.cache_memory = self.cache_memory.map(bytes);
        limits.queue = self.queue;
        limits.workers = self.workers;
        limits.max_context = self.max_context;
        limits.answer_time = seconds(self.timeout);
        limits.grace = seconds(self.grace);
        limits.connections = self.max_connections;
        limits.body = self.max_body;
        limits.unread = self.max_unread;
        limits
    }
}

fn log_level() -> impl TypedValueParser<Value = LevelFilter> {
    let names = PossibleValuesParser::new(["error", "warn", "info", "debug", "off"]);
    names.try_map(|name| name.parse::<LevelFilter>())
}

fn log_to(log: Log, args: &ServeArgs) {
    let builder = tracing_subscriber::fmt()
        .with_max_level(args.log_level)
        .with_writer(move || log.clone())
        .with_ansi(false)
        .with_target(false);
    match args.log_format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_keys_have_comments_and_blank_lines() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys");
        std::fs::write(&file, "# Ann\n  first \n\n\t# Bob, until May\nsec#ond\r\n").unwrap();
        assert_eq!(keys(&file).unwrap(), ["first", "sec#ond"]);
        std::fs::write(&file, "# nobody\n\n").unwrap();
        let error = keys(&file).unwrap_err().to_string();
        assert!(error.contains("has no key"), "{error}");
    }
}
