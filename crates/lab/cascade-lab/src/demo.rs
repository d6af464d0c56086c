//! `cascade demo`: the project's own word problems, and how good models are at them.

mod evaluate;
mod problems;

use anyhow::Result;
use clap::Subcommand;

use crate::exit::ExitCode;

#[derive(Debug, Subcommand)]
pub(crate) enum DemoCommand {
    /// Print word problems with their worked solutions.
    ///
    /// The program makes them; the same seed gives the same problems on every machine. `cascade run
    /// --dataset problems` asks them.
    Problems(problems::ProblemsArgs),
    /// Measure how good a model is at the word problems, and how good its drafters are.
    ///
    /// Right answers by kind of problem, of templates that were trained on and of others, answers
    /// that end in a loop or at the length limit, and for each drafter alone how often the target
    /// keeps a draft of one token. Decoding is greedy.
    Evaluate(Box<evaluate::EvaluateArgs>),
}

pub(crate) fn run(command: &DemoCommand) -> Result<ExitCode> {
    match command {
        DemoCommand::Problems(args) => problems::print(args),
        DemoCommand::Evaluate(args) => evaluate::run(args),
    }
}
