//! A server of the embedded demo, a client, and the answers of the engine alone.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use cascade_config::{AssembleOptions, Assembly, ChatTemplate, Config, Message, Role};
use cascade_engine::{Cascade, Convention, GenerationOutput, KMatrix, Options};
use cascade_serve::{ServeOptions, Served, Server, Stopper};
use serde_json::{Value, json};

/// Far longer than any answer here takes: only what hangs reaches it.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) const QUESTION: &str =
    "Mia sells 24 shells in May and half as many in June. How many shells does she sell?";

pub(crate) fn config() -> Config {
    cascade_demo::register();
    Config::open("embedded:demo-llama").unwrap()
}

/// The demo's configuration with a K matrix, so that what is drafted does not depend on times.
pub(crate) fn config_with_k() -> Config {
    let rows = vec![vec![6, 1, 1], vec![0, 1, 1], vec![0, 0, 1]];
    let k = KMatrix::new(rows, Convention::Added).unwrap();
    config().with_schedule(k).unwrap()
}

pub(crate) fn served(config: Config, template: ChatTemplate) -> Served {
    let pool = config.pool(&AssembleOptions::default());
    Served::new(config, pool, Some(template)).unwrap()
}

/// A server that stops when it is dropped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) stopper: Stopper,
    pub(crate) thread: Option<JoinHandle<()>>,
}

impl Running {
    pub(crate) fn start() -> Self {
        Self::start_with(|_| {})
    }

    pub(crate) fn start_with(change: impl FnOnce(&mut ServeOptions)) -> Self {
        Self::start_as(config(), ChatTemplate::vicuna(), change)
    }

    /// A server of another configuration, or with another template.
    pub(crate) fn start_as(
        config: Config,
        template: ChatTemplate,
        change: impl FnOnce(&mut ServeOptions),
    ) -> Self {
        Self::start_served(served(config, template), change)
    }

    /// A server whose sessions take turns, as on a GPU.
    pub(crate) fn start_in_turns(change: impl FnOnce(&mut ServeOptions)) -> Self {
        let served = served(config(), ChatTemplate::vicuna());
        Self::start_served(served.taking_turns(), change)
    }

    fn start_served(served: Served, change: impl FnOnce(&mut ServeOptions)) -> Self {
        let mut options = ServeOptions::default();
        options.address.set_port(0);
        options.signals = false;
        options.limits.grace = Duration::from_secs(20);
        change(&mut options);
        let server = Server::bind(served, options).unwrap();
        Self {
            address: server.address(),
            stopper: server.stopper(),
            thread: Some(std::thread::spawn(move || server.run().unwrap())),
        }
    }

    fn agent() -> ureq::Agent {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .build();
        config.into()
    }

    /// Status, headers and body of a request.
    pub(crate) fn get(&self, path: &str) -> ServerResponse {
        let response = Self::agent()
            .get(format!("http://{}{path}", self.address))
            .call();
        ServerResponse::of(response.unwrap())
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> ServerResponse {
        self.post_bytes(path, body.to_string().as_bytes())
    }

    pub(crate) fn post_bytes(&self, path: &str, body: &[u8]) -> ServerResponse {
        let request = Self::agent()
            .post(format!("http://{}{path}", self.address))
            .content_type("application/json");
        ServerResponse::of(request.send(body).unwrap())
    }

    /// The body of a request that must succeed.
    pub(crate) fn ask(&self, path: &str, body: &Value) -> Value {
        self.post(path, body).success()
    }

    /// The completion of a request that must succeed.
    pub(crate) fn complete(&self, body: &Value) -> Value {
        self.ask("/v1/completions", body)
    }

    /// The chat completion of a request that must succeed.
    pub(crate) fn chat(&self, body: &Value) -> Value {
        self.ask("/v1/chat/completions", body)
    }

    /// The data of a stream, up to `[DONE]` or its end, and whether it was done.
    pub(crate) fn stream(&self, path: &str, body: &Value) -> (Vec<Value>, bool) {
        self.post(path, body).events()
    }

    /// A client that asks over a connection of its own, with a key if it has one.
    pub(crate) fn client(&self, key: Option<&'static str>) -> Client {
        Client {
            agent: Self::agent(),
            address: self.address,
            key,
        }
    }

    /// A connection on which to write whatever there is to write.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Writes a request and returns the status, without waiting for the body.
    pub(crate) fn raw(&self, request: &str) -> (u16, BufReader<TcpStream>) {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let status = line
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        (status.unwrap_or(0), reader)
    }

    /// A counter or gauge of `/metrics`.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        self.metrics().of(name, "")
    }

    /// All of `/metrics` at one time.
    pub(crate) fn metrics(&self) -> Metrics {
        Metrics(self.get("/metrics").body)
    }

    /// Waits until nothing runs and nothing waits.
    pub(crate) fn settle(&self) {
        for _ in 0..2400 {
            let health = self.get("/health").json();
            if health["running"] == 0 && health["waiting"] == 0 {
                return;
            }
            std::thread::sleep(Duration::from_millis(25));
        }
        panic!("something runs on and on: {}", self.get("/health").body);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(std::thread::panicking() || ended.is_ok());
        }
    }
}

/// The text of `/metrics`.
pub(crate) struct Metrics(String);

impl Metrics {
    /// A counter or gauge, summed over those that have a label.
    pub(crate) fn of(&self, name: &str, label: &str) -> f64 {
        let lines = self
            .0
            .lines()
            .filter(|line| line.starts_with(name))
            .filter(|line| line.contains(label));
        lines
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }
}

/// A client whose requests share a connection.
pub(crate) struct Client {
    agent: ureq::Agent,
    address: SocketAddr,
    key: Option<&'static str>,
}

impl Client {
    pub(crate) fn post(&self, path: &str, body: &Value) -> ServerResponse {
        let mut request = self
            .agent
            .post(format!("http://{}{path}", self.address))
            .content_type("application/json");
        if let Some(key) = self.key {
            request = request.header("Authorization", format!("Bearer {key}"));
        }
        ServerResponse::of(request.send(body.to_string().as_bytes()).unwrap())
    }

    /// A counter or gauge of `/metrics`.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let mut request = self.agent.get(format!("http://{}/metrics", self.address));
        if let Some(key) = self.key {
            request = request.header("Authorization", format!("Bearer {key}"));
        }
        Metrics(ServerResponse::of(request.call().unwrap()).body).of(name, "")
    }

    /// The completion of a request that must succeed.
    pub(crate) fn complete(&self, body: &Value) -> Value {
        self.post("/v1/completions", body).success()
    }

    /// The chat completion of a request that must succeed.
    pub(crate) fn chat(&self, body: &Value) -> Value {
        self.post("/v1/chat/completions", body).success()
    }
}

/// A request with `more` fields.
pub(crate) fn with(base: &Value, more: &Value) -> Value {
    let mut body = base.clone();
    let more = more.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(more);
    body
}

/// The text of the first choice.
pub(crate) fn text(answer: &Value) -> &str {
    let choice = &answer["choices"][0];
    let chat = &choice["message"]["content"];
    choice["text"].as_str().or(chat.as_str()).unwrap()
}

/// What the server answered to a request, read to its end.
pub(crate) struct ServerResponse {
    pub(crate) status: u16,
    pub(crate) body: String,
    headers: Vec<(String, String)>,
}

impl ServerResponse {
    fn of(mut response: ureq::http::Response<ureq::Body>) -> Self {
        let headers = response
            .headers()
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
        Self {
            status: response.status().as_u16(),
            headers: headers.collect(),
            body: {
                let mut text = String::new();
                response
                    .body_mut()
                    .as_reader()
                    .read_to_string(&mut text)
                    .unwrap();
                text
            },
        }
    }

    /// The body of an answer that must be a success.
    pub(crate) fn success(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body);
        self.json()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }

    /// The texts of a stream of one choice that was done.
    pub(crate) fn streamed(&self) -> String {
        let (chunks, done) = self.events();
        assert!(done, "{}", self.body);
        let choices = chunks.iter().map(|chunk| &chunk["choices"][0]);
        let texts = choices.map(|choice| {
            choice["text"]
                .as_str()
                .or(choice["delta"]["content"].as_str())
        });
        texts.flatten().collect()
    }

    /// The data of a stream, up to `[DONE]` or its end, and whether it was done.
    pub(crate) fn events(&self) -> (Vec<Value>, bool) {
        assert_eq!(self.status, 200, "{}", self.body);
        assert!(self.header("content-type").starts_with("text/event-stream"));
        let mut chunks = Vec::new();
        for event in self.body.split("\n\n").filter(|event| !event.is_empty()) {
            match event.strip_prefix("data: ") {
                Some("[DONE]") => return (chunks, true),
                Some(data) => chunks.push(serde_json::from_str(data).unwrap()),
                None => assert!(event.starts_with(':'), "{event}"),
            }
        }
        (chunks, false)
    }

    /// The message of an error in OpenAI's form.
    pub(crate) fn error(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{}", self.body);
        let error = &self.json()["error"];
        assert!(error["type"].is_string(), "{error}");
        assert!(
            error.get("param").is_some() && error.get("code").is_some(),
            "{error}"
        );
        error["message"].as_str().unwrap().to_owned()
    }
}

/// The engine alone, without a server.
pub(crate) struct Alone {
    cascade: Cascade,
    chat: Cascade,
    template: ChatTemplate,
}

impl Alone {
    pub(crate) fn new() -> Self {
        Self::of(&config())
    }

    pub(crate) fn of(config: &Config) -> Self {
        let template = ChatTemplate::vicuna();
        let pool = config.pool(&AssembleOptions::default());
        Self {
            cascade: pool.assemble(config).unwrap().cascade,
            chat: {
                let assembly = Assembly::of(config).chat(&template);
                pool.assemble(assembly).unwrap().cascade
            },
            template,
        }
    }

    pub(crate) fn complete(&mut self, prompt: &str, options: &Options) -> GenerationOutput {
        self.cascade.generate(prompt, options).unwrap()
    }

    pub(crate) fn chat(&mut self, question: &str, options: &Options) -> GenerationOutput {
        let text = self
            .template
            .render(&[Message::new(Role::User, question)])
            .unwrap();
        let prompt = if self.template.holds_special_tokens() {
            self.chat.encode_verbatim(&text)
        } else {
            self.chat.encode(&text)
        };
        self.chat
            .generate_tokens(&prompt.unwrap(), options)
            .unwrap()
    }
}

pub(crate) fn options(tokens: usize) -> Options {
    Options::default().with_max_new_tokens(tokens)
}

pub(crate) fn user(question: &str) -> Value {
    json!([{"role": "user", "content": question}])
}

/// A request as it goes over the wire.
pub(crate) fn wire(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Sends a request over a connection that stays, and reads the JSON of its response.
pub(crate) fn exchange(connection: &mut TcpStream, request: &str) -> Value {
    connection.write_all(request.as_bytes()).unwrap();
    let mut reader = BufReader::new(connection);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    serde_json::from_slice(&body).unwrap()
}
