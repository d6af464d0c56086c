//! What is counted and timed, in the text format of OpenMetrics, which Prometheus reads.
//!
//! Names are vLLM's where it has them; ours begin with `cascade`.

mod forwards;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use cascade_config::LevelInfo;
use cascade_engine::StepReport;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry};

pub(crate) use self::forwards::Forwards;
use crate::answer::{Done, finish_reason};
use crate::cache_room::CacheLoad;
use crate::served::Served;

type Labels = Vec<(&'static str, String)>;
type Seconds = Counter<f64, AtomicU64>;
type Fraction = Gauge<f64, AtomicU64>;

/// Makes [`Metrics`] of a table of fields, their types, names and meanings, in the order of the
/// text.
macro_rules! metrics {
    ($($field:ident: $kind:ty $(= $new:expr)?, $name:literal, $help:literal;)*) => {
        /// The server's metrics.
        pub(crate) struct Metrics {
            registry: Registry,
            levels: Vec<LevelCounters>,
            $(pub(crate) $field: $kind,)*
        }

        impl Metrics {
            /// Metrics of a model and its levels, and of the forwards of all answers.
            pub(crate) fn new(model: &str, served: &Served) -> Self {
                let mut registry = Registry::default();
                let model = ("model_name".into(), model.to_owned().into());
                let own = registry.sub_registry_with_label(model);
                $(let $field = registered(own, $name, $help, metrics!(@ $kind $(= $new)?));)*
                let levels = level_counters(own, &served.levels);
                served.forwards.register(own);
                Self { registry, levels, $($field,)* }
            }
        }
    };
    (@ $kind:ty) => { <$kind>::default() };
    (@ $kind:ty = $new:expr) => { $new };
}

metrics! {
    prompt_tokens: Counter, "vllm:prompt_tokens", "Tokens of prompts";
    generated_tokens: Counter, "vllm:generation_tokens", "Tokens of answers";
    cache_queries: Counter,
        "vllm:prefix_cache_queries", "Tokens of prompts that were looked for in caches";
    cache_hits: Counter, "vllm:prefix_cache_hits", "Tokens of prompts that were in caches";
    failed: Counter, "cascade:requests_failed", "Answers that failed";
    abandoned: Counter, "cascade:requests_abandoned", "Answers whose clients went away";
    refused: Counter, "cascade:requests_refused", "Requests that found the queue full";
    panics: Counter, "cascade:panics", "Panics, each of which has ended one answer at most";
    forward_panics: Counter,
        "cascade:forward_panics", "Panics of forwards, whose texts were computed again one by one";
    lost_log_lines: Counter, "cascade:log_lines_lost", "Lines of the log that could not be written";
    drafts: Counter, "vllm:spec_decode_num_drafts", "Drafts that the target verified";
    drafted: Counter, "vllm:spec_decode_num_draft_tokens", "Tokens that the target verified";
    accepted: Counter,
        "vllm:spec_decode_num_accepted_tokens", "Drafted tokens that the target accepted";
    forwards: Counter,
        "cascade:target_forwards", "Steps of answers: a forward of the target, which other answers may share";
    running: Gauge, "vllm:num_requests_running", "Generations that have a session";
    waiting: Gauge, "vllm:num_requests_waiting", "Generations that wait for one";
    idle: Gauge, "cascade:sessions_resting", "Sessions that keep what they have read";
    cache_bytes: Gauge,
        "cascade:cache_bytes", "Bytes of the keys and values of all sessions, running and resting";
    cache_reserved: Gauge,
        "cascade:cache_reserved_bytes", "Bytes that running generations may take beyond those";
    cache_limit: Gauge,
        "cascade:cache_limit_bytes", "Bytes that there are for both; 0 if there is no limit";
    cache_usage: Fraction, "vllm:kv_cache_usage_perc", "Part of that limit that is in use, up to 1";
    connections: Gauge, "cascade:connections", "Open connections";
    first_token: Histogram = times(),
        "vllm:time_to_first_token_seconds", "From the request to its first token";
    next_token: Histogram = times(),
        "vllm:inter_token_latency_seconds", "Time of a later token";
    latency: Histogram = times(),
        "vllm:e2e_request_latency_seconds", "From the request to its last token";
    queue: Histogram = times(),
        "vllm:request_queue_time_seconds", "From the request to its session";
    in_turns: Seconds, "cascade:turn_seconds", "Time of steps, with what the server adds";
    in_models: Seconds, "cascade:step_seconds", "Time of steps alone";
    finished: Family<Labels, Counter>,
        "vllm:request_success", "Answers by the reason of their end";
    accepted_at: Family<Labels, Counter>,
        "vllm:spec_decode_num_accepted_tokens_per_pos",
        "Drafted tokens that the target accepted, by position in the draft";
}

struct LevelCounters {
    drafted: Counter,
    accepted: Counter,
    calls: Counter,
    seconds: Seconds,
}

fn times() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 20))
}

/// A metric that is known to the registry from now on.
fn registered<M: Metric + Clone>(own: &mut Registry, name: &str, help: &str, metric: M) -> M {
    own.register(name, help, metric.clone());
    metric
}

impl Metrics {
    /// What work for an answer returns; nothing if it panics, which is counted.
    pub(crate) fn guarded<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let done = catch_unwind(AssertUnwindSafe(work)).ok();
        if done.is_none() {
            self.panics.inc();
        }
        done
    }

    /// Counts what others have counted so far.
    pub(crate) fn counted(&self, forward_panics: u64, lost_log_lines: u64) {
        for (counter, now) in [
            (&self.forward_panics, forward_panics),
            (&self.lost_log_lines, lost_log_lines),
        ] {
            counter.inc_by(now.saturating_sub(counter.get()));
        }
    }

    /// All metrics as text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    pub(crate) fn load(&self, running: usize, waiting: usize, idle: usize) {
        self.running.set(running as i64);
        self.waiting.set(waiting as i64);
        self.idle.set(idle as i64);
    }

    pub(crate) fn caches(&self, load: CacheLoad) {
        self.cache_bytes.set(load.in_use as i64);
        self.cache_reserved.set(load.reserved as i64);
        let limit = load.limit.unwrap_or(0);
        self.cache_limit.set(limit as i64);
        self.cache_usage
            .set(load.in_use as f64 / limit.max(1) as f64 * f64::from(limit > 0));
    }

    /// A connection that is open until the result is dropped.
    pub(crate) fn connection(&self) -> impl Drop + use<> {
        struct Open(Gauge);
        impl Drop for Open {
            fn drop(&mut self) {
                self.0.dec();
            }
        }
        self.connections.inc();
        Open(self.connections.clone())
    }

    /// Tokens that a step has given together.
    pub(crate) fn next_tokens(&self, time: Duration, tokens: usize) {
        let each = time.as_secs_f64() / tokens.max(1) as f64;
        (0..tokens).for_each(|_| self.next_token.observe(each));
    }

    pub(crate) fn step(&self, report: &StepReport) {
        self.forwards.inc();
        self.generated_tokens.inc_by(report.tokens.len() as u64);
        if report.step.drafted > 0 {
            self.drafts.inc();
            self.drafted.inc_by(report.step.drafted as u64);
            self.accepted.inc_by(report.step.accepted as u64);
            for position in 0..report.step.accepted {
                let labels = vec![("position", position.to_string())];
                self.accepted_at.get_or_create(&labels).inc();
            }
        }
        for (level, counters) in report.levels.iter().zip(&self.levels) {
            counters.drafted.inc_by(level.drafted as u64);
            counters.accepted.inc_by(level.accepted as u64);
            counters.calls.inc_by(level.usage.calls);
            counters.seconds.inc_by(level.usage.time.as_secs_f64());
        }
    }

    pub(crate) fn done(&self, done: &Done, prompt_tokens: usize, submitted: Instant) {
        let reason = finish_reason(&done.output.finish).to_owned();
        self.finished
            .get_or_create(&vec![("finished_reason", reason)])
            .inc();
        self.prompt_tokens.inc_by(prompt_tokens as u64);
        self.cache_queries.inc_by(prompt_tokens as u64);
        self.cache_hits.inc_by(done.cached_tokens as u64);
        self.queue.observe(done.queued.as_secs_f64());
        self.latency.observe(submitted.elapsed().as_secs_f64());
    }
}

fn level_counters(registry: &mut Registry, levels: &[LevelInfo]) -> Vec<LevelCounters> {
    let mut family = |name: &str, help: &str| {
        registered(registry, name, help, Family::<Labels, Counter>::default())
    };
    let drafted = family(
        "cascade:level_draft_tokens",
        "Tokens of drafts that the level proposed first",
    );
    let accepted = family(
        "cascade:level_accepted_tokens",
        "How many of them the target accepted",
    );
    let calls = family("cascade:level_calls", "Forwards or proposals of the level");
    let seconds = Family::<Labels, Seconds>::default();
    let seconds = registered(
        registry,
        "cascade:level_seconds",
        "Time of the level",
        seconds,
    );
    let counters = levels.iter().enumerate().map(|(index, level)| {
        let labels = vec![("level", index.to_string()), ("name", level.name.clone())];
        LevelCounters {
            drafted: drafted.get_or_create(&labels).clone(),
            accepted: accepted.get_or_create(&labels).clone(),
            calls: calls.get_or_create(&labels).clone(),
            seconds: seconds.get_or_create(&labels).clone(),
        }
    });
    counters.collect()
}
