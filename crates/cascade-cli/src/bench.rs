//! `cascade bench`: what forwards and steps cost on this machine.

mod model;
mod options;
mod step;

use std::io::{StdoutLock, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use serde::Serialize;

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Measure a model's forwards by rows and context, beside the speed at which memory can be read.
    Model(model::ModelArgs),
    /// Measure what the engine adds to the target's forwards, step by step; simulated.
    ///
    /// The target computes every forward, and a recorded trace answers in its place, so that drafts are kept as they were in the
    /// recording, whatever the target's weights. The statistical drafters of the configuration draft as always. Greedy; tokens
    /// only, no text is decoded. The first step of each record reads the prompt and is left out.
    Step(step::StepArgs),
}

pub(crate) fn run(command: &BenchCommand) -> Result<ExitCode> {
    match command {
        BenchCommand::Model(args) => model::run(args),
        BenchCommand::Step(args) => step::run(args),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// Prints what was measured: for people, or as one JSON object.
fn report<T: Serialize>(
    measured: &T,
    json: bool,
    show: impl FnOnce(&mut StdoutLock<'_>, &T) -> Result<()>,
) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        serde_json::to_writer(&mut out, measured)?;
        writeln!(out)?;
        return Ok(());
    }
    show(&mut out, measured)
}
