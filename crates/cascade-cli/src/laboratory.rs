//! Commands of the laboratory's program, `cascade-lab`: they are handed to it, as git and cargo
//! hand on the commands that they do not have themselves.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::{Arg, Command};

use crate::exit::ExitCode;
use crate::terminal;

/// A command of the laboratory in a group of which `cascade` has the others.
const STEP: &str = "bench step";

const PROGRAM: &str = "cascade-lab";

/// The commands of `cascade-lab` that `cascade` does not have; a test of `cascade-lab` compares.
pub const COMMANDS: [&str; 11] = [
    STEP,
    "bigram",
    "dataset",
    "demo",
    "ngram",
    "replay",
    "reproduce",
    "theory",
    "trace",
    "train",
    "tune",
];

/// The parser, which also suggests the laboratory's commands for a misspelt one.
pub(crate) fn known(command: Command) -> Command {
    let names = COMMANDS.iter().filter(|name| **name != STEP);
    names.fold(command, |command, name| {
        let arguments = Arg::new("arguments")
            .num_args(0..)
            .trailing_var_arg(true)
            .allow_hyphen_values(true);
        let stub = Command::new(*name).hide(true).disable_help_flag(true);
        command.subcommand(stub.arg(arguments))
    })
}

/// The command of the laboratory that the arguments ask for, if they do: the first that is no
/// option of every command, also after `help` and `man`.
pub fn asked(arguments: &[OsString]) -> Option<String> {
    let mut words = arguments.iter().skip(1).filter_map(|word| word.to_str());
    let mut next = || loop {
        match words.next()? {
            "--threads" => drop(words.next()),
            option if option.starts_with('-') => {}
            word => return Some(word),
        }
    };
    let mut command = next()?.to_owned();
    if ["help", "man"].contains(&command.as_str()) {
        command = next()?.to_owned();
    }
    if STEP.starts_with(&format!("{command} ")) {
        command = format!("{command} {}", next()?);
    }
    COMMANDS.contains(&command.as_str()).then_some(command)
}

/// Runs `cascade-lab` with the arguments that this program was given.
pub(crate) fn hand_over(command: &str, arguments: &[OsString]) -> ExitCode {
    let beside = arguments.first().map(Path::new).and_then(Path::parent);
    let Some(program) = found(beside) else {
        terminal::error(format_args!(
            "error: `{command}` is a command of {PROGRAM}, which is not installed: `cargo install \
             --path crates/lab/cascade-lab` in a checkout installs it"
        ));
        return ExitCode::from(2);
    };
    run(&program, &arguments[1..])
}

/// The program beside this one, or on the path.
fn found(beside_command: Option<&Path>) -> Option<PathBuf> {
    let name = format!("{PROGRAM}{}", std::env::consts::EXE_SUFFIX);
    let own = std::env::current_exe().ok();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let beside = [own.as_deref().and_then(Path::parent), beside_command];
    let beside = beside.into_iter().flatten().map(Path::to_owned);
    let folders = beside.chain(std::env::split_paths(&path));
    let mut files = folders
        .filter(|folder| folder.as_os_str() != OsStr::new(""))
        .map(|folder| folder.join(&name));
    files.find(|file| file.is_file())
}

/// Takes this process's place, so that signals reach it.
#[cfg(unix)]
fn run(program: &Path, arguments: &[OsString]) -> ExitCode {
    use std::os::unix::process::CommandExt;
    let error = std::process::Command::new(program).args(arguments).exec();
    failed(program, &error)
}

#[cfg(not(unix))]
fn run(program: &Path, arguments: &[OsString]) -> ExitCode {
    let status = std::process::Command::new(program).args(arguments).status();
    match status {
        Ok(status) => status
            .code()
            .and_then(|code| u8::try_from(code).ok())
            .unwrap_or(2)
            .into(),
        Err(error) => failed(program, &error),
    }
}

fn failed(program: &Path, error: &std::io::Error) -> ExitCode {
    terminal::error(format_args!("error: {}: {error}", program.display()));
    ExitCode::from(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_the_laboratory_are_found_behind_options() {
        let asked = |line: &str| asked(&line.split(' ').map(Into::into).collect::<Vec<_>>());
        for line in [
            "cascade tune --trace t",
            "cascade -q --threads 2 tune",
            "cascade --threads=2 tune",
            "cascade help tune",
            "cascade man tune",
        ] {
            assert_eq!(asked(line).as_deref(), Some("tune"), "{line}");
        }
        for line in ["cascade bench step --json", "cascade help bench step"] {
            assert_eq!(asked(line).as_deref(), Some(STEP), "{line}");
        }
        for line in [
            "cascade",
            "cascade run tune",
            "cascade bench",
            "cascade bench model step",
            "cascade help",
            "cascade --threads tune run",
        ] {
            assert_eq!(asked(line), None, "{line}");
        }
    }
}
