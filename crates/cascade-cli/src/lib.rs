//! The `cascade` command: arguments, progress and printing, and nothing else.
//!
//! A library so that others can carry the command, as the Python package does; its one function
//! is [`main_with`].

mod args;
mod bench;
mod cached;
mod chat;
mod check_lossless;
mod comparison;
mod config_check;
mod costs;
mod demo;
mod doctor;
mod exit;
mod fold;
mod given;
mod health;
mod help;
mod inputs;
mod interrupt;
mod job;
mod manual;
mod models;
mod outputs;
mod progress;
mod quantize;
mod record;
mod replay;
mod reproduce;
mod run;
mod serve;
mod show;
mod stdin;
mod tables;
mod templates;
mod terminal;
mod theory;
mod threads;
mod tokenizer;
mod trace;
mod train;
mod tune;

use std::ffi::OsString;
use std::io::Write;
use std::num::IntErrorKind;

use anyhow::Result;
use cascade_config::Overcommit;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

use crate::bench::BenchCommand;
use crate::chat::ChatArgs;
use crate::check_lossless::CheckLosslessArgs;
use crate::config_check::ConfigCommand;
use crate::demo::DemoCommand;
pub use crate::exit::ExitCode;
use crate::quantize::QuantizeArgs;
use crate::replay::ReplayArgs;
use crate::reproduce::ReproduceArgs;
use crate::run::RunArgs;
use crate::serve::ServeArgs;
use crate::tables::{BigramCommand, NgramCommand};
use crate::theory::TheoryCommand;
use crate::trace::TraceCommand;
use crate::train::TrainCommand;
use crate::tune::TuneArgs;

/// Lossless speculative decoding with cascades of drafters: faster generation, the same output.
#[derive(Debug, Parser)]
#[command(name = "cascade", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// Number of compute threads [default: the number of CPUs, or RAYON_NUM_THREADS].
    #[arg(long, value_name = "N", global = true, value_parser = at_most(threads::MOST))]
    threads: Option<usize>,

    /// Load models that are larger than the available memory, after a warning [env:
    /// CASCADE_ALLOW_MEMORY_OVERCOMMIT=1].
    #[arg(long, global = true)]
    allow_memory_overcommit: bool,

    /// Print results and errors only: no notes, no progress, and no statistics beside text.
    #[arg(long, short, global = true)]
    quiet: bool,
}

/// Reads a number from 1 to a greatest one.
pub(crate) fn at_most(most: usize) -> impl Fn(&str) -> Result<usize, String> + Clone {
    bounded(1, most)
}

/// Reads a number within bounds.
pub(crate) fn bounded(least: usize, most: usize) -> impl Fn(&str) -> Result<usize, String> + Clone {
    move |text| match text.parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        Ok(number) if number < least => Err(format!("give {least} or more")),
        Err(error) if *error.kind() != IntErrorKind::PosOverflow => Err("give a number".to_owned()),
        _ => Err(format!("give {most} at most")),
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Generate text with a cascade.
    ///
    /// Without a model, the embedded T5 demo answers. It knows word problems of the kinds that
    /// `cascade demo problems` prints, and nothing else. Without a prompt, --prompts or --dataset,
    /// answers three word problems.
    ///
    /// Multi-turn samples (mt-bench, spec-bench, lists in the prompt field) are held as
    /// conversations if the prompt template supports them, as vicuna does: the prompt of each turn
    /// contains the earlier turns with the model's own answers, stripped of surrounding white
    /// space, and each turn gets its own record. Other templates ask the first turn only.
    Run(RunArgs),
    /// Converse with a model in the terminal.
    ///
    /// The conversation stays in the model's context. Commands begin with a slash: /help lists
    /// them. From a pipe, every line is a message. Without a model, the embedded LLaMA demo
    /// answers. It knows word problems of the kinds that `cascade demo problems` prints, and
    /// nothing else.
    Chat(ChatArgs),
    /// Serve a model over an OpenAI-compatible API, with a web page.
    ///
    /// The API is at http://127.0.0.1:8080/v1, and the page at http://127.0.0.1:8080. Without a
    /// model, serves the embedded LLaMA demo. It knows word problems of the kinds that `cascade
    /// demo problems` prints, and nothing else. SIGTERM and Ctrl-C let answers end first.
    Serve(ServeArgs),
    /// Check that the output of a cascade is its target's (lossless).
    ///
    /// Greedy: every emitted token is re-scored by the target alone. Sampled (--temperature above
    /// 0): the same, and the text is compared with plain decoding of the same seed. With --samples,
    /// or a --rule other than coupled, many short generations are compared with the target's
    /// enumerated distribution instead.
    ///
    /// Exit status: 0 if lossless, 1 if not, 2 on error.
    CheckLossless(CheckLosslessArgs),
    /// Search for the fastest K matrix and lenience on a trace.
    ///
    /// Every second conversation of the trace is searched on by predicted time, and the best
    /// settings are replayed on the others.
    Tune(TuneArgs),
    /// Train heads that draft, and networks that stop drafts.
    Train {
        #[command(subcommand)]
        command: TrainCommand,
    },
    /// Write and check configurations.
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Build and inspect bigram tables.
    Bigram {
        #[command(subcommand)]
        command: BigramCommand,
    },
    /// Fit the weights of the Max-Gram tree, and check its estimates.
    Ngram {
        #[command(subcommand)]
        command: NgramCommand,
    },
    /// Record a target's outputs, and inspect recordings (traces).
    Trace {
        #[command(subcommand)]
        command: TraceCommand,
    },
    /// Run a cascade against a recorded target.
    ///
    /// Loads the drafters of the configuration but not its target. Tokens, steps and calls equal
    /// those of a run with the real target. Times do not and are not shown, unless costs of
    /// forwards are assumed (--row-cost) or measured before (--costs).
    Replay(ReplayArgs),
    /// Quantize a model: write it as a GGUF file of another data type.
    ///
    /// The tokenizer and all settings stay as they are, and llama.cpp reads the file too. Loading
    /// it gives exactly the model that loading the original with this --dtype gives, in less time.
    Quantize(QuantizeArgs),
    /// Benchmark forwards and engine steps on this machine.
    Bench {
        #[command(subcommand)]
        command: BenchCommand,
    },
    /// Compute and simulate speedups, rejections and draft lengths.
    ///
    /// Formulas of the papers, and simulations that check them. Nothing is measured.
    Theory {
        #[command(subcommand)]
        command: TheoryCommand,
    },
    /// Reproduce the papers' tables and figures.
    Reproduce(ReproduceArgs),
    /// Print the project's word problems, and evaluate models on them.
    Demo {
        #[command(subcommand)]
        command: DemoCommand,
    },
    /// Show devices, threads, cache folders and versions.
    Doctor {
        /// Print one JSON object and nothing else.
        #[arg(long)]
        json: bool,
    },
    /// Print a shell completion script.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print a manual page, for `man -l -`.
    Man {
        /// The command to describe, such as `bigram build` [default: all in short].
        #[arg(value_name = "COMMAND")]
        command: Vec<String>,
    },
}

/// Runs the command with its arguments, of which the first is the program's name, and says how it
/// ended. Prints to standard output and standard error, and answers Ctrl-C.
///
/// For the `main` of a program: it sets the process's threads and signal handlers, and some
/// commands end the process themselves.
pub fn main_with(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let code = run_line(arguments);
    // Where the program's `main` is not Rust's, nobody else does. A reader may be gone.
    drop(std::io::stdout().flush());
    code
}

fn run_line(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    cascade_demo::register();
    let arguments = given::remember(arguments);
    let matches = help::arranged(Cli::command()).try_get_matches_from(arguments);
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return print_usage(&error),
    };
    terminal::set_quiet(cli.quiet);
    if cli.allow_memory_overcommit {
        std::env::set_var(Overcommit::VARIABLE, "1");
    }
    match threads::set(cli.threads).and_then(|()| dispatch(cli)) {
        Ok(code) => code,
        // The reader is gone, as in `cascade run | head`: not an error.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let error = whole_chain(&error);
            terminal::error(format_args!("error: {error}"));
            if let Some(remedy) = cached::remedy(&error) {
                terminal::error(format_args!("note: {remedy}"));
            }
            ExitCode::from(2)
        }
    }
}

fn dispatch(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Chat(args) => chat::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::CheckLossless(args) => check_lossless::run(&args),
        Command::Train { command } => train::run(&command),
        Command::Config { command } => config_check::run(&command),
        Command::Bigram { command } => tables::bigram(command, cli.threads),
        Command::Ngram { command } => tables::ngram(command),
        Command::Trace { command } => trace::run(command),
        Command::Replay(args) => replay::run(&args),
        Command::Bench { command } => bench::run(&command),
        Command::Quantize(args) => quantize::run(&args),
        Command::Theory { command } => theory::run(command),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Demo { command } => demo::run(&command),
        Command::Doctor { json } => doctor::doctor(json),
        Command::Completions { shell } => {
            let mut command = help::arranged(Cli::command());
            clap_complete::generate(shell, &mut command, "cascade", &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
        Command::Man { command } => manual::print(help::arranged(Cli::command()), &command),
    }
}

/// Prints help, the version, or what is wrong with the arguments, which it quotes.
fn print_usage(error: &clap::Error) -> ExitCode {
    let plain = error.render().to_string();
    let shown = terminal::visible(&plain);
    let printed = if shown == plain {
        error.print()
    } else {
        write!(terminal::stderr(), "{plain}")
    };
    // A reader that is gone needs no help.
    drop(printed);
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}

/// The error and its causes, skipping causes that the message so far already contains.
fn whole_chain(error: &anyhow::Error) -> String {
    let mut message = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !message.contains(&cause) {
            if !message.is_empty() {
                message.push_str(": ");
            }
            message.push_str(&cause);
        }
    }
    message
}
