//! Manual pages, and scripts that complete commands.

use std::io::Write;

use anyhow::{Result, bail};
use clap::Command;
use clap_complete::Shell;

use crate::exit::ExitCode;
use crate::terminal;

/// Prints the completion script of the program.
pub fn completions(mut program: Command, shell: Shell) -> Result<ExitCode> {
    let name = program.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, name, &mut script);
    terminal::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the manual page of the program, or of one of its commands.
pub fn print(mut program: Command, names: &[String]) -> Result<ExitCode> {
    program.build();
    let mut command = &program;
    for name in names {
        command = match command.find_subcommand(name) {
            Some(found) => found,
            None => bail!(
                "there is no command `{}`; see `{} --help`",
                names.join(" "),
                program.get_name()
            ),
        };
    }
    // A page is named after the whole command: cascade-bigram-build.
    let page = command
        .get_bin_name()
        .unwrap_or(program.get_name())
        .replace(' ', "-");
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone())
        .title(page)
        .render(&mut text)?;
    terminal::stdout().write_all(&text)?;
    Ok(ExitCode::SUCCESS)
}
