//! The `cascade` command: arguments, progress and printing, and nothing else.
//!
//! A library so that others can carry the command, as the Python package does, and so that the
//! laboratory's program, `cascade-lab`, has the same options, progress and messages. Its one
//! function for others is [`main_with`].

// What `cascade-lab` shares; no part of the library's contract.
#[doc(hidden)]
pub mod args;
#[doc(hidden)]
pub mod bench;
mod cached;
mod chat;
mod check_lossless;
#[doc(hidden)]
pub mod columns;
mod comparison;
mod config_check;
#[doc(hidden)]
pub mod costs;
mod doctor;
mod exit;
#[doc(hidden)]
pub mod given;
mod health;
#[doc(hidden)]
pub mod help;
#[doc(hidden)]
pub mod inputs;
#[doc(hidden)]
pub mod interrupt;
#[doc(hidden)]
pub mod job;
#[doc(hidden)]
pub mod laboratory;
#[doc(hidden)]
pub mod manual;
#[doc(hidden)]
pub mod models;
#[doc(hidden)]
pub mod out_of_memory;
#[doc(hidden)]
pub mod outputs;
mod panics;
#[doc(hidden)]
pub mod program;
#[doc(hidden)]
pub mod progress;
mod quantize;
mod record;
mod remarks;
mod run;
mod serve;
mod show;
mod stdin;
#[doc(hidden)]
pub mod templates;
#[doc(hidden)]
pub mod terminal;
mod threads;
mod word_problems;

use std::ffi::OsString;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::bench::BenchCommand;
use crate::chat::ChatArgs;
use crate::check_lossless::CheckLosslessArgs;
use crate::config_check::ConfigCommand;
pub use crate::exit::ExitCode;
use crate::program::{CommandLine, Everywhere, at_most, bounded};
use crate::quantize::QuantizeArgs;
use crate::run::RunArgs;
use crate::serve::ServeArgs;

/// Lossless speculative decoding with cascades of drafters: faster generation, the same output.
#[derive(Debug, Parser)]
#[command(name = "cascade", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    everywhere: Everywhere,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Generate text with a cascade.
    ///
    /// Without a model, the embedded T5 demo answers. It knows word problems of the kinds that
    /// `cascade-lab demo problems` prints, and nothing else. Without a prompt, --prompts or
    /// --dataset, answers three word problems.
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
    /// answers. It knows word problems of the kinds that `cascade-lab demo problems` prints, and
    /// nothing else.
    Chat(ChatArgs),
    /// Serve a model over an OpenAI-compatible API, with a web page.
    ///
    /// The API is at http://127.0.0.1:8080/v1, and the page at http://127.0.0.1:8080. Without a
    /// model, serves the embedded LLaMA demo. It knows word problems of the kinds that `cascade-lab
    /// demo problems` prints, and nothing else. SIGTERM and Ctrl-C let answers end first.
    Serve(ServeArgs),
    /// Check that the output of a cascade is its target's (lossless).
    ///
    /// Greedy: every emitted token is re-scored by the target alone. Sampled (--temperature above
    /// 0): the same, and the text is compared with plain decoding of the same seed. With --samples,
    /// or a --rule other than coupled, many short generations are compared with the target's
    /// enumerated distribution instead. With --certificate, the bits of log probabilities are
    /// compared too, however texts are computed.
    ///
    /// Exit status: 0 if lossless, 1 if not, 2 on error.
    CheckLossless(Box<CheckLosslessArgs>),
    /// Write and check configurations.
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
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
        /// The command to describe, such as `bench model` [default: all in short].
        #[arg(value_name = "COMMAND")]
        command: Vec<String>,
    },
}

/// The commands, by what they are for.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Generate", &["run", "chat", "serve"]),
    ("Models", &["quantize", "config", "doctor"]),
    ("Checks and costs", &["check-lossless", "bench"]),
    ("Shell", &["completions", "man", "help"]),
];

impl CommandLine for Cli {
    fn arranged() -> clap::Command {
        let shown = help::arranged(Self::command(), &GROUPS, include_str!("examples.txt"));
        laboratory::known(shown)
    }

    fn everywhere(&self) -> &Everywhere {
        &self.everywhere
    }

    fn dispatch(self) -> Result<ExitCode> {
        match self.command {
            Command::Run(args) => run::run(&args),
            Command::Chat(args) => chat::run(&args),
            Command::Serve(args) => serve::run(&args),
            Command::CheckLossless(args) => check_lossless::run(*args),
            Command::Config { command } => config_check::run(&command),
            Command::Bench { command } => bench::run(&command),
            Command::Quantize(args) => quantize::run(&args),
            Command::Doctor { json } => doctor::doctor(json),
            Command::Completions { shell } => manual::completions(Self::arranged(), shell),
            Command::Man { command } => manual::print(Self::arranged(), &command),
        }
    }
}

/// Runs the command with its arguments, of which the first is the program's name, and says how it
/// ended. Prints to standard output and standard error, and answers Ctrl-C. A command of the
/// laboratory is handed to `cascade-lab`.
///
/// For the `main` of a program: it sets the process's threads and signal handlers, and some
/// commands end the process themselves.
pub fn main_with(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    match laboratory::asked(&arguments) {
        Some(command) => laboratory::hand_over(&command, &arguments),
        None => program::main_with::<Cli>(arguments),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_is_whole() {
        help::check::<Cli>("cascade", &GROUPS, include_str!("examples.txt"));
    }
}
