//! Many clients at once: every answer is the one alone, and none holds up another.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::Ordering::SeqCst;

use cascade_config::ChatTemplate;
use cascade_core::Decoding;
use cascade_serve::{Limits, ServeOptions};
use serde_json::{Value, json};

use crate::HEAP;
use crate::common::{Alone, Running, config, options, served, text, user, wire};
use crate::panics::{Load, has_failed};

const QUESTIONS: [&str; 5] = [
    "Mia sells 24 shells in May and half as many in June. How many shells does she sell?",
    "Tom has 3 apples and buys 5 more. How many apples has Tom?",
    "A train goes 60 miles in an hour. How far does it go in 3 hours?",
    "Anna reads 12 pages a day. How many pages does she read in a week?",
    "Rosa earns $12 an hour. How much does she earn in 5 hours?",
];

/// What a request asks, which follows from its number: lengths, chats and texts, greedy and
/// sampled, drafted and plain.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct RequestKind {
    question: usize,
    tokens: usize,
    chat: bool,
    seed: Option<u64>,
    plain: bool,
}

impl RequestKind {
    fn of(number: usize) -> Self {
        Self {
            question: number % QUESTIONS.len(),
            tokens: [4, 12, 24, 8][number % 4],
            chat: number.is_multiple_of(3),
            seed: (number % 2 == 1).then_some((number % 6) as u64),
            plain: number.is_multiple_of(7),
        }
    }

    fn body(self) -> (&'static str, Value) {
        let question = QUESTIONS[self.question];
        let mut body = json!({"max_tokens": self.tokens, "speculation": {"enabled": !self.plain}});
        if let Some(seed) = self.seed {
            body["temperature"] = 0.75.into();
            body["seed"] = seed.into();
        }
        if self.chat {
            body["messages"] = user(question);
            ("/v1/chat/completions", body)
        } else {
            body["prompt"] = question.into();
            ("/v1/completions", body)
        }
    }

    fn alone(self, alone: &mut Alone) -> String {
        let mut options = options(self.tokens).with_speculation(!self.plain);
        if let Some(seed) = self.seed {
            let decoding = Decoding::new(0.75, None, None, None).unwrap();
            // Samples too are those of plain decoding.
            options = options
                .with_decoding(decoding)
                .with_seed(seed)
                .with_speculation(false);
        }
        let question = QUESTIONS[self.question];
        let output = if self.chat {
            alone.chat(question, &options)
        } else {
            alone.complete(question, &options)
        };
        output.text.unwrap()
    }
}

fn limited(sessions: usize, clients: usize) -> impl Fn(&mut ServeOptions) {
    move |options| {
        options.limits.sessions = sessions;
        options.limits.queue = 2 * clients;
    }
}

fn in_turns(clients: usize, workers: usize) -> Running {
    Running::start_in_turns(|options| {
        limited(6, clients)(options);
        options.limits.workers = workers;
    })
}

/// Clients that ask one request after another; every fifth one is given up after its first bytes,
/// and every fourth of the others is streamed.
fn clients(server: &Running, clients: usize, requests: usize) {
    let answers = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for client in 0..clients {
            let answers = &answers;
            scope.spawn(move || {
                for request in 0..requests {
                    let number = client * 7 + request * 3;
                    let kind = RequestKind::of(number);
                    let (path, mut body) = kind.body();
                    if (client + request) % 5 == 4 {
                        body["stream"] = true.into();
                        body["max_tokens"] = 200.into();
                        drop(server.raw(&wire(path, &body.to_string())));
                        continue;
                    }
                    let streamed = (client + 2 * request) % 4 == 3;
                    body["stream"] = streamed.into();
                    let answer = server.post(path, &body);
                    assert_eq!(answer.status, 200, "{}", answer.body);
                    let answer = if streamed {
                        answer.streamed()
                    } else {
                        text(&answer.json()).to_owned()
                    };
                    answers.lock().unwrap().push((kind, answer));
                }
            });
        }
    });
    let answers = answers.into_inner().unwrap();
    let given_up = (0..clients)
        .flat_map(|client| (0..requests).map(move |request| client + request))
        .filter(|sum| sum % 5 == 4)
        .count();
    assert_eq!(answers.len(), clients * requests - given_up, "none is lost");
    server.settle();
    let mut alone = Alone::new();
    let mut known: HashMap<RequestKind, String> = HashMap::new();
    for (kind, answer) in answers {
        let expected = known.entry(kind).or_insert_with(|| kind.alone(&mut alone));
        assert_eq!(answer, *expected);
    }
}

#[test]
fn some_clients_get_their_own_answers() {
    let server = Running::start_with(limited(6, 12));
    clients(&server, 12, 4);
    let forwards = "cascade:forward_texts_count";
    assert!(server.metric("cascade:forward_texts_sum") > server.metric(forwards));
}

#[test]
fn answers_of_sessions_that_take_turns_are_their_own() {
    clients(&in_turns(6, 2), 6, 4);
}

#[test]
#[ignore = "480 answers; in CI, optimized"]
fn thirty_two_clients_get_their_own_answers() {
    clients(&Running::start_with(limited(16, 32)), 32, 5);
    clients(&in_turns(32, 1), 32, 5);
    clients(&in_turns(32, 3), 32, 5);
}

/// Clients whose answers are hit by faults now and then: those that are not get their own.
fn hit_clients(start: impl FnOnce(&dyn Fn(&mut ServeOptions)) -> Running) {
    let faults = Load::new(97);
    let server = start(&|options: &mut ServeOptions| {
        limited(4, 8)(options);
        options.faults = faults.faults();
    });
    let answers = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for client in 0..8 {
            let (server, answers) = (&server, &answers);
            scope.spawn(move || {
                for request in 0..12 {
                    let kind = RequestKind::of(client * 7 + request * 3);
                    let (path, mut body) = kind.body();
                    let streamed = (client + request) % 2 == 1;
                    body["stream"] = streamed.into();
                    let answer = server.post(path, &body);
                    let given = || {
                        if streamed {
                            answer.streamed()
                        } else {
                            text(&answer.json()).to_owned()
                        }
                    };
                    let given = (!has_failed(&answer, streamed)).then(given);
                    answers.lock().unwrap().push((kind, given));
                }
            });
        }
    });
    server.settle();
    faults.end();
    let [panics, of_forwards] = [&faults.panics, &faults.of_forwards].map(|of| of.load(SeqCst));
    assert!(panics > 4 && of_forwards > 0, "{panics} and {of_forwards}");
    assert_eq!(server.metric("cascade:panics_total"), panics as f64);
    let counted = server.metric("cascade:forward_panics_total");
    assert_eq!(counted, of_forwards as f64);
    let answers = answers.into_inner().unwrap();
    let failed = answers.iter().filter(|(_, given)| given.is_none()).count();
    assert!(
        (1..=panics + of_forwards).contains(&(failed as u64)),
        "{failed}"
    );
    let mut alone = Alone::new();
    for (kind, given) in answers {
        if let Some(given) = given {
            assert_eq!(given, kind.alone(&mut alone));
        }
    }
    // All sessions are there.
    clients(&server, 4, 2);
}

#[test]
fn faults_hit_their_own_answers_alone() {
    hit_clients(|change| Running::start_with(change));
}

#[test]
fn faults_of_answers_that_take_turns_hit_them_alone() {
    hit_clients(|change| {
        Running::start_in_turns(|options| {
            change(options);
            options.limits.workers = 2;
        })
    });
}

/// Without drafts, each step of an answer is a row of a forward, which others share.
#[test]
fn forwards_are_shared_and_counted() {
    let server = Running::start();
    assert_eq!(
        server.metric("cascade:forward_rows_count"),
        0.0,
        "none of the warm-up"
    );
    let body = json!({
        "prompt": "2 + 3", "n": 4, "max_tokens": 120, "temperature": 5, "seed": 1,
        "speculation": {"enabled": false},
    });
    let answer = server.complete(&body);
    let metrics = server.metrics();
    let target = |name: &str| metrics.of(name, r#"role="target""#);
    let [forwards, texts] =
        ["count", "sum"].map(|of| target(&format!("cascade:forward_texts_{of}")));
    let steps = metrics.of("cascade:target_forwards_total", "");
    assert_eq!(texts, steps);
    // Those of four texts, but for the first and the last ones.
    assert!(texts > 2.0 * forwards, "{texts} in {forwards}");
    let rows = target("cascade:forward_rows_sum");
    let usage = |count: &str| answer["usage"][count].as_f64().unwrap();
    assert!(rows >= texts && rows <= usage("completion_tokens") + 4.0 * usage("prompt_tokens"));
    assert_eq!(target("cascade:forward_seconds_count"), forwards);
    let drafter = |server: &Running| {
        server
            .metrics()
            .of("cascade:forward_rows_count", r#"role="drafter""#)
    };
    assert_eq!(drafter(&server), 0.0);
    let drafted =
        json!({"prompt": QUESTIONS[0], "max_tokens": 24, "speculation": {"k": [2, 2, 6]}});
    server.complete(&drafted);
    assert!(drafter(&server) > 0.0);
}

/// It is read in pieces, beside their tokens.
#[test]
fn a_long_prompt_does_not_hold_up_streams() {
    let server = Running::start();
    let long = json!({
        "prompt": QUESTIONS[0], "max_tokens": 900, "temperature": 5, "seed": 1, "stream": true,
        "speculation": {"enabled": false},
    });
    let (status, stream) = server.raw(&wire("/v1/completions", &long.to_string()));
    assert_eq!(status, 200);
    let prompt: Vec<usize> = (0..700).map(|token| 300 + token % 500).collect();
    let body = json!({"prompt": prompt, "max_tokens": 1, "speculation": {"enabled": false}});
    let answer = server.complete(&body);
    assert_eq!(answer["usage"]["prompt_tokens"], prompt.len());
    let metrics = server.metrics();
    assert_eq!(
        metrics.of("vllm:request_success_total", ""),
        1.0,
        "the stream goes on"
    );
    let [forwards, texts] =
        ["count", "sum"].map(|of| metrics.of(&format!("cascade:forward_texts_{of}"), ""));
    // A row of the stream in each of the forwards that the prompt takes, which are read one by one.
    assert!(
        texts - forwards >= (prompt.len() / 64) as f64,
        "{texts} in {forwards}"
    );
    let small = metrics.of("cascade:forward_rows_bucket", r#"le="128.0""#);
    assert_eq!(small, forwards, "none has all of the prompt");
    drop(stream);
    server.settle();
}

/// Who ends, leaves or fails holds up nobody: the last of the answers is complete.
#[test]
fn texts_join_and_leave() {
    let server = Running::start_with(|options| options.limits.sessions = 4);
    let body = |tokens: usize| json!({"prompt": QUESTIONS[0], "max_tokens": tokens, "temperature": 5, "seed": 1});
    std::thread::scope(|scope| {
        let staying = scope.spawn(|| server.complete(&body(300)));
        for tokens in [1, 2, 3, 5, 8] {
            let mut leaving = body(900);
            leaving["stream"] = true.into();
            drop(server.raw(&wire("/v1/completions", &leaving.to_string())));
            server.complete(&body(tokens));
        }
        let mut options = options(300).with_seed(1).with_speculation(false);
        options = options.with_decoding(Decoding::new(5.0, None, None, None).unwrap());
        let alone = Alone::new().complete(QUESTIONS[0], &options);
        assert_eq!(text(&staying.join().unwrap()), alone.text.unwrap());
    });
    server.settle();
    assert_eq!(server.metric("cascade:requests_failed_total"), 0.0);
}

#[test]
fn limits_follow_from_memory() {
    let served = || served(config(), ChatTemplate::vicuna());
    assert_eq!(served().default_sessions(8192).unwrap(), 16);
    // The demo's caches are small.
    assert_eq!(served().taking_turns().default_sessions(8192).unwrap(), 8);
    let mut limits = Limits::default();
    assert_eq!(served().limit_warnings(&limits).unwrap(), [""; 0]);
    limits.workers = 2;
    let warnings = served().limit_warnings(&limits).unwrap();
    assert!(
        warnings.len() == 1 && warnings[0].contains("--workers"),
        "{warnings:?}"
    );
    assert_eq!(
        served().taking_turns().limit_warnings(&limits).unwrap(),
        [""; 0]
    );
    limits.sessions = 1 << 40;
    let warnings = served().limit_warnings(&limits).unwrap();
    assert!(warnings[1].contains("--sessions"), "{warnings:?}");
    limits.cache_memory = served().default_cache_memory();
    assert_eq!(served().limit_warnings(&limits).unwrap().len(), 1);
    for (memory, problem) in [(usize::MAX, "lower it"), (1 << 20, "is refused")] {
        limits.cache_memory = Some(memory);
        let warnings = served().limit_warnings(&limits).unwrap();
        assert!(warnings[1].contains(problem), "{warnings:?}");
    }
}

/// A long answer does not keep a short one waiting.
fn is_fair(server: &Running) {
    let long = json!({"prompt": QUESTIONS[0], "max_tokens": 400, "stream": true, "speculation": {"enabled": false}});
    let (status, reader) = server.raw(&wire("/v1/completions", &long.to_string()));
    assert_eq!(status, 200);
    server.complete(&json!({"prompt": QUESTIONS[1], "max_tokens": 2}));
    let running = server.get("/health").json()["running"].as_u64();
    let ended = server.metric("vllm:request_success_total");
    assert_eq!((running, ended), (Some(1), 1.0), "the long one goes on");
    drop(reader);
    server.settle();
}

#[test]
fn turns_are_fair() {
    is_fair(&Running::start());
    is_fair(&Running::start_in_turns(|_| {}));
}

/// As many answers as `CASCADE_TEST_ANSWERS` says.
#[test]
#[ignore = "a thousand answers; in CI, optimized"]
fn memory_does_not_grow() {
    let asked = std::env::var("CASCADE_TEST_ANSWERS").ok();
    let of_a_client = asked.map_or(1000, |asked| asked.parse().unwrap()) / 50;
    assert!(of_a_client > 0, "50 answers at least");
    // Of five clients, three wait for the memory of keys and values.
    let needed = {
        let config = config();
        let caches = config.pool(&Default::default()).cache_use(&config).unwrap();
        caches.needed(&Default::default(), 64, config.max_nodes)
    };
    let server = Running::start_with(|options| options.limits.cache_memory = Some(2 * needed));
    let process = || {
        let mut system = sysinfo::System::new();
        let own = sysinfo::get_current_pid().unwrap();
        system.refresh_processes(sysinfo::ProcessesToUpdate::Some(&[own]), true);
        system.process(own).unwrap().memory() as f64
    };
    let mut figures = Vec::new();
    for tenth in 0..10 {
        std::thread::scope(|scope| {
            for client in 0..5 {
                let server = &server;
                scope.spawn(move || {
                    for number in 0..of_a_client {
                        let before = (5 * tenth + client) * of_a_client;
                        let (path, mut body) = RequestKind::of(before + number).body();
                        body["max_tokens"] = 4.into();
                        server.ask(path, &body);
                    }
                });
            }
        });
        server.settle();
        let bytes = server.metric("cascade:cache_bytes");
        assert!(bytes <= 2.0 * needed as f64, "{bytes} of {needed}");
        let heap = HEAP.current_usage() as f64;
        figures.push([process(), heap, bytes].map(|bytes| bytes / 1e6));
    }
    let answers = server.metric("vllm:request_success_total");
    assert_eq!(answers, 50.0 * of_a_client as f64);
    println!(
        "MB of the process, on its heap and in caches after tenths of {answers} answers: {figures:.2?}"
    );
    // The allocator keeps back what it has had, and goes on to take more for some thousand answers.
    assert!(figures[9][0] < figures[4][0] + 12.0, "{figures:?}");
    // Sessions that are idle keep their caches, one or two of them.
    let most = |tenths: &[[f64; 3]]| {
        let without_caches = tenths.iter().map(|[_, heap, caches]| heap - caches);
        without_caches.fold(0.0, f64::max)
    };
    let (before, after) = (most(&figures[..5]), most(&figures[5..]));
    assert!(after < before + 0.5, "{figures:?}");
}
