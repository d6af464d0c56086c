//! `cascade-lab demo evaluate`.

use std::io::Write;
use std::num::NonZeroUsize;

use anyhow::{Result, bail};
use cascade_config::{AssembleOptions, Config, DeviceSpec, PromptTemplate};
use cascade_eval::ProblemSet;
use cascade_eval::problems::{ProblemKind, Split};
use cascade_reproduce::report::{Evidence, Figure, Figures, Table};
use cascade_traces::trace::FirstToken;
use cascade_traces::{Phase, SetReport, WordProblems, WordProblemsReport, share_interval};
use clap::Args;

use crate::args::{ModelArgs, batch_size};
use crate::exit::ExitCode;
use crate::models::configuration;
use crate::progress::Progress;
use crate::room;
use crate::{at_most, interrupt, job, terminal};

/// What is evaluated if nothing is named.
const DEFAULT_CONFIG: &str = "embedded:demo-t5";
/// Tokens that a problem has at most.
const PROBLEM_TOKENS: usize = 512;

#[derive(Debug, Args)]
pub(crate) struct EvaluateArgs {
    #[command(flatten)]
    models: ModelArgs,

    /// Problems of each kind, as many of held-out templates, and of the 30 ordinary ones.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = at_most(100_000))]
    limit: usize,

    /// Seed of the problems. 7 is the trainer's own evaluation.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,

    /// Prompt template [default: the configuration's if it takes the problems, else `problem`].
    #[arg(long, value_name = "NAME")]
    template: Option<PromptTemplate>,

    /// Maximum number of new tokens, overriding the configuration.
    #[arg(long, value_name = "N", value_parser = at_most(1 << 20))]
    max_new_tokens: Option<usize>,

    /// Answer N problems at a time: on a CPU their forwards are shared, on a GPU they take turns.
    /// Answers are those of 1 [default: as many as there is memory for, up to 16; 1 on a GPU].
    #[arg(long, value_name = "N", value_parser = batch_size)]
    batch: Option<NonZeroUsize>,

    /// Device of all models, overriding the configuration: auto, cpu, cuda:N or metal:N.
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceSpec>,

    /// Print one JSON object and nothing else.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &EvaluateArgs) -> Result<ExitCode> {
    let Some(report) = evaluated(args)? else {
        terminal::note(format_args!(
            "interrupted: nothing is shown, as half a set says little"
        ));
        return Ok(interrupt::status());
    };
    let mut out = terminal::stdout();
    if args.json {
        terminal::write_json(&mut out, &report)?
    } else {
        write!(out, "{}", table(args, &report)?.to_text(room::columns()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What was found; `None` if it was interrupted.
fn evaluated(args: &EvaluateArgs) -> Result<Option<WordProblemsReport>> {
    let config = asked(args)?;
    let assembly = AssembleOptions::default().with_device(args.device);
    let pool = config.pool(&assembly);
    pool.target(&config)?;
    job::say_notes(&pool.notes());
    let longest = PROBLEM_TOKENS + config.generation.max_new_tokens;
    let texts = match args.batch {
        Some(texts) => texts,
        None => pool.plain_texts_at_a_time(&config, longest)?,
    };
    let problems = WordProblems {
        config: &config,
        pool: &pool,
        limit: args.limit,
        seed: args.seed,
        template: args.template,
        texts,
    };
    interrupt::cooperate();
    let mut progress = Progress::new(problems.count(), "problems");
    Ok(problems.run(|phase| {
        if phase == Phase::Answer {
            progress.step();
        }
        interrupt::unless_requested()
    })?)
}

/// The configuration of the models.
fn asked(args: &EvaluateArgs) -> Result<Config> {
    let mut config = configuration(&args.models, None, args.device, DEFAULT_CONFIG)?;
    if !config.generation.options().decoding.is_greedy() {
        bail!(
            "{}: temperature: problems are answered greedily; leave it 0",
            config.label
        );
    }
    if let Some(tokens) = args.max_new_tokens {
        config.generation.max_new_tokens = tokens;
    }
    Ok(config)
}

fn table(args: &EvaluateArgs, report: &WordProblemsReport) -> Result<Table> {
    let found = &report.sets;
    let shares = |header: &str, of: &dyn Fn(&SetReport) -> Option<Figure>| {
        percent(header, Evidence::Measured, found.iter().map(of))
    };
    let right = shares("right", &|of| share(of.marks.right, of.marks.answers));
    let mut table = Table::new(format!("{} on word problems", report.target))
        .labels("Problems", found.iter().map(|found| name(found.set)))?
        .figures(right.intervals(SHARES))?
        .figures(shares("no result", &|of| {
            whole(of.marks.missing, of.marks.answers)
        }))?
        .figures(shares("loops", &|of| {
            whole(of.endings.loops, of.endings.answers)
        }))?
        .figures(shares("at limit", &|of| {
            whole(of.endings.at_limit, of.endings.answers)
        }))?;
    for (drafter, drafter_name) in report.drafters.iter().enumerate() {
        let kept = found
            .iter()
            .map(|found| first_token(&found.drafters[drafter]));
        table =
            table.figures(percent(drafter_name, Evidence::Replayed, kept).intervals(BOOTSTRAP))?;
    }
    Ok(table
        .note(asked_how(args, report))
        .note(
            "right: share of answers with the known number or letter. loops: answers whose end \
             repeats itself; at limit: others that did not end.",
        )
        .note(
            "Columns of drafters: share of drafts of one token that the target keeps, each drafter \
             alone, on the target's own answers. Longer drafts end where they fail, so the next \
             begins at a hard token, and fewer of their first tokens are kept.",
        ))
}

fn asked_how(args: &EvaluateArgs, report: &WordProblemsReport) -> String {
    let templates: Vec<&str> = report
        .sets
        .iter()
        .map(|found| found.template.name())
        .collect();
    let few = if args.limit < FEWEST {
        format!(" Too few for a verdict: give --limit {FEWEST} or more.")
    } else {
        String::new()
    };
    format!(
        "{} problems of each set (30 ordinary ones at most), the first of seed {}, greedy, at most {} new tokens; asked with {}.{few}",
        args.limit,
        args.seed,
        report.max_new_tokens,
        distinct(&templates).join(", "),
    )
}

/// Problems below which nothing is concluded.
const FEWEST: usize = 30;

const SHARES: &str = "95 %, Clopper and Pearson";
const BOOTSTRAP: &str = "95 %, percentile bootstrap over problems";

fn name(set: ProblemSet) -> String {
    let kind = match set.kind {
        ProblemKind::WordProblem => "word problems",
        ProblemKind::MultipleChoice => "multiple choice",
    };
    match set.split {
        Split::HeldOut => format!("{kind}, held-out templates"),
        Split::Ordinary => format!("{kind}, ordinary: of no template"),
        split => format!("{kind}, {split}"),
    }
}

fn distinct<'t>(names: &[&'t str]) -> Vec<&'t str> {
    let mut distinct = names.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    distinct
}

fn percent(
    header: &str,
    evidence: Evidence,
    shares: impl Iterator<Item = Option<Figure>>,
) -> Figures {
    Figures::new(header, evidence, shares.collect::<Vec<_>>())
        .unit("%")
        .decimals(1)
}

fn whole(part: usize, all: usize) -> Option<Figure> {
    (all > 0).then(|| Figure::new(100.0 * part as f64 / all as f64))
}

fn share(part: usize, all: usize) -> Option<Figure> {
    let (low, high) = share_interval(part, all)?;
    let value = 100.0 * part as f64 / all as f64;
    Some(Figure::with_interval(value, 100.0 * low, 100.0 * high))
}

fn first_token(found: &FirstToken) -> Option<Figure> {
    let value = 100.0 * found.share()?;
    Some(match found.interval() {
        None => Figure::new(value),
        Some((low, high)) => Figure::with_interval(value, 100.0 * low, 100.0 * high),
    })
}
