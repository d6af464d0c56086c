//! Chat templates: from the messages of a conversation to the text that a model is asked to
//! continue.
//!
//! * [`Message`]: what somebody said, as chat interfaces write it in JSON.
//! * [`ChatTemplates`]: the templates that a model comes with, from `chat_template.jinja`,
//!   `tokenizer_config.json` or `chat_template.json`.
//! * [`ChatTemplate`]: one template, which [renders](ChatTemplate::render) messages. Its text is
//!   the one that `apply_chat_template` of transformers gives.
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
//! when it is read), call other code, run without end, recurse without end, or write more than
//! [`MAX_OUTPUT`] bytes. One thing is not bounded: the memory of texts that it joins but does not
//! write. Take templates from where you take weights.
//!
//! Messages are not escaped: a message that contains the text of a special token, such as
//! `<|im_end|>`, puts that token into the prompt, as in transformers. A program that passes on the
//! messages of strangers has to remove such texts first.

#![forbid(unsafe_code)]

mod environment;
mod error;
mod json;
mod limited;
mod message;
mod source;
mod tags;
mod template;

pub use error::{Error, Result};
pub use limited::MAX_OUTPUT;
pub use message::{Message, Role};
pub use source::{ChatFile, ChatTemplates};
pub use template::ChatTemplate;

#[cfg(test)]
mod tests;
