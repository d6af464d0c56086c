//! `cascade-lab replay` with assumed times of forwards.

use std::collections::BTreeMap;
use std::io::Write;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, bail};
use cascade_config::{AssembleOptions, Config};
use cascade_engine::Statement;
use cascade_traces::trace::{RecordedDrafters, Trace};
use cascade_traces::{
    AssumedCosts, AssumedOutcome, AssumedReplays, AssumedReport, Bin, LevelReliability, Reliability,
};
use clap::Args;

use super::{ReplayArgs, replay_warnings, show_beside};
use crate::columns::table;
use crate::exit::ExitCode;
use crate::progress::Progress;
use crate::terminal::grouped;
use crate::{bounded, interrupt, recorded, terminal};

/// The longest draft of fixed length.
const LONGEST: usize = 64;
/// Texts at a time: each is a thread.
const MOST_TEXTS: usize = 256;

#[derive(Debug, Args)]
#[command(next_help_heading = "Assumed costs")]
pub(super) struct AssumedArgs {
    /// Assume that each row of a forward beyond the first adds this share of a forward of one row,
    /// and report speedups over plain decoding under that assumption; several, by commas.
    #[arg(long, value_name = "C,…", value_delimiter = ',', value_parser = cost)]
    row_cost: Vec<f64>,

    /// Assume that a forward of so many rows takes so long, in any unit, and linearly between: a
    /// curve that was measured somewhere.
    #[arg(
        long,
        value_name = "ROWS:TIME,…",
        value_delimiter = ',',
        value_parser = row_time,
        conflicts_with = "row_cost"
    )]
    row_times: Vec<(usize, f64)>,

    /// With --row-cost or --row-times: what a forward of each neural drafter is assumed to take, in
    /// forwards of the target, largest drafter first.
    #[arg(long, value_name = "C,…", value_delimiter = ',', value_parser = cost, conflicts_with = "files")]
    drafter_cost: Vec<f64>,

    /// Let forwards take the times of these files, which `cascade bench model --save` wrote: one
    /// for the target and one for each neural drafter, in any order and by commas.
    #[arg(
        long = "costs",
        value_name = "FILE,…",
        value_delimiter = ',',
        conflicts_with_all = ["row_cost", "row_times"]
    )]
    files: Vec<PathBuf>,

    /// With assumed costs: how many texts are generated at a time, in forwards that they share; a
    /// column for each number.
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "1",
        value_parser = texts
    )]
    texts: Vec<NonZeroUsize>,

    /// With assumed costs and a single drafter: also replay drafts of these fixed lengths (0
    /// is plain decoding), the best of which is the best static length in hindsight.
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        value_parser = bounded(0, LONGEST)
    )]
    lengths: Vec<usize>,

    /// With assumed costs and the online schedule: print how often tokens were kept by what their
    /// drafter stated, and by what the schedule made of that.
    #[arg(long)]
    reliability: bool,

    /// With assumed costs: also replay the oracle, which drafts exactly what will be
    /// accepted.
    #[arg(long)]
    oracle: bool,
}

fn row_time(text: &str) -> Result<(usize, f64), String> {
    let parts = text.trim().split_once(':');
    let rows = parts.and_then(|(rows, _)| rows.parse().ok());
    let time = parts.and_then(|(_, time)| time.parse::<f64>().ok());
    match (rows, time) {
        (Some(rows), Some(time)) if rows > 0 && time.is_finite() && time > 0.0 => Ok((rows, time)),
        _ => Err("give rows and times above 0, such as 1:37,8:43,16:66".to_owned()),
    }
}

fn texts(text: &str) -> Result<NonZeroUsize, String> {
    let texts = text.trim().parse::<NonZeroUsize>().ok();
    let texts = texts.filter(|texts| texts.get() <= MOST_TEXTS);
    texts.ok_or_else(|| format!("give numbers from 1 to {MOST_TEXTS}"))
}

fn cost(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(cost) if cost.is_finite() && cost >= 0.0 => Ok(cost),
        _ => Err("give numbers of 0 and above".to_owned()),
    }
}

impl AssumedArgs {
    pub(super) const fn is_asked_for(&self) -> bool {
        !self.row_cost.is_empty() || !self.row_times.is_empty() || !self.files.is_empty()
    }

    /// Refuses what says nothing without costs.
    pub(super) fn check(&self) -> Result<()> {
        let needing = [
            ("--lengths", !self.lengths.is_empty()),
            ("--oracle", self.oracle),
            ("--reliability", self.reliability),
            ("--drafter-cost", !self.drafter_cost.is_empty()),
            ("--texts", self.texts.iter().any(|texts| texts.get() > 1)),
        ];
        match needing.into_iter().find(|(_, given)| *given) {
            Some((flag, _)) if !self.is_asked_for() => {
                bail!(
                    "{flag} needs times: say what forwards cost, by --row-cost, --row-times or --costs"
                )
            }
            _ => Ok(()),
        }
    }

    /// What forwards take, in each column.
    fn costs(&self, config: &Config, trace: &Trace) -> Result<Vec<AssumedCosts>> {
        if let Some(by_rows) = AssumedCosts::by_rows(&self.row_times, &self.drafter_cost) {
            return Ok(vec![by_rows]);
        }
        if self.files.is_empty() {
            let linear = |&row: &f64| AssumedCosts::linear(row, &self.drafter_cost);
            return Ok(self.row_cost.iter().map(linear).collect());
        }
        Ok(vec![AssumedCosts {
            name: "files".to_owned(),
            row_cost: None,
            times: recorded::times(&self.files, config, trace)?,
        }])
    }
}

pub(super) fn run(args: &ReplayArgs, config: &Config, trace: &Arc<Trace>) -> Result<ExitCode> {
    for warning in &replay_warnings(config, trace) {
        terminal::warn(warning);
    }
    let assumed = &args.assumed;
    let (statements, counting) = assumed.reliability.then(counted).unzip();
    let mut replays = AssumedReplays {
        config,
        pool: &config.pool(&AssembleOptions::default().with_device(args.device)),
        trace,
        offset: args.offset,
        limit: args.limit.unwrap_or(usize::MAX),
        costs: &assumed.costs(config, trace)?,
        lengths: &assumed.lengths,
        oracle: assumed.oracle,
        texts: &assumed.texts,
        statements,
    };
    replays.check().context("--lengths")?;
    let Some(report) = replayed(&replays)? else {
        return Ok(interrupt::status());
    };
    // Counting ends when nobody sends any more.
    replays.statements = None;
    let reliability = counting.map(JoinHandle::join).transpose();
    let reliability = reliability.unwrap_or_else(|panic| resume_unwind(panic));
    show(
        &report,
        &replays,
        args,
        reliability.as_ref().map(Reliability::levels),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Counts statements in a thread of its own, while they are sent: there are many times as many as
/// tokens.
fn counted() -> (Sender<Statement>, JoinHandle<Reliability>) {
    let (statements, told) = channel();
    let counting = thread::spawn(|| {
        let mut reliability = Reliability::default();
        reliability.extend(told);
        reliability
    });
    (statements, counting)
}

/// Runs replays behind a progress bar; `None` if they were interrupted.
fn replayed(replays: &AssumedReplays<'_>) -> Result<Option<AssumedReport>> {
    interrupt::cooperate();
    let mut progress = Progress::new(replays.count(), "replays");
    let report = replays.run(|| {
        progress.step();
        interrupt::unless_requested()
    });
    Ok(report?)
}

fn show(
    report: &AssumedReport,
    replays: &AssumedReplays<'_>,
    args: &ReplayArgs,
    levels: Option<&BTreeMap<usize, LevelReliability>>,
) -> Result<()> {
    if args.json {
        let mut report = serde_json::to_value(report)?;
        if let Some(levels) = levels {
            report["reliability"] = serde_json::to_value(levels)?;
        }
        return Ok(terminal::write_json(&mut terminal::stdout(), &report)?);
    }
    print(report, replays, &args.assumed)?;
    let config = replays.config;
    if levels.is_some_and(BTreeMap::is_empty) {
        let none = "no statements: only the online schedule goes by what drafters state";
        terminal::note(format_args!("{none}"));
    }
    for (level, of) in levels.into_iter().flatten() {
        let name = config.drafters()[level - 1].name();
        print_reliability(&mut terminal::stdout(), name, of)?;
    }
    let records = replays.trace.records.iter().skip(replays.offset);
    let records = records.take(replays.limit);
    let beside = RecordedDrafters::of(records, config.generation.max_new_tokens);
    show_beside(&mut terminal::stdout(), &beside)
}

fn print(report: &AssumedReport, replays: &AssumedReplays<'_>, args: &AssumedArgs) -> Result<()> {
    let mut out = terminal::stdout();
    let together = replays.texts.iter().any(|texts| texts.get() > 1);
    let by_cost = replays.costs.iter().any(|costs| costs.row_cost.is_some());
    writeln!(
        out,
        "replayed from {} ({} outputs of {}) with the drafters of {}.\nSpeedup over plain decoding{} \
         if {}, and drafting from statistics takes no time: an assumption, not a measurement\n",
        report.trace,
        report.provenance.as_str(),
        report.target,
        report.config,
        if together { " of one text" } else { "" },
        match (by_cost, &args.row_times[..]) {
            (true, _) =>
                "each further row of a forward adds the share above the column of a forward of one row",
            (false, []) => "forwards take the times of the files",
            (false, _) => "forwards take these times by rows",
        }
    )?;
    let mut rows = heads(replays, (by_cost, together));
    let number = |speedup: f64| format!("{speedup:.3}");
    for way in &report.ways {
        let cells = way.outcomes.iter().map(|outcome| number(outcome.speedup()));
        rows.push(line(&way.name, cells));
    }
    let best = &report.best_length_in_hindsight;
    if best.iter().all(Option::is_some) && !best.is_empty() {
        let cells = best.iter().flatten().map(|best| number(best.1));
        rows.push(line("best length in hindsight", cells));
    }
    write!(out, "{}", table("<>", &rows))?;
    let first = report.ways.first();
    first.map_or(Ok(()), |way| {
        let mut outcomes = way.outcomes.iter();
        outcomes.try_for_each(|outcome| print_interval(&mut out, &way.name, outcome))
    })
}

/// What stands above the columns: the names of costs, and numbers of texts.
fn heads(replays: &AssumedReplays<'_>, (by_cost, together): (bool, bool)) -> Vec<Vec<String>> {
    let mut heads = Vec::new();
    let of_costs = |costs| replays.texts.iter().map(move |texts| (costs, texts));
    let columns: Vec<(&AssumedCosts, _)> = replays.costs.iter().flat_map(of_costs).collect();
    if by_cost || !together {
        let names = columns.iter().map(|(costs, _)| costs.name.clone());
        heads.push(line("", names));
    }
    if together {
        let texts = columns.iter().map(|(_, texts)| texts.to_string());
        heads.push(line("texts at a time", texts));
    }
    heads
}

/// What was kept of the tokens of a drafter, by the probability that it stated, and by the one that
/// the schedule made of it.
fn print_reliability(out: &mut impl Write, name: &str, of: &LevelReliability) -> Result<()> {
    let head = ["tokens", "stated", "kept", "tokens", "believed", "kept"];
    let mut rows = vec![line(name, head.into_iter().map(str::to_owned))];
    let cells = |bin: &Bin| {
        let (said, kept) = bin.means()?;
        let percent = |share: f64| format!("{:.1}%", 100.0 * share);
        Some([grouped(bin.tokens as u64), percent(said), percent(kept)])
    };
    for ((low, high), (stated, believed)) in
        Reliability::bounds().zip(of.stated.iter().zip(&of.believed))
    {
        let of_both = [cells(stated), cells(believed)];
        if of_both.iter().any(Option::is_some) {
            let cells = of_both.into_iter().flat_map(Option::unwrap_or_default);
            rows.push(line(&format!("{low} to {high}"), cells));
        }
    }
    write!(out, "\n{}", table("<>", &rows))?;
    Ok(())
}

fn print_interval(out: &mut impl Write, name: &str, outcome: &AssumedOutcome) -> Result<()> {
    let Some((low, high)) = outcome.interval() else {
        return Ok(());
    };
    writeln!(
        out,
        "\n{name} at {}{}: {:.3} [{low:.3}, {high:.3}] (95% of resampled records), {:.2} tokens \
         per forward, {:.2} drafted for each token",
        outcome.name,
        match outcome.texts {
            1 => String::new(),
            texts => format!(" with {texts} texts"),
        },
        outcome.speedup(),
        outcome.mean_acceptance_length(),
        outcome.drafted_per_token()
    )?;
    Ok(())
}

fn line(name: &str, cells: impl Iterator<Item = String>) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(cells).collect()
}
