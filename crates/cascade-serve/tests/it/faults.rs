//! Clients that break off, send halves, do not read, or are too many.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::{QUESTION, Running, user, wire};

/// A request for an answer that takes long.
fn long(stream: bool) -> String {
    let body = json!({"prompt": QUESTION, "max_tokens": 400, "temperature": 5, "seed": 1, "stream": stream, "speculation": {"enabled": false}});
    wire("/v1/completions", &body.to_string())
}

fn still_answers(server: &Running) {
    server.complete(&json!({"prompt": "2 + 3", "max_tokens": 2}));
}

#[test]
fn answers_of_clients_that_are_gone_end() {
    let server = Running::start();
    for stream in [true, false] {
        for how in [None, Some(Shutdown::Both)] {
            let mut connection = server.connect();
            connection.write_all(long(stream).as_bytes()).unwrap();
            std::thread::sleep(Duration::from_millis(60));
            if let Some(how) = how {
                connection.shutdown(how).unwrap();
            }
            drop(connection);
        }
    }
    server.settle();
    assert!(server.metric("cascade:requests_abandoned_total") >= 2.0);
    still_answers(&server);
}

#[test]
fn half_requests_end_in_time() {
    let server = Running::start_with(|options| {
        options.limits.header_time = Duration::from_millis(300);
        options.limits.body_time = Duration::from_millis(300);
    });
    for half in [
        "",
        "POST /v1/comp",
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n",
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{\"prompt\"",
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"pro",
        "\u{0}\u{1}\u{2}\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 7\r\n\r\n{}",
    ] {
        let mut connection = server.connect();
        connection.write_all(half.as_bytes()).unwrap();
        let mut text = String::new();
        // It ends, by itself: the reader's own patience is far longer.
        let begun = Instant::now();
        let _ = connection.read_to_string(&mut text);
        assert!(begun.elapsed() < Duration::from_secs(60), "{half:?}");
        assert!(
            text.is_empty() || text.starts_with("HTTP/1.1 4"),
            "{half:?}: {text}"
        );
    }
    let many = format!(
        "GET /health HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
        "X: y\r\n".repeat(200)
    );
    assert_eq!(server.raw(&many).0, 431);
    let large = format!(
        "GET /health HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n",
        "y".repeat(100_000)
    );
    assert_eq!(server.raw(&large).0, 431);
    still_answers(&server);
}

#[test]
fn slow_readers_cost_a_bounded_memory() {
    let server = Running::start_with(|options| options.limits.unread = 20_000);
    let body = json!({
        "messages": user(QUESTION), "n": 2, "max_tokens": 600, "stream": true, "logprobs": true,
        "top_logprobs": 20, "temperature": 5, "seed": 1, "speculation": {"enabled": false},
    });
    // Megabytes that nobody reads: the system's buffers fill, and then ours.
    let (status, reader) = server.raw(&wire("/v1/chat/completions", &body.to_string()));
    assert_eq!(status, 200);
    server.settle();
    assert!(server.metric("cascade:requests_failed_total") >= 1.0);
    drop(reader);
    still_answers(&server);
}

#[test]
fn prompts_of_a_megabyte() {
    let server = Running::start_with(|options| options.limits.body = 1 << 20);
    let text = "apples and pears ".repeat((1 << 20) / 18);
    let answer = server.post("/v1/completions", &json!({"prompt": text, "max_tokens": 1}));
    assert!(answer.error(400).contains("the context has room for"));
    let answer = server.post("/v1/chat/completions", &json!({"messages": user(&text)}));
    assert_eq!(answer.json()["error"]["code"], "context_length_exceeded");
    let text = "x".repeat(2 << 20);
    let (status, _reader) = server.raw(&format!(
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{text}",
        text.len()
    ));
    assert_eq!(status, 413);
    still_answers(&server);
}

fn crowd(connections: usize) {
    let server = Running::start_with(|options| {
        options.limits.connections = 50;
        options.limits.header_time = Duration::from_millis(500);
    });
    let idle: Vec<_> = (0..connections).map(|_| server.connect()).collect();
    let mut refused = 0;
    for mut connection in idle {
        let mut text = String::new();
        let _ = connection.read_to_string(&mut text);
        if text.starts_with("HTTP/1.1 503") {
            assert!(text.contains("Retry-After: 1"), "{text}");
            refused += 1;
        }
    }
    assert!(refused > 0 && refused <= connections, "{refused}");
    // Those that said nothing were sent away, and there is room again.
    for _ in 0..100 {
        if server
            .raw("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .0
            == 200
        {
            return still_answers(&server);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("no room for another connection");
}

#[test]
fn connections_beyond_the_limit_are_sent_away() {
    crowd(120);
}

#[test]
#[ignore = "10,000 connections; in CI, optimized"]
fn ten_thousand_connections() {
    // As many as this process may have; both ends are its own.
    crowd(9_000);
    crowd(1_000);
}

#[test]
fn a_full_queue_says_when_to_come_back() {
    let server = Running::start_with(|options| {
        options.limits.sessions = 1;
        options.limits.queue = 1;
    });
    let _running = server.raw(&long(true));
    let mut waiting = server.connect();
    waiting.write_all(long(true).as_bytes()).unwrap();
    while server.get("/health").json()["waiting"] != 1 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let refused = server.post(
        "/v1/completions",
        &json!({"prompt": "2 + 3", "max_tokens": 2}),
    );
    refused.error(429);
    let seconds: u64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&seconds));
    assert_eq!(server.metric("cascade:requests_refused_total"), 1.0);
    let too_many = server.post(
        "/v1/completions",
        &json!({"prompt": "2 + 3", "max_tokens": 2, "n": 3}),
    );
    assert!(too_many.error(400).contains("fewer"));
    // One that waits and goes away gives its place to the next.
    drop(waiting);
    drop(_running);
    server.settle();
    still_answers(&server);
}

/// Their answers are not computed.
#[test]
fn requests_in_the_queue_whose_clients_are_gone_are_not_counted() {
    let server = Running::start_with(|options| options.limits.sessions = 1);
    let _running = server.raw(&long(true));
    let mut waiting = server.connect();
    waiting.write_all(long(true).as_bytes()).unwrap();
    while server.get("/health").json()["waiting"] != 1 {
        std::thread::yield_now();
    }
    drop(waiting);
    let health = loop {
        let health = server.get("/health").json();
        if health["waiting"] == 0 {
            break health;
        }
    };
    assert_eq!(health["running"], 1, "before its turn");
    assert_eq!(server.metric("vllm:num_requests_waiting"), 0.0);
}

#[test]
fn answers_that_take_too_long_end() {
    let server =
        Running::start_with(|options| options.limits.answer_time = Duration::from_millis(80));
    let body = json!({"prompt": QUESTION, "max_tokens": 900, "temperature": 5, "seed": 1, "speculation": {"enabled": false}});
    server.post("/v1/completions", &body).error(504);
    let mut streamed = body;
    streamed["stream"] = true.into();
    let (chunks, done) = server.stream("/v1/completions", &streamed);
    assert!(!done);
    assert_eq!(chunks.last().unwrap()["error"]["type"], "timeout_error");
    server.settle();
}

#[test]
fn a_stop_lets_answers_end() {
    let mut server = Running::start();
    let body = json!({"prompt": QUESTION, "max_tokens": 60, "stream": true});
    let (status, mut reader) = server.raw(&wire("/v1/completions", &body.to_string()));
    assert_eq!(status, 200);
    server.stopper.stop();
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert!(text.contains("data: [DONE]"), "{text}");
    server.thread.take().unwrap().join().unwrap();
    assert!(std::net::TcpStream::connect(server.address).is_err());
}

/// Up to the end of the last answer, others learn that the server is being stopped.
#[test]
fn a_server_that_is_being_stopped_says_so() {
    let mut server = Running::start_with(|options| options.limits.unread = 64 << 20);
    let body = json!({
        "messages": user(QUESTION), "n": 2, "max_tokens": 600, "stream": true, "logprobs": true,
        "top_logprobs": 20, "temperature": 5, "seed": 1, "ignore_eos": true,
        "speculation": {"enabled": false},
    });
    // Megabytes, more than the system holds for a reader who does not read.
    let (status, mut reader) = server.raw(&wire("/v1/chat/completions", &body.to_string()));
    assert_eq!(status, 200);
    assert_eq!(server.get("/health").status, 200);
    server.stopper.stop();
    // A connection that is opened at that very time may be closed with the others.
    let health = || {
        let mut connection = std::net::TcpStream::connect(server.address).ok()?;
        let request = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        connection.write_all(request).ok()?;
        let mut text = String::new();
        connection.read_to_string(&mut text).ok()?;
        Some(text).filter(|text| text.starts_with("HTTP/1.1 503"))
    };
    let said = (0..2000).find_map(|_| {
        std::thread::sleep(Duration::from_millis(2));
        health()
    });
    assert!(said.is_some_and(|said| said.contains("stopping")));
    let asked = json!({"prompt": "2 + 3", "max_tokens": 2});
    let message = server.post("/v1/completions", &asked).error(503);
    assert!(message.contains("being stopped"), "{message}");
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert!(text.contains("data: [DONE]"), "the answer is complete");
    server.thread.take().unwrap().join().unwrap();
    assert!(std::net::TcpStream::connect(server.address).is_err());
}

#[test]
fn a_stop_gives_up_what_takes_too_long() {
    let mut server =
        Running::start_with(|options| options.limits.grace = Duration::from_millis(50));
    let (status, mut reader) = server.raw(&long(true));
    assert_eq!(status, 200);
    server.stopper.stop();
    server.thread.take().unwrap().join().unwrap();
    let mut text = String::new();
    let _ = reader.read_to_string(&mut text);
    let last = text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .next_back()
        .unwrap_or_default();
    let last: Value = serde_json::from_str(last).unwrap_or_default();
    assert_eq!(last["error"]["type"], "overloaded_error", "{text}");
}
