//! Rendered templates against transformers, and templates that must be refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::civil::date;
use serde_json::{Value, json};

use crate::*;

fn goldens() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/goldens/chat")
}

fn conversation(value: &Value) -> Vec<Message> {
    let messages = value.as_array().unwrap().iter().cloned();
    messages.map(|m| Message::from_json(m).unwrap()).collect()
}

/// The template of a file, with a golden's tokens, at the goldens' time.
fn template(folder: &Path, golden: &Value) -> ChatTemplate {
    let name = golden["template"].as_str().unwrap();
    let source = std::fs::read_to_string(folder.join(format!("{name}.jinja"))).unwrap();
    let tokens: BTreeMap<_, _> = golden["tokens"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, token)| (name.clone(), token.as_str().unwrap().into()))
        .collect();
    let now = date(2026, 3, 7).at(9, 5, 0, 0);
    let template = ChatTemplate::at(name.to_owned(), &source, Some(now)).unwrap();
    template.with_special_tokens(tokens)
}

/// What a template makes of a golden's messages, with its tools if it has any: to templates these
/// are given as they are.
fn rendered(template: &ChatTemplate, golden: &Value) -> Result<String> {
    let prompt = golden["add_generation_prompt"].as_bool().unwrap();
    if golden["tools"].is_null() {
        return template.render_with(&conversation(&golden["messages"]), prompt);
    }
    let given = ["messages", "tools", "add_generation_prompt"];
    let given = given.map(|name| (name.to_owned(), golden[name].clone()));
    let tokens = golden["tokens"].as_object().unwrap().clone();
    let all: serde_json::Map<_, _> = tokens.into_iter().chain(given).collect();
    template.text_of(minijinja::Value::from(minijinja::value::Serde(all)))
}

/// What differs from a golden, if anything does.
fn difference(golden: &Value, found: Result<String>) -> Option<String> {
    match (golden["text"].as_str(), golden["refused"].as_str(), &found) {
        (Some(text), _, Ok(found)) if found == text => None,
        (None, Some(words), Err(Error::Refused { message, .. })) if message == words => None,
        (None, None, Err(Error::Render { .. })) => None,
        (text, refused, _) => {
            let (case, name) = (&golden["case"], &golden["template"]);
            let fails = &golden["fails"];
            Some(format!(
                "{case} of {name}: {found:?}, not {text:?} {refused:?} {fails}"
            ))
        }
    }
}

#[test]
fn templates_render_as_in_transformers() {
    let file = std::fs::read_to_string(goldens().join("goldens.jsonl")).unwrap();
    let mut counts = [0; 3];
    for line in file.lines() {
        let golden: Value = serde_json::from_str(line).unwrap();
        let found = rendered(&template(&goldens(), &golden), &golden);
        assert_eq!(difference(&golden, found), None);
        let kinds = ["text", "refused", "fails"];
        let kind = kinds.iter().position(|kind| golden[kind].is_string());
        counts[kind.unwrap()] += 1;
    }
    assert!(counts[0] > 270 && counts[1] > 20, "{counts:?}");
}

/// Where transformers renders or refuses; `make_chat.py` says how to make the goldens of a folder.
#[test]
fn templates_of_a_folder_render_as_in_transformers() {
    let of = |name| std::env::var_os(name).map(PathBuf::from);
    let given = of("CASCADE_TEMPLATES").zip(of("CASCADE_TEMPLATE_GOLDENS"));
    let Some((folder, goldens)) = given.filter(|(_, goldens)| goldens.is_file()) else {
        eprintln!(
            "CASCADE_TEMPLATES and CASCADE_TEMPLATE_GOLDENS name no templates: none compared"
        );
        return;
    };
    let file = std::fs::read_to_string(goldens).unwrap();
    let goldens = file.lines().map(|line| serde_json::from_str(line).unwrap());
    let different: Vec<String> = goldens
        .filter(|golden: &Value| golden["fails"].is_null())
        .filter_map(|golden| difference(&golden, rendered(&template(&folder, &golden), &golden)))
        .collect();
    let (count, all) = (different.len(), file.lines().count());
    assert_eq!(
        count,
        0,
        "{count} of {all} differ:\n{}",
        different.join("\n")
    );
}

#[test]
fn expressions_are_those_of_jinja() {
    let file = std::fs::read_to_string(goldens().join("jinja.jsonl")).unwrap();
    let mut different = Vec::new();
    for line in file.lines() {
        let golden: Value = serde_json::from_str(line).unwrap();
        let source = golden["source"].as_str().unwrap();
        let found = ChatTemplate::new("jinja", source)
            .and_then(|template| template.text_of(minijinja::Value::UNDEFINED));
        let expected = golden["text"].as_str();
        if found.as_deref().ok() != expected {
            different.push(format!("{source}: {found:?}, not {expected:?}"));
        }
    }
    assert_eq!(different, [""; 0]);
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
    assert!(
        render(json!([parts]))
            .unwrap()
            .ends_with("USER: a\nb ASSISTANT:")
    );
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
        (
            "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
            "recursion limit",
        ),
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

/// Expressions, most of which templates have, over a list, a mapping and texts.
const EXPRESSIONS: &[&str] = &[
    "1 + 2 * 3 - 4 / 2 ** 2 // 1 % 5",
    "'a' + 'b' ~ 1 ~ none ~ true ~ [1, 'x'] ~ {'k': 1.5}",
    "'ab' * 3 ~ 2 * 'x'",
    "[1, 2] * 2",
    "(1, 'a') * 2",
    "list + [9] + list",
    "(1,) + (2, 3)",
    "1.5 * 2 ~ 3 * 2 ~ true * 2",
    "'a' * 'b'",
    "list * list",
    "1 < 2 < 3 ~ (1 < 2 > 3)",
    "list == [1, 2, 3] and list != [] and list < [2] and list >= [1]",
    "map == {'role': 'user', 'content': 'Hi'} ~ (map < map)",
    "2 in list ~ (5 not in list) ~ ('role' in map) ~ ('H' in text) ~ ('x' in nothing)",
    "1 in 1",
    "'a' in none",
    "text[0] ~ text[-1] ~ text[1:] ~ text[:-1] ~ text[::2] ~ text[2:1] ~ text[9]",
    "list[1:] ~ list[:-1] ~ list[5:] ~ (1, 2, 3)[1:]",
    "nothing[1:] ~ none[1:]",
    "1[1:]",
    "map['role'] ~ map.role ~ list[0] ~ list[-1] ~ map[text] ~ list['a']",
    "text|upper ~ text|lower ~ text|title ~ text|capitalize ~ '  a '|trim ~ 'xax'|trim('x')",
    "text|replace('o', '0') ~ 12|replace('1', 'x')",
    "list|join(', ') ~ list|join ~ text|join('-') ~ [1, [2, '3']]|join",
    "list|length ~ text|length ~ map|length ~ list|first ~ list|last ~ text|first",
    "[3, 1, 2]|sort|list ~ ['b', 'A']|sort ~ [1, 1]|unique|list ~ list|min ~ list|max ~ list|sum",
    "list|map('string')|join ~ items|map(attribute='a')|list ~ items|selectattr('a', 'eq', 2)|list",
    "items|rejectattr('a')|list ~ list|select('odd')|list ~ list|reject('odd')|list",
    "items|groupby('a')|length ~ map|dictsort ~ map|items|list ~ list|batch(2)|list ~ list|slice(2)|list",
    "nothing|default('d') ~ ''|default('d', true) ~ text|d('e')",
    "'%s-%5d|%.2f'|format('a', 3, 1.5) ~ 'in 20240101: {} {:>5} {x}'.format('a', 'b', x=1)",
    "'a\nb'|indent ~ 'a\nb'|indent(2, true) ~ 'a\nb'|indent(width=3)",
    "'3'|int + '1.5'|float ~ (2.567|round(1)) ~ (-3)|abs ~ '<a>'|e",
    "text.split('o') ~ text.strip() ~ text.startswith('H') ~ text.replace('H', 'J') ~ text.upper()",
    "'a,b'.split(',')[1] ~ ','.join(['a', 'b']) ~ 'a\nb'.splitlines() ~ text.find('o')",
    "map.get('role') ~ map.get('x', 'y') ~ map.keys()|list ~ map.values()|list ~ map.items()|list",
    "list is defined ~ (nothing is undefined) ~ (text is string) ~ (map is mapping) ~ (1 is odd)",
    "(list is iterable) ~ (2 is in list) ~ (text is eq 'x') ~ (1 is lt 2) ~ (text is startingwith 'H')",
    "not list ~ (list and text) ~ (nothing or 'x') ~ ('a' if list else 'b')",
    "range(3)|list ~ range(1, 9, 4)|list ~ dict(a=1, b=[2]) ~ dict(map, a=1)",
    "[list, [list, text]] ~ {'a': list, 'b': {'c': text}} ~ (list, text)",
    "text.unknown()",
    "unknown(1)",
    "list|unknown",
];

/// Statements of the same.
const STATEMENTS: &[&str] = &[
    "{% for m in list recursive %}{{ m }}{% if m is iterable %}{{ loop(m) }}{% endif %}{% endfor %}",
    "{% for a, b in map.items() %}{{ loop.index }}{{ a }}{{ b }}{% else %}none{% endfor %}",
    "{% for c in text if c != 'l' %}{{ c }}{{ loop.last }}{% endfor %}",
    "{% for x in list %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }}{% endfor %}",
    "{% for x in list %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{{ loop.previtem }}{% endfor %}",
    "{% set ns = namespace(a=1, b=[]) %}{% for x in list %}{% set ns.a = ns.a + x %}{% set ns.b = ns.b + [x] %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns }}",
    "{% set ns = namespace({'a': 1}) %}{% set ns.b %}x{{ text }}{% endset %}{{ ns.b }}{{ ns.c is defined }}",
    "{% macro f(a, b='x') %}[{{ a }}{{ b }}{{ caller() if caller else '' }}]{% endmacro %}{{ f(1) }}{{ f(b=2, a=3) }}{{ f(*[1, 2]) }}{% call f(4) %}in{% endcall %}",
    "{% set a, b = 1, text %}{{ a }}{{ b }}{% with c = a %}{{ c }}{% endwith %}{{ c }}",
    "{% filter upper %}a{{ text }}{% endfilter %}{% set x | upper %}b{% endset %}{{ x }}",
    "{% raw %}{{ text }}{% endraw %}{# no #}  {%- if true -%}  a  {%- endif %}",
    "{% autoescape true %}{{ '<' }}{% endautoescape %}{{ '<' }}",
    "{% set text.a = 1 %}",
    "{% block b %}{{ text }}{% endblock %}{{ self.b() }}",
];

#[test]
fn charged_templates_say_what_the_library_says() {
    use minijinja::{
        Environment, context,
        value::{Serde, Value},
    };
    let mut plain = Environment::new();
    plain.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    plain.set_syntax(crate::environment::syntax().unwrap());
    plain.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    let items = Value::from(Serde(json!([{"a": 1}, {"a": 2}, {"b": 0}])));
    let map = Value::from(Serde(json!({"role": "user", "content": "Hi"})));
    let variables = context! { list => [1, 2, 3], map, text => "Hello", items };
    let written = EXPRESSIONS.iter().map(|code| format!("{{{{ {code} }}}}"));
    for source in written.chain(STATEMENTS.iter().map(|code| code.to_string())) {
        let ours = ChatTemplate::new("ours", &source).unwrap();
        let found = ours.text_of(variables.clone()).map_err(|_| ());
        let expected = plain.render_str(&source, variables.clone()).map_err(|_| ());
        assert_eq!(found, expected, "{source}");
    }
}

fn read(files: &[(ChatFile, &str)]) -> Result<Option<ChatTemplates>> {
    let files = files.iter();
    let files = files.map(|(kind, text)| (*kind, text.as_bytes().to_vec()));
    ModelChat::new("a/b", files.collect()).templates()
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
        (
            json!({"role": "assistant", "content": null, "tool_calls": [{}]}),
            "tools are not supported",
        ),
    ] {
        let error = Message::from_json(message).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let message = json!({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "name": "x"});
    let message = Message::from_json(message).unwrap();
    assert_eq!((message.role(), message.text()), (Role::User, "a\nb"));
    assert_eq!(message.object()["name"], "x");
    let ends = |roles: &[Role]| {
        let messages: Vec<_> = roles.iter().map(|&role| Message::new(role, "x")).collect();
        Message::check_conversation(&messages).map_err(|error| error.to_string())
    };
    assert!(ends(&[Role::System, Role::User]).is_ok());
    assert!(
        ends(&[Role::User, Role::Assistant])
            .unwrap_err()
            .contains("ends with the assistant's")
    );
    assert!(ends(&[]).unwrap_err().contains("no message"));
}
