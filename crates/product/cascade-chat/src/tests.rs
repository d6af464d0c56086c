//! Rendered templates against transformers, and templates that must be refused.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::civil::date;
use serde_json::{json, Value};

use crate::*;

fn goldens() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../tests/goldens/chat")
}

fn conversation(value: &Value) -> Vec<Message> {
    let messages = value.as_array().unwrap().iter().cloned();
    messages.map(|m| Message::from_json(m).unwrap()).collect()
}

/// The template of a file, with a golden's tokens, at the goldens' time.
fn template(golden: &Value) -> ChatTemplate {
    let name = golden["template"].as_str().unwrap();
    let source = std::fs::read_to_string(goldens().join(format!("{name}.jinja"))).unwrap();
    let tokens = golden["tokens"].as_object().unwrap();
    let tokens: BTreeMap<_, _> = tokens
        .iter()
        .map(|(name, token)| (name.clone(), token.as_str().unwrap().into()))
        .collect();
    let now = date(2026, 3, 7).at(9, 5, 0, 0);
    let template = ChatTemplate::at(name.to_owned(), &source, Some(now)).unwrap();
    template.with_special_tokens(tokens)
}

#[test]
fn templates_render_as_in_transformers() {
    let file = std::fs::read_to_string(goldens().join("goldens.jsonl")).unwrap();
    let (mut rendered, mut refused, mut failed) = (0, 0, 0);
    for line in file.lines() {
        let golden: Value = serde_json::from_str(line).unwrap();
        let place = format!("{} of {}", golden["case"], golden["template"]);
        let messages = conversation(&golden["messages"]);
        let prompt = golden["add_generation_prompt"].as_bool().unwrap();
        let found = template(&golden).render_with(&messages, prompt);
        match (golden["text"].as_str(), golden["refused"].as_str()) {
            (Some(text), _) => {
                let found = found.unwrap_or_else(|error| panic!("{place}: {error}"));
                assert_eq!(found, text, "{place}");
                rendered += 1;
            }
            (None, Some(words)) => {
                let Err(Error::Refused { message, .. }) = found else {
                    panic!("{place}: {found:?}");
                };
                assert_eq!(message, words, "{place}");
                refused += 1;
            }
            (None, None) => {
                assert!(
                    matches!(found, Err(Error::Render { .. })),
                    "{place}: {found:?}"
                );
                failed += 1;
            }
        }
    }
    assert!(
        rendered > 250 && refused > 20 && failed > 15,
        "{rendered} {refused} {failed}"
    );
}

#[test]
fn vicuna_alternates_and_takes_a_system_message() {
    let vicuna = ChatTemplate::vicuna();
    let render = |messages: Value| vicuna.render(&conversation(&messages));
    let system = json!({"role": "system", "content": "Be brief."});
    let user = |text: &str| json!({"role": "user", "content": text});
    let assistant = |text: &str| json!({"role": "assistant", "content": text});
    assert_eq!(
        render(json!([user("Hello!")])).unwrap(),
        "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, \
         detailed, and polite answers to the user's questions. USER: Hello! ASSISTANT:"
    );
    assert_eq!(
        render(json!([
            system,
            user("a\n"),
            assistant(" b "),
            user("c"),
            assistant(""),
            user("d")
        ]))
        .unwrap(),
        "Be brief. USER: a\n ASSISTANT: b</s>USER: c ASSISTANT:USER: d ASSISTANT:"
    );
    let parts = json!({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]});
    assert!(render(json!([parts]))
        .unwrap()
        .ends_with("USER: ab ASSISTANT:"));
    for (messages, words) in [
        (json!([user("a"), user("b")]), "alternate"),
        (json!([assistant("a"), user("b")]), "alternate"),
        (json!([user("a"), assistant("b"), system]), "put it first"),
    ] {
        let message = render(messages).unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
    }
    assert!(!vicuna.holds_special_tokens());
}

fn fails(source: &str) -> String {
    let messages = [Message::new(Role::User, "Hi")];
    let rendered = ChatTemplate::new("evil", source).and_then(|t| t.render(&messages));
    rendered.unwrap_err().to_string()
}

#[test]
fn templates_that_ask_for_files_are_refused_by_name() {
    for (source, words) in [
        (
            "{% include '/etc/passwd' %}",
            "line 1: {% include %} asks for another file",
        ),
        (
            "\n{% if false %}{%- extends \"x\" -%}{% endif %}",
            "line 2: {% extends %}",
        ),
        ("{% import 'x' as y %}", "{% import %}"),
        ("{% from 'x' import y %}", "{% from %}"),
        ("{{ open('/etc/passwd') }}", "open"),
        ("{{ self.environment.loader }}", "undefined"),
        ("{{ messages.__class__.__mro__ }}", "undefined"),
    ] {
        let message = fails(source);
        assert!(message.contains("chat template of evil"), "{message}");
        assert!(message.contains(words), "{source}: {message}");
    }
}

#[test]
fn templates_that_do_not_end_are_refused() {
    for (source, words) in [
        (
            "{% for a in range(99999) %}{% for b in range(99999) %}{% set x = a + b %}{% endfor %}{% endfor %}",
            "runs without end",
        ),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion limit"),
        (
            "{% for a in range(99999) %}{{ 'abcdefghijklmnopqrstuvwxyz' * 100 }}{% endfor %}",
            "builds more than 256 MiB",
        ),
        (
            "{% for a in range(99999) %}{{ 'abcdefghijklmnopqrstuvwxyz' * 10 }}{% endfor %}",
            "writes more than 16 MiB",
        ),
        ("{{ 'x' * 999999999999 }}", "too large"),
        ("{{ range(999999999999) | list }}", "range"),
        ("{{ {} | tojson(indent=999999999) }}", "too large"),
        ("{{ '%0999999999d' | format(1) }}", "too large"),
        ("{{ '{:999999999}'.format('a') }}", "too large"),
        ("{{ 'a\nb' | indent(999999999) }}", "too large"),
        ("{{ 'a\nb' | indent(width=999999999) }}", "too large"),
        ("{{ {{ }}", "line 1"),
        ("{% for %}", "line 1"),
        ("{% unknown %}", "unknown"),
        ("{{ 'a' | unknown }}", "unknown"),
        ("{{ 'a' + 1 }}", "line 1"),
        ("{{ strftime_now('%!') }}", "strftime_now"),
    ] {
        let message = fails(source);
        assert!(message.contains(words), "{source}: {message}");
    }
    let long = "x".repeat((1 << 20) + 1);
    assert!(fails(&long).contains("more than 1 MiB"));
    let nested = "{{ ".to_owned() + &"(".repeat(100_000);
    assert!(!fails(&nested).is_empty());
    let nested = "{% if true %}".repeat(50_000);
    assert!(!fails(&nested).is_empty());
}

fn read(files: &[(ChatFile, &str)]) -> Result<Option<ChatTemplates>> {
    let files: Vec<_> = files
        .iter()
        .map(|(kind, text)| (*kind, text.as_bytes().to_vec()))
        .collect();
    ChatTemplates::read("a/b", &files)
}

#[test]
fn templates_come_from_a_models_files() {
    use ChatFile::{Jinja, Json, SpecialTokens, TokenizerConfig};
    let messages = [Message::new(Role::User, "Hi")];
    let render = |files: &[(ChatFile, &str)], name| {
        let templates = read(files).unwrap().unwrap();
        let template = templates.get(name).unwrap();
        (
            template.render(&messages).unwrap(),
            template.name().to_owned(),
        )
    };
    let config = r#"{"chat_template": "{{ bos_token }}config", "bos_token": {"content": "<s>", "special": true}}"#;
    assert_eq!(
        render(&[(TokenizerConfig, config)], None),
        (
            "<s>config".to_owned(),
            "a/b (tokenizer_config.json)".to_owned()
        )
    );
    let jinja = (Jinja, "{{ bos_token }}jinja{{ eos_token }}");
    assert_eq!(
        render(&[(TokenizerConfig, config), jinja], None),
        (
            "<s>jinja".to_owned(),
            "a/b (chat_template.jinja)".to_owned()
        )
    );
    let map = (
        SpecialTokens,
        r#"{"bos_token": "<other>", "eos_token": "</s>"}"#,
    );
    assert_eq!(
        render(&[(TokenizerConfig, config), map, jinja], None).0,
        "<s>jinja</s>"
    );
    let json = (Json, r#"{"chat_template": "json"}"#);
    assert_eq!(render(&[json], None).0, "json");
    let class = (TokenizerConfig, r#"{"tokenizer_class": "LlamaTokenizer"}"#);
    assert_eq!(render(&[class, jinja], None).0, "<s>jinja</s>");
    let null = (
        TokenizerConfig,
        r#"{"tokenizer_class": "LlamaTokenizer", "bos_token": null}"#,
    );
    assert_eq!(render(&[null, jinja], None).0, "jinja</s>");

    let named = r#"{"chat_template": [{"name": "default", "template": "d"}, {"name": "rag", "template": "r"}]}"#;
    let named = [(TokenizerConfig, named)];
    assert_eq!(render(&named, None).0, "d");
    assert_eq!(
        render(&named, Some("rag")),
        (
            "r".to_owned(),
            "a/b (tokenizer_config.json, rag)".to_owned()
        )
    );
    let templates = read(&named).unwrap().unwrap();
    assert_eq!(templates.names().collect::<Vec<_>>(), ["default", "rag"]);
    let unknown = templates.get(Some("x")).unwrap_err().to_string();
    assert!(
        unknown.contains("\"x\"") && unknown.contains("default, rag"),
        "{unknown}"
    );

    assert!(read(&[]).unwrap().is_none());
    assert!(read(&[(TokenizerConfig, "{}")]).unwrap().is_none());
    for (kind, text, words) in [
        (TokenizerConfig, "{", "not JSON"),
        (TokenizerConfig, "[]", "not a JSON object"),
        (
            TokenizerConfig,
            r#"{"chat_template": 3}"#,
            "neither a string",
        ),
        (
            TokenizerConfig,
            r#"{"chat_template": [{"name": "a"}]}"#,
            "neither a string",
        ),
        (Jinja, "{% if %}", "line 1"),
    ] {
        let message = read(&[(kind, text)]).unwrap_err().to_string();
        assert!(
            message.contains(words) && message.contains("a/b"),
            "{message}"
        );
    }
}

#[test]
fn messages_are_checked() {
    for (message, words) in [
        (json!("hi"), "not an object"),
        (json!({"content": "a"}), "no \"role\""),
        (json!({"role": "user"}), "no \"content\""),
        (
            json!({"role": "tool", "content": "a"}),
            "roles are system, user and assistant",
        ),
        (json!({"role": "user", "content": null}), "null"),
        (json!({"role": "user", "content": 3}), "3"),
        (
            json!({"role": "user", "content": [{"type": "image_url"}]}),
            "text alone",
        ),
        (
            json!({"role": "assistant", "content": "", "tool_calls": [{}]}),
            "tools are not supported",
        ),
    ] {
        let error = Message::from_json(message).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let message = json!({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "name": "x"});
    let message = Message::from_json(message).unwrap();
    assert_eq!((message.role(), message.text()), (Role::User, "ab"));
    assert_eq!(message.object()["name"], "x");
    let ends = |roles: &[Role]| {
        let messages: Vec<_> = roles.iter().map(|&role| Message::new(role, "x")).collect();
        Message::check_conversation(&messages).map_err(|error| error.to_string())
    };
    assert!(ends(&[Role::System, Role::User]).is_ok());
    assert!(ends(&[Role::User, Role::Assistant])
        .unwrap_err()
        .contains("ends with the assistant's"));
    assert!(ends(&[]).unwrap_err().contains("no message"));
}
