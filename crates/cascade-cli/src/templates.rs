//! From what is asked to the exact text of a prompt.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, Once, PoisonError};

use anyhow::{Context, Result, bail};
use cascade_config::{
    AssembleOptions, ChatTemplate, Config, Message, ModelChat, PromptError, Role, Variables,
};
use cascade_core::Prompt;
use cascade_engine::Cascade;
use cascade_eval::{Content, PromptTemplate, Sample};
use cascade_models::ModelSource;

use crate::terminal;

/// What to do about a chat template that nobody asked for and that cannot be read.
const WITHOUT: &str = "--raw asks without the model's chat template";

/// A prompt as text.
#[derive(Clone, Debug)]
pub struct PromptText {
    pub text: String,
    /// Whether the text holds all special tokens, so that none are put around it.
    pub verbatim: bool,
}

impl PromptText {
    /// Its tokens.
    pub fn encode(&self, cascade: &Cascade) -> cascade_engine::Result<Prompt> {
        let surrounded = cascade.encode(&self.text)?;
        if !self.verbatim {
            return Ok(surrounded);
        }
        let verbatim = cascade.encode_verbatim(&self.text)?;
        warn_of_missing_tokens(&verbatim, &surrounded);
        Ok(verbatim)
    }
}

/// Warns once of a chat template that leaves out what the tokenizer puts around other texts.
fn warn_of_missing_tokens(verbatim: &Prompt, surrounded: &Prompt) {
    static WARNED: Once = Once::new();
    let ends = |prompt: &Prompt| {
        let tokens = [&prompt.source[..], &prompt.context].concat();
        (tokens.first().copied(), tokens.last().copied())
    };
    if ends(verbatim) != ends(surrounded) {
        WARNED.call_once(|| {
            terminal::warn(
                "the tokenizer puts special tokens around a text that the chat template has \
                 not; as in transformers, none are added",
            );
        });
    }
}

/// Warns of what was not warned of before: a conversation is rendered again and again.
fn warn_once(warnings: Vec<String>) {
    static WARNED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut warned = WARNED.lock().unwrap_or_else(PoisonError::into_inner);
    for warning in warnings {
        if !warned.contains(&warning) {
            terminal::warn(&warning);
            warned.insert(warning);
        }
    }
}

/// What makes prompts.
#[derive(Clone, Debug)]
pub enum Template {
    /// One of the program's own.
    Plain(PromptTemplate),
    /// Messages, put into a chat template.
    Chat(Box<Chat>),
}

/// A chat template, and the system message that precedes every conversation.
#[derive(Clone, Debug)]
pub struct Chat {
    pub template: ChatTemplate,
    pub system: Option<String>,
}

impl Template {
    /// What it is called.
    pub fn name(&self) -> &str {
        match self {
            Self::Plain(template) => template.name(),
            Self::Chat(chat) => chat.template.name(),
        }
    }

    /// The chat template, if it is one.
    pub fn chat(&self) -> Option<&ChatTemplate> {
        match self {
            Self::Plain(_) => None,
            Self::Chat(chat) => Some(&chat.template),
        }
    }

    /// Whether answers go on with the text of the prompt.
    pub fn is_continued(&self) -> bool {
        matches!(self, Self::Plain(PromptTemplate::Raw))
    }

    /// Number of turns that it asks.
    pub fn turns(&self, content: &Content) -> usize {
        match self {
            Self::Plain(template) => template.turns(content),
            Self::Chat(_) => content.turns().len(),
        }
    }

    /// The prompt after these answers.
    pub fn prompt(&self, sample: &Sample, answers: &[String]) -> Result<PromptText> {
        match self {
            Self::Plain(template) => Ok(PromptText {
                text: sample.prompt_after(*template, answers)?,
                verbatim: false,
            }),
            Self::Chat(chat) => chat.render(&chat.messages(&sample.content, answers)?),
        }
    }
}

impl Chat {
    /// The prompt that asks for the answer to the last message.
    pub fn render(&self, messages: &[Message]) -> Result<PromptText> {
        let text = self.template.render(messages)?;
        warn_once(self.template.warnings(messages, &text));
        Ok(PromptText {
            text,
            verbatim: self.template.holds_special_tokens(),
        })
    }

    fn messages(&self, content: &Content, answers: &[String]) -> Result<Vec<Message>> {
        let mut messages = Vec::new();
        if let Some(system) = &self.system {
            messages.push(Message::new(Role::System, system));
        }
        if let Content::Conversation(conversation) = content {
            let first = conversation.first().map(Message::role);
            if self.system.is_some() && first == Some(Role::System) {
                bail!("the conversation has a system message already; leave --system out");
            }
            messages.extend(conversation.iter().cloned());
            return Ok(messages);
        }
        let asked = PromptTemplate::user_messages(content).unwrap_or_default();
        for (turn, message) in asked.into_iter().take(answers.len() + 1).enumerate() {
            messages.push(Message::new(Role::User, message));
            if let Some(answer) = answers.get(turn) {
                messages.push(Message::new(Role::Assistant, answer));
            }
        }
        Ok(messages)
    }
}

/// What the arguments say about templates.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub config: &'a Config,
    /// `--template`.
    pub template: Option<&'a str>,
    /// `--chat`.
    pub chat: bool,
    /// `--system`.
    pub system: Option<&'a str>,
    /// `--chat-template-kwargs`.
    pub variables: Option<&'a Variables>,
}

impl Asked<'_> {
    /// The template that was asked for, or `default`.
    pub fn template(&self, default: PromptTemplate) -> Result<Template> {
        match self.template {
            _ if self.chat => self.chat_template(self.own(None)?),
            None => self.plain(default),
            Some(name) => match name.parse() {
                Ok(named) => self.plain(named),
                Err(_) if is_file(name) => self.chat_template(self.file(Path::new(name))?),
                Err(unknown) => self.chat_template(self.named(name, &unknown)?),
            },
        }
    }

    /// The template of texts that somebody types: what was asked for, or what the configuration
    /// says, or else the model's chat template, if it comes with one. A note says so.
    pub fn for_typed_texts(&self) -> Result<Template> {
        let config = self.config;
        let decided = self.chat || self.template.is_some() || config.prompt.is_some();
        // The demo's models are asked word problems.
        if !decided && !matches!(config.target.source, ModelSource::Embedded(_)) {
            let own = config.target_chat(&AssembleOptions::default())?;
            if let Some(templates) = own.templates().context(WITHOUT)? {
                let template = templates.get(None).context(WITHOUT)?.clone();
                terminal::note(format_args!(
                    "note: asked with the model's chat template; --raw continues the text as it is"
                ));
                return self.chat_template(template);
            }
        }
        self.template(config.prompt().of_typed_texts())
    }

    /// The template of a conversation that has messages already: what was asked for, or the model's
    /// own, or Vicuna's where the configuration asks in its form.
    pub fn for_conversations(&self) -> Result<Template> {
        if self.chat || self.template.is_some() {
            return self.template(PromptTemplate::Raw);
        }
        let config = self.config;
        let own = config.target_chat(&AssembleOptions::default())?;
        match own.templates()? {
            Some(templates) => self.chat_template(templates.get(None)?.clone()),
            None if config.prompt().is_conversation() => self.chat_template(ChatTemplate::vicuna()),
            None => bail!(self.no_template()),
        }
    }

    /// Whether conversations have a form though none was asked for.
    pub fn has_conversations(&self) -> Result<bool> {
        let own = self.config.target_chat(&AssembleOptions::default())?;
        Ok(self.config.prompt().is_conversation() || own.templates()?.is_some())
    }

    /// The form of a conversation: what [`for_conversations`](Self::for_conversations) gives, or
    /// Vicuna's for a template of single prompts that is one of conversations.
    pub fn conversation(&self) -> Result<Chat> {
        match self.for_conversations()? {
            Template::Chat(chat) => Ok(*chat),
            Template::Plain(template) if template.is_conversation() => {
                Ok(self.chat(ChatTemplate::vicuna()))
            }
            Template::Plain(template) => bail!(
                "the prompt template {template} has no place for a conversation; take --template vicuna, or \
                 --template FILE.jinja"
            ),
        }
    }

    fn plain(&self, template: PromptTemplate) -> Result<Template> {
        if self.variables.is_some() && !(self.system.is_some() && template.is_conversation()) {
            bail!(
                "--chat-template-kwargs: the prompt template {template} is not a chat template; add --chat for \
                 the model's"
            );
        }
        match self.system {
            None => Ok(Template::Plain(template)),
            Some(_) if template.is_conversation() => self.chat_template(ChatTemplate::vicuna()),
            Some(_) => bail!(
                "the prompt template {template} has no place for a system message; add --chat for the \
                 model's chat template, or --template vicuna"
            ),
        }
    }

    fn chat_template(&self, template: ChatTemplate) -> Result<Template> {
        Ok(Template::Chat(Box::new(self.chat(template))))
    }

    fn chat(&self, template: ChatTemplate) -> Chat {
        Chat {
            template: match self.variables {
                Some(variables) => template.with_variables(variables.clone()),
                None => template,
            },
            system: self.system.map(str::to_owned),
        }
    }

    /// A template that the model comes with.
    fn own(&self, name: Option<&str>) -> Result<ChatTemplate> {
        let chat = self.config.target_chat(&AssembleOptions::default())?;
        match chat.templates()? {
            Some(templates) => Ok(templates.get(name)?.clone()),
            None => bail!(self.no_template()),
        }
    }

    fn named(&self, name: &str, unknown: &PromptError) -> Result<ChatTemplate> {
        self.own(Some(name)).with_context(|| {
            format!(
                "--template: {unknown}; nor is there such a file, nor such a template of the model"
            )
        })
    }

    /// A template of a file, with the special tokens of the model.
    fn file(&self, path: &Path) -> Result<ChatTemplate> {
        let name = path.display().to_string();
        let bytes = std::fs::read(path)
            .with_context(|| format!("--template: {name} cannot be read; check the path"))?;
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            let files = vec![(cascade_config::ChatFile::TokenizerConfig, bytes)];
            let templates = ModelChat::new(&name, files)
                .templates()?
                .with_context(|| format!("--template: {name} has no \"chat_template\""))?;
            return Ok(templates.get(None)?.clone());
        }
        let source =
            String::from_utf8(bytes).with_context(|| format!("--template: {name} is not UTF-8"))?;
        let template = ChatTemplate::new(name, &source)?;
        let model = self.config.target_chat(&AssembleOptions::default())?;
        Ok(model.adopt(template)?)
    }

    fn no_template(&self) -> String {
        format!(
            "{} comes with no chat template (in chat_template.jinja or tokenizer_config.json); choose one: \
             --template vicuna, or --template FILE.jinja",
            self.config.target.name
        )
    }
}

fn is_file(name: &str) -> bool {
    name.contains(['/', '\\']) || name.ends_with(".jinja") || Path::new(name).is_file()
}
