//! `cascade run --batch`: several prompts at a time, printed in their order.

use std::io::Write;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use anyhow::{Context, Result};
use cascade_config::{Batch, ModelPool};
use cascade_engine::{Cascade, GenerationOutput, Options};

use super::{ending, heading};
use crate::inputs::{Input, Question};
use crate::interrupt;
use crate::job::{say_notes, Job};
use crate::record::{with_carried_fields, Record};
use crate::show::{self, Totals};
use crate::terminal::{self, Out};

/// The cascades of a job, of which each answers a prompt at a time.
pub(super) fn assemble(job: &Job, pool: &ModelPool, texts: NonZeroUsize) -> Result<Batch> {
    let batch = job.assemble_batch(pool, texts)?;
    say_notes(&batch.notes);
    for warning in &batch.warnings {
        terminal::warn(warning);
    }
    Ok(batch)
}

/// Asks all inputs, and prints answers as soon as they and all before them are there: as JSON, or
/// as text, which is not streamed.
pub(super) fn print(
    batch: &mut Batch,
    inputs: &[Input],
    options: &Options,
    json: bool,
    mut out: Out,
) -> Result<Totals> {
    let numbered: Vec<(usize, &Input)> = inputs.iter().enumerate().collect();
    let mut totals = Totals::default();
    let mut printed = Ok(());
    batch.for_each(
        &numbered,
        |cascade, (index, input)| answers(cascade, input, *index, options),
        |answers| {
            let print = |answers: Vec<Answer<'_>>| -> Result<()> {
                for Answer(question, generation) in &answers {
                    if json {
                        print_record(&mut out, question, generation)?
                    } else {
                        print_text(&mut out, inputs, question, generation)?
                    }
                    totals.add(generation, None);
                    totals.mark(question, generation);
                }
                Ok(out.flush()?)
            };
            printed = answers.and_then(print);
            match printed {
                Ok(()) => interrupt::unless_requested(),
                Err(_) => ControlFlow::Break(()),
            }
        },
    );
    printed?;
    if !json && !terminal::is_quiet() {
        show::total(&mut out, &totals, true)?;
        out.flush()?;
    }
    Ok(totals)
}

/// A question and its answer.
struct Answer<'a>(Question<'a>, GenerationOutput);

/// The answers to all turns of an input, each after those to the earlier turns.
fn answers<'a>(
    cascade: &mut Cascade,
    input: &'a Input,
    index: usize,
    options: &Options,
) -> Result<Vec<Answer<'a>>> {
    let mut texts = Vec::new();
    let mut answers = Vec::new();
    for turn in 0..input.turns() {
        let question = Question {
            input,
            index,
            turn,
            prompt: input.prompt(&texts)?,
        };
        let options = options.clone().with_seed(question.seed(options.seed));
        let tokens = question.prompt.encode(cascade)?;
        let on_event = |_: cascade_engine::Event<'_>| interrupt::unless_requested();
        let generation = cascade
            .start_tokens(&tokens, &options)
            .and_then(|generation| generation.run_with(on_event))
            .with_context(|| question.place())?;
        let text = generation.text.as_deref().unwrap_or_default();
        texts.push(text.trim().to_owned());
        answers.push(Answer(question, generation));
        if interrupt::requested() {
            break;
        }
    }
    Ok(answers)
}

fn print_record(
    out: &mut Out,
    question: &Question<'_>,
    generation: &GenerationOutput,
) -> Result<()> {
    let record = Record::new(question, generation, None);
    let record = with_carried_fields(question.input, &record)?;
    Ok(terminal::write_json(out, &record)?)
}

fn print_text(
    out: &mut Out,
    inputs: &[Input],
    question: &Question<'_>,
    generation: &GenerationOutput,
) -> Result<()> {
    let (dim, quiet) = (show::dimmed(), terminal::is_quiet());
    if !quiet {
        writeln!(out)?;
        out.styled(dim, &heading(question, inputs.len()))?;
        writeln!(out, "\n")?;
    }
    let text = generation.text.as_deref().unwrap_or_default();
    writeln!(out, "{text}{}", ending(generation))?;
    if quiet {
        return Ok(());
    }
    if let Some(mark) = show::mark(question, generation) {
        show::dim_lines(out, &[mark])?;
    }
    show::dim_lines(out, &Totals::of(generation, None).short())
}
