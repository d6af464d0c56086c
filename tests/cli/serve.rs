//! `cascade serve`, as systems start and stop it.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::{cascade, command, error, stdout};
use crate::pairs;

const QUESTION: &str = "Tom has 3 apples and buys 5 more. How many apples has Tom?";

struct Server {
    child: Child,
    stdout: BufReader<ChildStdout>,
    address: String,
}

fn serve(args: &[&str]) -> Server {
    serve_logging(args, Stdio::piped())
}

fn serve_logging(args: &[&str], stderr: Stdio) -> Server {
    let mut child = command(&["serve", "--port", "0"])
        .args(args)
        .env_remove("CASCADE_API_KEY")
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let address = line
        .trim()
        .strip_prefix("listening on http://")
        .unwrap_or_else(|| panic!("{line}"))
        .to_owned();
    Server {
        child,
        stdout,
        address,
    }
}

impl Server {
    fn request(&self, path: &str, body: &Value) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(120)))
            .unwrap();
        let body = body.to_string();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        stream
    }

    fn ask(&self, path: &str, body: &Value) -> Value {
        let mut text = String::new();
        self.request(path, body).read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{text}");
        serde_json::from_str(body).unwrap()
    }

    /// Ends it by a signal; what it wrote to standard error.
    fn end(mut self, signal: &str) -> String {
        let id = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &id])
                .status()
                .unwrap()
                .success()
        );
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "", "standard output has the address alone");
        let output = self.child.wait_with_output().unwrap();
        let log = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{log}");
        log
    }
}

fn run(args: &[&str]) -> Value {
    let base = [
        "run",
        "--config",
        "embedded:demo-llama",
        "--json",
        "--max-new-tokens",
        "24",
    ];
    let args = [&base[..], args, &[QUESTION]].concat();
    serde_json::from_str(&stdout(&cascade(&args))).unwrap()
}

#[test]
fn answers_equal_those_of_run() {
    let server = serve(&["--max-new-tokens", "24", "--name", "demo"]);
    let messages = json!([{"role": "user", "content": QUESTION}]);
    for (body, args) in [
        (
            json!({"messages": messages, "model": "demo"}),
            vec!["--chat"],
        ),
        (
            json!({"messages": messages, "temperature": 0.9, "seed": 11}),
            vec!["--chat", "--temperature", "0.9", "--seed", "11"],
        ),
    ] {
        let answer = server.ask("/v1/chat/completions", &body);
        assert_eq!(
            answer["choices"][0]["message"]["content"],
            run(&args)["text"]
        );
    }
    let body = json!({"prompt": QUESTION, "temperature": 1, "seed": 2, "top_k": 8});
    let sampled = ["--temperature", "1", "--seed", "2", "--top-k", "8"];
    let record = run(&[&sampled[..], &["--template", "raw"]].concat());
    assert_eq!(
        server.ask("/v1/completions", &body)["choices"][0]["text"],
        record["text"]
    );
    server.end("-INT");
}

/// `serve --check-health` of a server at this port.
fn check_health(host: &str, port: &str) -> std::process::Output {
    cascade(&["serve", "--check-health", "--host", host, "--port", port])
}

#[test]
fn the_program_checks_the_health_of_a_server() {
    let server = serve(&["--host", "0.0.0.0", "--api-key", "secret"]);
    let port = server.address.rsplit(':').next().unwrap().to_owned();
    // The address that it listens on, and the one by which it is reached; no key is needed.
    for host in ["0.0.0.0", "127.0.0.1"] {
        let health: Value = serde_json::from_str(&stdout(&check_health(host, &port))).unwrap();
        assert_eq!(health["status"], "ok");
    }
    server.end("-INT");
    let output = check_health("127.0.0.1", &port);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no server answers"));
}

#[test]
fn what_answers_otherwise_is_not_healthy() {
    for (answer, said) in [
        ("HTTP/1.1 503 Service Unavailable\r\n\r\n{}", "503"),
        ("220 mail.example\r\n", "no HTTP server"),
    ] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let other = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // What is not read would reset the connection.
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let output = check_health("127.0.0.1", &port);
        other.join().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let said_so = String::from_utf8(output.stderr).unwrap();
        assert!(said_so.contains(said), "{said_so}");
    }
}

/// A metric of a server.
fn metric(server: &Server, name: &str) -> f64 {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Its reader leaves, or the disk is full from the beginning: every request is answered.
#[test]
fn a_log_that_cannot_be_written_disturbs_nobody() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    for stderr in [Stdio::piped(), full.unwrap().into()] {
        let args = ["--sessions", "2", "--max-new-tokens", "4"];
        let mut server = serve_logging(&args, stderr);
        drop(server.child.stderr.take());
        let body = json!({"prompt": QUESTION});
        let texts: Vec<Value> = (0..6)
            .map(|_| server.ask("/v1/completions", &body)["choices"][0]["text"].clone())
            .collect();
        assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
        // The last line is written after its answer was sent.
        let deadline = Instant::now() + Duration::from_secs(10);
        while metric(&server, "cascade:log_lines_lost_total") < 6.0 {
            assert!(Instant::now() < deadline, "fewer than six lines were lost");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(metric(&server, "cascade:panics_total"), 0.0);
        server.end("-TERM");
    }
}

#[test]
fn the_tree_drafts_for_the_demo() {
    let server = serve(&["--tree", "--max-new-tokens", "8"]);
    let answer = server.ask("/v1/completions", &json!({"prompt": QUESTION}));
    let levels = answer["usage"]["speculation"]["levels"].as_array().unwrap();
    assert_eq!(levels.last().unwrap()["name"], "max-gram-tree");
    server.end("-INT");
}

#[test]
fn a_stop_by_signal_lets_answers_end_and_logs_hold_no_texts() {
    let server = serve(&["--log-format", "json"]);
    let body =
        json!({"prompt": QUESTION, "max_tokens": 60, "temperature": 5, "seed": 1, "stream": true});
    let mut stream = BufReader::new(server.request("/v1/completions", &body));
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
    let log = server.end("-TERM");
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.contains("data: [DONE]"), "{text}");
    assert!(!log.contains("apples"), "{log}");
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let said = |message: &str| lines.iter().find(|line| line["message"] == message);
    let at_once = said("answers at once").unwrap();
    assert_eq!(at_once["share_forwards"], true);
    let sessions = at_once["sessions"].as_u64().unwrap();
    assert!((4..=16).contains(&sessions), "{sessions}");
    let answered = said("answered").unwrap();
    assert_eq!(
        (&answered["finish"], &answered["tokens"]),
        (&json!("length"), &json!(60))
    );

    let server = serve(&["--log-text"]);
    server.ask(
        "/v1/completions",
        &json!({"prompt": QUESTION, "max_tokens": 2}),
    );
    assert!(server.end("-TERM").contains("3 apples"));
}

#[test]
fn what_would_let_strangers_in_is_refused() {
    let open = error(&cascade(&["serve", "--host", "0.0.0.0", "--port", "0"]));
    assert!(
        open.contains("--api-key-file") && open.contains("--public"),
        "{open}"
    );
    let empty = error(&cascade(&["serve", "--api-key", " "]));
    assert!(empty.contains("empty"), "{empty}");
    let missing = error(&cascade(&["serve", "--api-key-file", "/nonexistent/keys"]));
    assert!(missing.contains("/nonexistent/keys"), "{missing}");
    let none = error(&cascade(&["serve", "--api-key-file", "/dev/null"]));
    assert!(none.contains("--api-key-file"), "{none}");
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = nobody.local_addr().unwrap().port().to_string();
    let taken = error(&cascade(&["serve", "--port", &port, "--log-level", "off"]));
    assert!(taken.contains("--port"), "{taken}");
    // A key of the environment does not show in the help.
    let help = command(&["serve", "--help"])
        .env("CASCADE_API_KEY", "key-of-the-environment")
        .output()
        .unwrap();
    assert!(!stdout(&help).contains("key-of-the-environment"));
}

/// A drafter that has rows for other tokens than its target, over one tokenizer.
#[test]
fn a_pair_of_other_rows_answers_as_its_target_alone() {
    let pair = pairs::pair();
    let prompt = "the tool in the";
    for (target, drafter) in [(&pair.large, &pair.small), (&pair.small, &pair.large)] {
        let server = serve(&["-m", target, "-d", drafter, "-k", "4", "--device", "cpu"]);
        for sampling in [&[][..], &["--temperature", "0.9", "--seed", "5"]] {
            let mut body = json!({"prompt": prompt, "max_tokens": 32});
            let plain = [
                "run",
                "-m",
                target,
                "--no-speculation",
                "--device",
                "cpu",
                "--json",
            ];
            let asked = ["--max-new-tokens", "32", "--prompt", prompt];
            let plain = stdout(&cascade(&[&plain[..], &asked, sampling].concat()));
            let plain: Value = serde_json::from_str(&plain).unwrap();
            if !sampling.is_empty() {
                body["temperature"] = 0.9.into();
                body["seed"] = 5.into();
            }
            let answer = server.ask("/v1/completions", &body);
            assert_eq!(answer["choices"][0]["text"], plain["text"], "{sampling:?}");
            let figures = &answer["usage"]["speculation"];
            assert!(figures["num_draft_tokens"].as_u64().unwrap() > 0);
        }
        server.end("-TERM");
    }
}
