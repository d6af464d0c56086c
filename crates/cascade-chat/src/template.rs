//! One chat template.

mod begun;
mod parts;
#[cfg(test)]
mod tests;
mod warnings;

use std::collections::BTreeMap;
use std::error::Error as _;
use std::fmt;
use std::sync::{Arc, OnceLock};

use jiff::civil::DateTime;
use minijinja::machinery::{CodeGenerator, Instructions, eval, make_string_output, parse};
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, ErrorKind};

use crate::builtins::shortened;
use crate::environment::{Raised, environment};
use crate::growing::grows;
use crate::message::DEVELOPER;
use crate::{Error, MAX_OUTPUT, Message, Result, Variables, limits, nesting, rewrite, tags};

/// Bytes of the longest template that is read.
const MAX_SOURCE: usize = 1 << 20;

/// The name of a template in its environment.
const ONLY: &str = "chat";

/// Bytes of the stack that templates are compiled and rendered on: what they nest is bounded so
/// that it suffices, wherever it is that the caller's own stack ends.
const STACK: usize = 16 << 20;

/// A template that makes a prompt of messages.
///
/// A template is Jinja with what transformers adds to it: `raise_exception`, `strftime_now`,
/// Python's methods of strings and mappings, `tojson` as `json.dumps`, `{% break %}`,
/// `{% continue %}` and `{% generation %}`. Blocks are trimmed (`trim_blocks`, `lstrip_blocks`).
/// Tools and documents are `none`.
#[derive(Clone)]
pub struct ChatTemplate {
    name: String,
    source: String,
    environment: Environment<'static>,
    /// `bos_token`, `eos_token` and so on.
    special_tokens: BTreeMap<String, Value>,
    holds_special_tokens: bool,
    variables: Variables,
    /// In which form it reads the contents of each role, once that was found out.
    forms: Arc<OnceLock<parts::Forms>>,
}

impl fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatTemplate")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl ChatTemplate {
    /// The name of the built-in template.
    pub const VICUNA: &'static str = "vicuna";

    /// Compiles a template. `name` is where it comes from, for messages.
    ///
    /// # Errors
    /// [`Error::Syntax`] for a text that is not a template, is longer than 1 MiB, is nested too
    /// deep, or asks for files.
    pub fn new(name: impl Into<String>, source: &str) -> Result<Self> {
        Self::at(name.into(), source, None)
    }

    /// Compiles a template that is rendered at a fixed time.
    pub(crate) fn at(name: String, source: &str, now: Option<DateTime>) -> Result<Self> {
        let syntax = |line, problem| Error::Syntax {
            template: name.clone(),
            line,
            problem,
        };
        if source.len() > MAX_SOURCE {
            let problem = format!("it has {} bytes, more than 1 MiB", source.len());
            return Err(syntax(0, problem));
        }
        let source = tags::prepare(source).map_err(|tag| {
            let problem = format!(
                "{{% {} %}} asks for another file, and a chat template has no access to files",
                tag.name
            );
            syntax(tag.line, problem)
        })?;
        let wrong =
            |error: minijinja::Error| syntax(error.line().unwrap_or_default(), detail(&error));
        let environment = environment(now, grows(&source)).map_err(wrong)?;
        nesting::check(&source, environment.syntax())
            .map_err(|line| syntax(line, "its code is nested too deep".to_owned()))?;
        let checked = on_a_stack(|| compile(&environment, &source, |_| Ok(())));
        checked
            .map_err(|problem| syntax(0, problem))?
            .map_err(wrong)?;
        Ok(Self {
            name,
            source,
            environment,
            special_tokens: BTreeMap::new(),
            holds_special_tokens: true,
            variables: Variables::default(),
            forms: Arc::default(),
        })
    }

    /// Sets special tokens by their names: `bos_token`, `eos_token` and so on.
    pub(crate) fn with_special_tokens(self, special_tokens: BTreeMap<String, Value>) -> Self {
        Self {
            special_tokens,
            ..self
        }
    }

    /// The conversation of Vicuna v1.1, as FastChat's `vicuna_v1.1` writes it, with a system
    /// message in place of its own if there is one. What the assistant said is stripped of
    /// surrounding white space, as FastChat strips it.
    ///
    /// The template leaves the token at the beginning to the tokenizer
    /// ([`holds_special_tokens`](Self::holds_special_tokens) is false).
    ///
    /// # Panics
    /// Never, as a test makes sure.
    pub fn vicuna() -> Self {
        let source = include_str!("builtin/vicuna.jinja");
        let template = Self::new(Self::VICUNA, source);
        Self {
            holds_special_tokens: false,
            // The text is part of the program, so no input gets here.
            ..template.unwrap_or_else(|error| unreachable!("{error}"))
        }
    }

    /// Sets the variables, in place of those that it had.
    pub fn with_variables(self, variables: Variables) -> Self {
        Self { variables, ..self }
    }

    /// The variables that it gets from the caller.
    pub fn variables(&self) -> &Variables {
        &self.variables
    }

    /// Whether its text has a word, as it must if it reads a variable of that name.
    pub(crate) fn mentions(&self, word: &str) -> bool {
        let is_part = |c: char| c == '_' || c.is_alphanumeric();
        self.source.split(|c| !is_part(c)).any(|one| one == word)
    }

    /// Where it comes from.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A special token of its model, such as `eos_token`, if it knows one.
    pub fn special_token(&self, name: &str) -> Option<&str> {
        self.special_tokens.get(name)?.as_str()
    }

    /// Whether its text holds all special tokens that a prompt needs, so that none are to be added
    /// when it is tokenized (`add_special_tokens=False`): so it is with templates of models.
    pub fn holds_special_tokens(&self) -> bool {
        self.holds_special_tokens
    }

    /// The text up to where the model answers.
    ///
    /// # Errors
    /// [`Error::Refused`] if the template calls `raise_exception`; [`Error::Render`] if it fails,
    /// goes beyond its limits of time and memory, recurses or nests values more than 200 deep, or
    /// writes more than [`MAX_OUTPUT`] bytes.
    pub fn render(&self, messages: &[Message]) -> Result<String> {
        self.render_with(messages, true)
    }

    /// Renders messages; without `add_generation_prompt`, the text of the messages alone.
    ///
    /// # Errors
    /// As [`render`](Self::render).
    pub fn render_with(&self, messages: &[Message], add_generation_prompt: bool) -> Result<String> {
        let size = messages.iter().map(Message::size).sum();
        self.render_objects(self.objects(messages), size, add_generation_prompt)
    }

    /// Renders messages as the template sees them, which hold about `size` bytes.
    fn render_objects(
        &self,
        messages: Value,
        size: usize,
        add_generation_prompt: bool,
    ) -> Result<String> {
        let mut variables = self.special_tokens.clone();
        variables.extend(self.variables.values());
        variables.insert("messages".to_owned(), messages);
        variables.insert(
            "add_generation_prompt".to_owned(),
            add_generation_prompt.into(),
        );
        for none in ["tools", "documents"] {
            variables.insert(none.to_owned(), Value::from(()));
        }
        let rendered = on_a_stack(|| {
            limits::open(size + self.variables.size());
            self.text(Value::from(variables))
                .map_err(|error| self.failed(&error))
        });
        rendered.map_err(|problem| Error::Render {
            template: self.name.clone(),
            problem,
        })?
    }

    /// The text of other variables than messages.
    #[cfg(test)]
    pub(crate) fn text_of(&self, variables: Value) -> Result<String> {
        limits::open(0);
        self.text(variables).map_err(|error| self.failed(&error))
    }

    /// The text, in this thread.
    fn text(&self, variables: Value) -> std::result::Result<String, minijinja::Error> {
        compile(&self.environment, &self.source, |compiled| {
            let mut text = String::new();
            let mut out = make_string_output(&mut text);
            let (code, blocks) = compiled;
            eval(
                &self.environment,
                code,
                variables,
                blocks,
                &mut out,
                AutoEscape::None,
            )?;
            match text.len() {
                ..=MAX_OUTPUT => Ok(text),
                _ => Err(limits::refused(format!(
                    "it writes more than {} MiB",
                    MAX_OUTPUT >> 20
                ))),
            }
        })
    }

    /// The messages as the template sees them, their contents in the form that it reads.
    fn objects(&self, messages: &[Message]) -> Value {
        let developers = self.mentions(DEVELOPER);
        let objects = messages
            .iter()
            .map(|message| message.object_where(developers, self.content_form(message)));
        Value::from(Serde(objects.collect::<Vec<_>>()))
    }

    fn failed(&self, error: &minijinja::Error) -> Error {
        let template = self.name.clone();
        let mut cause = error.source();
        while let Some(error) = cause {
            if let Some(Raised(message)) = error.downcast_ref() {
                let message = message.clone();
                return Error::Refused { template, message };
            }
            cause = error.source();
        }
        let problem = match error.kind() {
            ErrorKind::OutOfFuel => "it runs without end, or nearly so".to_owned(),
            _ => match error.line() {
                Some(line) => format!("line {line}: {}", detail(error)),
                None => detail(error),
            },
        };
        Error::Render { template, problem }
    }
}

/// What the interpreter executes.
type Compiled<'a> = (Instructions<'a>, BTreeMap<&'a str, Instructions<'a>>);

/// Compiles a template and does something with it. It is compiled for every rendering, which takes
/// less than that does.
fn compile<'a, T>(
    environment: &Environment,
    source: &'a str,
    then: impl FnOnce(&Compiled<'a>) -> std::result::Result<T, minijinja::Error>,
) -> std::result::Result<T, minijinja::Error> {
    let tree = parse(source, ONLY, environment.syntax().clone())?;
    let tree = rewrite::template(&tree);
    let mut code = CodeGenerator::new(ONLY, source);
    code.compile_stmt(&tree);
    drop(tree);
    then(&code.finish())
}

/// Does something in a thread with a stack of its own. A panic there is the interpreter's.
///
/// # Errors
/// If there is no such thread, or the interpreter panics.
fn on_a_stack<T: Send>(job: impl FnOnce() -> T + Send) -> std::result::Result<T, String> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("chat template".to_owned())
            .stack_size(STACK)
            .spawn_scoped(scope, job)
            .map_err(|error| format!("no thread to render it in: {error}"))?;
        let failed = |_| "the interpreter cannot execute it".to_owned();
        thread.join().map_err(failed)
    })
}

/// The error without its place, and its causes.
fn detail(error: &minijinja::Error) -> String {
    let mut text = match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    };
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    shortened(text)
}
