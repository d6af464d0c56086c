//! `cascade chat`: a conversation in the terminal.

mod command;
mod lines;

use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;

use anyhow::Result;
use cascade_config::{AssembleOptions, Assembly, Config, DeviceSpec, Message, Role, Variables};
use cascade_core::seed_of;
use cascade_engine::{Cascade, Event, Finish, GenerationOutput, Options};
use clap::Args;

use self::command::{Command, Input};
use self::lines::{Lines, Read};
use crate::args::{DecodingArgs, ModelArgs};
use crate::costs::with_costs;
use crate::exit::ExitCode;
use crate::interrupt;
use crate::job;
use crate::models::configuration;
use crate::run::{Color, ending, set_colors, show_event};
use crate::show::{self, Totals};
use crate::templates::{Asked, Chat};
use crate::terminal;
use crate::word_problems;

/// What answers if nothing is named: a model that reads conversations.
const DEFAULT_CONFIG: &str = "embedded:demo-llama";

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    models: ModelArgs,

    /// Chat template: one of the program's (vicuna), a file (Jinja, or a tokenizer_config.json), or
    /// one of the model's by its name [default: the model's own].
    #[arg(long, value_name = "NAME|FILE")]
    template: Option<String>,

    /// System message.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    system: Option<String>,

    /// Variables of the chat template, as a JSON object: '{"enable_thinking": false}'.
    #[arg(long, value_name = "JSON")]
    chat_template_kwargs: Option<Variables>,

    #[command(flatten)]
    decoding: DecodingArgs,

    /// Device, overriding the configuration: auto, cpu, cuda:N or metal:N.
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceSpec>,

    /// Plain decoding: the target alone, one token per forward.
    #[arg(long)]
    no_speculation: bool,

    /// Colour each token by the model that first proposed it.
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: Color,
}

pub(crate) fn run(args: &ChatArgs) -> Result<ExitCode> {
    set_colors(args.color);
    let decoding = Some(&args.decoding);
    let config = configuration(&args.models, decoding, args.device, DEFAULT_CONFIG)?;
    let chat = chat(args, &config)?;
    let options = AssembleOptions::default().with_device(args.device);
    let pool = config.pool(&with_costs(options, &args.models)?);
    let assembled = pool.assemble(Assembly::of(&config).chat(&chat.template))?;
    job::say(&assembled);
    let options = config.generation.options();
    let mut conversation = Conversation {
        cascade: assembled.cascade,
        seed: options.seed,
        answers: 0,
        options: options.with_speculation(!args.no_speculation),
        chat,
        config,
        history: Vec::new(),
        totals: Totals::default(),
    };
    let interactive = std::io::stdin().is_terminal();
    conversation.hold(lines::open(interactive)?, interactive)?;
    Ok(ExitCode::SUCCESS)
}

fn chat(args: &ChatArgs, config: &Config) -> Result<Chat> {
    let asked = Asked {
        config,
        template: args.template.as_deref(),
        chat: false,
        system: args.system.as_deref(),
        variables: args.chat_template_kwargs.as_ref(),
    };
    asked.conversation()
}

struct Conversation {
    cascade: Cascade,
    options: Options,
    /// Seed of the first answer.
    seed: u64,
    /// Answers so far, interrupted ones included.
    answers: u64,
    chat: Chat,
    config: Config,
    /// What was said, without the system message.
    history: Vec<Message>,
    totals: Totals,
}

impl Conversation {
    /// Reads messages and answers them until there are no more. Where nobody can correct a message,
    /// an error ends the conversation.
    fn hold(&mut self, mut lines: Box<dyn Lines>, interactive: bool) -> Result<()> {
        if interactive {
            self.greet()?;
        }
        interrupt::watch();
        let mut leaving = false;
        loop {
            let text = match lines::message(&mut *lines)? {
                Read::Text(text) => text,
                Read::Interrupted if leaving => return Ok(()),
                Read::Interrupted => {
                    terminal::note(format_args!(
                        "(Ctrl-C again or Ctrl-D ends the conversation)"
                    ));
                    leaving = true;
                    continue;
                }
                Read::End => return Ok(()),
            };
            leaving = false;
            let done = match Input::parse(&text) {
                Input::Nothing => continue,
                Input::Command(Command::Exit) => return Ok(()),
                Input::Command(command) => self.obey(command),
                Input::Unknown(name) => Err(command::unknown(name)),
                Input::Message(text) => self.answer(text),
            };
            match done {
                Err(error) if interactive => terminal::note(format_args!("error: {error:#}")),
                done => done?,
            }
        }
    }

    fn greet(&self) -> Result<()> {
        let mut out = terminal::stdout();
        let dim = show::dimmed();
        let template = self.chat.template.name();
        let line = format!("chat template: {template}; /help lists the commands");
        out.styled(dim, &line)?;
        writeln!(out)?;
        if self.options.speculate {
            show::legend(&mut out, &self.cascade.level_names())?;
        }
        Ok(())
    }

    fn obey(&mut self, command: Command) -> Result<()> {
        let mut out = terminal::stdout();
        match command {
            Command::Help => writeln!(out, "{}", command::HELP)?,
            Command::Stats => {
                for line in self.totals.lines() {
                    writeln!(out, "{line}")?;
                }
            }
            Command::Reset => {
                self.history.clear();
                writeln!(out, "(a new conversation)")?;
            }
            Command::System(text) => {
                self.chat.system = Some(text).filter(|text| !text.is_empty());
                match &self.chat.system {
                    Some(_) => writeln!(out, "(the system message is set)")?,
                    None => writeln!(out, "(there is no system message now)")?,
                }
            }
            Command::Exit => {}
        }
        Ok(())
    }

    /// Answers a message. If that fails, or is interrupted before the first word, the message is
    /// forgotten.
    fn answer(&mut self, text: &str) -> Result<()> {
        let mut messages: Vec<_> = self.system().into_iter().collect();
        messages.extend(self.history.iter().cloned());
        let asked = Message::new(Role::User, text);
        messages.push(asked.clone());
        let prompt = self.chat.render(&messages)?.encode(&self.cascade)?;
        let generation = self.generate(&prompt)?;
        let mut out = terminal::stdout();
        let interrupted = generation.finish == Finish::Cancelled;
        let end = if interrupted {
            " … [interrupted]"
        } else {
            ending(&generation)
        };
        let dim = show::dimmed();
        let line = statistics(&generation, prompt.context.len());
        writeln!(out, "{end}")?;
        out.styled(dim, &line)?;
        if let Some(remark) = word_problems::remark(&self.config, text) {
            writeln!(out)?;
            out.styled(dim, &remark)?;
        }
        writeln!(out, "\n")?;
        self.totals.add(&generation, None);
        self.answers += 1;
        self.options.seed = seed_of(self.seed, self.answers);
        let answer = generation.text.unwrap_or_default().trim().to_owned();
        if !(interrupted && answer.is_empty()) {
            self.history.push(asked);
            self.history.push(Message::new(Role::Assistant, answer));
        }
        Ok(())
    }

    /// Ctrl-C ends the answer, and a second one the program.
    fn generate(&mut self, prompt: &cascade_core::Prompt) -> Result<GenerationOutput> {
        let mut out = terminal::stdout();
        let mut written = Ok(());
        let _meanwhile = interrupt::cooperate_meanwhile();
        let mut on_event = |event: Event<'_>| {
            written = show_event(&mut out, event);
            if written.is_err() || interrupt::requested() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let generation = self
            .cascade
            .start_tokens(prompt, &self.options)?
            .run_with(&mut on_event)?;
        written?;
        Ok(generation)
    }

    fn system(&self) -> Option<Message> {
        let system = self.chat.system.as_ref();
        system.map(|text| Message::new(Role::System, text))
    }
}

/// One line about an answer. `context` are the tokens of the prompt that the model continues.
fn statistics(generation: &GenerationOutput, context: usize) -> String {
    let mut line = format!(
        "{} tokens, {:.2} per forward, {:.1} tokens/s",
        generation.tokens.len(),
        generation.mean_acceptance_length(),
        generation.tokens_per_second()
    );
    let target = generation.models.first().map(|target| target.usage);
    if let Some(usage) = target.filter(|usage| context > 0 && usage.calls > 0) {
        // The last token of a context is always computed: its row is the first of the answer.
        let anew = usage.prefill_rows as usize + 1;
        let known = context.saturating_sub(anew);
        line.push_str(&format!("; {known} of {context} prompt tokens were known"));
    }
    line
}
