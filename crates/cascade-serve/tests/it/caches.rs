//! The memory of keys and values: answers wait for it, and share what they have read.

use cascade_config::{AssembleOptions, Config};
use cascade_core::{Prompt, TokenId};
use serde_json::{Value, json};

use crate::common::{Client, QUESTION, Running, config};

const PATH: &str = "/v1/completions";

/// Bytes that an answer of the demo's may take, by the tokens of its prompt and its own.
fn needed(prompt: usize, tokens: usize) -> usize {
    let config: Config = config();
    let pool = config.pool(&AssembleOptions::default());
    let prompt = Prompt {
        source: Vec::new(),
        context: vec![1 as TokenId; prompt],
    };
    let caches = pool.cache_use(&config).unwrap();
    caches.needed(&prompt, tokens, config.max_nodes)
}

#[test]
fn an_answer_that_could_never_fit_is_refused() {
    let server = Running::start_with(|options| {
        options.limits.cache_memory = Some(needed(60, 40));
    });
    let body = |tokens: usize| json!({"prompt": QUESTION, "max_tokens": tokens});
    assert_eq!(server.post(PATH, &body(30)).status, 200);
    let message = server.post(PATH, &body(500)).error(400);
    assert!(message.contains("--cache-memory"), "{message}");
    // One too long answer of several refuses all of them, before any begins.
    let mut several = body(500);
    several["n"] = 2.into();
    server.post(PATH, &several).error(400);
    assert_eq!(server.post(PATH, &body(30)).status, 200);
    assert_eq!(server.metric("vllm:request_success_total"), 2.0);
}

#[test]
fn answers_wait_for_memory_and_none_takes_more_than_there_is() {
    let limit = needed(60, 60);
    let server = Running::start_with(|options| options.limits.cache_memory = Some(limit));
    let body = json!({
        "prompt": QUESTION, "n": 6, "max_tokens": 60, "temperature": 5, "seed": 1,
    });
    let watched = std::thread::scope(|scope| {
        let asked = scope.spawn(|| server.complete(&body));
        let mut watched = Vec::new();
        while !asked.is_finished() {
            let metrics = server.metrics();
            watched.push(
                ["cascade:cache_bytes", "vllm:num_requests_running"]
                    .map(|name| metrics.of(name, "")),
            );
        }
        assert_eq!(
            asked.join().unwrap()["choices"].as_array().unwrap().len(),
            6
        );
        watched
    });
    for [bytes, running] in watched {
        assert!(
            bytes <= limit as f64 && running <= 1.0,
            "{running} in {bytes}"
        );
    }
    assert_eq!(server.metric("cascade:cache_limit_bytes"), limit as f64);
    server.settle();
    assert_eq!(server.metric("cascade:cache_reserved_bytes"), 0.0);
    let used = server.metric("vllm:kv_cache_usage_perc");
    assert!(used > 0.0 && used <= 1.0, "{used}: the last session rests");
}

/// Tokens of a prompt that were known.
fn cached(client: &Client, prompt: &str) -> u64 {
    let answer: Value = client.complete(&json!({"prompt": prompt, "max_tokens": 2}));
    let cached = &answer["usage"]["prompt_tokens_details"]["cached_tokens"];
    cached.as_u64().unwrap()
}

/// A common beginning that is less than half of what the session of another text has read.
#[test]
fn texts_that_begin_alike_share_what_they_have_read_with_their_owner_alone() {
    let common = QUESTION.repeat(4);
    let first = format!("{common}{}", "Tom has 3 apples. ".repeat(40));
    let second = format!("{common}How many?");
    for keys in [&[][..], &["of Ann", "of Bob"]] {
        let server = Running::start_with(|options| {
            options.api_keys = keys.iter().map(|key| (*key).to_owned()).collect();
        });
        let client = |at: usize| server.client(keys.get(at).copied());
        let (own, other) = (client(0), client(1));
        assert_eq!(cached(&own, &first), 0);
        let of_others = cached(&other, &second);
        if keys.is_empty() {
            // Nothing is read again, and the figure says so.
            assert!(
                of_others >= 64 && of_others.is_multiple_of(64),
                "{of_others}"
            );
        } else {
            assert_eq!(of_others, 0);
            let known = cached(&own, &second);
            assert!(known >= 64 && known.is_multiple_of(64), "{known}");
        }
        // Another session of the same client, whose first page is shared.
        assert_eq!(
            own.metric("cascade:sessions_resting"),
            if keys.is_empty() { 2.0 } else { 3.0 }
        );
    }
}

/// What is not read again is counted, whatever the settings of drafting and the connection.
#[test]
fn cached_tokens_are_those_that_are_not_read_again() {
    let server = Running::start();
    let prompt = QUESTION.repeat(4);
    let ask = |client: &Client, speculation: Value| {
        let body = json!({"prompt": prompt, "max_tokens": 2, "speculation": speculation});
        let usage = client.complete(&body)["usage"].clone();
        let of = |value: &Value| value.as_u64().unwrap();
        (
            of(&usage["prompt_tokens_details"]["cached_tokens"]),
            of(&usage["prompt_tokens"]),
        )
    };
    let client = server.client(None);
    assert_eq!(ask(&client, json!({})).0, 0);
    let (known, all) = ask(&client, json!({}));
    assert_eq!(known, all - 1, "the session itself");
    let pages = (all - 1) / 64 * 64;
    assert_eq!(
        ask(&client, json!({"k": [2, 2, 4]})).0,
        pages,
        "another session"
    );
    let (known, _) = ask(&server.client(None), json!({"k": [1, 1, 4]}));
    assert_eq!(known, pages, "another connection");
}

#[test]
fn memory_of_sessions_that_rest_is_given_back() {
    let server = Running::start_with(|options| {
        options.limits.rest = std::time::Duration::from_millis(30);
    });
    server.complete(&json!({"prompt": QUESTION, "n": 3, "max_tokens": 4}));
    while server.metric("cascade:sessions_resting") > 0.0 {
        std::thread::yield_now();
    }
    assert_eq!(server.metric("cascade:cache_bytes"), 0.0);
    server.complete(&json!({"prompt": QUESTION, "max_tokens": 4}));
}
