//! `cascade bigram`.

mod args;
mod counting;
mod eval;
mod ngrams;
mod progress;
mod tables;
pub(crate) mod tokenizer;

use std::process::ExitCode;

use anyhow::Result;

pub(crate) use args::BigramCommand;
pub(crate) use ngrams::open_any;

pub(crate) fn run(command: BigramCommand, threads: Option<usize>) -> Result<ExitCode> {
    match command {
        BigramCommand::Build(args) => counting::build(&args, threads),
        BigramCommand::Count(args) => counting::count(&args, threads),
        BigramCommand::Reduce(args) => counting::reduce(&args),
        BigramCommand::Eval(args) => return eval::run(&args),
        BigramCommand::Show(args) => tables::show(&args),
        BigramCommand::Compare { first, second } => tables::compare(&first, &second),
        BigramCommand::Export(args) => tables::export(&args),
        BigramCommand::Import(args) => tables::import(&args),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// 1234567 as 1,234,567.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn groups_digits_by_three() {
        let grouped: Vec<String> = [0, 999, 1000, 1_234_567].map(super::grouped).into();
        assert_eq!(grouped, ["0", "999", "1,000", "1,234,567"]);
    }
}
