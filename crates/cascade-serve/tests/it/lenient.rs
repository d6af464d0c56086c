//! What clients send that were written for other servers: a warning names what changes nothing, and
//! what would change the answer is honoured or refused by name.

use std::io::Read;

use cascade_config::{ChatTemplate, Config};
use serde_json::{Value, json};

use crate::common::{QUESTION, Running, config, text, user, wire, with};

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";

fn chat() -> Value {
    json!({"messages": user(QUESTION), "max_tokens": 12})
}

fn completion() -> Value {
    json!({"prompt": QUESTION, "max_tokens": 12})
}

/// Every warning of an answer.
fn warnings(answer: &Value) -> Vec<&str> {
    let list = answer["warnings"].as_array();
    let list = list.into_iter().flatten();
    list.map(|warning| warning.as_str().unwrap()).collect()
}

/// What is sent, and what the warning names, if there is one.
#[test]
fn what_changes_nothing_is_accepted_with_a_warning() {
    let server = Running::start();
    let both = [
        (json!({"store": true}), "`store`"),
        (json!({"service_tier": "flex"}), "`service_tier`"),
        (json!({"user": 1}), "`user`"),
        (json!({"priority": 3}), "`priority`"),
        (json!({"options": {"num_ctx": 4096}}), "`options`"),
        (json!({"keep_alive": "5m"}), "`keep_alive`"),
        (json!({"num_ctx": 4096}), "`num_ctx`"),
        (json!({"timings_per_token": true}), "`timings_per_token`"),
        (json!({"reasoning_effort": "minimal"}), "reasoning_effort"),
        (json!({"enable_thinking": false}), "enable_thinking"),
        (json!({"include_reasoning": false}), "`include_reasoning`"),
        (json!({"spaces_between_special_tokens": false}), "`spaces_"),
        (json!({"prediction": {"type": "content"}}), "`prediction`"),
        (
            json!({"stream_options": {"include_obfuscation": true}}),
            "`stream_options.include_obfuscation`",
        ),
        (json!({"speculation": {"turbo": 1}}), "`speculation.turbo`"),
        (
            json!({"model": "gpt-4"}),
            "no model \"gpt-4\" here: \"demo-llama-target\"",
        ),
        (json!({"model": ""}), "\"demo-llama-target\""),
        // Absent in other words.
        (
            json!({"stream_options": {"include_obfuscation": false}}),
            "",
        ),
        (
            json!({"stream_options": {}, "options": {}, "stop": [], "x": null}),
            "",
        ),
        (
            json!({"response_format": {"type": "text", "schema": null}}),
            "",
        ),
        (
            json!({"reasoning_effort": "none", "logit_bias": {}, "seed": 1.0}),
            "",
        ),
        (
            json!({"guided_json": {}, "bad_words": [], "grammar": ""}),
            "",
        ),
        (
            json!({"n": null, "speculation": {"tree": {"widths": []}}}),
            "",
        ),
        (json!({"max_completion_tokens": 12}), ""),
        (json!({"n_predict": 12.0, "metadata": {"a": "b"}}), ""),
    ];
    let chats = [
        (
            json!({"tools": [], "tool_choice": "none", "functions": []}),
            "",
        ),
        (json!({"verbosity": "low"}), "`verbosity`"),
    ];
    let expected = [server.chat(&chat()), server.complete(&completion())];
    let cases = both.iter().map(|case| (COMPLETIONS, completion(), case));
    let of_chats = both.iter().chain(&chats);
    let cases = cases.chain(of_chats.map(|case| (CHAT, chat(), case)));
    for (path, base, (more, said)) in cases {
        let answer = server.ask(path, &with(&base, more));
        let expected = &expected[usize::from(path == COMPLETIONS)];
        assert_eq!(text(&answer), text(expected), "{path}: {more}");
        assert_eq!(answer["model"], "demo-llama-target");
        match (&warnings(&answer)[..], *said) {
            ([], "") => {}
            ([warning], said) if !said.is_empty() => assert!(warning.contains(said), "{warning}"),
            (warnings, said) => panic!("{path} {more}: {warnings:?}, not {said:?}"),
        }
    }
    let body = with(&chat(), &json!({"store": true, "stream": true}));
    let (chunks, _) = server.stream(CHAT, &body);
    assert_eq!(warnings(&chunks[0]).len(), 1, "in a stream's first chunk");
}

#[test]
fn what_would_change_the_answer_is_refused_by_name() {
    let server = Running::start();
    let function = json!({"type": "function", "function": {"name": "f", "parameters": {}}});
    let both = [
        (
            json!({"response_format": {"type": "json_object"}}),
            "response_format",
        ),
        (
            json!({"response_format": {"type": "json_schema"}}),
            "response_format",
        ),
        (json!({"grammar": "root ::= \"a\""}), "grammar"),
        (json!({"guided_choice": ["a"]}), "guided_choice"),
        (
            json!({"structured_outputs": {"choice": ["a"]}}),
            "structured_outputs",
        ),
        (json!({"logit_bias": {"1": 2}}), "logit_bias"),
        (json!({"mirostat": 2}), "mirostat"),
        (json!({"tfs_z": 0.5}), "tfs_z"),
        (json!({"format": "json"}), "format"),
        (json!({"bad_words": ["a"]}), "bad_words"),
        (json!({"skip_special_tokens": false}), "skip_special_tokens"),
        (
            json!({"truncate_prompt_tokens": 5}),
            "truncate_prompt_tokens",
        ),
        (json!({"max_new_tokens": 5}), "max_new_tokens"),
        (json!({"n_predict": 5}), "n_predict"),
        (json!({"max_completion_tokens": 5}), "max_tokens"),
        (json!({"stop_token_ids": [100_000]}), "stop_token_ids"),
        // A field of the server's that is written in another way.
        (json!({"Temperature": 1}), "Temperature"),
        (json!({"topP": 0.5}), "topP"),
        (
            json!({"speculation": {"Lenience": 1}}),
            "speculation.Lenience",
        ),
    ];
    let chats = [
        (json!({"tools": [function]}), "tools"),
        (json!({"tool_choice": "required"}), "tool_choice"),
        (json!({"function_call": {"name": "f"}}), "function_call"),
        (json!({"modalities": ["text", "audio"]}), "modalities"),
        (
            json!({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "", "tool_calls": [function]}]}),
            "messages",
        ),
        (json!({"messages": []}), "messages"),
    ];
    let completions = [
        (json!({"suffix": "end"}), "suffix"),
        (json!({"best_of": 2}), "best_of"),
        (json!({"prompt": []}), "prompt"),
    ];
    let of = |path, base: Value, cases: &[(Value, &'static str)]| {
        let one = |(more, named): &(Value, _)| (path, with(&base, more), *named);
        cases.iter().map(one).collect::<Vec<_>>()
    };
    let cases = [
        of(CHAT, chat(), &both),
        of(CHAT, chat(), &chats),
        of(COMPLETIONS, completion(), &both),
        of(COMPLETIONS, completion(), &completions),
    ];
    for (path, body, named) in cases.concat() {
        let answer = server.post(path, &body);
        let message = answer.error(400);
        assert!(message.contains(&format!("`{named}`")), "{body}: {message}");
        assert_eq!(answer.json()["error"]["param"], named, "{message}");
    }
}

#[test]
fn a_strict_server_reads_all_or_refuses() {
    let server = Running::start_with(|options| options.strict = true);
    for (more, status) in [
        (json!({"model": "gpt-4"}), 404),
        (json!({"keep_alive": "5m"}), 400),
        (json!({"store": true}), 400),
        (json!({"top_p": 0}), 400),
        (json!({"max_tokens": -1}), 400),
        (
            json!({"messages": [{"role": "system", "content": "Sum?"}]}),
            400,
        ),
        (json!({"model": "demo-llama-target", "store": false}), 200),
    ] {
        let answer = server.post(CHAT, &with(&chat(), &more));
        assert_eq!(answer.status, status, "{more}: {}", answer.body);
    }
}

/// A length that is no limit, or not set.
#[test]
fn lengths_as_clients_mean_them() {
    let server = Running::start_with(|options| options.limits.max_context = 200);
    let tokens = |path, body: Value| {
        let usage = server.ask(path, &body)["usage"].clone();
        (
            usage["completion_tokens"].as_u64().unwrap(),
            usage["total_tokens"].as_u64().unwrap(),
        )
    };
    let long = json!({"prompt": QUESTION, "ignore_eos": true});
    let prompt = tokens(COMPLETIONS, with(&long, &json!({"max_tokens": 1}))).1 - 1;
    let whole = (200 - prompt, 200);
    for name in ["max_tokens", "max_completion_tokens", "n_predict"] {
        let none = with(&long, &json!({name: -1}));
        assert_eq!(tokens(COMPLETIONS, none), whole, "{name}");
        let scored = with(&long, &json!({name: 0}));
        assert_eq!(tokens(COMPLETIONS, scored).0, 0, "{name}");
        let unset = json!({"messages": user(QUESTION), "ignore_eos": true, name: 0});
        assert_eq!(tokens(CHAT, unset).1, 200, "{name}");
    }
    server
        .post(COMPLETIONS, &json!({"prompt": QUESTION, "max_tokens": -2}))
        .error(400);
}

#[test]
fn values_that_other_servers_read_in_their_ways() {
    let server = Running::start();
    let ask = |more: Value| {
        let answer = server.complete(&with(&completion(), &more));
        text(&answer).to_owned()
    };
    let greedy = ask(json!({}));
    for same in [
        json!({"top_p": 0}),
        json!({"top_p": 0, "temperature": 1.5, "seed": 3}),
        json!({"top_p": 0, "temperature": 0}),
        json!({"repeat_penalty": 1.0}),
    ] {
        assert_eq!(ask(same.clone()), greedy, "{same}");
    }
    let penalized = ask(json!({"repetition_penalty": 1.5}));
    assert_ne!(penalized, greedy);
    assert_eq!(ask(json!({"repeat_penalty": 1.5})), penalized);
    let body = with(
        &completion(),
        &json!({"repeat_penalty": 1.5, "repeat_last_n": 64}),
    );
    assert!(warnings(&server.complete(&body))[0].contains("`repeat_last_n`"));
    // Of both interfaces, log probabilities in the words of the other one.
    let tops = |path, base: &Value, more: Value| {
        let answer = server.ask(path, &with(base, &more));
        let logprobs = &answer["choices"][0]["logprobs"];
        let first = logprobs["top_logprobs"][0]
            .as_object()
            .map(serde_json::Map::len);
        let of_chat = logprobs["content"][0]["top_logprobs"].as_array();
        first.or(of_chat.map(Vec::len))
    };
    for (more, of_completion, of_chat) in [
        (json!({"logprobs": true}), Some(1), Some(0)),
        (
            json!({"logprobs": true, "top_logprobs": 3}),
            Some(3),
            Some(3),
        ),
        (json!({"logprobs": 2}), Some(2), Some(2)),
        (json!({"logprobs": false}), None, None),
        (json!({"logprobs": null}), None, None),
    ] {
        assert_eq!(
            tops(COMPLETIONS, &completion(), more.clone()),
            of_completion,
            "{more}"
        );
        assert_eq!(tops(CHAT, &chat(), more.clone()), of_chat, "{more}");
    }
}

#[test]
fn tokens_that_end_an_answer() {
    let server = Running::start();
    let question = format!("Question: {QUESTION} Answer:");
    let base = json!({"prompt": question, "max_tokens": 60, "logprobs": 0});
    let ask = |more: Value| {
        let answer = server.complete(&with(&base, &more));
        let plain = with(&more, &json!({"speculation": {"enabled": false}}));
        let plain = server.complete(&with(&base, &plain));
        assert_eq!(answer["choices"], plain["choices"], "{more}");
        let tokens = answer["choices"][0]["logprobs"]["tokens"].clone();
        let tokens: Vec<String> = serde_json::from_value(tokens).unwrap();
        (tokens, answer["choices"][0].clone())
    };
    let (natural, choice) = ask(json!({}));
    assert_eq!(
        (&choice["finish_reason"], &choice["stop_reason"]),
        (&json!("stop"), &Value::Null)
    );
    assert_eq!(natural.last().unwrap(), "</s>");
    let ended = natural.len();
    assert!(ended < 55, "{ended}");

    // The text goes on behind the end token, which has none.
    let (tokens, choice) = ask(json!({"ignore_eos": true}));
    assert_eq!(
        (tokens.len(), &choice["finish_reason"]),
        (60, &json!("length"))
    );
    assert_eq!(tokens[..ended], natural[..]);

    // Another token is chosen in place of the end.
    let (tokens, _) = ask(json!({"min_tokens": ended + 3}));
    assert_eq!(tokens[..ended - 1], natural[..ended - 1]);
    assert!(
        !tokens[..ended + 3].contains(&"</s>".to_owned()),
        "{tokens:?}"
    );
    let (tokens, _) = ask(json!({"min_tokens": ended - 1}));
    assert_eq!(tokens, natural, "one that ends late enough is as it was");

    // The token is the last one, and has no text.
    let at = 4;
    let id = server.ask(
        "/tokenize",
        &json!({"prompt": natural[at].trim(), "add_special_tokens": false}),
    );
    let id = id["tokens"].as_array().unwrap().last().unwrap().clone();
    let (tokens, choice) = ask(json!({"stop_token_ids": [1, id]}));
    assert_eq!(tokens, natural[..tokens.len()]);
    assert!(tokens.len() <= at + 1, "{tokens:?} up to {:?}", natural[at]);
    assert_eq!(
        (&choice["finish_reason"], &choice["stop_reason"]),
        (&json!("stop"), &id)
    );
    let shown: String = tokens[..tokens.len() - 1].concat();
    assert_eq!(text(&json!({"choices": [choice]})).trim(), shown.trim());
    let later = tokens.len();
    let (tokens, _) = ask(json!({"stop_token_ids": [id], "min_tokens": later}));
    assert!(tokens.len() > later);
}

#[test]
fn usage_of_each_chunk() {
    let server = Running::start();
    let body = json!({
        "prompt": QUESTION, "max_tokens": 20, "ignore_eos": true, "stream": true,
        "stream_options": {"include_usage": true, "continuous_usage_stats": true},
    });
    let (chunks, done) = server.stream(COMPLETIONS, &body);
    assert!(done);
    let counts: Vec<u64> = chunks
        .iter()
        .map(|chunk| chunk["usage"]["completion_tokens"].as_u64().unwrap())
        .collect();
    assert!(counts.is_sorted() && counts[0] < 20, "{counts:?}");
    assert_eq!(counts.last(), Some(&20));
    let prompt = &chunks[0]["usage"]["prompt_tokens"];
    assert!(
        chunks
            .iter()
            .all(|chunk| chunk["usage"]["prompt_tokens"] == *prompt)
    );
}

#[test]
fn histories_as_clients_keep_them() {
    let template = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\
        {% if m.tool_calls is defined %} calls{% endif %} {% endfor %}\
        {% if reasoning_effort is defined %}effort {{ reasoning_effort }} {% endif %}[assistant]";
    let template = ChatTemplate::new("a template", template).unwrap();
    let server = Running::start_as(config(), template, |_| {});
    let prompt = |body: Value| {
        let tokens = server.ask("/tokenize", &body)["tokens"].clone();
        let text = server.ask("/detokenize", &json!({"tokens": tokens}));
        text["prompt"].as_str().unwrap().trim().to_owned()
    };
    let said = json!([
        {"role": "user", "content": "2 + 3"},
        {"role": "assistant", "content": "5", "tool_calls": [], "refusal": null, "function_call": null},
        {"role": "user", "content": "more"},
    ]);
    assert_eq!(
        prompt(json!({"messages": said})),
        "[user] 2 + 3 [assistant] 5 [user] more [assistant]"
    );
    let system = json!([{"role": "user", "content": "2"}, {"role": "system", "content": "Sum"}]);
    assert_eq!(
        prompt(json!({"messages": system})),
        "[user] 2 [system] Sum [assistant]"
    );
    let effort = json!({"messages": user("2"), "reasoning_effort": "low"});
    assert_eq!(prompt(effort.clone()), "[user] 2 effort low [assistant]");
    let answer = server.chat(&with(&effort, &json!({"max_tokens": 2})));
    assert_eq!(warnings(&answer), [""; 0], "the template reads it");
}

/// The Max-Gram tree alone, by the online schedule: a K of the request means what `-k` means.
#[test]
fn a_k_of_a_request_has_the_nodes_of_the_command_line() {
    cascade_demo::register();
    let tree = |k: &str| {
        let text = format!(
            "target: {{ model: embedded:demo-llama-target }}\ndrafters: [{{ max_gram_tree: {{}} }}]\n{k}"
        );
        Config::parse(&text, "tree", ".").unwrap()
    };
    let start = |k: &str| Running::start_as(tree(k), ChatTemplate::vicuna(), |_| {});
    let drafted = |server: &Running, speculation: Value| {
        let body =
            json!({"prompt": QUESTION.repeat(3), "max_tokens": 40, "speculation": speculation});
        let usage = server.complete(&body)["usage"]["speculation"].clone();
        let of = |name: &str| usage[name].as_f64().unwrap();
        of("num_draft_tokens") / of("num_drafts").max(1.0)
    };
    let online = start("");
    for k in [4, 16] {
        let nodes = drafted(&online, json!({"k": [k]}));
        assert!(nodes > 2.0 && nodes <= 8.0, "{nodes} of [{k}]");
    }
    let nodes = drafted(&online, json!({"k": [4], "tree": {"max_nodes": 20}}));
    assert!(nodes > 8.0 && nodes <= 20.0, "{nodes}");
    let fixed = start("k: { matrix: [[16]] }\ntree: { max_nodes: 8 }\n");
    assert_eq!(
        drafted(&fixed, json!({"k": [16]})),
        drafted(&fixed, json!({}))
    );
}

#[test]
fn paths_and_headers_of_other_servers() {
    let server = Running::start_with(|options| options.api_keys = vec!["key".to_owned()]);
    let models = |path: &str, header: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{header}\r\n\r\n");
        server.raw(&request).0
    };
    for path in [
        "/v1/models",
        "/models",
        "/v1/models/",
        "/models/",
        "/health/",
    ] {
        assert_eq!(models(path, "x-api-key: key"), 200, "{path}");
    }
    assert_eq!(models("/v1/models", "x-api-key: other"), 401);
    assert_eq!(models("/v1/models", "Authorization: Bearer key"), 200);
    let body = completion().to_string();
    let post = |path: &str, header: &str| {
        let header = format!("x-api-key: key\r\n{header}Content-Type");
        let (status, mut reader) = server.raw(
            &wire(path, &body)
                .replacen("Content-Type", &header, 1)
                .replacen("Host: localhost", "Host: localhost\r\nConnection: close", 1),
        );
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        (status, text)
    };
    for path in ["/completions", "/completions/", "/v1/completions/"] {
        assert_eq!(post(path, "").0, 200, "{path}");
    }
    let (status, said) = post(COMPLETIONS, "Content-Encoding: gzip\r\n");
    assert!(
        status == 415 && said.contains("`Content-Encoding` is \\\"gzip\\\""),
        "{said}"
    );
    assert_eq!(post(COMPLETIONS, "Content-Encoding: identity\r\n").0, 200);
}
