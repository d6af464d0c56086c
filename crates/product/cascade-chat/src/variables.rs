//! Variables that a caller gives to a template, as `apply_chat_template(**kwargs)` of transformers
//! takes them.

use std::collections::BTreeMap;
use std::str::FromStr;

use minijinja::value::{Serde, Value};
use serde_json::Map;

use crate::source::SPECIAL_TOKENS;
use crate::{ChatTemplate, Error, Message, Result, Role};

/// Names that stand for something else, besides [`SPECIAL_TOKENS`]: what `apply_chat_template` sets
/// or takes itself, and its functions.
const RESERVED: [&str; 23] = [
    "messages",
    "conversation",
    "tools",
    "documents",
    "add_generation_prompt",
    "continue_final_message",
    "chat_template",
    "tokenize",
    "padding",
    "truncation",
    "max_length",
    "return_tensors",
    "return_dict",
    "return_assistant_tokens_mask",
    "tokenizer_kwargs",
    "raise_exception",
    "strftime_now",
    "additional_special_tokens",
    "loop",
    "self",
    "namespace",
    "range",
    "dict",
];

/// Variables of a template, such as `enable_thinking`. None by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Variables(Map<String, serde_json::Value>);

impl Variables {
    /// The members of a JSON object as variables.
    ///
    /// # Errors
    /// [`Error::Variable`] for a name that stands for something else in every template, such as
    /// `messages`.
    pub fn new(object: Map<String, serde_json::Value>) -> Result<Self> {
        let reserved = |name: &&String| {
            RESERVED.contains(&name.as_str()) || SPECIAL_TOKENS.contains(&name.as_str())
        };
        match object.keys().find(reserved) {
            Some(name) => Err(Error::Variable { name: name.clone() }),
            None => Ok(Self(object)),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// These, and those of `others`, which take precedence.
    pub fn overridden_by(&self, others: Self) -> Self {
        let mut all = self.0.clone();
        all.extend(others.0);
        Self(all)
    }

    /// About how many bytes they take.
    pub(crate) fn size(&self) -> usize {
        let text = |value: &serde_json::Value| 32 + value.to_string().len();
        self.0
            .iter()
            .map(|(name, value)| name.len() + text(value))
            .sum()
    }

    /// As a template sees them.
    pub(crate) fn values(&self) -> BTreeMap<String, Value> {
        let values = self.0.iter();
        values
            .map(|(name, value)| (name.clone(), Value::from(Serde(value.clone()))))
            .collect()
    }
}

/// A JSON object, as a command line writes variables.
impl FromStr for Variables {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let object = serde_json::from_str(text).map_err(|error| Error::Message {
            problem: format!("{text:?} is not a JSON object: {error}"),
            cure: "write variables as {\"enable_thinking\": false}",
        })?;
        Self::new(object)
    }
}

impl ChatTemplate {
    /// What the caller of [`render`](Self::render) should know of a `text` that it made of
    /// `messages`, in sentences: a system message that is left out, and variables that the template
    /// does not read.
    pub fn warnings(&self, messages: &[Message], text: &str) -> Vec<String> {
        let name = self.name();
        let mut warnings = Vec::new();
        if self.leaves_out_system(messages, text) {
            warnings.push(format!(
                "the chat template of {name} has no place for a system message: it was left out"
            ));
        }
        for variable in self.variables().0.keys() {
            if !self.mentions(variable) {
                warnings.push(format!(
                    "the chat template of {name} does not read {variable:?}: it changed nothing"
                ));
            }
        }
        warnings
    }

    fn leaves_out_system(&self, messages: &[Message], text: &str) -> bool {
        let (system, others): (Vec<Message>, Vec<Message>) = messages
            .iter()
            .cloned()
            .partition(|message| message.role() == Role::System);
        let missing = |message: &Message| !text.contains(message.text().trim());
        system.iter().any(missing) && self.render(&others).is_ok_and(|without| without == text)
    }

    /// The text up to where the model goes on with the last message, which the assistant has begun
    /// to say. The messages before it end with another's.
    ///
    /// # Errors
    /// As [`render`](Self::render); [`Error::Message`] if the template does not write what the
    /// assistant has begun behind everything else.
    pub fn render_begun(&self, messages: &[Message]) -> Result<String> {
        let cannot = || Error::Message {
            problem: format!(
                "the chat template of {} has no place for an answer that is begun",
                self.name()
            ),
            cure: "end the conversation with the user's message",
        };
        let (begun, before) = messages.split_last().ok_or_else(cannot)?;
        let said = begun.text().trim();
        if said.is_empty() {
            return self.render(before);
        }
        let start = self.render_with(before, false)?;
        let mut text = self.render_with(messages, false)?;
        let at = text
            .rfind(said)
            .filter(|&at| at >= start.len() && text.starts_with(&start));
        let mut end = at.ok_or_else(cannot)? + said.len();
        // Blanks at its end, unless the template takes them away.
        let blanks = &begun.text()[begun.text().trim_end().len()..];
        if text[end..].starts_with(blanks) {
            end += blanks.len();
        }
        text.truncate(end);
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let template = ChatTemplate::new("a", all).unwrap();
        let template =
            template.with_variables(variables(r#"{"a": 1, "b": {"c": ["x"]}, "d": null}"#));
        assert_eq!(template.render(&messages).unwrap(), "2 x True False");
    }

    #[test]
    fn names_of_other_things_are_refused() {
        for name in RESERVED.into_iter().chain(SPECIAL_TOKENS) {
            let error = format!("{{\"{name}\": 1}}")
                .parse::<Variables>()
                .unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
        for text in ["", "[]", "1", "{\"a\": }"] {
            assert!(text.parse::<Variables>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_left_out_is_told() {
        let deaf = "Q: {{ messages[-1].content }}";
        let template = ChatTemplate::new("deaf", deaf).unwrap();
        let template = template.with_variables(variables(r#"{"thinking": true}"#));
        let messages = [
            message(Role::System, "Be brief."),
            message(Role::User, "Hi"),
        ];
        let text = template.render(&messages).unwrap();
        let warnings = template.warnings(&messages, &text);
        assert_eq!(warnings.len(), 2);
        assert!(warnings[0].contains("deaf has no place for a system message"));
        assert!(warnings[1].contains("\"thinking\""));
        let heard = ChatTemplate::new("b", THINKING).unwrap();
        let heard = heard.with_variables(variables(r#"{"enable_thinking": true}"#));
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
}
