//! The `cascade-lab` command.

use std::process::ExitCode;

use cascade_cli::out_of_memory::OrEnd;

#[global_allocator]
static ALLOCATOR: OrEnd = OrEnd;

fn main() -> ExitCode {
    cascade_lab::main_with(std::env::args_os()).into()
}
