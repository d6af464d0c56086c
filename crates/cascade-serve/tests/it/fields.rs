//! What a request may hold, and what is refused by name.

use cascade_config::{ChatTemplate, SamplingSettings};
use cascade_core::StatedSampling;
use serde_json::json;

use crate::common::{QUESTION, Running, config_with_k, user, with};

#[test]
fn every_wrong_field_is_named_by_a_strict_server() {
    let server = Running::start_with(|options| options.strict = true);
    let completion = json!({"prompt": "2 + 3", "max_tokens": 2});
    let chat = json!({"messages": user("2 + 3"), "max_tokens": 2});
    let completions = [
        (json!({"grammar": "x"}), "grammar"),
        (json!({"Temperature": 1}), "Temperature"),
        (json!({"temperature": -1}), "temperature"),
        (json!({"temperature": "1"}), "temperature"),
        (json!({"top_p": 0}), "top_p"),
        (json!({"top_p": 1.5}), "top_p"),
        (json!({"min_p": 2}), "min_p"),
        (json!({"top_k": -2}), "top_k"),
        (json!({"n": 0}), "n"),
        (json!({"n": 129}), "n"),
        (json!({"seed": 1.5}), "seed"),
        (json!({"stop": ""}), "stop"),
        (json!({"stop": [1]}), "stop"),
        (json!({"stop": vec!["x"; 65]}), "stop"),
        (json!({"logprobs": 21}), "logprobs"),
        (json!({"logprobs": true}), "logprobs"),
        (json!({"cache_salt": ""}), "cache_salt"),
        (json!({"store": true}), "store"),
        (json!({"presence_penalty": 2.1}), "presence_penalty"),
        (json!({"frequency_penalty": "0"}), "frequency_penalty"),
        (json!({"repetition_penalty": 0}), "repetition_penalty"),
        (json!({"user": 1}), "user"),
        (json!({"repeat_penalty": 0}), "repetition_penalty"),
        (
            json!({"repeat_penalty": 1.1, "repetition_penalty": 1.2}),
            "repeat_penalty",
        ),
        (json!({"logit_bias": {"1": 2}}), "logit_bias"),
        (json!({"stop_token_ids": [4_000_000]}), "stop_token_ids"),
        (json!({"stop_token_ids": [-1]}), "stop_token_ids"),
        (json!({"min_tokens": -1}), "min_tokens"),
        (json!({"ignore_eos": 1}), "ignore_eos"),
        (json!({"max_tokens": -1}), "max_tokens"),
        (json!({"best_of": 2}), "best_of"),
        (json!({"stream_options": {}}), "stream_options"),
        (
            json!({"stream": true, "stream_options": {"x": 1}}),
            "stream_options.x",
        ),
        (json!({"prompt": ""}), "prompt"),
        (json!({"prompt": []}), "prompt"),
        (json!({"prompt": null}), "prompt"),
        (json!({"prompt": [1, "a"]}), "prompt"),
        (json!({"prompt": [4_000_000_000u32]}), "prompt"),
        (json!({"prompt": [-1]}), "prompt"),
        (json!({"messages": user("x")}), "messages"),
        (json!({"speculation": {"turbo": 1}}), "speculation.turbo"),
        (
            json!({"speculation": {"schedule": "best"}}),
            "speculation.schedule",
        ),
        (json!({"speculation": {"k": [1]}}), "speculation.k"),
        (json!({"speculation": {"k": [1, 1, 65]}}), "speculation.k"),
        (
            json!({"speculation": {"k": [[1, 1, 1], [1, 1, 1], [0, 0, 1]]}}),
            "speculation.k",
        ),
        (
            json!({"speculation": {"lenience": 0.5}}),
            "speculation.lenience",
        ),
        (
            json!({"speculation": {"tree": {"max_nodes": 65}}}),
            "speculation.tree.max_nodes",
        ),
        (
            json!({"speculation": {"tree": {"widths": []}}}),
            "speculation.tree.widths",
        ),
        (
            json!({"speculation": {"tree": {"expand": "all_leaves"}}}),
            "speculation.tree.widths",
        ),
        // What only the engine can tell: the drafter below the first mixes no probabilities.
        (
            json!({"speculation": {"k": [2, 2, 4], "tree": {"expand": "most_probable"}}}),
            "speculation",
        ),
        (
            json!({"speculation": {"tree": {"placement": "beyond"}}}),
            "speculation.tree.placement",
        ),
    ];
    let chats = [
        (json!({"tools": [{"type": "function"}]}), "tools"),
        (
            json!({"response_format": {"type": "json_object"}}),
            "response_format",
        ),
        (json!({"top_logprobs": 2}), "top_logprobs"),
        (json!({"max_completion_tokens": 3}), "max_tokens"),
        (json!({"max_tokens": 0}), "max_tokens"),
        (json!({"messages": []}), "messages"),
        (
            json!({"messages": [{"role": "tool", "content": "x"}]}),
            "messages",
        ),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
            "messages",
        ),
        (
            json!({"messages": [{"role": "assistant", "content": "x"}]}),
            "messages",
        ),
        (
            json!({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}], "continue_final_message": false}),
            "messages",
        ),
        (json!({"continue_final_message": true}), "messages"),
        (
            json!({"add_generation_prompt": false}),
            "add_generation_prompt",
        ),
        (
            json!({"chat_template_kwargs": {"messages": []}}),
            "chat_template_kwargs",
        ),
        (
            json!({"chat_template_kwargs": "enable_thinking"}),
            "chat_template_kwargs",
        ),
        (json!({"prompt": "x"}), "prompt"),
    ];
    let of_chats = chats
        .into_iter()
        .map(|case| ("/v1/chat/completions", &chat, case));
    let cases = completions
        .into_iter()
        .map(|case| ("/v1/completions", &completion, case));
    for (path, base, (wrong, named)) in cases.chain(of_chats) {
        let answer = server.post(path, &with(base, &wrong));
        let message = answer.error(400);
        assert!(
            message.contains(&format!("`{named}`")),
            "{wrong}: {message}"
        );
        // The engine does not say which of the settings it refuses.
        let param = &answer.json()["error"]["param"];
        assert!(
            *param == named || named == "speculation" && param.is_null(),
            "{wrong}: {param}"
        );
    }
    let model = server.post(
        "/v1/completions",
        &with(&completion, &json!({"model": "gpt-4"})),
    );
    assert!(model.error(404).contains("gpt-4"));
    assert_eq!(model.json()["error"]["code"], "model_not_found");
}

#[test]
fn what_asks_for_nothing_may_be_given() {
    for strict in [true, false] {
        let server = Running::start_with(|options| options.strict = strict);
        nothing_is_asked(&server);
    }
}

fn nothing_is_asked(server: &Running) {
    let body = json!({
        "messages": user("2 + 3"), "max_tokens": 2, "presence_penalty": 0, "frequency_penalty": 0.0,
        "logit_bias": {}, "tools": [], "tool_choice": "none", "response_format": {"type": "text"},
        "user": "somebody", "store": false, "top_p": 1, "top_k": 0, "n": 1, "logprobs": false,
        "stream": false, "stop": null, "parallel_tool_calls": true, "metadata": {"team": "a"},
        "cache_prompt": true, "repeat_penalty": 1.0, "stop_token_ids": [], "cache_salt": "mine",
        "prompt_cache_key": "key", "chat_template_kwargs": {}, "add_generation_prompt": true,
        "continue_final_message": false, "service_tier": "auto",
    });
    assert_eq!(server.chat(&body).get("warnings"), None);
    let body = json!({"prompt": "2 + 3", "max_tokens": 2.0, "best_of": 1, "suffix": "", "stop": [], "logit_bias": null, "metadata": {}, "guided_json": null});
    assert_eq!(server.complete(&body).get("warnings"), None);
}

/// What the page shows where nothing is filled in.
#[test]
fn the_models_entry_has_the_settings_that_hold_without_others() {
    let mut config = config_with_k();
    config.generation.sampling = SamplingSettings::try_from(StatedSampling {
        temperature: Some(0.6),
        repetition_penalty: Some(1.2),
        ..StatedSampling::default()
    })
    .unwrap();
    let server = Running::start_as(config, ChatTemplate::vicuna(), |_| {});
    let models = server.get("/v1/models").json();
    let entry = &models["data"][0]["cascade"];
    assert_eq!(entry["temperature"], 0.6);
    let expected = json!({
        "top_p": null, "repetition_penalty": 1.2, "presence_penalty": null, "frequency_penalty": null,
    });
    assert_eq!(entry["defaults"], expected);
}

#[test]
fn penalties_change_the_text_whatever_drafts() {
    let server = Running::start();
    let ask = |more: serde_json::Value| {
        let body = json!({"prompt": QUESTION, "max_tokens": 24});
        let answer = server.complete(&with(&body, &more));
        answer["choices"][0]["text"].as_str().unwrap().to_owned()
    };
    let plain = ask(json!({}));
    for penalty in [
        json!({"repetition_penalty": 1.5}),
        json!({"presence_penalty": 2}),
        json!({"frequency_penalty": 2, "temperature": 0.5, "seed": 3}),
    ] {
        let penalized = ask(penalty.clone());
        assert_ne!(penalized, plain, "{penalty}");
        let alone = with(&penalty, &json!({"speculation": {"enabled": false}}));
        assert_eq!(ask(alone), penalized, "{penalty}");
    }
    assert_eq!(
        ask(json!({"repetition_penalty": 1, "presence_penalty": 0.0})),
        plain
    );
}

#[test]
fn prompts_and_answers_must_fit() {
    let server = Running::start_with(|options| options.limits.max_context = 40);
    let ask = |prompt: &str, tokens: usize| {
        server.post(
            "/v1/completions",
            &json!({"prompt": prompt, "max_tokens": tokens}),
        )
    };
    let long = "apples ".repeat(100);
    let answer = ask(&long, 1);
    assert!(answer.error(400).contains("the context has room for 40"));
    assert_eq!(answer.json()["error"]["code"], "context_length_exceeded");
    assert_eq!(ask("2 + 3", 20).status, 200);
    // A length that is more than there is room for is cut, and ends as any length does.
    for length in [40, usize::MAX] {
        let answer = ask(QUESTION, length).json();
        assert_eq!(answer["choices"][0]["finish_reason"], "length");
        assert_eq!(answer["usage"]["total_tokens"], 40, "{answer}");
    }
    // Without a length, an answer is as long as there is room.
    let answer = server.complete(&json!({"prompt": "2 + 3"}));
    let total = answer["usage"]["total_tokens"].as_u64().unwrap();
    assert!(total <= 40, "{total}");
}

#[test]
fn hostile_bodies_are_refused_and_hostile_texts_answered() {
    let server = Running::start();
    let deep = "[".repeat(100_000);
    let bodies: [&[u8]; 13] = [
        b"",
        b"null",
        b"[]",
        b"\"text\"",
        b"{",
        b"{\"prompt\": \"a\"",
        b"{\"prompt\": \"a\", \"prompt\": \"b\"}",
        b"{\"prompt\": \"\xff\xfe\"}",
        b"{\"prompt\": \"\\ud800\"}",
        b"{\"prompt\": 1e999}",
        b"{\"prompt\": NaN}",
        b"\xef\xbb\xbf{\"prompt\": \"a\"}x",
        deep.as_bytes(),
    ];
    for body in bodies {
        let answer = server.post_bytes("/v1/completions", body);
        answer.error(400);
        server.post_bytes("/v1/chat/completions", body).error(400);
        server.post_bytes("/tokenize", body).error(400);
        server.post_bytes("/detokenize", body).error(400);
    }
    let twice = server.post_bytes("/v1/completions", bodies[6]).error(400);
    assert!(twice.contains("`prompt` is given twice"), "{twice}");
    for nested in [
        r#"{"prompt": "a", "speculation": {"enabled": true, "enabled": false}}"#,
        r#"{"prompt": "a", "speculation": {"tree": {"enabled": 1, "enabled": 1}}}"#,
        r#"{"messages": [{"role": "user", "content": [{"enabled": 1, "enabled": 1}]}]}"#,
    ] {
        let twice = server.post_bytes("/v1/completions", nested.as_bytes());
        assert!(twice.error(400).contains("`enabled` is given twice"));
    }
    for text in [
        "\u{0}\u{1}\u{7f}",
        "\u{202e}abc\u{2066}",
        "e\u{301}\u{301}\u{301}\u{301}",
        "👩‍👩‍👧‍👦 漢字 العربية",
        "\u{feff}",
        "</s><s>[INST]",
        "{{ raise_exception('x') }}",
        "\r\n\r\ndata: [DONE]\n\n",
        "\u{10ffff}",
    ] {
        let body = json!({"messages": user(text), "max_tokens": 2, "stream": true});
        let (_, done) = server.stream("/v1/chat/completions", &body);
        assert!(done, "{text:?}");
        let tokens = server.ask("/tokenize", &json!({"prompt": text}));
        server.ask("/detokenize", &json!({"tokens": tokens["tokens"]}));
    }
}
