//! How the answers of `cascade run` are printed.

use std::io::{self, IsTerminal, Write};
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

/// Prints answers: as text with lines of statistics, or one JSON object for each. A file or a pipe
/// gets the answers and nothing else; what is said of them goes to standard error.
pub(super) struct AnswerPrinter<'a> {
    inputs: &'a [Input],
    out: Out,
    /// Where the statistics go, if not to the answers.
    aside: Option<Out>,
    json: bool,
    /// Whether there are no statistics.
    quiet: bool,
    /// Whether there are statistics of each answer, beside those of all.
    several: bool,
    totals: Totals,
    written: io::Result<()>,
}

impl<'a> AnswerPrinter<'a> {
    pub(super) fn new(args: &RunArgs, inputs: &'a [Input], out: Out) -> Self {
        let turns: usize = inputs.iter().map(Input::turns).sum();
        // A comparison is what is asked for, and not said of something else.
        let to_terminal = args.output.is_none() && io::stdout().is_terminal();
        Self {
            inputs,
            out,
            aside: (!args.compare && !to_terminal).then(terminal::aside),
            json: args.json,
            quiet: args.json || terminal::is_quiet(),
            several: turns > 1 || args.batch.get() > 1,
            totals: Totals::default(),
            written: Ok(()),
        }
    }

    /// The names of the levels, which colours stand for: there are none in a file or a pipe unless
    /// they are asked for.
    pub(super) fn legend(&mut self, names: &[&str]) -> Result<()> {
        if self.quiet || (self.aside.is_some() && !self.out.is_styled()) {
            return Ok(());
        }
        show::legend(self.beside(), names)
    }

    /// Where the statistics go.
    fn beside(&mut self) -> &mut Out {
        self.aside.as_mut().unwrap_or(&mut self.out)
    }

    /// The number and the text of a prompt.
    pub(super) fn heading(&mut self, question: &Question<'_>) -> Result<()> {
        if self.quiet || (self.aside.is_some() && !self.several) {
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
        let out = self.beside();
        writeln!(out)?;
        out.styled(show::dimmed(), &heading)?;
        Ok(writeln!(out, "\n")?)
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
            let alone = self.quiet || self.aside.is_some();
            let ending = if alone { "" } else { ending(generation) };
            writeln!(self.out, "{ending}")?;
        }
        self.out.flush()?;
        let remark = remark(generation, Place::Run(question.input.template()));
        if self.quiet {
            let cut = remark.filter(|_| !self.json && !ending(generation).is_empty());
            if let Some(cut) = cut {
                terminal::error(format_args!("{}: {cut}", question.place()));
            }
            return Ok(());
        }
        for line in show::mark(question, generation).into_iter().chain(remark) {
            show::dim_lines(self.beside(), &[line])?;
        }
        if self.several {
            let lines = Totals::of(generation, answer.comparison.as_ref()).short();
            show::dim_lines(self.beside(), &lines)?;
        }
        Ok(self.beside().flush()?)
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
            let out = self.aside.as_mut().unwrap_or(&mut self.out);
            show::total(out, &self.totals, self.several)?;
        }
        if let Some(compared) = self.totals.compared.as_ref().filter(|_| self.json) {
            let compared = json!({ "compared": compared });
            terminal::write_json(&mut self.out, &compared)?;
        }
        self.out.flush()?;
        Ok(self.totals)
    }
}
