//! The frame of a program: options of every command, and how a command ends.

use std::ffi::OsString;
use std::io::Write;
use std::num::IntErrorKind;

use anyhow::Result;
use cascade_config::Overcommit;
use clap::error::ErrorKind;
use clap::{Args, Command, Parser};

use crate::exit::ExitCode;
use crate::{cached, given, help, panics, terminal, threads};

/// Exit status of a command whose reader has left, as in `cascade run | head`: that of a shell for
/// a program that the signal has ended.
const READER_GONE: u8 = 128 + 13;

/// Options of every command of both programs.
#[derive(Debug, Args)]
pub struct Everywhere {
    /// Number of compute threads [default: the number of CPUs, or RAYON_NUM_THREADS].
    #[arg(long, value_name = "N", global = true, value_parser = at_most(threads::MOST))]
    pub threads: Option<usize>,

    /// Load models that are larger than the available memory, after a warning [env:
    /// CASCADE_ALLOW_MEMORY_OVERCOMMIT=1].
    #[arg(long, global = true)]
    allow_memory_overcommit: bool,

    /// Print results and errors only: no notes, no progress, and no statistics beside text.
    #[arg(long, short, global = true)]
    quiet: bool,
}

/// Reads a number from 1 to a greatest one.
pub fn at_most(most: usize) -> impl Fn(&str) -> Result<usize, String> + Clone {
    bounded(1, most)
}

/// Reads a number within bounds.
pub fn bounded(least: usize, most: usize) -> impl Fn(&str) -> Result<usize, String> + Clone {
    move |text| match text.parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        Ok(number) if number < least => Err(format!("give {least} or more")),
        Err(error) if *error.kind() != IntErrorKind::PosOverflow => Err("give a number".to_owned()),
        _ => Err(format!("give {most} at most")),
    }
}

/// A command line: the options of every command, and the command itself.
pub trait CommandLine: Parser {
    /// The parser with help in groups and with examples.
    fn arranged() -> Command;

    /// The options of every command.
    fn everywhere(&self) -> &Everywhere;

    /// Runs the command.
    ///
    /// # Errors
    /// What the command reports; it is printed, and the exit status is 2.
    fn dispatch(self) -> Result<ExitCode>;
}

/// Runs a program with its arguments, of which the first is the program's name, and says how it
/// ended. Prints to standard output and standard error, and answers Ctrl-C.
pub fn main_with<C: CommandLine>(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    panics::expect_missing_threads();
    let code = run_line::<C>(arguments);
    // What is written last may not be there yet.
    match terminal::stdout().flush() {
        Err(error) if code == ExitCode::SUCCESS => failed(&error.into()),
        _ => code,
    }
}

fn run_line<C: CommandLine>(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    cascade_demo::register();
    let arguments = given::remember(arguments);
    let matches = C::arranged().try_get_matches_from(arguments);
    let line = match matches.and_then(|matches| C::from_arg_matches(&matches)) {
        Ok(line) => line,
        Err(error) => return print_usage::<C>(&error),
    };
    let everywhere = line.everywhere();
    terminal::set_quiet(everywhere.quiet);
    if everywhere.allow_memory_overcommit {
        // SAFETY: no other thread runs yet.
        #[allow(unsafe_code)]
        unsafe {
            std::env::set_var(Overcommit::VARIABLE, "1");
        }
    }
    match threads::set(everywhere.threads).and_then(|()| line.dispatch()) {
        Ok(code) => code,
        Err(error) => failed(&error),
    }
}

/// Says why a command failed, but to nobody that its reader has left.
fn failed(error: &anyhow::Error) -> ExitCode {
    if terminal::reader_is_gone() {
        return ExitCode::from(READER_GONE);
    }
    let error = whole_chain(error);
    terminal::error(format_args!("error: {error}"));
    if let Some(remedy) = cached::remedy(&error) {
        terminal::error(format_args!("note: {remedy}"));
    }
    ExitCode::from(2)
}

/// Prints help, the version, or what is wrong with the arguments, which it quotes; where some are
/// missing, with examples.
fn print_usage<C: CommandLine>(error: &clap::Error) -> ExitCode {
    let styled = error.render();
    let plain = styled.to_string();
    if error.use_stderr() {
        let shown = terminal::visible(&plain);
        // A reader that is gone needs no help.
        let _ = if shown == plain {
            error.print()
        } else {
            write!(terminal::stderr(), "{plain}")
        };
        let lacks = error.kind() == ErrorKind::MissingRequiredArgument;
        let named = lacks.then(|| help::examples_of(&C::arranged(), &given::arguments()));
        if let Some(examples) = named.flatten() {
            terminal::error(format_args!("\n{examples}"));
        }
    } else if let Err(error) = terminal::print_styled(&plain, &styled.ansi().to_string()) {
        return failed(&error.into());
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
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
