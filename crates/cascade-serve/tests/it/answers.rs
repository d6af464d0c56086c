//! Answers are those of the engine alone.

use cascade_config::{ChatTemplate, Config, Message, Neural, model_source};
use cascade_core::{Decoding, TextCodec, seed_of};
use cascade_engine::Finish;
use serde_json::{Value, json};

use crate::common::{Alone, QUESTION, Running, config_with_k, options, text, user, with};
use crate::streams::joined;

#[test]
fn greedy_and_seeded_answers_equal_the_engine() {
    let config = config_with_k();
    let mut alone = Alone::of(&config);
    let server = Running::start_as(config, ChatTemplate::vicuna(), |_| {});
    let greedy = options(32);
    let expected = alone.complete(QUESTION, &greedy);
    let answer = server.complete(&json!({"prompt": QUESTION, "max_tokens": 32}));
    assert_eq!(Some(text(&answer)), expected.text.as_deref());
    assert_eq!(answer["object"], "text_completion");
    assert_eq!(answer["usage"]["completion_tokens"], expected.tokens.len());
    let speculation = &answer["usage"]["speculation"];
    assert_eq!(speculation["num_draft_tokens"], expected.num_draft_tokens());
    assert_eq!(
        speculation["num_accepted_tokens"],
        expected.num_accepted_draft_tokens()
    );
    assert_eq!(speculation["num_forwards"], expected.steps.len());

    let expected = alone.chat(QUESTION, &greedy);
    let answer = server.chat(&json!({"messages": user(QUESTION), "max_completion_tokens": 32, "model": "demo-llama-target"}));
    assert_eq!(Some(text(&answer)), expected.text.as_deref());
    assert_eq!(answer["object"], "chat.completion");
    let finish = match expected.finish {
        Finish::Eos => "stop",
        _ => "length",
    };
    assert_eq!(answer["choices"][0]["finish_reason"], finish);

    for (seed, speculate) in [(3, true), (4, true), (3, false)] {
        let decoding = Decoding::new(0.9, Some(40), Some(0.95), Some(0.01)).unwrap();
        let sampled = greedy.clone().with_decoding(decoding).with_seed(seed);
        let expected = alone.complete(QUESTION, &sampled.with_speculation(speculate));
        let body = json!({
            "prompt": QUESTION, "max_tokens": 32, "temperature": 0.9, "top_k": 40, "top_p": 0.95,
            "min_p": 0.01, "seed": seed, "speculation": {"enabled": speculate},
        });
        let answer = server.complete(&body);
        assert_eq!(Some(text(&answer)), expected.text.as_deref(), "seed {seed}");
        assert_eq!(answer["usage"]["speculation"]["seed"], seed);
    }
}

#[test]
fn speculation_changes_figures_and_not_the_text() {
    let server = Running::start();
    let ask = |speculation: Value| {
        let body = json!({"prompt": QUESTION, "max_tokens": 16, "speculation": speculation});
        server.complete(&body)
    };
    let plain = ask(json!({"enabled": false}));
    assert_eq!(plain["usage"]["speculation"]["num_forwards"], 16);
    for speculation in [
        json!({}),
        json!({"schedule": "static", "k": [2, 2, 4]}),
        json!({"k": [[3, 0, 2], [0, 1, 1], [0, 0, 1]], "lenience": 2.5}),
        json!({"tree": {"max_nodes": 12, "widths": [2, 1], "expand": "all_leaves", "siblings": "top_k"}}),
        json!({"tree": {"placement": "merged"}}),
    ] {
        let answer = ask(speculation.clone());
        assert_eq!(text(&answer), text(&plain), "{speculation}");
        let forwards = answer["usage"]["speculation"]["num_forwards"]
            .as_u64()
            .unwrap();
        assert!(forwards < 24, "{speculation}: {forwards}");
    }
}

#[test]
fn choices_draw_from_seeds_in_order() {
    let server = Running::start();
    let mut alone = Alone::new();
    let decoding = Decoding::new(1.0, None, None, None).unwrap();
    let body = json!({
        "prompt": [QUESTION, "Tom has 3 apples."], "n": 2, "max_tokens": 12, "temperature": 1, "seed": 10,
    });
    let answer = server.complete(&body);
    let prompts = [QUESTION, QUESTION, "Tom has 3 apples.", "Tom has 3 apples."];
    for (index, prompt) in prompts.into_iter().enumerate() {
        let sampled = options(12)
            .with_decoding(decoding)
            .with_seed(seed_of(10, index as u64));
        let choice = &answer["choices"][index];
        assert_eq!(choice["index"], index);
        assert_eq!(
            choice["text"].as_str(),
            alone.complete(prompt, &sampled).text.as_deref()
        );
    }
}

/// A model whose tokenizer's decoder strips the blank at the beginning of a text.
fn llama() -> Config {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/lookalikes/lmsys/vicuna-7b-v1.3"
    );
    Config::new(Neural::new(model_source(folder).unwrap()))
}

/// A text that goes on keeps the blank behind its prompt, whole and streamed, and each token's
/// offset is the place of its text; an answer begins without one.
#[test]
fn a_continuation_keeps_the_blank_behind_its_prompt() {
    let config = llama();
    let tokenizer = config.target.load_tokenizer(&Default::default()).unwrap();
    let decoded = |tokens: &[u32]| tokenizer.decode(tokens).unwrap();
    let mut alone = Alone::of(&config);
    let template = ChatTemplate::vicuna();
    let server = Running::start_as(config, template.clone(), |_| {});
    let mut blanks = 0;
    // Seeds with which the first token begins with a blank, and one with which it does not.
    for seed in [1, 39, 59] {
        let prompt = "Once upon a";
        let decoding = Decoding::new(2.0, None, None, None).unwrap();
        let options = options(6)
            .with_decoding(decoding)
            .with_seed(seed_of(seed, 0));
        let own = alone.complete(prompt, &options);
        let asked = TextCodec::encode(&tokenizer, prompt).unwrap();
        let whole = decoded(&[&asked[..], &own.tokens].concat());
        blanks += usize::from(own.text.as_deref() != whole.strip_prefix(prompt));
        let body = json!({"prompt": prompt, "max_tokens": 6, "temperature": 2, "seed": seed, "echo": true, "logprobs": 0});
        let answer = server.complete(&body);
        assert_eq!(text(&answer), whole);
        let logprobs = &answer["choices"][0]["logprobs"];
        let offset = &logprobs["text_offset"][asked.len()];
        assert_eq!(offset, prompt.chars().count());
        let streamed = with(&body, &json!({"stream": true}));
        let (chunks, _) = server.stream("/v1/completions", &streamed);
        assert_eq!(joined(&chunks, 0), whole);
        let begun = json!([{"role": "user", "content": "Go on."}, {"role": "assistant", "content": prompt}]);
        let messages = begun.as_array().unwrap().iter().cloned();
        let messages: Vec<Message> = messages
            .map(|one| Message::from_json(one).unwrap())
            .collect();
        let begun_text = template.render_begun(&messages).unwrap();
        let own = alone.complete(&begun_text, &options.with_continuation(true));
        let answer = server
            .chat(&json!({"messages": begun, "max_tokens": 6, "temperature": 2, "seed": seed}));
        assert_eq!(Some(text(&answer)), own.text.as_deref());
    }
    assert_eq!(blanks, 2);
    let asked = json!({"messages": user("Who wrote Faust?"), "max_tokens": 6, "temperature": 0});
    assert!(!text(&server.chat(&asked)).starts_with(' '));
}

/// A stop text that is a special token stops at it; one that holds a special token beside other
/// text never can, and a warning says so.
#[test]
fn special_tokens_are_stops() {
    let config = llama();
    let tokenizer = config.target.load_tokenizer(&Default::default()).unwrap();
    let end = tokenizer.token_to_id("</s>").unwrap();
    let server = Running::start_as(config, ChatTemplate::vicuna(), |_| {});
    let ask = |stop: &str| {
        server.complete(&json!({"prompt": "Once", "max_tokens": 4, "temperature": 0, "stop": stop}))
    };
    assert!(ask("</s>")["warnings"].is_null());
    let told = ask("\n</s>")["warnings"].to_string();
    assert!(
        told.contains("special token") && told.contains("</s>"),
        "{told}"
    );
    assert_eq!(tokenizer.decode(&[end]).unwrap(), "");
}

#[test]
fn stops_echoes_and_tokens() {
    let server = Running::start();
    let whole = server.complete(&json!({"prompt": QUESTION, "max_tokens": 40}));
    let whole = text(&whole).to_owned();
    let stop: String = whole.chars().skip(20).take(4).collect();
    let body = json!({"prompt": QUESTION, "max_tokens": 40, "stop": ["@@@", stop], "echo": true});
    let stopped = server.complete(&body);
    let before = whole.split_once(&stop).unwrap().0;
    assert_eq!(text(&stopped), format!("{QUESTION}{before}"));
    assert_eq!(stopped["choices"][0]["finish_reason"], "stop");
    assert_eq!(stopped["choices"][0]["stop_reason"], stop);

    let tokens = server.ask(
        "/tokenize",
        &json!({"prompt": QUESTION, "return_token_strs": true}),
    );
    assert_eq!(tokens["count"], tokens["tokens"].as_array().unwrap().len());
    assert_eq!(
        tokens["token_strs"].as_array().unwrap().len(),
        tokens["count"]
    );
    let body = json!({"prompt": tokens["tokens"], "max_tokens": 40});
    assert_eq!(text(&server.complete(&body)), whole);
    let back = server.ask("/detokenize", &json!({"tokens": tokens["tokens"]}));
    assert_eq!(back["prompt"], QUESTION);
    let nothing = json!({"prompt": QUESTION, "max_tokens": 0, "echo": true});
    assert_eq!(text(&server.complete(&nothing)), QUESTION);
    let chat = server.ask("/tokenize", &json!({"messages": user(QUESTION)}));
    assert!(chat["count"].as_u64() > tokens["count"].as_u64());
}

#[test]
fn log_probabilities_are_the_targets() {
    let server = Running::start();
    let ask = |more: Value| {
        let body = json!({"messages": user(QUESTION), "max_tokens": 16, "logprobs": true, "top_logprobs": 3});
        server.chat(&with(&body, &more))
    };
    let drafted = ask(json!({}));
    let entries = drafted["choices"][0]["logprobs"]["content"]
        .as_array()
        .unwrap();
    assert_eq!(entries.len(), 16);
    let mut joined = String::new();
    for entry in entries {
        let top = entry["top_logprobs"].as_array().unwrap();
        assert_eq!(
            (&top[0]["token"], &top[0]["logprob"]),
            (&entry["token"], &entry["logprob"]),
            "greedy"
        );
        let mass: f64 = top
            .iter()
            .map(|one| one["logprob"].as_f64().unwrap().exp())
            .sum();
        assert!(
            top.len() == 3 && mass > 0.0 && mass <= 1.0 + 1e-9,
            "{entry}"
        );
        joined.push_str(entry["token"].as_str().unwrap());
    }
    assert_eq!(joined.trim_start(), text(&drafted).trim_start());
    // Row for row the same bits, whoever drafted.
    let plain = ask(json!({"speculation": {"enabled": false}}));
    assert_eq!(plain["choices"], drafted["choices"]);
    // Before temperature and truncation.
    let sampled = ask(json!({"temperature": 0.01, "top_k": 1, "seed": 1}));
    assert_eq!(sampled["choices"], drafted["choices"]);

    let body = json!({"prompt": QUESTION, "max_tokens": 8, "logprobs": 2});
    let legacy = server.complete(&body);
    let logprobs = &legacy["choices"][0]["logprobs"];
    for list in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
        assert_eq!(logprobs[list].as_array().unwrap().len(), 8, "{list}");
    }
    assert_eq!(logprobs["text_offset"][0], 0);
    assert_eq!(logprobs["top_logprobs"][0].as_object().unwrap().len(), 2);
}

#[test]
fn a_conversation_is_read_once() {
    let server = Running::start();
    let client = server.client(None);
    // Most of it is not the system message, which all conversations share.
    let question = format!("{QUESTION} {QUESTION} {QUESTION}");
    let first = client.chat(&json!({"messages": user(&question), "max_tokens": 24}));
    let answer = text(&first).to_owned();
    let mut messages = user(&question);
    let more = [
        json!({"role": "assistant", "content": answer}),
        json!({"role": "user", "content": "Are you sure?"}),
    ];
    messages.as_array_mut().unwrap().extend(more);
    let body = json!({"messages": messages, "max_tokens": 24});
    // Somebody else asks between the two.
    server.chat(&json!({"messages": user("Tom has 3 apples."), "max_tokens": 4}));
    let second = client.chat(&body);
    let usage = &second["usage"];
    let (known, all) = (
        usage["prompt_tokens_details"]["cached_tokens"].as_u64(),
        usage["prompt_tokens"].as_u64(),
    );
    assert!(2 * known.unwrap() > all.unwrap(), "{usage}");
    // What is known is not heard twice, and what is said is the same.
    drop(server);
    let fresh = Running::start();
    let expected = fresh.chat(&body);
    assert_eq!(text(&second), text(&expected));
    assert_eq!(
        expected["usage"]["prompt_tokens_details"]["cached_tokens"],
        0
    );
}

#[test]
fn models_health_metrics_and_the_page() {
    let server = Running::start();
    let models = server.get("/v1/models").json();
    let entry = &models["data"][0];
    assert_eq!(
        (entry["id"].as_str(), entry["object"].as_str()),
        (Some("demo-llama-target"), Some("model"))
    );
    assert_eq!(entry["cascade"]["levels"].as_array().unwrap().len(), 4);
    assert_eq!(
        server.get("/v1/models/demo-llama-target").json()["id"],
        entry["id"]
    );
    assert_eq!(server.get("/health").json()["status"], "ok");

    let answer = server.complete(&json!({"prompt": QUESTION, "max_tokens": 16}));
    server.settle();
    let speculation = &answer["usage"]["speculation"];
    let metrics = server.get("/metrics");
    assert!(
        metrics
            .header("content-type")
            .starts_with("application/openmetrics-text")
    );
    for (metric, figure) in [
        (
            "vllm:spec_decode_num_drafts_total",
            &speculation["num_drafts"],
        ),
        (
            "vllm:spec_decode_num_draft_tokens_total",
            &speculation["num_draft_tokens"],
        ),
        (
            "vllm:spec_decode_num_accepted_tokens_total",
            &speculation["num_accepted_tokens"],
        ),
        (
            "vllm:spec_decode_num_accepted_tokens_per_pos_total",
            &speculation["num_accepted_tokens"],
        ),
        (
            "cascade:level_accepted_tokens_total",
            &speculation["num_accepted_tokens"],
        ),
        (
            "cascade:level_draft_tokens_total",
            &speculation["num_draft_tokens"],
        ),
        (
            "vllm:generation_tokens_total",
            &answer["usage"]["completion_tokens"],
        ),
        (
            "vllm:prompt_tokens_total",
            &answer["usage"]["prompt_tokens"],
        ),
    ] {
        assert_eq!(Some(server.metric(metric)), figure.as_f64(), "{metric}");
    }
    assert!(
        metrics.body.contains("finished_reason=\"length\""),
        "{}",
        metrics.body
    );

    for (path, kind) in [
        ("/", "text/html"),
        ("/app.js", "text/javascript"),
        ("/markdown.js", "text/javascript"),
        ("/style.css", "text/css"),
    ] {
        let file = server.get(path);
        assert!(file.header("content-type").starts_with(kind), "{path}");
        let policy = file.header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none'") && !policy.contains("unsafe"),
            "{policy}"
        );
        for foreign in ["https://", "//cdn", "innerHTML =", "eval("] {
            assert!(!file.body.contains(foreign), "{path}: {foreign}");
        }
    }
}
