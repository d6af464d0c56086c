//! Many clients at once: every answer is the one alone.

use std::collections::HashMap;
use std::sync::Mutex;

use cascade_core::Decoding;
use serde_json::{json, Value};

use crate::common::{options, user, wire, Alone, Running};

const QUESTIONS: [&str; 5] = [
    "Mia sells 24 shells in May and half as many in June. How many shells does she sell?",
    "Tom has 3 apples and buys 5 more. How many apples has Tom?",
    "A train goes 60 miles in an hour. How far does it go in 3 hours?",
    "Anna reads 12 pages a day. How many pages does she read in a week?",
    "Rosa earns $12 an hour. How much does she earn in 5 hours?",
];

/// A request by its number: lengths, chats and texts, greedy and sampled, drafted and plain.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Kind {
    question: usize,
    tokens: usize,
    chat: bool,
    seed: Option<u64>,
    plain: bool,
}

impl Kind {
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
        match self.chat {
            true => {
                body["messages"] = user(question);
                ("/v1/chat/completions", body)
            }
            false => {
                body["prompt"] = question.into();
                ("/v1/completions", body)
            }
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
        let output = match self.chat {
            true => alone.chat(question, &options),
            false => alone.complete(question, &options),
        };
        output.text.unwrap()
    }
}

fn text(answer: &Value) -> String {
    let choice = &answer["choices"][0];
    let text = choice["text"]
        .as_str()
        .or(choice["message"]["content"].as_str());
    text.unwrap().to_owned()
}

/// Clients that ask one request after another; every fifth one is given up after its first bytes.
fn clients(clients: usize, requests: usize, workers: usize) {
    let server = Running::start_with(|options| {
        options.limits.sessions = 6;
        options.limits.queue = 2 * clients;
        options.limits.workers = workers;
    });
    let answers = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for client in 0..clients {
            let (server, answers) = (&server, &answers);
            scope.spawn(move || {
                for request in 0..requests {
                    let number = client * 7 + request * 3;
                    let kind = Kind::of(number);
                    let (path, mut body) = kind.body();
                    if (client + request) % 5 == 4 {
                        body["stream"] = true.into();
                        body["max_tokens"] = 200.into();
                        drop(server.raw(&wire(path, &body.to_string())));
                        continue;
                    }
                    let answer = server.ask(path, &body);
                    answers.lock().unwrap().push((kind, text(&answer)));
                }
            });
        }
    });
    let answers = answers.into_inner().unwrap();
    let given_up =
        (0..clients).flat_map(|client| (0..requests).map(move |request| client + request));
    let given_up = given_up.filter(|sum| sum % 5 == 4).count();
    assert_eq!(answers.len(), clients * requests - given_up, "none is lost");
    server.settle();
    let mut alone = Alone::new();
    let mut known: HashMap<Kind, String> = HashMap::new();
    for (kind, answer) in answers {
        let expected = known.entry(kind).or_insert_with(|| kind.alone(&mut alone));
        assert_eq!(answer, *expected);
    }
}

#[test]
fn some_clients_get_their_own_answers() {
    clients(6, 4, 2);
}

#[test]
#[ignore = "640 answers; in CI, optimized"]
fn thirty_two_clients_get_their_own_answers() {
    clients(32, 20, 1);
    clients(32, 20, 3);
}

/// A long answer does not keep a short one waiting.
#[test]
fn turns_are_fair() {
    let server = Running::start();
    let long = json!({"prompt": QUESTIONS[0], "max_tokens": 400, "stream": true, "speculation": {"enabled": false}});
    let (status, reader) = server.raw(&wire("/v1/completions", &long.to_string()));
    assert_eq!(status, 200);
    server.ask(
        "/v1/completions",
        &json!({"prompt": QUESTIONS[1], "max_tokens": 2}),
    );
    let running = server.get("/health").json()["running"].as_u64();
    let ended = server.metric("vllm:request_success_total");
    assert_eq!((running, ended), (Some(1), 1.0), "the long one goes on");
    drop(reader);
    server.settle();
}

#[test]
#[ignore = "10,000 answers; in CI, optimized"]
fn memory_does_not_grow() {
    let server = Running::start();
    let memory = || {
        let mut system = sysinfo::System::new();
        let own = sysinfo::get_current_pid().unwrap();
        system.refresh_processes(sysinfo::ProcessesToUpdate::Some(&[own]), true);
        system.process(own).unwrap().memory() as f64 / 1e6
    };
    let mut figures = Vec::new();
    for number in 0..10_000 {
        let (path, mut body) = Kind::of(number).body();
        body["max_tokens"] = 4.into();
        server.ask(path, &body);
        if number % 1000 == 999 {
            figures.push(memory());
        }
    }
    println!("MB after each 1,000 answers: {figures:.1?}");
    let (first, last) = (figures[1], figures[9]);
    assert!(last < first + 20.0, "{figures:?}");
}
