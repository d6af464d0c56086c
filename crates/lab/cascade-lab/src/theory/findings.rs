//! What formulas and runs say of chains: as tables, as JSON, and as a report.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use cascade_models::DeviceSpec;
use cascade_reproduce::report::{
    Evidence, Figure, Figures, Manifest, Plot, Report, Table, refuse_foreign,
};
use cascade_reproduce::theory::Estimate;
use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::chains::{ChainsArgs, Named};
use crate::reproduce;
use crate::room;
use crate::terminal;

/// What intervals are.
pub(super) const NORMAL: &str = "95 %, normal approximation over the runs";

#[derive(Debug, Args)]
pub(super) struct OutputArgs {
    /// Also write report.html with plots, and the tables and plots as files.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,

    /// Print one JSON object per row and nothing else.
    #[arg(long)]
    json: bool,
}

impl OutputArgs {
    /// Refuses a folder with results of anything else, before anything is computed.
    fn check(&self) -> Result<()> {
        match &self.out {
            Some(folder) if !is_ours(folder)? => Ok(refuse_foreign(folder, &[])?),
            _ => Ok(()),
        }
    }
}

/// Whether a folder has a report of this command, which may be replaced.
fn is_ours(folder: &Path) -> Result<bool> {
    let Some(manifest) = Manifest::of_folder(folder)? else {
        return Ok(false);
    };
    if manifest
        .command
        .get(1)
        .is_some_and(|command| command == "theory")
    {
        Ok(true)
    } else {
        bail!(
            "{} has the report of `{}`; give another folder",
            folder.display(),
            manifest.command_line()
        )
    }
}

/// A plot, and what is written below it.
pub(super) type Captioned = (Plot, String);

/// One row of a table: a chain under one rule, by formula and in runs.
pub(super) struct ChainRow<T> {
    pub(super) chain: String,
    /// The rule, in words.
    pub(super) rule: String,
    /// By formula, where there is one.
    pub(super) computed: Option<f64>,
    /// The mean of the runs, if there were any.
    pub(super) simulated: Option<Estimate>,
    /// What a command has of the line besides.
    pub(super) details: T,
}

impl<T> ChainRow<T> {
    /// Standard errors of the runs from the formula; none where all runs were equal and missed it,
    /// which few runs may do.
    pub(super) fn deviation(&self) -> Option<f64> {
        let deviation = self.simulated.as_ref()?.deviation(self.computed?);
        Some(deviation).filter(|deviation| deviation.is_finite())
    }

    /// The mean of the runs with its interval.
    pub(super) fn simulated(&self) -> Option<Figure> {
        self.simulated.as_ref().map(figure)
    }
}

/// Formulas of chains beside runs: what one command compares.
pub(super) trait Study {
    /// What a line of the table has besides.
    type Details;

    const TITLE: &'static str;

    /// Refuses arguments before anything is computed.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// The lines of one chain, each played so many times.
    fn rows(&self, named: &Named, runs: u64) -> Result<Vec<ChainRow<Self::Details>>>;

    /// The table, where `described` says what was played.
    fn table(&self, described: &str, rows: &[ChainRow<Self::Details>]) -> Result<Table>;

    /// The lines of the first chain as a plot.
    fn plot(&self, named: &Named, rows: &[ChainRow<Self::Details>]) -> Result<Captioned>;

    /// A line for --json.
    fn record(row: &ChainRow<Self::Details>) -> Value;

    /// What was found, in words.
    fn summary(&self, rows: &[ChainRow<Self::Details>]) -> String {
        largest(rows)
    }
}

/// Plays a study's chains and prints what was found; writes it if a folder is given.
pub(super) fn show<S: Study>(
    study: &S,
    chains: &ChainsArgs,
    output: &OutputArgs,
    out: &mut impl Write,
    started: Timestamp,
) -> Result<()> {
    output.check()?;
    study.check()?;
    let all = chains.chains()?;
    let (rows, plots) = played(study, &all, chains.runs)?;
    let table = study.table(&chains.described(&all), &rows)?;
    let summary = study.summary(&rows);
    if output.json {
        for row in &rows {
            terminal::write_json(out, &S::record(row))?;
        }
    } else {
        let table = table.to_text(room::columns());
        writeln!(out, "{table}\n{summary}")?;
    }
    let Some(folder) = &output.out else {
        return Ok(());
    };
    let manifest = reproduce::manifest(started, Some(DeviceSpec::Cpu));
    let report = Report::new(S::TITLE, summary, reproduce::finished(manifest)).table(table);
    let plots = plots.into_iter();
    let report = plots.fold(report, |report, (plot, caption)| report.plot(plot, caption));
    report.write(folder)?;
    if !output.json {
        writeln!(out, "written to {}", folder.display())?;
    }
    Ok(())
}

/// The lines of all chains, and a plot of those of the first.
type Played<S> = (Vec<ChainRow<<S as Study>::Details>>, Vec<Captioned>);

fn played<S: Study>(study: &S, all: &[Named], runs: u64) -> Result<Played<S>> {
    let (mut rows, mut plots) = (Vec::new(), Vec::new());
    for named in all {
        let of_chain = study.rows(named, runs)?;
        if plots.is_empty() {
            plots.push(study.plot(named, &of_chain)?);
        }
        rows.extend(of_chain);
    }
    Ok((rows, plots))
}

/// A table that begins with chains, rules if they have a header, and formula beside runs.
pub(super) fn compared<T>(
    title: String,
    rule: Option<&str>,
    (header, decimals): (&str, usize),
    rows: &[ChainRow<T>],
) -> Result<Table> {
    let mut table = Table::new(title).labels("Chain", rows.iter().map(|row| row.chain.as_str()))?;
    if let Some(rule) = rule {
        table = table.labels(rule, rows.iter().map(|row| row.rule.as_str()))?;
    }
    let off = figures("Off", Evidence::Simulated, rows, ChainRow::deviation);
    Ok(table
        .figures(figures(header, Evidence::Computed, rows, |row| row.computed).decimals(decimals))?
        .figures(simulated(header, rows, ChainRow::simulated).decimals(decimals))?
        .figures(off.unit("standard errors"))?)
}

/// A column without intervals.
pub(super) fn figures<T>(
    header: &str,
    evidence: Evidence,
    rows: &[ChainRow<T>],
    of: impl Fn(&ChainRow<T>) -> Option<f64>,
) -> Figures {
    let figures = rows.iter().map(|row| of(row).map(Figure::new));
    Figures::new(header, evidence, figures)
}

/// A column that was simulated, with intervals.
pub(super) fn simulated<T>(
    header: &str,
    rows: &[ChainRow<T>],
    of: impl Fn(&ChainRow<T>) -> Option<Figure>,
) -> Figures {
    Figures::new(header, Evidence::Simulated, rows.iter().map(of)).intervals(NORMAL)
}

/// An estimate with its interval.
pub(super) fn figure(estimate: &Estimate) -> Figure {
    let (low, high) = estimate.interval();
    Figure::with_interval(estimate.mean, low, high)
}

/// An estimate for --json.
pub(super) fn record(estimate: &Estimate) -> Value {
    let (low, high) = estimate.interval();
    json!({
        "mean": estimate.mean,
        "standard_error": estimate.standard_error,
        "interval": [low, high],
        "runs": estimate.runs,
    })
}

/// The largest absolute deviation, in words.
pub(super) fn largest<T>(rows: &[ChainRow<T>]) -> String {
    let sizes = rows.iter().filter_map(ChainRow::deviation).map(f64::abs);
    match sizes.reduce(f64::max) {
        None => "Too few runs to compare with the formula.".to_owned(),
        Some(most) => format!("Formula and runs differ by {most:.2} standard errors at most."),
    }
}
