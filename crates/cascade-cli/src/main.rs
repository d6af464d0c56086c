//! The `cascade` command: arguments, progress and printing, and nothing else.

mod args;
mod bench;
mod bigram;
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
mod verify;

use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, Parser};

use crate::args::{Cli, Command, ConfigCommand};

fn main() -> ExitCode {
    match dispatch(Cli::parse()) {
        Ok(code) => code,
        // The reader has gone, as in `cascade run | head`: nobody is left to tell.
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
        Command::Verify(args) => verify::run(&args),
        Command::Config {
            command: ConfigCommand::Check { file, load },
        } => config_check::check(&file, load),
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

/// The error and its causes, without those whose message the one before already contains.
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
