//! The `cascade` command: arguments, progress and printing, and nothing else.

mod args;
mod bench;
mod bigram;
mod check_lossless;
mod comparison;
mod config_check;
mod doctor;
mod ewif;
mod inputs;
mod job;
mod record;
mod replay;
mod reproduce;
mod run;
mod show;
mod trace;
mod tune;

use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::bench::BenchCommand;
use crate::bigram::BigramCommand;
use crate::check_lossless::CheckLosslessArgs;
use crate::config_check::ConfigCommand;
use crate::ewif::EwifCommand;
use crate::replay::ReplayArgs;
use crate::reproduce::ReproduceArgs;
use crate::run::RunArgs;
use crate::trace::TraceCommand;
use crate::tune::TuneArgs;

/// Lossless speculative decoding with cascades of drafters: faster generation, the same output.
#[derive(Debug, Parser)]
#[command(name = "cascade", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Generate text with a cascade.
    ///
    /// Without --prompt, --prompts or --dataset, answers three GSM8K test questions.
    ///
    /// Multi-turn samples (mt-bench, spec-bench, lists in the prompt field) are held as
    /// conversations if the prompt template supports them, as vicuna does: the prompt of each turn
    /// contains the earlier turns with the model's own answers, stripped of surrounding white
    /// space, and each turn gets its own record. Other templates ask the first turn only.
    Run(RunArgs),
    /// Check that a configuration is lossless: that its output is the target's.
    ///
    /// Greedy: every emitted token is re-scored by the target alone. Sampled (--temperature above
    /// 0): many short generations are compared with the target's enumerated distribution.
    ///
    /// Exit status: 0 if lossless, 1 if not, 2 on error.
    CheckLossless(CheckLosslessArgs),
    /// The former name of `check-lossless`.
    #[command(hide = true)]
    Verify(CheckLosslessArgs),
    /// Search for the K matrix and lenience with the best predicted cost on recorded outputs.
    Tune(TuneArgs),
    /// Inspect configurations.
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Build and inspect bigram tables.
    Bigram {
        #[command(subcommand)]
        command: BigramCommand,
    },
    /// Record a target's outputs, and inspect recordings (traces).
    Trace {
        #[command(subcommand)]
        command: TraceCommand,
    },
    /// Run a cascade against a recorded target instead of the real one.
    ///
    /// Loads the drafters of the configuration but not its target. Tokens, steps and calls equal
    /// those of a run with the real target; times do not, and are not shown.
    Replay(ReplayArgs),
    /// Benchmark forward passes and engine steps on this machine.
    Bench {
        #[command(subcommand)]
        command: BenchCommand,
    },
    /// Compute expected speedups from acceptance rates and costs.
    ///
    /// The expected walltime improvement factor (EWIF) is the speedup over plain decoding if every
    /// token is accepted independently at a known rate. Nothing is measured.
    Ewif {
        #[command(subcommand)]
        command: EwifCommand,
    },
    /// Reproduce the papers' tables and figures.
    Reproduce(ReproduceArgs),
    /// Show devices, threads, cache folders and versions.
    Doctor,
    /// Print a shell completion script.
    Completions {
        /// The shell.
        shell: Shell,
    },
}

fn main() -> ExitCode {
    match dispatch(Cli::parse()) {
        Ok(code) => code,
        // The reader is gone, as in `cascade run | head`: not an error.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", whole_chain(&error));
            ExitCode::from(2)
        }
    }
}

fn dispatch(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::CheckLossless(args) => check_lossless::run(&args),
        Command::Verify(args) => {
            eprintln!(
                "note: `cascade verify` is now `cascade check-lossless`; \
                 the next release removes the old name"
            );
            check_lossless::run(&args)
        }
        Command::Config { command } => config_check::run(&command),
        Command::Bigram { command } => bigram::run(command),
        Command::Trace { command } => trace::run(command),
        Command::Replay(args) => replay::run(&args),
        Command::Bench { command } => bench::run(&command),
        Command::Ewif { command } => ewif::run(command),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Doctor => doctor::doctor(),
        Command::Completions { shell } => {
            let mut command = Cli::command();
            clap_complete::generate(shell, &mut command, "cascade", &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
    }
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
