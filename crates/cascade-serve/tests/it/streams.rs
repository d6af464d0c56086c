//! Streams hold what whole answers hold.

use serde_json::{Value, json};

use crate::common::{QUESTION, Running, text, user, with};

pub(crate) fn joined(chunks: &[Value], index: usize) -> String {
    let choices = chunks
        .iter()
        .flat_map(|chunk| chunk["choices"].as_array().unwrap());
    let own = choices.filter(|choice| choice["index"] == index);
    own.filter_map(|choice| {
        choice["text"]
            .as_str()
            .or(choice["delta"]["content"].as_str())
    })
    .collect()
}

#[test]
fn chunks_add_up_to_the_answer() {
    let server = Running::start();
    let mut body = json!({"messages": user(QUESTION), "max_tokens": 40, "temperature": 0.8, "seed": 5, "n": 2});
    let whole = server.chat(&body);
    body["stream"] = true.into();
    body["stream_options"] = json!({"include_usage": true});
    let (chunks, done) = server.stream("/v1/chat/completions", &body);
    assert!(done);
    for index in 0..2 {
        let text = whole["choices"][index]["message"]["content"]
            .as_str()
            .unwrap();
        assert_eq!(joined(&chunks, index), text);
        let choices = chunks
            .iter()
            .flat_map(|chunk| chunk["choices"].as_array().unwrap());
        let own: Vec<_> = choices.filter(|choice| choice["index"] == index).collect();
        assert_eq!(own[0]["delta"]["role"], "assistant");
        assert_eq!(
            own.last().unwrap()["finish_reason"],
            whole["choices"][index]["finish_reason"]
        );
    }
    let (last, others) = chunks.split_last().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert_eq!(
        last["usage"]["completion_tokens"],
        whole["usage"]["completion_tokens"]
    );
    assert!(others.iter().all(|chunk| chunk["usage"].is_null()));
    assert!(others.iter().all(|chunk| chunk["id"] == last["id"]));
    assert!(
        chunks
            .iter()
            .all(|chunk| chunk["object"] == "chat.completion.chunk")
    );
}

#[test]
fn stops_and_log_probabilities_in_streams() {
    let server = Running::start();
    let body =
        json!({"prompt": QUESTION, "max_tokens": 40, "logprobs": 1, "stop": "\n", "echo": false});
    let whole = server.complete(&body);
    let mut streamed = body.clone();
    streamed["stream"] = true.into();
    let (chunks, done) = server.stream("/v1/completions", &streamed);
    assert!(done);
    let choice = &whole["choices"][0];
    assert_eq!(joined(&chunks, 0), choice["text"].as_str().unwrap());
    for list in ["tokens", "token_logprobs", "text_offset"] {
        let parts = chunks
            .iter()
            .filter_map(|chunk| chunk["choices"][0]["logprobs"][list].as_array());
        let all: Vec<Value> = parts.flatten().cloned().collect();
        assert_eq!(choice["logprobs"][list], Value::from(all), "{list}");
    }
    let mut echoed = streamed;
    echoed["echo"] = true.into();
    echoed.as_object_mut().unwrap().remove("logprobs");
    let (chunks, _) = server.stream("/v1/completions", &echoed);
    assert_eq!(
        joined(&chunks, 0),
        format!("{QUESTION}{}", choice["text"].as_str().unwrap())
    );
}

#[test]
fn steps_show_who_drafted_what() {
    let server = Running::start();
    let body = json!({
        "messages": user(QUESTION), "max_tokens": 24, "stream": true,
        "stream_options": {"include_usage": true, "include_drafts": true},
        "speculation": {"tree": {"widths": [2]}},
    });
    let (chunks, done) = server.stream("/v1/chat/completions", &body);
    assert!(done);
    let usage = &chunks.last().unwrap()["usage"]["speculation"];
    let steps: Vec<&Value> = chunks
        .iter()
        .map(|chunk| &chunk["cascade"])
        .filter(|step| !step.is_null())
        .collect();
    assert_eq!(usage["num_forwards"], steps.len());
    let (mut nodes, mut accepted, mut tokens) = (0, 0, 0);
    for (at, step) in steps.iter().enumerate() {
        assert_eq!(step["step"], at + 1);
        let draft = step["draft"].as_array().unwrap();
        for (node, shown) in draft.iter().enumerate() {
            let parent = shown["parent"].as_u64();
            assert!(parent.is_none_or(|parent| parent < node as u64), "{step}");
            assert!((1..4).contains(&shown["level"].as_u64().unwrap()), "{step}");
            accepted += usize::from(shown["accepted"] == true);
        }
        nodes += draft.len();
        tokens += step["tokens"].as_array().unwrap().len();
        let pieces: String = step["pieces"]
            .as_array()
            .unwrap()
            .iter()
            .map(|piece| piece["text"].as_str().unwrap())
            .collect();
        assert!(joined(&chunks, 0).contains(&pieces));
    }
    assert_eq!(usage["num_draft_tokens"], nodes);
    assert_eq!(usage["num_accepted_tokens"], accepted);
    assert_eq!(chunks.last().unwrap()["usage"]["completion_tokens"], tokens);
}

/// As vLLM gives them: of a text its choices have the prompt's, of a conversation the response.
#[test]
fn ids_of_tokens() {
    let server = Running::start();
    let wanted = json!({"max_tokens": 24, "temperature": 0, "return_token_ids": true});
    for (path, prompt, in_choice) in [
        ("/v1/completions", json!({"prompt": QUESTION}), true),
        (
            "/v1/chat/completions",
            json!({"messages": user(QUESTION)}),
            false,
        ),
    ] {
        let body = with(&wanted, &prompt);
        let answer = server.ask(path, &body);
        let choice = &answer["choices"][0];
        let read = server.ask("/tokenize", &prompt)["tokens"].clone();
        let place = if in_choice { choice } else { &answer };
        assert_eq!(place["prompt_token_ids"], read, "{path}");
        let ids = choice["token_ids"].as_array().unwrap();
        assert_eq!(answer["usage"]["completion_tokens"], ids.len());
        let shown = server.ask("/detokenize", &json!({"tokens": ids}));
        assert_eq!(
            shown["prompt"].as_str().unwrap().trim(),
            text(&answer).trim()
        );
        let (chunks, _) = server.stream(path, &with(&body, &json!({"stream": true})));
        let choices = || chunks.iter().map(|chunk| &chunk["choices"][0]);
        let parts = choices().filter_map(|choice| choice["token_ids"].as_array());
        assert_eq!(&parts.flatten().cloned().collect::<Vec<_>>(), ids, "{path}");
        let whole: Vec<&Value> = if in_choice {
            choices().collect()
        } else {
            chunks.iter().collect()
        };
        assert_eq!(whole[0]["prompt_token_ids"], read, "{path}");
        assert!(
            whole[1..]
                .iter()
                .all(|part| part["prompt_token_ids"].is_null())
        );
    }
    let plain = server.complete(&json!({"prompt": QUESTION, "max_tokens": 4}));
    assert!(plain["choices"][0]["token_ids"].is_null());
}
