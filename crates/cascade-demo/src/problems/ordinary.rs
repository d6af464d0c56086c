//! Ordinary problems, in wordings that no template has.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::choice;
use super::draw::Draw;
use super::{Problem, ProblemKind};

const NAME: &str = "ordinary";

/// On each line a question, the equations of its solution and the answer, between tabs.
const PROBLEMS: &str = include_str!("ordinary.tsv");

/// All of them in their order; the seed chooses the wrong answers to choose from.
pub(super) fn problems(kind: ProblemKind, seed: u64) -> Vec<Problem> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let lines = PROBLEMS.lines().filter_map(fields);
    let problems = lines.filter_map(|[question, steps, answer]| match kind {
        ProblemKind::WordProblem => Some(Problem {
            template: NAME,
            question: question.to_owned(),
            choices: None,
            solution: format!("{steps} #### {answer}"),
            answer: answer.to_owned(),
        }),
        ProblemKind::MultipleChoice => {
            let choices = choice::numbers(answer.parse().ok()?, &mut Draw::new(rng.random()));
            Some(choice::of(NAME, question.to_owned(), steps, choices))
        }
    });
    problems.collect()
}

fn fields(line: &str) -> Option<[&str; 3]> {
    let mut fields = line.split('\t');
    let all = [fields.next()?, fields.next()?, fields.next()?];
    fields.next().is_none().then_some(all)
}
