//! Tests of variables, warnings and answers that are begun.

use super::ChatTemplate;
use crate::{Message, Role, Variables};

const THINKING: &str = "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{% endfor %}\
    {% if add_generation_prompt %}<assistant>{% if enable_thinking is defined and \
    enable_thinking is false %}<think></think>{% endif %}{% endif %}";

fn variables(text: &str) -> Variables {
    text.parse().unwrap()
}

fn message(role: Role, text: &str) -> Message {
    Message::new(role, text)
}

#[test]
fn variables_reach_the_template() {
    let template = ChatTemplate::new("a", THINKING).unwrap();
    let messages = [message(Role::User, "Hi")];
    let plain = "<user>Hi<end><assistant>";
    assert_eq!(template.render(&messages).unwrap(), plain);
    let off = variables(r#"{"enable_thinking": false}"#);
    let on = off.overridden_by(variables(r#"{"enable_thinking": true}"#));
    let with = |variables| template.clone().with_variables(variables);
    assert_eq!(
        with(off).render(&messages).unwrap(),
        "<user>Hi<end><assistant><think></think>"
    );
    assert_eq!(with(on).render(&messages).unwrap(), plain);
    let all = "{{ a + 1 }} {{ b.c[0] }} {{ d is none }} {{ e is defined }}";
    let template = ChatTemplate::new("a", all)
        .unwrap()
        .with_variables(variables(r#"{"a": 1, "b": {"c": ["x"]}, "d": null}"#));
    assert_eq!(template.render(&messages).unwrap(), "2 x True False");
}

#[test]
fn what_is_left_out_is_told() {
    let deaf = "Q: {{ messages[-1].content }}";
    let template = ChatTemplate::new("deaf", deaf)
        .unwrap()
        .with_variables(variables(r#"{"thinking": true}"#));
    let messages = [
        message(Role::System, "Be brief."),
        message(Role::User, "Hi"),
    ];
    let text = template.render(&messages).unwrap();
    let warnings = template.warnings(&messages, &text);
    assert_eq!(warnings.len(), 2);
    assert!(warnings[0].contains("deaf has no place for a system message"));
    assert!(warnings[1].contains("\"thinking\""));
    let heard = ChatTemplate::new("b", THINKING)
        .unwrap()
        .with_variables(variables(r#"{"enable_thinking": true}"#));
    let text = heard.render(&messages).unwrap();
    assert!(heard.warnings(&messages, &text).is_empty());
}

#[test]
fn developers_are_system_where_there_is_no_such_role() {
    let developer = serde_json::json!({"role": "developer", "content": "Be brief."});
    let messages = [
        Message::from_json(developer).unwrap(),
        message(Role::User, "Hi"),
    ];
    let system = ChatTemplate::new("a", THINKING).unwrap();
    let text = system.render(&messages).unwrap();
    assert!(text.starts_with("<system>Be brief."), "{text}");
    let knows = format!("{{# developer #}}{THINKING}");
    let text = ChatTemplate::new("a", &knows).unwrap().render(&messages);
    assert!(text.unwrap().starts_with("<developer>Be brief."));
    let vicuna = ChatTemplate::vicuna().render(&messages).unwrap();
    assert_eq!(vicuna, "Be brief. USER: Hi ASSISTANT:");
}

/// Whatever a template does with a list of parts, the words of each role are in the prompt, and
/// nothing else of the list is.
#[test]
fn contents_have_the_form_that_the_template_reads() {
    let parts = |role: &str, texts: [&str; 2]| {
        let parts = texts.map(|text| serde_json::json!({"type": "text", "text": text}));
        Message::from_json(serde_json::json!({"role": role, "content": parts})).unwrap()
    };
    let messages = [
        parts("system", ["Be", " brief."]),
        parts("user", ["Sum", " of it?"]),
        parts("assistant", ["It", " is"]),
        message(Role::User, "Go on."),
    ];
    let joined = "system:Be\n brief.|user:Sum\n of it?|assistant:It\n is|user:Go on.|";
    let all = |content: &str| {
        format!("{{% for m in messages %}}{{{{ m.role }}}}:{content}|{{% endfor %}}")
    };
    let each = "{% for p in m.content %}{{ p.text }}{% endfor %}";
    let either =
        format!("{{% if m.content is string %}}{{{{ m.content }}}}{{% else %}}{each}{{% endif %}}");
    let of_user = format!(
        "{{% if m.role == 'user' and m.content is not string %}}{each}{{% else %}}{{{{ m.content }}}}{{% endif %}}"
    );
    for (content, text) in [
        // Fails, shows them as data, or drops them.
        ("{{ m.content + '' }}", joined),
        ("{{ m.content }}", joined),
        (
            "{{ m.content|tojson if m.content is not string else m.content }}{# text #}",
            joined,
        ),
        (
            "{% if m.content is string %}{{ m.content }}{# text #}{% endif %}",
            joined,
        ),
        // Reads them, or those of one role.
        (
            &either,
            "system:Be brief.|user:Sum of it?|assistant:It is|user:Go on.|",
        ),
        (
            &of_user,
            "system:Be\n brief.|user:Sum of it?|assistant:It\n is|user:Go on.|",
        ),
        // Reads nothing else.
        (
            each,
            "system:Be brief.|user:Sum of it?|assistant:It is|user:Go on.|",
        ),
    ] {
        let template = ChatTemplate::new("a", &all(content)).unwrap();
        assert_eq!(template.render(&messages).unwrap(), text, "{content}");
        let begun = template.render_begun(&messages[..3]).unwrap();
        assert!(begun.ends_with("|assistant:It\n is"), "{content}: {begun}");
    }
    // A role that the template does not take is refused in its own words.
    let picky =
        "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}";
    let error = ChatTemplate::new("a", picky).unwrap().render(&messages);
    assert!(error.unwrap_err().to_string().contains("no system"));
}

#[test]
fn a_begun_answer_goes_on() {
    let asked = message(Role::User, "Sum?");
    let begun = |text: &str| [asked.clone(), message(Role::Assistant, text)];
    let template = ChatTemplate::new("a", THINKING).unwrap();
    for (said, expected) in [
        ("It is", "<user>Sum?<end><assistant>It is"),
        ("It is ", "<user>Sum?<end><assistant>It is "),
        ("Sum?", "<user>Sum?<end><assistant>Sum?"),
        (" ", "<user>Sum?<end><assistant>"),
    ] {
        assert_eq!(template.render_begun(&begun(said)).unwrap(), expected);
    }
    let vicuna = ChatTemplate::vicuna()
        .render_begun(&begun("It is "))
        .unwrap();
    assert!(vicuna.ends_with("USER: Sum? ASSISTANT: It is"), "{vicuna}");
    // It would ask what the assistant has said.
    let last = ChatTemplate::new("last", "Q: {{ messages[-1].content }} A:").unwrap();
    let error = last.render_begun(&begun("It is")).unwrap_err();
    assert!(
        error.to_string().contains("no place for an answer"),
        "{error}"
    );
}
