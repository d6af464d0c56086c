//! Requests as the usual clients send them, and those that are too large.

use cascade_config::ChatTemplate;
use serde_json::{Value, json};

use crate::common::{QUESTION, Running, config, user, with};

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";

/// A template with what templates of models have: roles, a switch, no end behind a last answer.
const TEMPLATE: &str = "{% for m in messages %}[{{ m.role }}] {{ m.content }}{% if not loop.last %} {% endif %}\
    {% endfor %}{% if add_generation_prompt %} [assistant]\
    {% if enable_thinking is defined and not enable_thinking %} no thoughts{% endif %}{% endif %}";

fn start_with_template(template: &str) -> Running {
    let template = ChatTemplate::new("a template", template).unwrap();
    Running::start_as(config(), template, |_| {})
}

/// The text that messages become.
fn asked(server: &Running, more: Value) -> String {
    let body = with(&json!({"messages": user("Hi")}), &more);
    let tokens = server.ask("/tokenize", &body)["tokens"].clone();
    let text = server.ask("/detokenize", &json!({"tokens": tokens}));
    text["prompt"].as_str().unwrap().trim().to_owned()
}

#[test]
fn long_answers_are_collected_at_once() {
    let server = Running::start_with(|options| options.limits.unread = 20_000);
    let body = json!({
        "prompt": [QUESTION, "Tom has 3 apples."], "n": 2, "max_tokens": 120, "temperature": 5, "seed": 1,
        "logprobs": 20, "speculation": {"enabled": false},
    });
    let answer = server.complete(&body);
    let choices = answer["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 4);
    for (index, choice) in choices.iter().enumerate() {
        assert_eq!(choice["index"], index);
        let tokens = choice["logprobs"]["tokens"].as_array().unwrap().len();
        let top = &choice["logprobs"]["top_logprobs"];
        assert_eq!(top.as_array().unwrap().len(), tokens);
        // More than a reader may be behind.
        assert!(tokens * 64 * 20 > 20_000 || choice["finish_reason"] == "stop");
    }
    let all: u64 = choices
        .iter()
        .map(|choice| choice["logprobs"]["tokens"].as_array().unwrap().len() as u64)
        .sum();
    assert_eq!(answer["usage"]["completion_tokens"], all);
}

#[test]
fn what_is_collected_is_bounded() {
    let body = json!({
        "prompt": QUESTION, "n": 2, "max_tokens": 120, "temperature": 5, "seed": 1, "logprobs": 20,
        "speculation": {"enabled": false},
    });
    let server = Running::start_with(|options| options.limits.response = 50_000);
    let message = server.post(COMPLETIONS, &body).error(400);
    assert!(message.contains("larger than 50000 bytes"), "{message}");
    server.settle();
    let server = Running::start_with(|options| options.limits.responses = 50_000);
    let message = server.post(COMPLETIONS, &body).error(503);
    assert!(message.contains("being collected"), "{message}");
    // What was held is free again.
    server.settle();
    server.complete(&json!({"prompt": QUESTION, "n": 2, "max_tokens": 8}));
}

#[test]
fn prompts_of_megabytes_are_refused_unread() {
    let server = Running::start();
    let large = "ab ".repeat(1_300_000);
    for (path, body) in [
        (COMPLETIONS, json!({"prompt": large})),
        (COMPLETIONS, json!({"prompt": ["short", large]})),
        (CHAT, json!({"messages": user(&large)})),
        ("/tokenize", json!({"prompt": large})),
        ("/tokenize", json!({"messages": user(&large)})),
        (
            "/tokenize",
            json!({"prompt": "👍".repeat(900_000), "return_token_strs": true}),
        ),
    ] {
        let answer = server.post(path, &body);
        let message = answer.error(400);
        assert!(
            message.contains(" bytes, more than any"),
            "{path}: {message}"
        );
        assert_eq!(answer.json()["error"]["code"], "context_length_exceeded");
    }
    let parts = vec![json!({"type": "text", "text": ""}); 100_000];
    let body = json!({"messages": [{"role": "user", "content": parts}]});
    for path in [CHAT, "/tokenize"] {
        let message = server.post(path, &body).error(400);
        assert!(message.contains("100000 parts"), "{message}");
    }
    let tokens = json!({"tokens": vec![5; 500_000]});
    assert!(
        server
            .post("/detokenize", &tokens)
            .error(400)
            .contains("500000")
    );
    let tokens = json!({"prompt": vec![5; 500_000]});
    assert!(
        server
            .post(COMPLETIONS, &tokens)
            .error(400)
            .contains("500000 tokens")
    );
    // More than fits, and not much more: it is counted.
    let long = "apples and pears ".repeat(500);
    let counted = server.ask("/tokenize", &json!({"prompt": long}));
    assert!(counted["count"].as_u64() > counted["max_model_len"].as_u64());
}

#[test]
fn templates_get_variables() {
    let server = start_with_template(TEMPLATE);
    assert_eq!(asked(&server, json!({})), "[user] Hi [assistant]");
    let off = json!({"chat_template_kwargs": {"enable_thinking": false}});
    assert_eq!(asked(&server, off), "[user] Hi [assistant] no thoughts");
    let body = json!({
        "messages": user("Hi"), "max_tokens": 2, "chat_template_kwargs": {"enable_thinkin": false},
    });
    let answer = server.chat(&body);
    let warning = answer["warnings"][0].as_str().unwrap();
    assert!(
        warning.contains("does not read \"enable_thinkin\""),
        "{warning}"
    );
}

#[test]
fn developers_and_begun_answers() {
    let server = start_with_template(TEMPLATE);
    let messages = |last: &str, text: &str| {
        json!({"messages": [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": "Sum?"},
            {"role": last, "content": text},
        ]})
    };
    assert_eq!(
        asked(&server, messages("assistant", "It is")),
        "[system] Be brief. [user] Sum? [assistant] It is"
    );
    let mut body = messages("assistant", "It is");
    body["max_tokens"] = 4.into();
    server.chat(&body);
    body["continue_final_message"] = true.into();
    body["add_generation_prompt"] = false.into();
    server.chat(&body);
}

/// Chat clients always send a system message, and the demo has no place for one.
#[test]
fn a_system_message_that_is_left_out_is_told() {
    let server = start_with_template("Question: {{ messages[-1].content }} Answer:");
    let mut messages = json!([{"role": "system", "content": "You are a helpful assistant."}]);
    let alone = server.chat(&json!({"messages": user("2 + 3"), "max_tokens": 4}));
    assert_eq!(alone.get("warnings"), None);
    messages
        .as_array_mut()
        .unwrap()
        .push(user("2 + 3")[0].clone());
    let mut body = json!({"messages": messages, "max_tokens": 4});
    let told = server.chat(&body);
    assert_eq!(told["choices"], alone["choices"]);
    let warning = told["warnings"][0].as_str().unwrap();
    assert!(
        warning.contains("no place for a system message"),
        "{warning}"
    );
    body["stream"] = true.into();
    let (chunks, done) = server.stream(CHAT, &body);
    assert!(done);
    assert_eq!(chunks[0]["warnings"], told["warnings"]);
    assert!(
        chunks[1..]
            .iter()
            .all(|chunk| chunk.get("warnings").is_none())
    );
}

#[test]
fn negative_seeds_are_random_and_reported_ones_can_be_sent_back() {
    let server = Running::start();
    let ask = |seed: Value| {
        let body = json!({"prompt": QUESTION, "max_tokens": 12, "temperature": 2, "seed": seed});
        server.complete(&body)
    };
    for seed in [json!(-1), json!(i64::MIN), Value::Null] {
        let random = ask(seed);
        let reported = random["usage"]["speculation"]["seed"].clone();
        assert_eq!(ask(reported)["choices"], random["choices"]);
    }
    assert_eq!(
        ask(json!(u64::MAX))["usage"]["speculation"]["seed"],
        u64::MAX
    );
}

/// What `local-completions` of EleutherAI's evaluation harness asks, and reads.
#[test]
fn prompts_have_log_probabilities() {
    let server = Running::start();
    let tokens = server.ask("/tokenize", &json!({"prompt": QUESTION}))["tokens"].clone();
    let tokens = tokens.as_array().unwrap();
    let body = json!({
        "prompt": [tokens, &tokens[..9]], "max_tokens": 1, "temperature": 0, "logprobs": 2, "echo": true, "seed": 1234,
        "model": "demo-llama-target",
    });
    let answer = server.complete(&body);
    for (choice, length) in [(0, tokens.len()), (1, 9)] {
        let choice = &answer["choices"][choice];
        let logprobs = &choice["logprobs"];
        for list in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
            assert_eq!(
                logprobs[list].as_array().unwrap().len(),
                length + 1,
                "{list}"
            );
        }
        assert!(logprobs["token_logprobs"][0].is_null() && logprobs["top_logprobs"][0].is_null());
        let text = choice["text"].as_str().unwrap();
        // Of each token: where its text is, and what the model says after the tokens before it.
        for at in [2, 5, length - 1] {
            let offset = logprobs["text_offset"][at].as_u64().unwrap() as usize;
            let own = logprobs["tokens"][at].as_str().unwrap();
            let there: String = text.chars().skip(offset).collect();
            assert!(there.starts_with(own), "{own:?} at {offset} of {text:?}");
            let before = json!({"prompt": tokens[..at], "max_tokens": 1, "logprobs": 2});
            let alone = server.complete(&before);
            let alone = &alone["choices"][0]["logprobs"]["top_logprobs"][0];
            assert_eq!(logprobs["top_logprobs"][at], *alone, "token {at}");
            let found = logprobs["token_logprobs"][at].as_f64().unwrap();
            let top = alone.as_object().unwrap().values();
            let most = top.filter_map(Value::as_f64).fold(f64::MIN, f64::max);
            assert!(found <= most);
        }
    }
    assert_eq!(
        answer["choices"][1]["text"].as_str().unwrap().find("Mia"),
        Some(0)
    );
    // The prompt alone, and as a stream.
    let mut body = json!({"prompt": QUESTION, "max_tokens": 0, "logprobs": 2, "echo": true});
    let alone = server.complete(&body);
    let whole = &answer["choices"][0]["logprobs"];
    let prompt = &alone["choices"][0]["logprobs"];
    for list in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
        let whole = whole[list].as_array().unwrap();
        assert_eq!(
            prompt[list].as_array().unwrap()[..],
            whole[..tokens.len()],
            "{list}"
        );
    }
    assert_eq!(alone["choices"][0]["text"], QUESTION);
    assert_eq!(alone["usage"]["completion_tokens"], 0);
    body["max_tokens"] = 3.into();
    let expected = server.complete(&body);
    body["stream"] = true.into();
    let (chunks, done) = server.stream(COMPLETIONS, &body);
    assert!(done);
    assert_eq!(chunks[0]["choices"][0]["text"], QUESTION);
    for list in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
        let parts = chunks
            .iter()
            .filter_map(|chunk| chunk["choices"][0]["logprobs"][list].as_array());
        let all: Vec<Value> = parts.flatten().cloned().collect();
        assert_eq!(
            expected["choices"][0]["logprobs"][list],
            Value::from(all),
            "{list}"
        );
    }
}

/// The harness leaves out the last entry, which is that of the generated token: it has to be there
/// where the model ends the text at once, or a token of the answer would be left out.
#[test]
fn an_answer_that_is_only_the_end_has_a_log_probability() {
    let server = Running::start();
    let question = format!("Question: {QUESTION} Answer:");
    let whole = server.complete(&json!({"prompt": question, "max_tokens": 200}));
    let text = whole["choices"][0]["text"].as_str().unwrap();
    assert_eq!(whole["choices"][0]["finish_reason"], "stop");
    let ids = |text: &str| {
        let answer = server.ask("/tokenize", &json!({"prompt": text}));
        answer["tokens"].as_array().unwrap().clone()
    };
    let (context, all) = (ids(&question), ids(&format!("{question}{text}")));
    let body = json!({
        "model": "demo-llama-target", "prompt": [all], "temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234,
        "echo": true, "num_beams": 1,
    });
    let scored = server.complete(&body);
    let choice = &scored["choices"][0];
    assert_eq!(choice["finish_reason"], "stop", "{choice}");
    let list = |name: &str| choice["logprobs"][name].as_array().unwrap().clone();
    let (found, top) = (list("token_logprobs"), list("top_logprobs"));
    assert_eq!((found.len(), top.len()), (all.len() + 1, all.len() + 1));
    // All tokens of the answer are the model's own choice, as the harness asks it.
    for at in context.len()..all.len() {
        let best = top[at]
            .as_object()
            .unwrap()
            .values()
            .filter_map(Value::as_f64)
            .fold(f64::MIN, f64::max);
        assert_eq!(found[at].as_f64(), Some(best), "token {at}");
    }
}
