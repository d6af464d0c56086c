//! What is counted and timed, in the text format of OpenMetrics, which Prometheus reads.
//!
//! Names are vLLM's where it has them; ours begin with `cascade`.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use cascade_engine::{GenerationOutput, StepReport};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{exponential_buckets, Histogram};
use prometheus_client::registry::{Metric, Registry};

use crate::scheduler::finish_reason;

type Labels = Vec<(&'static str, String)>;
type Seconds = Counter<f64, AtomicU64>;

/// The server's metrics.
pub(crate) struct Metrics {
    registry: Registry,
    running: Gauge,
    waiting: Gauge,
    resting: Gauge,
    connections: Gauge,
    prompt_tokens: Counter,
    generated_tokens: Counter,
    cache_queries: Counter,
    cache_hits: Counter,
    finished: Family<Labels, Counter>,
    failed: Counter,
    abandoned: Counter,
    refused: Counter,
    drafts: Counter,
    drafted: Counter,
    accepted: Counter,
    /// By position in the draft.
    accepted_at: Family<Labels, Counter>,
    levels: Vec<LevelCounters>,
    forwards: Counter,
    first_token: Histogram,
    next_token: Histogram,
    latency: Histogram,
    queue: Histogram,
    in_turns: Seconds,
    in_models: Seconds,
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
    /// Metrics of a model and its levels.
    pub(crate) fn new(model: &str, levels: &[String]) -> Self {
        let mut registry = Registry::default();
        let model = ("model_name".into(), model.to_owned().into());
        let own = registry.sub_registry_with_label(model);
        let mut counter = |name: &str, help: &str| registered(own, name, help, Counter::default());
        let prompt_tokens = counter("vllm:prompt_tokens", "Tokens of prompts");
        let generated_tokens = counter("vllm:generation_tokens", "Tokens of answers");
        let cache_queries = counter(
            "vllm:prefix_cache_queries",
            "Tokens of prompts that were looked for in caches",
        );
        let cache_hits = counter(
            "vllm:prefix_cache_hits",
            "Tokens of prompts that were in caches",
        );
        let failed = counter("cascade:requests_failed", "Answers that failed");
        let abandoned = counter(
            "cascade:requests_abandoned",
            "Answers whose clients went away",
        );
        let refused = counter(
            "cascade:requests_refused",
            "Requests that found the queue full",
        );
        let drafts = counter(
            "vllm:spec_decode_num_drafts",
            "Drafts that the target verified",
        );
        let drafted = counter(
            "vllm:spec_decode_num_draft_tokens",
            "Tokens that the target verified",
        );
        let accepted = counter(
            "vllm:spec_decode_num_accepted_tokens",
            "Drafted tokens that the target accepted",
        );
        let forwards = counter(
            "cascade:target_forwards",
            "Forwards of the target, one for each step",
        );
        let mut gauge = |name: &str, help: &str| registered(own, name, help, Gauge::default());
        let running = gauge(
            "vllm:num_requests_running",
            "Generations that have a session",
        );
        let waiting = gauge("vllm:num_requests_waiting", "Generations that wait for one");
        let resting = gauge(
            "cascade:sessions_resting",
            "Sessions that keep what they have read",
        );
        let connections = gauge("cascade:connections", "Open connections");
        let mut histogram = |name: &str, help: &str| registered(own, name, help, times());
        let first_token = histogram(
            "vllm:time_to_first_token_seconds",
            "From the request to its first token",
        );
        let next_token = histogram("vllm:inter_token_latency_seconds", "Time of a later token");
        let latency = histogram(
            "vllm:e2e_request_latency_seconds",
            "From the request to its last token",
        );
        let queue = histogram(
            "vllm:request_queue_time_seconds",
            "From the request to its session",
        );
        let mut seconds = |name: &str, help: &str| registered(own, name, help, Seconds::default());
        let in_turns = seconds("cascade:turn_seconds", "Time of turns");
        let in_models = seconds(
            "cascade:step_seconds",
            "Time of steps, which turns are made of",
        );
        let finished = registered(
            own,
            "vllm:request_success",
            "Answers by the reason of their end",
            Family::<Labels, Counter>::default(),
        );
        let accepted_at = registered(
            own,
            "vllm:spec_decode_num_accepted_tokens_per_pos",
            "Drafted tokens that the target accepted, by position in the draft",
            Family::<Labels, Counter>::default(),
        );
        let levels = level_counters(own, levels);
        Self {
            registry,
            running,
            waiting,
            resting,
            connections,
            prompt_tokens,
            generated_tokens,
            cache_queries,
            cache_hits,
            finished,
            failed,
            abandoned,
            refused,
            drafts,
            drafted,
            accepted,
            accepted_at,
            levels,
            forwards,
            first_token,
            next_token,
            latency,
            queue,
            in_turns,
            in_models,
        }
    }

    /// All metrics as text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    pub(crate) fn load(&self, running: usize, waiting: usize, resting: usize) {
        self.running.set(running as i64);
        self.waiting.set(waiting as i64);
        self.resting.set(resting as i64);
    }

    /// A connection that is open until the result is dropped.
    pub(crate) fn connection(&self) -> impl Drop {
        struct Open(Gauge);
        impl Drop for Open {
            fn drop(&mut self) {
                self.0.dec();
            }
        }
        self.connections.inc();
        Open(self.connections.clone())
    }

    pub(crate) fn first_token(&self, time: Duration) {
        self.first_token.observe(time.as_secs_f64());
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

    pub(crate) fn done(
        &self,
        output: &GenerationOutput,
        prompt_tokens: usize,
        cached_tokens: usize,
        queued: Duration,
        latency: Duration,
    ) {
        let reason = finish_reason(&output.finish).to_owned();
        self.finished
            .get_or_create(&vec![("finished_reason", reason)])
            .inc();
        self.prompt_tokens.inc_by(prompt_tokens as u64);
        self.cache_queries.inc_by(prompt_tokens as u64);
        self.cache_hits.inc_by(cached_tokens as u64);
        self.queue.observe(queued.as_secs_f64());
        self.latency.observe(latency.as_secs_f64());
    }

    pub(crate) fn failed(&self) {
        self.failed.inc();
    }

    pub(crate) fn abandoned(&self) {
        self.abandoned.inc();
    }

    pub(crate) fn refused(&self) {
        self.refused.inc();
    }

    pub(crate) fn turn(&self, time: Duration) {
        self.in_turns.inc_by(time.as_secs_f64());
    }

    pub(crate) fn in_models(&self, time: Duration) {
        self.in_models.inc_by(time.as_secs_f64());
    }
}

fn level_counters(registry: &mut Registry, levels: &[String]) -> Vec<LevelCounters> {
    let families: [(&str, &str); 3] = [
        (
            "cascade:level_draft_tokens",
            "Tokens of drafts that the level proposed first",
        ),
        (
            "cascade:level_accepted_tokens",
            "How many of them the target accepted",
        ),
        ("cascade:level_calls", "Forwards or proposals of the level"),
    ];
    let [drafted, accepted, calls] = families.map(|(name, help)| {
        let family = Family::<Labels, Counter>::default();
        registry.register(name, help, family.clone());
        family
    });
    let seconds = Family::<Labels, Seconds>::default();
    registry.register(
        "cascade:level_seconds",
        "Time of the level",
        seconds.clone(),
    );
    let counters = levels.iter().enumerate().map(|(index, name)| {
        let labels = vec![("level", index.to_string()), ("name", name.clone())];
        LevelCounters {
            drafted: drafted.get_or_create(&labels).clone(),
            accepted: accepted.get_or_create(&labels).clone(),
            calls: calls.get_or_create(&labels).clone(),
            seconds: seconds.get_or_create(&labels).clone(),
        }
    });
    counters.collect()
}
