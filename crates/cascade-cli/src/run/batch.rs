//! `cascade run --batch`: several prompts at a time, printed in their order.

use std::ops::ControlFlow;

use anyhow::{Context, Result};
use cascade_config::Batch;
use cascade_engine::{Cascade, Options};

use super::{Answer, AnswerPrinter, ask_turns, unless_interrupted};
use crate::inputs::Input;
use crate::interrupt;

/// Asks all inputs, and prints answers as soon as they and all before them are there.
pub(super) fn ask(
    batch: &mut Batch,
    inputs: &[Input],
    options: &Options,
    printer: &mut AnswerPrinter<'_>,
) -> Result<()> {
    let numbered: Vec<(usize, &Input)> = inputs.iter().enumerate().collect();
    let mut print = |answers: Vec<Answer<'_>>| -> Result<()> {
        for answer in &answers {
            printer.heading(&answer.question)?;
            printer.text(&answer.generation)?;
            printer.answered(answer)?;
            printer.count(answer)?;
        }
        Ok(())
    };
    let mut printed = Ok(());
    batch.for_each(
        &numbered,
        |cascade, (index, input)| answers(cascade, input, *index, options),
        |answers| {
            printed = answers.and_then(&mut print);
            match printed {
                Ok(()) => interrupt::unless_requested(),
                Err(_) => ControlFlow::Break(()),
            }
        },
    );
    printed
}

/// The answers to all turns of an input.
fn answers<'a>(
    cascade: &mut Cascade,
    input: &'a Input,
    index: usize,
    options: &Options,
) -> Result<Vec<Answer<'a>>> {
    let mut answers = Vec::new();
    ask_turns(input, index, |question| {
        let options = options
            .clone()
            .with_seed(question.seed(options.seed))
            .with_continuation(input.template().is_continued());
        let tokens = question.prompt.encode(cascade)?;
        let generation = cascade
            .start_tokens(&tokens, &options)
            .and_then(|started| started.run_with(unless_interrupted))
            .with_context(|| question.place())?;
        let text = generation.text.clone().unwrap_or_default();
        answers.push(Answer {
            question,
            generation,
            comparison: None,
        });
        Ok(text)
    })?;
    Ok(answers)
}
