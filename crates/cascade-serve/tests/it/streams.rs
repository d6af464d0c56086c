//! Streams hold what whole answers hold.

use serde_json::{Value, json};

use crate::common::{QUESTION, Running, user};

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
