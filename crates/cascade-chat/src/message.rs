//! Messages of a conversation.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value, json};

use crate::{Error, Result};

/// What newer interfaces call the system's role.
pub(crate) const DEVELOPER: &str = "developer";

/// In which form a template reads the contents of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentForm {
    /// Texts and lists of parts alike.
    AsGiven,
    /// Texts alone.
    Text,
    /// Lists of parts alone.
    Parts,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Instructions that precede the conversation.
    System,
    /// The one who asks.
    User,
    /// The model.
    Assistant,
}

impl Role {
    pub(crate) const ALL: [Self; 3] = [Self::System, Self::User, Self::Assistant];

    /// What messages call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What somebody said, with everything else that its JSON object holds: templates see the object as
/// it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    role: Role,
    text: String,
    object: Map<String, Value>,
}

impl Message {
    /// A message.
    pub fn new(role: Role, text: impl Into<String>) -> Self {
        let text = text.into();
        let object = [("role", role.name()), ("content", &text)];
        let object = object.map(|(key, value)| (key.to_owned(), Value::from(value)));
        Self {
            role,
            object: object.into_iter().collect(),
            text,
        }
    }

    /// A message of a chat interface: `{"role": "user", "content": "…"}`, where the content may
    /// also be a list of `{"type": "text", "text": "…"}`.
    ///
    /// # Errors
    /// [`Error::Message`] for another role than `system`, `user` and `assistant` (`developer` is
    /// the system's to templates that do not know it), for calls of tools, and for content that is
    /// not text: nothing is left out in silence.
    pub fn from_json(value: Value) -> Result<Self> {
        let Value::Object(object) = value else {
            return Err(wrong(format!("a message is {value}, not an object")));
        };
        let role = role(&object)?;
        let tools = ["tool_calls", "tool_call_id", "function_call"];
        if let Some(key) = tools.into_iter().find(|key| is_given(&object, key)) {
            return Err(Error::Message {
                problem: format!("the {role}'s message has \"{key}\""),
                cure: "tools are not supported: leave them out of the conversation",
            });
        }
        let text = match object.get("content") {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(parts)) => {
                let parts: Result<Vec<&str>> = parts.iter().map(part).collect();
                parts?.join("\n")
            }
            Some(other) => return Err(wrong(format!("the content of a message is {other}"))),
            None => return Err(wrong(format!("the {role}'s message has no \"content\""))),
        };
        Ok(Self {
            role,
            text,
            object: with_reasoning(object),
        })
    }

    /// Who speaks.
    pub fn role(&self) -> Role {
        self.role
    }

    /// What is said, its parts joined by line breaks.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The message as an object.
    pub fn object(&self) -> &Map<String, Value> {
        &self.object
    }

    /// About how many bytes all that it holds takes.
    pub(crate) fn size(&self) -> usize {
        fn size(value: &Value) -> usize {
            32 + match value {
                Value::String(text) => text.len(),
                Value::Array(items) => items.iter().map(size).sum(),
                Value::Object(map) => map.iter().map(|(key, value)| key.len() + size(value)).sum(),
                _ => 0,
            }
        }
        self.object.values().map(size).sum()
    }

    /// The object as a template reads it that knows the role `developer`, or does not, and that
    /// wants contents in a form.
    pub(crate) fn object_where(
        &self,
        developers: bool,
        form: ContentForm,
    ) -> Cow<'_, Map<String, Value>> {
        let mut object = Cow::Borrowed(&self.object);
        if !developers && is_developer(&self.object) {
            let role = Value::from(self.role.name());
            object.to_mut().insert("role".to_owned(), role);
        }
        let content = match (form, self.has_parts()) {
            (ContentForm::Text, true) => Value::from(self.text()),
            (ContentForm::Parts, false) => json!([{"type": "text", "text": self.text()}]),
            _ => return object,
        };
        object.to_mut().insert("content".to_owned(), content);
        object
    }

    /// Whether its content is a list of parts.
    pub(crate) fn has_parts(&self) -> bool {
        self.object.get("content").is_some_and(Value::is_array)
    }

    /// The message with its content as one text.
    pub(crate) fn with_text(&self) -> Self {
        Self {
            object: self.object_where(true, ContentForm::Text).into_owned(),
            ..self.clone()
        }
    }

    /// Checks that messages are a conversation in which the model is to answer: the last word is
    /// the user's.
    ///
    /// # Errors
    /// [`Error::Message`].
    pub fn check_conversation(messages: &[Self]) -> Result<()> {
        match messages.last().map(Self::role) {
            Some(Role::User) => Ok(()),
            Some(role) => Err(Error::Message {
                problem: format!("the conversation ends with the {role}'s message"),
                cure: "end it with the user's, which the model then answers",
            }),
            None => Err(Error::Message {
                problem: "the conversation has no message".to_owned(),
                cure: "give at least the user's",
            }),
        }
    }
}

fn is_developer(object: &Map<String, Value>) -> bool {
    object.get("role").and_then(Value::as_str) == Some(DEVELOPER)
}

fn is_given(object: &Map<String, Value>, key: &str) -> bool {
    object.get(key).is_some_and(|value| !value.is_null())
}

/// Thoughts under all the names that templates read them by, as transformers 5 gives them.
fn with_reasoning(mut object: Map<String, Value>) -> Map<String, Value> {
    let names = ["reasoning_content", "thinking", "reasoning"];
    let given = names.into_iter().find(|name| is_given(&object, name));
    let Some(reasoning) = given.map(|name| object[name].clone()) else {
        return object;
    };
    let mut all = Map::new();
    all.insert("thinking".to_owned(), reasoning.clone());
    all.append(&mut object);
    all.insert("reasoning_content".to_owned(), reasoning);
    all
}

fn role(object: &Map<String, Value>) -> Result<Role> {
    let Some(role) = object.get("role") else {
        return Err(wrong("a message has no \"role\"".to_owned()));
    };
    if is_developer(object) {
        return Ok(Role::System);
    }
    let mut known = Role::ALL.into_iter();
    known
        .find(|known| role.as_str() == Some(known.name()))
        .ok_or_else(|| Error::Message {
            problem: format!("a message has the role {role}"),
            cure: "roles are system, user and assistant, and developer for system",
        })
}

fn part(part: &Value) -> Result<&str> {
    match (part["type"].as_str(), part["text"].as_str()) {
        (Some("text"), Some(text)) => Ok(text),
        _ => Err(Error::Message {
            problem: format!("a part of a message's content is {part}"),
            cure: "parts are {\"type\": \"text\", \"text\": …}: models here read text alone",
        }),
    }
}

fn wrong(problem: String) -> Error {
    Error::Message {
        problem,
        cure: "a message is {\"role\": …, \"content\": …}",
    }
}
