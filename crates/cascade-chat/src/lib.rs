//! Chat templates: from the messages of a conversation to the text that a model is asked to
//! continue.
//!
//! * [`Message`]: what somebody said, as chat interfaces write it in JSON.
//! * [`ModelChat`]: the [templates](ChatTemplates) that a model comes with, from
//!   `chat_template.jinja`,
//!   `tokenizer_config.json` or `chat_template.json`.
//! * [`ChatTemplate`]: one template, which [renders](ChatTemplate::render) messages. Its text is
//!   the one that `apply_chat_template` of transformers gives.
//! * [`Variables`]: what a caller gives to a template, such as `enable_thinking`.
//!
//! ```
//! use cascade_chat::{ChatTemplate, Message, Role};
//!
//! let source = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}\
//!               {% if add_generation_prompt %}<|assistant|>{% endif %}";
//! let template = ChatTemplate::new("example", source)?;
//! let messages = [Message::new(Role::User, "Hello!")];
//! assert_eq!(template.render(&messages)?, "<|user|>Hello!<|assistant|>");
//! # Ok::<(), cascade_chat::Error>(())
//! ```
//!
//! # Safety
//!
//! A template is a program that somebody else wrote. It sees the messages, the special tokens and
//! the time, and nothing else: it cannot name files (`include`, `import` and `extends` are refused
//! when it is read) or call other code. It is bounded in time and memory: in what it executes, in
//! the size of what it works on and of what it builds, in how deep its code and its values nest,
//! and in what it writes ([`MAX_OUTPUT`]). It is rendered in a thread with a stack of its own.
//!
//! Messages are not escaped: a message that contains the text of a special token, such as
//! `<|im_end|>`, puts that token into the prompt, as in transformers. A program that passes on the
//! messages of strangers has to remove such texts first.

#![forbid(unsafe_code)]

mod builtins;
mod environment;
mod error;
mod growing;
mod json;
mod limits;
mod message;
mod methods;
mod namespace;
mod nesting;
mod operators;
mod rewrite;
mod source;
mod tags;
mod template;
mod variables;
mod weight;

pub use error::{Error, Result};
pub use message::{Message, Role};
pub use source::{ChatFile, ChatTemplates, ModelChat};
pub use template::ChatTemplate;
pub use variables::Variables;

/// Bytes that a template may write: far more than any model reads.
pub const MAX_OUTPUT: usize = 16 << 20;

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;
