//! `cascade bench`: cost of forwards on this machine.

mod model;
pub mod options;

use anyhow::Result;
use clap::Subcommand;
use serde::Serialize;

use crate::exit::ExitCode;
use crate::terminal::{self, Out};

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Time a model's forwards by rows and context, relative to memory bandwidth.
    Model(Box<model::ModelArgs>),

    /// Compute until standard input ends.
    #[command(name = model::BUSY, hide = true)]
    Busy,
}

pub(crate) fn run(command: &BenchCommand) -> Result<ExitCode> {
    match command {
        BenchCommand::Model(args) => model::run(args)?,
        BenchCommand::Busy => model::busy(),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints measurements as text or as one JSON object.
pub fn report<T: Serialize>(
    measured: &T,
    json: bool,
    show: impl FnOnce(&mut Out, &T) -> Result<()>,
) -> Result<()> {
    let mut out = terminal::stdout();
    if json {
        return Ok(terminal::write_json(&mut out, measured)?);
    }
    show(&mut out, measured)
}
