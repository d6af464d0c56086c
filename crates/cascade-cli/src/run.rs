//! `cascade run`.

mod batch;
mod printer;

use std::io::Write;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use cascade_config::{Batch, ModelPool};
use cascade_core::fs::Existing;
use cascade_engine::{Cascade, Event, Finish, GenerationOutput, Options, Rule};
use clap::{Args, ValueEnum};

use self::printer::AnswerPrinter;
use crate::args::{InputArgs, JobArgs, batch_size};
use crate::at_most;
use crate::comparison::{Comparison, Timed};
use crate::exit::ExitCode;
use crate::inputs::{Input, Question};
use crate::interrupt;
use crate::job::Job;
use crate::outputs::{self, Printed};
use crate::progress::Progress;
use crate::show::{self, Totals};
use crate::stdin;
use crate::templates::PromptText;
use crate::terminal::{self, Out};
use crate::word_problems;

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

    /// Ask every prompt N times both ways, each round with new sessions and drafters that know
    /// nothing of it: less noise in its times. Surer speedups take more prompts, over which
    /// intervals are.
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

    /// Print one JSON object per prompt and nothing else; with --compare, a last one of all
    /// prompts.
    #[arg(long)]
    json: bool,

    /// Write the answers to a file, or what --json and --compare print. The file is complete or not
    /// there; after Ctrl-C it has what was answered.
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
    let piped = if args.job.input.takes_pipe() {
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
    let mut answering = Answering::new(args, &job)?;
    interrupt::cooperate();
    let at = || args.output_name();
    let printed = Printed::begin(output.as_ref()).with_context(at)?;
    let mut printer = AnswerPrinter::new(args, &job.inputs, printed.out()?);
    match &mut answering {
        Answering::OneByOne(runner) => runner.ask(&job.inputs, &mut printer)?,
        Answering::Together(together) => {
            let (batch, options) = &mut **together;
            batch::ask(batch, &job.inputs, options, &mut printer)?
        }
    }
    let totals = printer.finish()?;
    printed.commit().with_context(at)?;
    Ok(status(args, &totals, &job.inputs))
}

/// What answers prompts, ready to begin.
enum Answering<'a> {
    OneByOne(Box<Runner<'a>>),
    Together(Box<(Batch, Options)>),
}

impl<'a> Answering<'a> {
    /// Loads the models.
    fn new(args: &RunArgs, job: &'a Job) -> Result<Self> {
        let pool = job.pool();
        let options = job.options().with_speculation(!args.no_speculation);
        if args.batch.get() > 1 {
            let batch = job.assemble_batch(&pool, args.batch)?;
            job.say_recommended(&pool)?;
            return Ok(Self::Together(Box::new((batch, options))));
        }
        let cascade = job.assemble(&pool)?.cascade;
        job.say_recommended(&pool)?;
        let coupled = job.config.target.rule == Rule::Coupled;
        let runner = Runner {
            sides: Sides::new(cascade, job, args.compare.then_some(&pool))?,
            job,
            pool,
            comparable: options.decoding.is_greedy() || coupled,
            seed: options.seed,
            rounds: args.rounds,
            options,
        };
        remark(&args.job.input, job);
        Ok(Self::OneByOne(Box::new(runner)))
    }
}

fn status(args: &RunArgs, totals: &Totals, inputs: &[Input]) -> ExitCode {
    let compared = totals.compared.as_ref();
    match compared.map_or(0, |compared| compared.unequal) {
        _ if interrupt::requested() => {
            say_interrupted(args, totals, inputs);
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
    if let Some(remark) = word_problems::remark(&job.config, question.title(0)) {
        terminal::note(format_args!("note: {remark}"));
    }
}

/// How to go on after Ctrl-C.
fn say_interrupted(args: &RunArgs, totals: &Totals, inputs: &[Input]) {
    let input = &args.job.input;
    let turns: usize = inputs.iter().map(Input::turns).sum();
    let answers = totals.prompts();
    // The last answer is cut short.
    let next = input.offset + answers.saturating_sub(1);
    let cure = if args.rounds > 1 && answers == turns {
        format!(", or not all of {} rounds", args.rounds)
    } else if turns == inputs.len() && turns > 1 && input.sample.is_none() {
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

/// The answer to a prompt.
struct Answer<'a> {
    question: Question<'a>,
    generation: GenerationOutput,
    comparison: Option<Comparison>,
}

/// A cascade, and what it is compared with.
struct Sides {
    cascade: Cascade,
    /// The target alone, with its own session: neither side benefits from the other's cache.
    plain: Option<Cascade>,
}

struct Runner<'a> {
    job: &'a Job,
    /// The models, which stay loaded from round to round.
    pool: ModelPool,
    /// The sessions and drafters of this round.
    sides: Sides,
    options: Options,
    /// Whether the text is that of plain decoding with the same seed.
    comparable: bool,
    /// Seed of the first prompt.
    seed: u64,
    /// How often each prompt is asked both ways.
    rounds: usize,
}

impl Runner<'_> {
    /// Asks all inputs, and prints each answer while it comes; then again in further rounds.
    fn ask(&mut self, inputs: &[Input], printer: &mut AnswerPrinter<'_>) -> Result<()> {
        if self.options.speculate {
            printer.legend(&self.sides.cascade.level_names())?;
        }
        let mut answers = Vec::new();
        for (index, input) in inputs.iter().enumerate() {
            if interrupt::requested() {
                break;
            }
            ask_turns(input, index, |question| {
                printer.heading(&question)?;
                let answer = self.answer(question, &mut |event| printer.event(event))?;
                printer.answered(&answer)?;
                let text = answer.generation.text.clone().unwrap_or_default();
                if self.rounds > 1 {
                    answers.push(answer);
                } else {
                    printer.count(&answer)?;
                }
                Ok(text)
            })?;
        }
        self.ask_again(&mut answers)?;
        answers.iter().try_for_each(|answer| printer.count(answer))
    }

    /// Asks the same prompts in further rounds, each of new sessions and drafters.
    fn ask_again(&mut self, answers: &mut [Answer<'_>]) -> Result<()> {
        let further = (self.rounds - 1) * answers.len();
        let mut progress = Progress::new(further, "answers of further rounds");
        for round in 1..self.rounds {
            if interrupt::requested() {
                break;
            }
            let cascade = self.job.assemble_as(&self.pool, &self.job.config)?.cascade;
            self.sides = Sides::new(cascade, self.job, Some(&self.pool))?;
            for answer in &mut *answers {
                let asked = self.both_ways(&answer.question, round, &mut unless_interrupted)?;
                let (generation, Some(plain)) = asked else {
                    break;
                };
                if let Some(comparison) = &mut answer.comparison {
                    comparison.add(&generation, &plain);
                }
                progress.step();
            }
        }
        Ok(())
    }

    /// Generates, and also decodes plainly if --compare.
    fn answer<'q>(
        &mut self,
        question: Question<'q>,
        on_event: &mut OnEvent<'_>,
    ) -> Result<Answer<'q>> {
        let (generation, plain) = self.both_ways(&question, 0, on_event)?;
        let comparison = plain.map(|plain| Comparison::new(&generation, plain, self.comparable));
        Ok(Answer {
            question,
            generation: generation.generation,
            comparison,
        })
    }

    /// A generation, and plain decoding if that is compared with and Ctrl-C has ended neither:
    /// before it on odd prompts and after it on even ones, in the next round the other way round,
    /// so that a machine whose speed drifts favours neither.
    fn both_ways(
        &mut self,
        question: &Question<'_>,
        round: usize,
        on_event: &mut OnEvent<'_>,
    ) -> Result<(Timed, Option<Timed>)> {
        self.options.seed = question.seed(self.seed);
        self.options.continues = question.input.template().is_continued();
        let plain_first = (question.index + question.turn + round) % 2 == 1;
        let (sides, prompt) = (&mut self.sides, &question.prompt);
        let before = sides.plainly(prompt, &self.options, plain_first)?;
        let tokens = prompt.encode(&sides.cascade)?;
        let generation = Timed::of(|| {
            sides
                .cascade
                .start_tokens(&tokens, &self.options)
                .and_then(|generation| generation.run_with(on_event))
                .with_context(|| question.place())
        })?;
        let after = sides.plainly(prompt, &self.options, !plain_first)?;
        let plain = before.or(after).filter(|_| !interrupt::requested());
        Ok((generation, plain))
    }
}

impl Sides {
    /// A cascade, and the target alone if a pool to compare with it is given: both warm, and
    /// without a text to draft from.
    fn new(cascade: Cascade, job: &Job, compared: Option<&ModelPool>) -> Result<Self> {
        let plain = compared.map(|pool| job.assemble_as(pool, &job.config.plain()));
        let mut sides = Self {
            cascade,
            plain: plain.transpose()?.map(|plain| plain.cascade),
        };
        if compared.is_some() {
            sides.warm_up()?;
        }
        Ok(sides)
    }

    fn warm_up(&mut self) -> Result<()> {
        let options = Options::default().with_max_new_tokens(WARM_UP_TOKENS);
        for cascade in std::iter::once(&mut self.cascade).chain(&mut self.plain) {
            let begun = Instant::now();
            let mut generation = cascade.start("Hello", &options)?;
            while begun.elapsed() < WARM_UP && generation.step()?.is_some() {}
            drop(generation);
            cascade.forget_texts();
        }
        Ok(())
    }

    fn plainly(
        &mut self,
        prompt: &PromptText,
        options: &Options,
        now: bool,
    ) -> Result<Option<Timed>> {
        let Some(plain) = self.plain.as_mut().filter(|_| now) else {
            return Ok(None);
        };
        let tokens = prompt.encode(plain)?;
        Timed::of(|| {
            Ok(plain
                .start_tokens(&tokens, options)?
                .run_with(unless_interrupted)?)
        })
        .map(Some)
    }
}

/// What a generation does with its events.
type OnEvent<'a> = dyn FnMut(Event<'_>) -> ControlFlow<()> + 'a;

/// Goes on until Ctrl-C.
fn unless_interrupted(_: Event<'_>) -> ControlFlow<()> {
    interrupt::unless_requested()
}

/// Asks all turns of an input, each after the answers to the earlier turns, until Ctrl-C. `answer`
/// gives the text of an answer.
fn ask_turns<'a>(
    input: &'a Input,
    index: usize,
    mut answer: impl FnMut(Question<'a>) -> Result<String>,
) -> Result<()> {
    let mut answers = Vec::new();
    for turn in 0..input.turns() {
        let prompt = input.prompt(&answers)?;
        let text = answer(Question {
            input,
            index,
            turn,
            prompt,
        })?;
        if interrupt::requested() {
            break;
        }
        answers.push(text.trim().to_owned());
    }
    Ok(())
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
        Finish::MaxNewTokens | Finish::ContextFull => " …",
        _ => "",
    }
}
