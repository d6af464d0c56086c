//! `cascade-lab theory`: formulas of speedups, rejections and draft lengths, computed and
//! simulated.

mod args;
mod chains;
mod ewif;
mod findings;
mod front;
mod lengths;
mod rejections;
mod report;
mod table1;

use anyhow::Result;
use clap::Subcommand;

use self::args::{HorizontalArgs, SpeculativeArgs, Table1Args, VerticalArgs};
use self::chains::ChainArgs;
use self::findings::show;
use self::front::FrontArgs;
use self::lengths::LengthsArgs;
use self::rejections::{BatchArgs, RejectionsArgs};
use crate::exit::ExitCode;
use crate::terminal;

#[derive(Debug, Subcommand)]
pub(crate) enum TheoryCommand {
    /// Expected speedup of one drafter (Corollary 4.2).
    ///
    /// The expected walltime improvement factor (EWIF) is the speedup over plain decoding if every
    /// token is accepted independently at a known rate.
    Speculative(SpeculativeArgs),
    /// Expected speedup of a vertical cascade (Theorem 4.3).
    ///
    /// The drafter reviews the drafts of a smaller one below it.
    Vertical(VerticalArgs),
    /// Expected speedup of a horizontal cascade (Theorem 4.5).
    ///
    /// Several drafters, one after the other. Give --alpha, --cost and --k once for each drafter,
    /// in drafting order. Without --k, finds the best order and lengths.
    Horizontal(HorizontalArgs),
    /// Table 1 of Cascade Speculative Drafting: as printed, and as computed.
    Table1(Table1Args),
    /// How often drafts are rejected (Theorem 1), by formula and in simulated runs.
    ///
    /// In `theory rejections`, `batch`, `front`, `mdp` and `chain`, models are Markov chains,
    /// random ones or your own: formulas are computed exactly, and compared with runs of the
    /// algorithms.
    Rejections(RejectionsArgs),
    /// Rejections with several drafts at a time (Theorem 3), and their limit.
    Batch(BatchArgs),
    /// Rejections against bias when too much is accepted (Theorems 4 and 5).
    Front(FrontArgs),
    /// When to stop drafting (SpecDec++, §4).
    ///
    /// Compares fixed lengths, thresholds, the best of all policies, and an oracle.
    Mdp(LengthsArgs),
    /// Print a random chain as JSON, to be changed and given to the others.
    Chain(ChainArgs),
}

pub(crate) fn run(command: TheoryCommand) -> Result<ExitCode> {
    let started = jiff::Timestamp::now();
    let mut out = terminal::stdout();
    match command {
        TheoryCommand::Speculative(args) => {
            ewif::speculative(&args)?.print(&mut out, args.output.json)?;
        }
        TheoryCommand::Vertical(args) => {
            ewif::vertical(&args)?.print(&mut out, args.output.json)?;
        }
        TheoryCommand::Horizontal(args) => {
            ewif::horizontal(&args)?.print(&mut out, args.output.json)?;
        }
        TheoryCommand::Table1(args) => table1::print(&mut out, &args)?,
        TheoryCommand::Rejections(args) => {
            show(&args, &args.chains, &args.output, &mut out, started)?
        }
        TheoryCommand::Batch(args) => show(&args, &args.chains, &args.output, &mut out, started)?,
        TheoryCommand::Front(args) => show(&args, &args.chains, &args.output, &mut out, started)?,
        TheoryCommand::Mdp(args) => show(&args, &args.chains, &args.output, &mut out, started)?,
        TheoryCommand::Chain(args) => args.print(&mut out)?,
    }
    Ok(ExitCode::SUCCESS)
}
