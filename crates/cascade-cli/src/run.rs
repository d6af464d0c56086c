//! `cascade run`.

mod batch;

use std::io::Write;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use cascade_config::ModelPool;
use cascade_core::fs::{Existing, Output};
use cascade_engine::{Cascade, Event, Finish, GenerationOutput, Options, Rule};
use clap::{Args, ValueEnum};

use crate::args::{batch_size, InputArgs, JobArgs};
use crate::at_most;
use crate::comparison::{Comparison, Timed};
use crate::demo::words;
use crate::exit::ExitCode;
use crate::inputs::{Input, Question};
use crate::interrupt;
use crate::job::Job;
use crate::outputs::{self, Printed};
use crate::record::{with_carried_fields, Record};
use crate::show::{self, Totals};
use crate::stdin;
use crate::templates::PromptText;
use crate::terminal::{self, Out};

/// Exit status when the output differs from plain decoding.
const DIFFERENT: u8 = 1;

/// Tokens that both sides of a comparison generate at most before timing starts, and how long each
/// may take: memory gets warm, and the online schedule learns what rows cost here.
const WARM_UP_TOKENS: usize = 64;
const WARM_UP: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    job: JobArgs,

    /// Plain decoding: the target alone, one token per forward.
    #[arg(long)]
    no_speculation: bool,

    /// Also decode plainly, check that the outputs are equal, and print the speedup. Samples of a
    /// --rule other than coupled are not compared: they are other draws from the same distribution.
    #[arg(long, conflicts_with = "no_speculation")]
    compare: bool,

    /// Ask every prompt N times both ways, for an interval of the speedup.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "compare", value_parser = at_most(1000))]
    rounds: usize,

    /// Generate N answers at a time: on a CPU their forwards are shared, on a GPU they take turns.
    /// The answers are those of --batch 1, printed in the order of the prompts, each when it is
    /// complete (docs/throughput.md).
    #[arg(long, value_name = "N", default_value = "1", value_parser = batch_size, conflicts_with = "compare")]
    batch: NonZeroUsize,

    /// Colour each token by the model that first proposed it.
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: Color,

    /// Print one JSON object per prompt and nothing else.
    #[arg(long)]
    json: bool,

    /// Write to a file what would be printed: with --quiet, the answers alone. The file is complete
    /// or not there; after Ctrl-C it has what was answered.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Replace the file of --output if it exists.
    #[arg(long, requires = "output")]
    force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// If standard output is a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

pub(crate) fn run(args: &RunArgs) -> Result<ExitCode> {
    set_colors(args.color);
    let piped = if args.job.input.is_empty() {
        stdin::piped()?
    } else {
        None
    };
    let job = Job::with_prompt(&args.job, piped)?;
    let output = args
        .output
        .as_ref()
        .map(|path| {
            let existing = Existing::replaced_if(args.force);
            outputs::check(path, existing, job.files(&args.job))
        })
        .transpose()?;
    let pool = job.pool();
    if args.batch.get() > 1 {
        return run_batch(args, &job, &pool, output.as_ref());
    }
    let cascade = job.assemble(&pool)?.cascade;
    let plain = if args.compare {
        Some(job.assemble_as(&pool, &job.config.plain())?.cascade)
    } else {
        None
    };
    let options = job.options().with_speculation(!args.no_speculation);
    let coupled = job.config.target.rule == Rule::Coupled;
    let comparable = options.decoding.is_greedy() || coupled;
    let mut runner = Runner::new(cascade, plain, options)?;
    runner.comparable = comparable;
    runner.rounds = args.rounds;
    remark(&args.job.input, &job);
    interrupt::cooperate();
    let at = || args.output_name();
    let printed = Printed::begin(output.as_ref()).with_context(at)?;
    let totals = (if args.json {
        runner.print_records(&job.inputs, printed.out()?)
    } else {
        runner.print_text(&job.inputs, printed.out()?)
    })?;
    printed.commit().with_context(at)?;
    Ok(status(args, &totals, &job.inputs))
}

/// As [`run`], several prompts at a time.
fn run_batch(
    args: &RunArgs,
    job: &Job,
    pool: &ModelPool,
    output: Option<&Output>,
) -> Result<ExitCode> {
    let mut batch = batch::assemble(job, pool, args.batch)?;
    let options = job.options().with_speculation(!args.no_speculation);
    interrupt::cooperate();
    let at = || args.output_name();
    let printed = Printed::begin(output).with_context(at)?;
    let totals = batch::print(&mut batch, &job.inputs, &options, args.json, printed.out()?)?;
    printed.commit().with_context(at)?;
    Ok(status(args, &totals, &job.inputs))
}

fn status(args: &RunArgs, totals: &Totals, inputs: &[Input]) -> ExitCode {
    match totals.unequal() {
        _ if interrupt::requested() => {
            say_interrupted(&args.job.input, totals, inputs);
            interrupt::status()
        }
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(DIFFERENT),
    }
}

impl RunArgs {
    /// The file of --output, for errors.
    fn output_name(&self) -> String {
        let name = self.output.as_ref();
        name.map_or_else(String::new, |path| path.display().to_string())
    }
}

/// Says what the demo knows, where its one question is of somebody's own and is something else.
fn remark(input: &InputArgs, job: &Job) {
    let (None, None, [question]) = (&input.dataset, &input.prompts, &job.inputs[..]) else {
        return;
    };
    if let Some(remark) = words::remark(&job.config, question.title(0)) {
        terminal::note(format_args!("note: {remark}"));
    }
}

/// How to go on after Ctrl-C.
fn say_interrupted(args: &InputArgs, totals: &Totals, inputs: &[Input]) {
    let turns: usize = inputs.iter().map(Input::turns).sum();
    let answers = totals.prompts();
    // The last answer is cut short.
    let next = args.offset + answers.saturating_sub(1);
    let cure = if turns == inputs.len() && turns > 1 && args.sample.is_none() {
        format!("; go on with --offset {next}")
    } else {
        String::new()
    };
    terminal::note(format_args!(
        "interrupted: {answers} of {turns} answers, the last one cut short{cure}"
    ));
}

pub(crate) fn set_colors(color: Color) {
    match color {
        Color::Auto => {}
        Color::Always => anstream::ColorChoice::Always.write_global(),
        Color::Never => anstream::ColorChoice::Never.write_global(),
    }
}

struct Runner {
    cascade: Cascade,
    /// The target alone, with its own session: neither side benefits from the other's cache.
    plain: Option<Cascade>,
    options: Options,
    /// Whether the text is that of plain decoding with the same seed.
    comparable: bool,
    /// Seed of the first prompt.
    seed: u64,
    /// How often each prompt is asked both ways.
    rounds: usize,
}

impl Runner {
    fn new(cascade: Cascade, plain: Option<Cascade>, options: Options) -> Result<Self> {
        let mut runner = Self {
            cascade,
            plain,
            comparable: true,
            seed: options.seed,
            rounds: 1,
            options,
        };
        if runner.plain.is_some() {
            runner.warm_up()?;
        }
        Ok(runner)
    }

    fn warm_up(&mut self) -> Result<()> {
        let options = Options::default().with_max_new_tokens(WARM_UP_TOKENS);
        for cascade in std::iter::once(&mut self.cascade).chain(&mut self.plain) {
            let begun = Instant::now();
            let mut generation = cascade.start("Hello", &options)?;
            while begun.elapsed() < WARM_UP && generation.step()?.is_some() {}
        }
        Ok(())
    }

    /// One JSON object per prompt, printed as soon as it is complete.
    fn print_records(&mut self, inputs: &[Input], mut out: Out) -> Result<Totals> {
        let mut totals = Totals::default();
        self.ask(inputs, &mut |runner, question| {
            let (generation, comparison) =
                runner.answer(question, &mut |_| interrupt::unless_requested())?;
            let record = Record::new(question, &generation, comparison.as_ref());
            let record = with_carried_fields(question.input, &record)?;
            terminal::write_json(&mut out, &record)?;
            out.flush()?;
            totals.add(&generation, comparison.as_ref());
            totals.mark(question, &generation);
            Ok(generation)
        })?;
        Ok(totals)
    }

    /// Streaming text, and a line of statistics after each prompt and at the end.
    fn print_text(&mut self, inputs: &[Input], mut out: Out) -> Result<Totals> {
        let dim = show::dimmed();
        let quiet = terminal::is_quiet();
        if self.options.speculate && !quiet {
            show::legend(&mut out, &self.cascade.level_names())?;
        }
        let several = inputs.iter().map(Input::turns).sum::<usize>() > 1;
        let mut totals = Totals::default();
        self.ask(inputs, &mut |runner, question| {
            if !quiet {
                let heading = heading(question, inputs.len());
                writeln!(out)?;
                out.styled(dim, &heading)?;
                writeln!(out, "\n")?;
            }
            let (generation, comparison) = runner.stream(question, &mut out)?;
            if let Some(mark) = show::mark(question, &generation).filter(|_| !quiet) {
                show::dim_lines(&mut out, &[mark])?;
            }
            if several && !quiet {
                let of_this = Totals::of(&generation, comparison.as_ref());
                show::dim_lines(&mut out, &of_this.short())?;
            }
            totals.add(&generation, comparison.as_ref());
            totals.mark(question, &generation);
            Ok(generation)
        })?;
        if inputs.is_empty() {
            terminal::note(format_args!("no prompt was asked: the selection is empty"));
            return Ok(totals);
        }
        if !quiet {
            show::total(&mut out, &totals, several)?;
        }
        out.flush()?;
        Ok(totals)
    }

    /// Answers, and writes the answer while it comes.
    fn stream(
        &mut self,
        question: &Question<'_>,
        out: &mut Out,
    ) -> Result<(GenerationOutput, Option<Comparison>)> {
        let mut written = Ok(());
        let answered = self.answer(question, &mut |event| {
            written = show_event(out, event);
            match written {
                Ok(()) => interrupt::unless_requested(),
                Err(_) => ControlFlow::Break(()),
            }
        })?;
        written?;
        writeln!(out, "{}", ending(&answered.0))?;
        Ok(answered)
    }

    /// Asks all turns of all inputs, each after the answers to the earlier turns.
    fn ask(
        &mut self,
        inputs: &[Input],
        answer: &mut dyn FnMut(&mut Self, &Question<'_>) -> Result<GenerationOutput>,
    ) -> Result<()> {
        for (index, input) in inputs.iter().enumerate() {
            let mut answers = Vec::new();
            for turn in 0..input.turns() {
                let question = Question {
                    input,
                    index,
                    turn,
                    prompt: input.prompt(&answers)?,
                };
                let generation = answer(self, &question)?;
                if interrupt::requested() {
                    return Ok(());
                }
                let text = generation.text.unwrap_or_default();
                answers.push(text.trim().to_owned());
            }
        }
        Ok(())
    }

    /// Generates, and also decodes plainly if --compare: before on odd prompts and after on even
    /// ones, so that a machine whose speed drifts favours neither.
    fn answer(
        &mut self,
        question: &Question<'_>,
        on_event: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<(GenerationOutput, Option<Comparison>)> {
        self.options.seed = question.seed(self.seed);
        let prompt = &question.prompt;
        let tokens = prompt.encode(&self.cascade)?;
        let plain_first = (question.index + question.turn) % 2 == 1;
        let before = self.plainly(prompt, plain_first)?;
        let generation = Timed::of(|| {
            self.cascade
                .start_tokens(&tokens, &self.options)
                .and_then(|generation| generation.run_with(on_event))
                .with_context(|| question.place())
        })?;
        let after = self.plainly(prompt, !plain_first)?;
        let mut comparison = before
            .or(after)
            .filter(|_| !interrupt::requested())
            .map(|plain| Comparison::new(&generation, plain, self.comparable));
        if let Some(comparison) = &mut comparison {
            self.repeat(prompt, comparison)?;
        }
        Ok((generation.generation, comparison))
    }

    /// The further rounds, each in the other order.
    fn repeat(&mut self, prompt: &PromptText, comparison: &mut Comparison) -> Result<()> {
        for round in 1..self.rounds {
            let plain_first = round % 2 == 1;
            let before = self.plainly(prompt, plain_first)?;
            let tokens = prompt.encode(&self.cascade)?;
            let on_event = |_: Event<'_>| interrupt::unless_requested();
            let generation = Timed::of(|| {
                let generation = self.cascade.start_tokens(&tokens, &self.options)?;
                Ok(generation.run_with(on_event)?)
            })?;
            let after = self.plainly(prompt, !plain_first)?;
            match before.or(after).filter(|_| !interrupt::requested()) {
                Some(plain) => comparison.add(&generation, &plain),
                None => break,
            }
        }
        Ok(())
    }

    fn plainly(&mut self, prompt: &PromptText, now: bool) -> Result<Option<Timed>> {
        let Some(plain) = self.plain.as_mut().filter(|_| now) else {
            return Ok(None);
        };
        let tokens = prompt.encode(plain)?;
        let on_event = |_: Event<'_>| interrupt::unless_requested();
        let options = &self.options;
        let plain = Timed::of(|| Ok(plain.start_tokens(&tokens, options)?.run_with(on_event)?))?;
        Ok(Some(plain))
    }
}

/// The number and the text of a prompt.
fn heading(question: &Question<'_>, inputs: usize) -> String {
    let title = show::beginning(question.input.title(question.turn));
    let (index, turn) = (question.index + 1, question.turn + 1);
    match question.input.turns() {
        1 => format!("[{index}/{inputs}] {title}"),
        turns => format!("[{index}/{inputs}, turn {turn} of {turns}] {title}"),
    }
}

pub(crate) fn show_event(out: &mut Out, event: Event<'_>) -> std::io::Result<()> {
    if let Event::Text { text, proposer } = event {
        out.styled(show::style(proposer), text)?;
        out.flush()?;
    }
    Ok(())
}

/// Why the text ends, unless the model ended it.
pub(crate) fn ending(generation: &GenerationOutput) -> &'static str {
    match generation.finish {
        Finish::MaxNewTokens => " …",
        Finish::ContextFull => " … [the model's context is full]",
        _ => "",
    }
}
