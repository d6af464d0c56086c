//! The `cascade` command.

mod out_of_memory;

use std::process::ExitCode;

fn main() -> ExitCode {
    cascade_cli::main_with(std::env::args_os()).into()
}
