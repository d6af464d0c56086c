//! How the answers of `cascade run` are printed.

use std::io::{self, Write};
use std::ops::ControlFlow;

use anyhow::Result;
use cascade_engine::{Event, GenerationOutput};
use serde_json::json;

use super::{Answer, RunArgs, ending, show_event};
use crate::inputs::{Input, Question};
use crate::interrupt;
use crate::record::{Record, with_carried_fields};
use crate::remarks::{Place, remark};
use crate::show::{self, Totals};
use crate::terminal::{self, Out};

/// Prints answers: as text with lines of statistics, or one JSON object for each.
pub(super) struct AnswerPrinter<'a> {
    inputs: &'a [Input],
    out: Out,
    json: bool,
    /// Whether answers are printed alone.
    quiet: bool,
    /// Whether there are statistics of each answer, beside those of all.
    several: bool,
    totals: Totals,
    written: io::Result<()>,
}

impl<'a> AnswerPrinter<'a> {
    pub(super) fn new(args: &RunArgs, inputs: &'a [Input], out: Out) -> Self {
        let turns: usize = inputs.iter().map(Input::turns).sum();
        Self {
            inputs,
            out,
            json: args.json,
            quiet: args.json || terminal::is_quiet(),
            several: turns > 1 || args.batch.get() > 1,
            totals: Totals::default(),
            written: Ok(()),
        }
    }

    /// The names of the levels, which colours stand for.
    pub(super) fn legend(&mut self, names: &[&str]) -> Result<()> {
        if self.quiet {
            return Ok(());
        }
        show::legend(&mut self.out, names)
    }

    /// The number and the text of a prompt.
    pub(super) fn heading(&mut self, question: &Question<'_>) -> Result<()> {
        if self.quiet {
            return Ok(());
        }
        let title = show::beginning(question.input.title(question.turn));
        let (index, inputs) = (question.index + 1, self.inputs.len());
        let place = match question.input.turns() {
            1 if inputs == 1 => String::new(),
            1 => format!("[{index}/{inputs}] "),
            turns => format!("[{index}/{inputs}, turn {} of {turns}] ", question.turn + 1),
        };
        let heading = format!("{place}{title}");
        writeln!(self.out)?;
        self.out.styled(show::dimmed(), &heading)?;
        Ok(writeln!(self.out, "\n")?)
    }

    /// Prints some text of an answer while it comes, until Ctrl-C or until that fails.
    pub(super) fn event(&mut self, event: Event<'_>) -> ControlFlow<()> {
        if !self.json {
            self.written = show_event(&mut self.out, event);
        }
        match self.written {
            Ok(()) => interrupt::unless_requested(),
            Err(_) => ControlFlow::Break(()),
        }
    }

    /// Prints the text of an answer that is complete.
    pub(super) fn text(&mut self, generation: &GenerationOutput) -> Result<()> {
        if !self.json {
            write!(
                self.out,
                "{}",
                generation.text.as_deref().unwrap_or_default()
            )?;
        }
        Ok(())
    }

    /// Prints what there is to know of an answer, below its text.
    pub(super) fn answered(&mut self, answer: &Answer<'_>) -> Result<()> {
        std::mem::replace(&mut self.written, Ok(()))?;
        let (question, generation) = (&answer.question, &answer.generation);
        if !self.json {
            writeln!(self.out, "{}", ending(generation))?;
        }
        if !self.quiet {
            if let Some(mark) = show::mark(question, generation) {
                show::dim_lines(&mut self.out, &[mark])?;
            }
            if let Some(remark) = remark(generation, Place::Run(question.input.template())) {
                show::dim_lines(&mut self.out, &[remark])?;
            }
            if self.several {
                let lines = Totals::of(generation, answer.comparison.as_ref()).short();
                show::dim_lines(&mut self.out, &lines)?;
            }
        }
        Ok(self.out.flush()?)
    }

    /// Counts an answer of which all rounds are done, and prints its record.
    pub(super) fn count(&mut self, answer: &Answer<'_>) -> Result<()> {
        let (question, generation) = (&answer.question, &answer.generation);
        let comparison = answer.comparison.as_ref();
        if self.json {
            let record = Record::new(question, generation, comparison);
            let record = with_carried_fields(question.input, &record)?;
            terminal::write_json(&mut self.out, &record)?;
            self.out.flush()?;
        }
        self.totals.add(generation, comparison);
        self.totals.mark(question, generation);
        Ok(())
    }

    /// Prints the statistics of all answers.
    pub(super) fn finish(mut self) -> Result<Totals> {
        if self.inputs.is_empty() && !self.json {
            terminal::note(format_args!("no prompt was asked: the selection is empty"));
        } else if !self.quiet {
            show::total(&mut self.out, &self.totals, self.several)?;
        }
        if let Some(compared) = self.totals.compared.as_ref().filter(|_| self.json) {
            let compared = json!({ "compared": compared });
            terminal::write_json(&mut self.out, &compared)?;
        }
        self.out.flush()?;
        Ok(self.totals)
    }
}
