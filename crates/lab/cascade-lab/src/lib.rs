//! The `cascade-lab` command: what researchers do with the library. Tables of n-grams, recordings
//! and their replay, tuning, training, and the papers' experiments.

mod dataset;
mod demo;
mod recorded;
mod replay;
mod reproduce;
mod room;
mod step;
mod tables;
mod theory;
mod tokenizer;
mod trace;
mod train;
mod tune;

use std::ffi::OsString;

use anyhow::Result;
use cascade_cli::program::{CommandLine, Everywhere, at_most, bounded};
use cascade_cli::{
    args, bench, columns, costs, given, help, inputs, interrupt, job, manual, models, outputs,
};
use cascade_cli::{progress, templates, terminal};
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::dataset::DatasetArgs;
use crate::demo::DemoCommand;
use crate::exit::ExitCode;
use crate::replay::ReplayArgs;
use crate::reproduce::ReproduceArgs;
use crate::step::BenchCommand;
use crate::tables::{BigramCommand, NgramCommand};
use crate::theory::TheoryCommand;
use crate::trace::TraceCommand;
use crate::train::TrainCommand;
use crate::tune::TuneArgs;

/// How a command ends.
mod exit {
    pub(crate) use cascade_cli::ExitCode;
}

/// The laboratory of Cascade: tables, traces, tuning, training, and the papers' experiments.
#[derive(Debug, Parser)]
#[command(name = "cascade-lab", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    everywhere: Everywhere,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Build and inspect bigram tables.
    Bigram {
        #[command(subcommand)]
        command: BigramCommand,
    },
    /// Fit the weights of the Max-Gram tree.
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
    /// Benchmark cascades on recorded answers.
    Bench {
        #[command(subcommand)]
        command: BenchCommand,
    },
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
    /// Reproduce the papers' tables and figures.
    Reproduce(ReproduceArgs),
    /// Compute and simulate speedups, rejections and draft lengths.
    ///
    /// Formulas of the papers, and simulations that check them. Nothing is measured.
    Theory {
        #[command(subcommand)]
        command: TheoryCommand,
    },
    /// Print the project's word problems, and evaluate models on them.
    Demo {
        #[command(subcommand)]
        command: DemoCommand,
    },
    /// Print a dataset as prompts for `cascade run --prompts`.
    Dataset(DatasetArgs),
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

/// The commands, by what they are for.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Tables", &["bigram", "ngram"]),
    ("Traces", &["trace", "replay", "bench", "tune", "dataset"]),
    ("Training", &["train"]),
    ("Papers", &["reproduce", "theory", "demo"]),
    ("Shell", &["completions", "man", "help"]),
];

impl CommandLine for Cli {
    fn arranged() -> clap::Command {
        help::arranged(Self::command(), &GROUPS, include_str!("examples.txt"))
    }

    fn everywhere(&self) -> &Everywhere {
        &self.everywhere
    }

    fn dispatch(self) -> Result<ExitCode> {
        match self.command {
            Command::Bigram { command } => tables::bigram(command, self.everywhere.threads),
            Command::Ngram { command } => tables::ngram(command),
            Command::Trace { command } => trace::run(command),
            Command::Replay(args) => replay::run(&args),
            Command::Bench { command } => step::run(&command),
            Command::Tune(args) => tune::run(&args),
            Command::Train { command } => train::run(&command),
            Command::Reproduce(args) => reproduce::run(&args),
            Command::Theory { command } => theory::run(command),
            Command::Demo { command } => demo::run(&command),
            Command::Dataset(args) => dataset::run(&args),
            Command::Completions { shell } => manual::completions(Self::arranged(), shell),
            Command::Man { command } => manual::print(Self::arranged(), &command),
        }
    }
}

/// Runs the command with its arguments, of which the first is the program's name, and says how it
/// ended, as [`cascade_cli::main_with`] does.
pub fn main_with(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    cascade_cli::program::main_with::<Cli>(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_is_whole() {
        help::check::<Cli>("cascade-lab", &GROUPS, include_str!("examples.txt"));
    }

    #[test]
    fn cascade_hands_over_every_command_that_it_does_not_have() {
        let command = Cli::command();
        let mut own: Vec<&str> = command
            .get_subcommands()
            .map(clap::Command::get_name)
            .filter(|name| !["completions", "man"].contains(name))
            .map(|name| if name == "bench" { "bench step" } else { name })
            .collect();
        own.sort_unstable();
        assert_eq!(own, cascade_cli::laboratory::COMMANDS);
    }
}
