//! `cascade replay` with assumed times of forwards.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{bail, Context, Result};
use cascade_config::{AssembleOptions, Config};
use cascade_eval::trace::Trace;
use cascade_eval::{AssumedCosts, AssumedOutcome, AssumedReplays, AssumedReport};
use clap::Args;

use super::{replay_warnings, ReplayArgs};
use crate::exit::ExitCode;
use crate::progress::Progress;
use crate::{at_most, costs, interrupt, terminal};

/// The longest draft of fixed length.
const LONGEST: usize = 64;

#[derive(Debug, Args)]
#[command(next_help_heading = "Assumed costs")]
pub(super) struct AssumedArgs {
    /// Assume that each row of a forward beyond the first adds this share of a forward of one row,
    /// and report speedups over plain decoding under that assumption; several, by commas.
    #[arg(long, value_name = "C,…", value_delimiter = ',', value_parser = cost)]
    row_cost: Vec<f64>,

    /// With --row-cost: what a forward of each neural drafter is assumed to take, in forwards of
    /// the target, largest drafter first.
    #[arg(long, value_name = "C,…", value_delimiter = ',', value_parser = cost, requires = "row_cost")]
    drafter_cost: Vec<f64>,

    /// Let forwards take the times of these files, which `cascade bench model --save` wrote: one
    /// for the target and one for each neural drafter, in any order and by commas.
    #[arg(
        long = "costs",
        value_name = "FILE,…",
        value_delimiter = ',',
        conflicts_with = "row_cost"
    )]
    files: Vec<PathBuf>,

    /// With --row-cost or --costs and a single drafter: also replay drafts of these fixed lengths,
    /// the best of which is the best static length in hindsight.
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        value_parser = at_most(LONGEST)
    )]
    lengths: Vec<usize>,

    /// With --row-cost or --costs: also replay the oracle, which drafts exactly what will be
    /// accepted.
    #[arg(long)]
    oracle: bool,
}

fn cost(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(cost) if cost.is_finite() && cost >= 0.0 => Ok(cost),
        _ => Err("give numbers of 0 and above".to_owned()),
    }
}

impl AssumedArgs {
    pub(super) const fn is_asked_for(&self) -> bool {
        !self.row_cost.is_empty() || !self.files.is_empty()
    }

    /// Refuses what says nothing without costs.
    pub(super) fn check(&self) -> Result<()> {
        let needing = [
            ("--lengths", !self.lengths.is_empty()),
            ("--oracle", self.oracle),
        ];
        match needing.into_iter().find(|(_, given)| *given) {
            Some((flag, _)) if !self.is_asked_for() => {
                bail!("{flag} compares times: say what forwards cost, by --row-cost or --costs")
            }
            _ => Ok(()),
        }
    }

    /// What forwards take, in each column.
    fn costs(&self, config: &Config, trace: &Trace) -> Result<Vec<AssumedCosts>> {
        if self.files.is_empty() {
            let linear = |&row: &f64| AssumedCosts::linear(row, &self.drafter_cost);
            return Ok(self.row_cost.iter().map(linear).collect());
        }
        Ok(vec![AssumedCosts {
            name: "files".to_owned(),
            row_cost: None,
            times: costs::times(&self.files, config, trace)?,
        }])
    }
}

pub(super) fn run(args: &ReplayArgs, config: &Config, trace: &Arc<Trace>) -> Result<ExitCode> {
    for warning in &replay_warnings(config, trace) {
        terminal::warn(warning);
    }
    let assumed = &args.assumed;
    let replays = AssumedReplays {
        config,
        pool: &config.pool(&AssembleOptions::default().with_device(args.device)),
        trace,
        offset: args.offset,
        limit: args.limit.unwrap_or(usize::MAX),
        costs: &assumed.costs(config, trace)?,
        lengths: &assumed.lengths,
        oracle: assumed.oracle,
    };
    replays.check().context("--lengths")?;
    interrupt::cooperate();
    let mut progress = Progress::new(replays.count(), "replays");
    let report = replays.run(|| {
        progress.step();
        interrupt::unless_requested()
    });
    drop(progress);
    let Some(report) = report? else {
        return Ok(interrupt::status());
    };
    match args.json {
        true => terminal::write_json(&mut terminal::stdout(), &report)?,
        false => print(&report, &replays)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn print(report: &AssumedReport, replays: &AssumedReplays<'_>) -> Result<()> {
    let mut out = terminal::stdout();
    writeln!(
        out,
        "replayed from {} ({} outputs of {}) with the drafters of {}.\nSpeedup over plain decoding \
         if {}, and drafting from statistics takes no time: an assumption, not a measurement\n",
        report.trace,
        report.provenance.as_str(),
        report.target,
        report.config,
        match replays.costs.iter().any(|costs| costs.row_cost.is_some()) {
            true => "each further row of a forward adds the share above the column of a forward of one row",
            false => "forwards take the times of the files",
        }
    )?;
    let costs = replays
        .costs
        .iter()
        .map(|costs| format!("{:>9}", costs.name));
    writeln!(out, "{:<24}{}", "", costs.collect::<String>())?;
    for way in &report.ways {
        let cells = way.outcomes.iter().map(AssumedOutcome::speedup);
        writeln!(out, "{}", line(&way.name, cells))?;
    }
    let best = &report.best_length_in_hindsight;
    if best.iter().all(Option::is_some) && !best.is_empty() {
        let cells = best.iter().flatten().map(|best| best.1);
        writeln!(out, "{}", line("best length in hindsight", cells))?;
    }
    for way in report.ways.iter().take(1) {
        for outcome in &way.outcomes {
            print_interval(&mut out, &way.name, outcome)?;
        }
    }
    Ok(())
}

fn print_interval(out: &mut impl Write, name: &str, outcome: &AssumedOutcome) -> Result<()> {
    let Some((low, high)) = outcome.interval() else {
        return Ok(());
    };
    writeln!(
        out,
        "\n{name} at {}: {:.3} [{low:.3}, {high:.3}] (95% of resampled records), {:.2} tokens \
         per forward, {:.2} drafted for each token",
        outcome.name,
        outcome.speedup(),
        outcome.mean_acceptance_length(),
        outcome.drafted_per_token()
    )?;
    Ok(())
}

fn line(name: &str, cells: impl Iterator<Item = f64>) -> String {
    let cells: String = cells.map(|speedup| format!("{speedup:>9.3}")).collect();
    format!("{name:<24}{cells}")
}
