//! `cascade chat`: a conversation in the terminal.

mod command;
mod kept;
mod lines;

use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use cascade_config::{
    AssembleOptions, Assembly, Config, DeviceSpec, Message, Role, SamplingSettings, Variables,
};
use cascade_core::{Prompt, StatedSampling, seed_of};
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
use crate::remarks::{Place, remark};
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

    /// File of messages that were typed, for the arrow keys: read at the beginning, and added to.
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
}

pub(crate) fn run(args: &ChatArgs) -> Result<ExitCode> {
    set_colors(args.color);
    let decoding = Some(&args.decoding);
    let mut config = configuration(&args.models, decoding, args.device, DEFAULT_CONFIG)?;
    let chat = chat(args, &config)?;
    let options = AssembleOptions::default().with_device(args.device);
    let pool = config.pool(&with_costs(options, &args.models)?);
    let assembled = pool.assemble(Assembly::of(&config).chat(&chat.template))?;
    job::say(&assembled);
    let target = pool.target(&config)?;
    let sampling = config.generation.sampling;
    config.generation.sampling = sampling.completed_by(target.recommended)?;
    let room = target.info().max_context;
    let options = config.generation.options();
    let mut conversation = Conversation {
        cascade: assembled.cascade,
        seed: options.seed,
        answers: 0,
        options: options.with_speculation(!args.no_speculation),
        chat,
        config,
        history: Vec::new(),
        room,
        totals: Totals::default(),
    };
    let interactive = std::io::stdin().is_terminal();
    let lines = lines::open(interactive, args.history.as_deref())?;
    conversation.hold(lines, interactive)?;
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
    /// Tokens that the target's context holds, if there is a limit.
    room: Option<usize>,
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
        let sampling = self.config.generation.sampling;
        let line = format!("chat template: {template}; {sampling}; /help lists the commands");
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
            Command::Regenerate => self.regenerate()?,
            Command::Temperature(text) => {
                self.set_temperature(&text)?;
                writeln!(out, "({})", self.config.generation.sampling)?;
            }
            Command::Save(file) => {
                kept::save(Path::new(&file), &self.messages())?;
                writeln!(out, "({} messages are in {file})", self.history.len())?;
            }
            Command::Load(file) => {
                (self.chat.system, self.history) = kept::load(Path::new(&file))?;
                writeln!(out, "({} messages are from {file})", self.history.len())?;
            }
            Command::Exit => {}
        }
        Ok(())
    }

    /// Answers the last message again, with the next seed.
    fn regenerate(&mut self) -> Result<()> {
        let kept = self.history.len().saturating_sub(2);
        let (Some(asked), Some(_)) = (self.history.get(kept).cloned(), self.history.last()) else {
            bail!("there is no answer to give again");
        };
        if self.options.decoding.is_greedy() {
            terminal::note(format_args!("(greedy: the same again; /temp 0.7 samples)"));
        }
        let before = self.history.split_off(kept);
        let answered = self.answer(asked.text());
        if answered.is_err() {
            self.history.extend(before);
        }
        answered
    }

    fn set_temperature(&mut self, text: &str) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let temperature = text
            .parse()
            .with_context(|| format!("/temp {text}: give a number, such as /temp 0.7"))?;
        let stated = StatedSampling {
            temperature: Some(temperature),
            ..self.config.generation.sampling.stated()
        };
        let sampling = SamplingSettings::try_from(stated)?;
        self.config.generation.sampling = sampling;
        self.options.decoding = sampling.decoding();
        Ok(())
    }

    /// Answers a message. If that fails, or is interrupted before the first word, the message is
    /// forgotten.
    fn answer(&mut self, text: &str) -> Result<()> {
        let asked = Message::new(Role::User, text);
        let prompt = self.fitting_prompt(&asked)?;
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
        let of_ending = remark(&generation, Place::Chat).filter(|_| !interrupted);
        for remark in of_ending
            .into_iter()
            .chain(word_problems::remark(&self.config, text))
        {
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

    /// The prompt of a message. If it leaves no room for an answer, the conversation loses its
    /// oldest turns, and a note says so.
    fn fitting_prompt(&mut self, asked: &Message) -> Result<Prompt> {
        let mut left_out = 0;
        loop {
            let mut messages = self.messages();
            messages.push(asked.clone());
            let prompt = self.chat.render(&messages)?.encode(&self.cascade)?;
            let fits = self.room.is_none_or(|room| {
                let answer = self.options.max_new_tokens.min(room / 4);
                prompt.context.len() + answer <= room
            });
            if fits || self.history.is_empty() {
                if left_out > 0 {
                    terminal::note(format_args!(
                        "(the context is full: the oldest {left_out} messages are left out)"
                    ));
                }
                return Ok(prompt);
            }
            left_out += self.history.drain(..2.min(self.history.len())).count();
        }
    }

    /// All that was said, the system message first.
    fn messages(&self) -> Vec<Message> {
        let system = self.chat.system.as_ref();
        let system = system.map(|text| Message::new(Role::System, text));
        system
            .into_iter()
            .chain(self.history.iter().cloned())
            .collect()
    }

    /// Ctrl-C ends the answer, and a second one the program.
    fn generate(&mut self, prompt: &Prompt) -> Result<GenerationOutput> {
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
}

/// One line about an answer. `context` are the tokens of the prompt that the model continues.
fn statistics(generation: &GenerationOutput, context: usize) -> String {
    let mut line = format!(
        "{} tokens, {:.2} per forward, {} after {:.1} s for the prompt",
        generation.tokens.len(),
        generation.mean_acceptance_length(),
        show::speed(generation.after_first()),
        generation.first.as_secs_f64()
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
