//! `cascade-lab demo problems`.

use std::io::Write;

use anyhow::Result;
use cascade_eval::problems::{Problem, ProblemKind, Split};
use cascade_eval::{ProblemSet, PromptTemplate};
use clap::Args;
use serde_json::{Value, json};

use crate::exit::ExitCode;
use crate::terminal;

#[derive(Debug, Args)]
pub(crate) struct ProblemsArgs {
    /// word-problem, answered by a number, or multiple-choice, answered by a letter.
    #[arg(long, value_name = "KIND", default_value = "word-problem")]
    kind: ProblemKind,

    /// train, validation or test, which share no numbers, names or wordings of a template;
    /// held-out: problems of templates that the other splits do not have; or ordinary: 30 problems
    /// of no template.
    #[arg(long, value_name = "SPLIT", default_value = "test")]
    split: Split,

    /// Seed of the problems.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,

    /// Number of problems to print.
    #[arg(long, value_name = "N", default_value_t = 5)]
    limit: usize,

    /// Number of problems to skip first.
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: usize,

    /// Print one JSON object per problem, which `--dataset problems --data FILE` reads.
    #[arg(long)]
    json: bool,

    /// Add the prompt that a template makes of each problem, such as `problem`; one that does not
    /// take problems of this kind is replaced by `problem`, as in `cascade run`.
    #[arg(long, value_name = "NAME", requires = "json")]
    template: Option<PromptTemplate>,
}

pub(super) fn print(args: &ProblemsArgs) -> Result<ExitCode> {
    let set = ProblemSet {
        kind: args.kind,
        split: args.split,
        seed: args.seed,
    };
    let mut out = terminal::stdout();
    let problems = set.problems().enumerate().skip(args.offset);
    for (position, problem) in problems.take(args.limit) {
        if args.json {
            terminal::write_json(&mut out, &args.object(set, position, problem)?)?
        } else {
            writeln!(out, "{}", readable(position, &problem))?
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl ProblemsArgs {
    fn object(&self, set: ProblemSet, position: usize, problem: Problem) -> Result<Value> {
        let mut object = json!({
            "id": position.to_string(),
            "kind": set.kind.name(),
            "split": set.split.name(),
            "template": problem.template,
            "question": problem.question,
            "choices": problem.choices,
            "answer": problem.solution,
        });
        if let Some(template) = self.template {
            let sample = ProblemSet::sample(position, problem);
            object["prompt"] = sample.prompt(set.template(template))?.into();
        }
        Ok(object)
    }
}

fn readable(position: usize, problem: &Problem) -> String {
    let Problem {
        template, question, ..
    } = problem;
    let mut text = format!("[{position}] {template}\n{question}\n");
    for (letter, choice) in "ABCD".chars().zip(problem.choices.iter().flatten()) {
        text += &format!("  {letter}) {choice}\n");
    }
    text + &format!("  {}\n", problem.solution)
}
