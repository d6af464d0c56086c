//! The interface: OpenAI's, and what else there is to ask.

mod chat;
mod completions;
mod generate;
mod logprobs;
mod neutral;
mod request;
mod stream;
mod tokens;
mod usage;

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{MatchedPath, Path, Request, State};
use axum::http::{HeaderValue, Method, Response, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get, post};
use serde_json::{Value, json};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{self, AllowHeaders, CorsLayer};

use crate::answer::Failure;
use crate::body::Bodies;
use crate::budget::Budget;
use crate::error::{ApiError, ApiResult, json_response};
use crate::faults::{Faults, Stage};
use crate::fields::Fields;
use crate::guard::{Guard, guard};
use crate::metrics::Metrics;
use crate::prompt_length::PromptRoom;
use crate::reading::{Reading, Waiting};
use crate::scheduler::Scheduler;
use crate::served::Served;
use crate::token_text::TokenTexts;
use crate::{Limits, ServeOptions, page};

/// What handlers share.
pub(crate) struct App {
    served: Arc<Served>,
    scheduler: Arc<Scheduler>,
    metrics: Arc<Metrics>,
    /// What the model is called.
    name: String,
    texts: TokenTexts,
    bodies: Bodies,
    reading: Reading,
    /// Memory of responses that are collected.
    responses: Budget,
    limits: Limits,
    log_text: bool,
    lost_log_lines: Arc<AtomicU64>,
    faults: Faults,
    /// Whether fields that are not read are refused.
    strict: bool,
    /// Warnings that were logged.
    said: Mutex<BTreeSet<String>>,
}

/// Warnings that are logged at most, and their bytes: names in them are the clients' own.
const MOST_SAID: usize = 256;
const LONGEST_SAID: usize = 1000;

impl App {
    /// Reads a request.
    async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        request: Request,
        read: Read<T>,
    ) -> ApiResult<T> {
        let body = self.bodies.read(request).await?;
        let bytes = body.len();
        let app = Arc::clone(self);
        let work = move |waiting: &Waiting| {
            let read = || {
                app.faults.at(Stage::Reading);
                let (fields, _held) = body.parse(app.strict)?;
                read(&app, fields, waiting)
            };
            let done = app.metrics.guarded(read);
            done.unwrap_or_else(|| Err(Failure::Lost.into()))
        };
        self.reading.aside(bytes, work).await
    }

    pub(crate) fn new(
        served: Arc<Served>,
        scheduler: Arc<Scheduler>,
        metrics: Arc<Metrics>,
        name: String,
        options: &ServeOptions,
    ) -> Arc<Self> {
        Arc::new(Self {
            texts: TokenTexts::new(&served.tokenizer),
            bodies: Bodies::new(&options.limits),
            reading: Reading::new(),
            responses: Budget::new(options.limits.responses),
            limits: options.limits.clone(),
            log_text: options.log_text,
            lost_log_lines: Arc::clone(&options.lost_log_lines),
            faults: options.faults.clone(),
            strict: options.strict,
            said: Mutex::default(),
            served,
            scheduler,
            metrics,
            name,
        })
    }

    fn max_context(&self) -> usize {
        self.served.max_context(self.limits.max_context)
    }

    /// How long prompts may be.
    fn prompt_room(&self) -> PromptRoom {
        self.served.prompt_room(self.limits.max_context)
    }
}

/// Generates what is asked for by a request that `read` understands.
fn answer(read: Read<generate::Asking>) -> MethodRouter<Arc<App>> {
    post(move |State(app), request| generate::answer(app, request, read))
}

/// Answers a request by what its fields are turned to.
fn aside(read: Read<Value>) -> MethodRouter<Arc<App>> {
    post(move |State(app): State<Arc<App>>, request| async move {
        let value = app.read(request, read).await?;
        Ok::<_, ApiError>(json_response(StatusCode::OK, &value))
    })
}

/// What a request's fields are turned to, on a thread for work that takes long.
type Read<T> = fn(&App, Fields, &Waiting) -> ApiResult<T>;

/// All paths.
pub(crate) fn router(app: Arc<App>, options: &ServeOptions) -> Router {
    let paths = [
        ("/v1/completions", answer(completions::read)),
        ("/v1/chat/completions", answer(chat::read)),
        ("/v1/models", get(models)),
        ("/tokenize", aside(tokens::tokens_of)),
        ("/detokenize", aside(tokens::text_of)),
        ("/health", get(health)),
        ("/metrics", get(metrics)),
    ];
    let mut router = Router::new().route("/v1/models/{*name}", get(model));
    for (path, method) in paths {
        // Clients whose base address lacks `/v1` or has a slash at its end mean the same.
        for alias in [Some(path), path.strip_prefix("/v1")].into_iter().flatten() {
            router = router.route(alias, method.clone());
            router = router.route(&format!("{alias}/"), method.clone());
        }
    }
    if options.page {
        router = page::added_to(router);
    }
    router
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(CatchPanicLayer::custom(panicked(&app)))
        .with_state(app)
        .layer(from_fn_with_state(Guard::new(options), guard))
        .layer(cors(options))
        .layer(from_fn(log))
}

/// What answers a request whose handler panics.
fn panicked(app: &App) -> impl Fn(Box<dyn Any + Send>) -> Response<Body> + Clone + use<> {
    let metrics = Arc::clone(&app.metrics);
    move |_| {
        metrics.panics.inc();
        ApiError::from(Failure::Lost).into_response()
    }
}

/// What pages of other origins may do, if any may: send all headers that their clients have, also
/// from a public page to a machine of a private network.
fn cors(options: &ServeOptions) -> CorsLayer {
    let layer = CorsLayer::new()
        .allow_methods([Method::GET, Method::POST])
        .allow_headers(AllowHeaders::mirror_request())
        .allow_private_network(true)
        .expose_headers([header::RETRY_AFTER])
        .max_age(Duration::from_secs(3600));
    let origins = &options.cors_origins;
    if origins.iter().any(|origin| origin == "*") {
        return layer.allow_origin(cors::Any);
    }
    let values = origins
        .iter()
        .filter_map(|origin| origin.parse::<HeaderValue>().ok());
    layer.allow_origin(values.collect::<Vec<_>>())
}

/// A line for each response; of an answer that is streamed, for its beginning.
async fn log(matched: Option<MatchedPath>, request: Request, next: Next) -> Response<Body> {
    let begun = Instant::now();
    let method = request.method().clone();
    let response = next.run(request).await;
    let status = response.status().as_u16();
    // Paths that are none of ours are not repeated.
    let path = matched.as_ref().map_or("(unknown)", MatchedPath::as_str);
    let ms = begun.elapsed().as_millis() as u64;
    match status {
        200..=399 => tracing::debug!(%method, path, status, ms, "responded"),
        _ => tracing::info!(%method, path, status, ms, "refused"),
    }
    response
}

async fn models(State(app): State<Arc<App>>) -> Response<Body> {
    let entry = app.served.entry(&app.name, app.max_context());
    json_response(StatusCode::OK, &json!({"object": "list", "data": [entry]}))
}

async fn model(
    State(app): State<Arc<App>>,
    name: Result<Path<String>, PathRejection>,
) -> ApiResult<Response<Body>> {
    let Path(name) = name.map_err(|error| ApiError::invalid(error.body_text()))?;
    if name != app.name {
        return Err(app.unknown_model(&name));
    }
    let entry = app.served.entry(&app.name, app.max_context());
    Ok(json_response(StatusCode::OK, &entry))
}

/// 200 while requests are taken, 503 while the server is being stopped.
async fn health(State(app): State<Arc<App>>) -> Response<Body> {
    let load = app.scheduler.load();
    let (status, word) = if load.stopping {
        (StatusCode::SERVICE_UNAVAILABLE, "stopping")
    } else {
        (StatusCode::OK, "ok")
    };
    let (running, waiting) = (load.running, load.waiting);
    json_response(
        status,
        &json!({"status": word, "running": running, "waiting": waiting}),
    )
}

async fn metrics(State(app): State<Arc<App>>) -> impl IntoResponse {
    // Who waits is counted anew: some may have left.
    app.scheduler.load();
    app.metrics.caches(app.scheduler.cache_load());
    let lost = app.lost_log_lines.load(Ordering::Relaxed);
    app.metrics.counted(app.served.forward_panics(), lost);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], app.metrics.text())
}

async fn unknown_path() -> ApiError {
    ApiError::refused(
        StatusCode::NOT_FOUND,
        "there is no such path; docs/serve.md lists them, such as /v1/chat/completions",
    )
}

async fn wrong_method() -> ApiError {
    ApiError::refused(
        StatusCode::METHOD_NOT_ALLOWED,
        "this path is asked by another method: answers by POST, the rest by GET",
    )
}

impl App {
    /// Reads the name of the model: that of the one that is served, or any other if the server is
    /// not strict.
    fn read_model(&self, fields: &mut Fields) -> ApiResult<()> {
        let asked = fields.string("model")?;
        let Some(asked) = asked.filter(|asked| *asked != self.name) else {
            return Ok(());
        };
        if fields.is_strict() {
            return Err(self.unknown_model(&asked));
        }
        let shown: String = asked.chars().take(80).collect();
        let own = &self.name;
        fields.warn(format!(
            "there is no model {shown:?} here: {own:?} answers, the only one"
        ));
        Ok(())
    }

    fn unknown_model(&self, name: &str) -> ApiError {
        let message = format!(
            "there is no model {name:?} here; it is called {:?}",
            self.name
        );
        ApiError::refused(StatusCode::NOT_FOUND, message).with_code("model_not_found")
    }

    /// Logs the warnings of requests, each once.
    fn log_warnings(&self, warnings: &[String]) {
        for warning in warnings {
            let mut said = crate::lock(&self.said);
            let fits = said.len() < MOST_SAID && warning.len() < LONGEST_SAID;
            if fits && said.insert(warning.clone()) {
                tracing::warn!(warning = ?warning, "said to a client; not logged again");
            }
        }
    }
}
