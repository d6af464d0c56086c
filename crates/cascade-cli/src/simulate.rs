//! `cascade simulate`: the theory of rejections and of draft lengths, by formula and token by
//! token.

mod batch;
mod chains;
mod findings;
mod front;
mod lengths;
mod rejections;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use self::batch::BatchArgs;
use self::chains::ChainArgs;
use self::front::FrontArgs;
use self::lengths::LengthsArgs;
use self::rejections::RejectionsArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum SimulateCommand {
    /// How often drafts are rejected (Theorem 1), by formula and in simulated runs.
    Rejections(RejectionsArgs),
    /// Rejections with several drafts at a time (Theorem 3), and what is left of them with drafts
    /// without number.
    Batch(BatchArgs),
    /// Rejections against bias when too much is accepted (Theorems 4 and 5).
    Front(FrontArgs),
    /// When to stop drafting (SpecDec++, §4): fixed lengths, thresholds, the best of all policies,
    /// and an oracle.
    Mdp(LengthsArgs),
    /// Print a random chain as JSON, to be changed and given to the others.
    Chain(ChainArgs),
}

pub(crate) fn run(command: SimulateCommand) -> Result<ExitCode> {
    let started = jiff::Timestamp::now();
    match command {
        SimulateCommand::Rejections(args) => args.run()?.show(&args.output, started)?,
        SimulateCommand::Batch(args) => args.run()?.show(&args.output, started)?,
        SimulateCommand::Front(args) => args.run()?.show(&args.output, started)?,
        SimulateCommand::Mdp(args) => args.run()?.show(&args.output, started)?,
        SimulateCommand::Chain(args) => args.print()?,
    }
    Ok(ExitCode::SUCCESS)
}
