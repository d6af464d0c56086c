//! `cascade bench`: cost of forwards and steps on this machine.

mod model;
pub mod options;
mod step;

use anyhow::Result;
use clap::Subcommand;
use serde::Serialize;

use crate::exit::ExitCode;
use crate::terminal::{self, Out};

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Time a model's forwards by rows and context, relative to memory bandwidth.
    Model(model::ModelArgs),
    /// Time cascades and plain decoding over recorded answers, and the engine's overhead per step.
    ///
    /// The target computes every forward, but a recorded trace answers in its place, so acceptance
    /// is that of the recording whatever the target's weights. The configurations' drafters draft
    /// as usual, and those that --drafter names are simulated. Greedy; tokens only, no text is
    /// decoded. The first step of each record, which reads the prompt, is excluded. Cascades and
    /// plain decoding take turns, record by record; after each record, what has been measured so
    /// far is printed to standard error.
    Step(step::StepArgs),
}

pub(crate) fn run(command: &BenchCommand) -> Result<ExitCode> {
    match command {
        BenchCommand::Model(args) => model::run(args).map(|()| ExitCode::SUCCESS),
        BenchCommand::Step(args) => step::run(args),
    }
}

/// Prints measurements as text or as one JSON object.
fn report<T: Serialize>(
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
