//! What clients learn of each other: nothing, whatever their sessions have read.

use std::collections::BTreeSet;

use cascade_config::{ChatTemplate, Config};
use serde_json::{Value, json};

use crate::common::{Client, QUESTION, Running, with};

/// The Max-Gram tree, which remembers answers, drafts alone.
const TREE: &str = "
target: { model: embedded:demo-llama-target }
drafters: [{ max_gram_tree: {} }]
k: { matrix: [[15]] }
tree: { max_nodes: 16 }
";

/// A drafter whose drafts end by a threshold that it learns.
const ADAPTIVE: &str = "
target: { model: embedded:demo-llama-target }
drafters: [{ model: embedded:demo-llama-small, stop_rule: { adaptive_confidence: { start: 0.05 } } }]
k: { matrix: [[12]] }
";

const KEYS: [&str; 2] = ["of Ann", "of Bob"];
const PATH: &str = "/v1/completions";

/// One session, which all clients use one after the other.
fn start(keys: &[&str]) -> Running {
    start_with(TREE, keys)
}

fn start_with(config: &str, keys: &[&str]) -> Running {
    cascade_demo::register();
    let config = Config::parse(config, "test", ".").unwrap();
    Running::start_as(config, ChatTemplate::vicuna(), |options| {
        options.limits.sessions = 1;
        options.api_keys = keys.iter().map(|key| (*key).to_owned()).collect();
    })
}

/// What is drafted for a prompt that begins an answer of another's.
fn drafts(client: &Client, more: &Value) -> BTreeSet<String> {
    let body = json!({
        "prompt": "Mia sells 24 shells.", "max_tokens": 24, "stream": true,
        "stream_options": {"include_drafts": true},
    });
    let (chunks, done) = client.post(PATH, &with(&body, more)).events();
    assert!(done);
    let steps = chunks.iter().map(|chunk| &chunk["cascade"]["draft"]);
    // Paths from the text on, which say what was known beforehand.
    let mut paths = BTreeSet::new();
    for draft in steps.filter_map(Value::as_array) {
        let mut texts: Vec<String> = Vec::new();
        for node in draft {
            let before = node["parent"].as_u64().map_or("", |at| &texts[at as usize]);
            let text = format!("{before}{}", node["token"].as_str().unwrap());
            paths.insert(text.clone());
            texts.push(text);
        }
    }
    paths
}

/// A long answer, and how many tokens of its prompt were known.
fn answer(client: &Client, more: &Value) -> u64 {
    let body = json!({"prompt": QUESTION, "max_tokens": 150});
    let answer = client.complete(&with(&body, more));
    let cached = &answer["usage"]["prompt_tokens_details"]["cached_tokens"];
    cached.as_u64().unwrap()
}

#[test]
fn drafts_show_nothing_of_other_clients() {
    let none = || json!({});
    let fresh = drafts(&start(&[]).client(None), &none());
    let both = |keys: &[&'static str], salts: [Value; 2]| {
        let server = start(keys);
        let clients = [0, 1].map(|at| server.client(keys.get(at).copied()));
        answer(&clients[0], &salts[0]);
        let other = drafts(&clients[1], &salts[1]);
        assert_eq!(other, fresh, "keys {keys:?}, salts {salts:?}");
        // The client itself is drafted for from its own answers.
        answer(&clients[0], &salts[0]);
        let own = drafts(&clients[0], &salts[0]);
        assert_ne!(own, fresh, "keys {keys:?}, salts {salts:?}");
    };
    let salt = |salt: &str| json!({"cache_salt": salt});
    both(&[], [none(), none()]);
    both(&KEYS, [none(), none()]);
    both(&[], [salt("a"), salt("b")]);
    both(&[], [salt("a"), none()]);
    both(&[KEYS[0], KEYS[0]], [salt("a"), salt("b")]);
}

#[test]
fn lengths_of_drafts_show_nothing_of_other_clients() {
    let none = json!({});
    let fresh = drafts(&start_with(ADAPTIVE, &[]).client(None), &none);
    for keys in [&[][..], &KEYS] {
        let server = start_with(ADAPTIVE, keys);
        let [one, other] = [0, 1].map(|at| server.client(keys.get(at).copied()));
        answer(&one, &none);
        assert_eq!(drafts(&other, &none), fresh, "keys {keys:?}");
        // For the client itself the threshold has followed its own answers.
        answer(&one, &none);
        assert_ne!(drafts(&one, &none), fresh, "keys {keys:?}");
    }
}

#[test]
fn usage_and_metrics_tell_nothing_of_other_prompts() {
    for keys in [&[][..], &KEYS] {
        let server = start(keys);
        let [one, other] = [0, 1].map(|at| server.client(keys.get(at).copied()));
        assert_eq!(answer(&one, &json!({})), 0);
        assert!(answer(&one, &json!({})) > 10, "its own prompt is known");
        assert_eq!(answer(&other, &json!({})), 0);
        assert!(answer(&other, &json!({})) > 10, "now it is its own");
        assert_eq!(answer(&one, &json!({})), 0);
    }
}

#[test]
fn a_salt_names_a_client_across_connections() {
    let server = start(&[]);
    let salt = || json!({"cache_salt": "5f0c"});
    assert_eq!(answer(&server.client(None), &salt()), 0);
    assert!(answer(&server.client(None), &salt()) > 10);
    assert_eq!(
        answer(&server.client(None), &json!({"cache_salt": "5f0d"})),
        0
    );
}

#[test]
fn clients_of_a_proxy_are_told_apart() {
    let server = start(&[]);
    let body = json!({"prompt": QUESTION, "max_tokens": 4}).to_string();
    let request =
        crate::common::wire(PATH, &body).replace("Host:", "X-Forwarded-For: 10.0.0.1\r\nHost:");
    let mut connection = server.connect();
    for _ in 0..2 {
        let usage = crate::common::exchange(&mut connection, &request)["usage"].clone();
        let cached = &usage["prompt_tokens_details"]["cached_tokens"];
        assert_eq!(*cached, 0, "over one connection: {usage}");
    }
}
