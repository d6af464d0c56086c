//! `cascade-lab bigram` and `cascade-lab ngram`: tables of what follows tokens, and the tree that drafts
//! from them.

mod args;
mod bigrams;
mod calibrate;
mod counting;
mod eval;
mod fit;
mod ngrams;
mod progress;
mod text;
mod traces;
mod tree;

use anyhow::Result;

use crate::exit::ExitCode;

pub(crate) use args::{BigramCommand, NgramCommand};

pub(crate) fn bigram(command: BigramCommand, threads: Option<usize>) -> Result<ExitCode> {
    match command {
        BigramCommand::Build(args) => counting::build(&args, threads),
        BigramCommand::Count(args) => counting::count(&args, threads),
        BigramCommand::Reduce(args) => counting::reduce(&args),
        BigramCommand::Eval(args) => return eval::run(&args),
        BigramCommand::Show(args) => bigrams::show(&args),
        BigramCommand::Compare { first, second } => bigrams::compare(&first, &second),
        BigramCommand::Export(args) => bigrams::export(&args),
        BigramCommand::Import(args) => bigrams::import(&args),
    }?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn ngram(command: NgramCommand) -> Result<ExitCode> {
    match command {
        NgramCommand::Fit(args) => fit::run(&args),
        NgramCommand::Calibrate(args) => calibrate::run(&args),
    }
}
