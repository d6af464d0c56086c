//! What a simulation found: as tables, as JSON, and as a report.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{bail, Result};
use cascade_models::DeviceSpec;
use cascade_reproduce::report::{
    refuse_foreign, Evidence, Figure, Figures, Manifest, Plot, Report, Table,
};
use cascade_reproduce::theory::Estimate;
use clap::Args;
use jiff::Timestamp;
use serde_json::{json, Value};

use crate::fold::{self, folded};
use crate::reproduce;
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
    pub(super) fn check(&self) -> Result<()> {
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

pub(super) struct Findings {
    pub(super) title: String,
    pub(super) summary: String,
    pub(super) table: Table,
    pub(super) plots: Vec<Captioned>,
    /// The rows of the table for --json.
    pub(super) records: Vec<Value>,
}

impl Findings {
    pub(super) fn show(
        self,
        out: &mut impl Write,
        output: &OutputArgs,
        started: Timestamp,
    ) -> Result<()> {
        if output.json {
            for record in &self.records {
                terminal::write_json(out, record)?;
            }
        } else {
            let table = folded(&self.table.to_markdown(), fold::width());
            writeln!(out, "{table}\n{}", self.summary)?;
        }
        let Some(folder) = &output.out else {
            return Ok(());
        };
        let manifest = reproduce::manifest(started, Some(DeviceSpec::Cpu));
        let manifest = reproduce::finished(manifest);
        let report = Report::new(self.title, self.summary, manifest).table(self.table);
        let report = self
            .plots
            .into_iter()
            .fold(report, |report, (plot, caption)| report.plot(plot, caption));
        report.write(folder)?;
        if !output.json {
            writeln!(out, "written to {}", folder.display())?;
        }
        Ok(())
    }
}

/// A column that follows from a formula.
pub(super) fn computed<R>(header: &str, rows: &[R], of: impl Fn(&R) -> Option<f64>) -> Figures {
    let figures = rows.iter().map(|row| of(row).map(Figure::new));
    Figures::new(header, Evidence::Computed, figures)
}

/// A column that was simulated, with intervals.
pub(super) fn simulated<R>(header: &str, rows: &[R], of: impl Fn(&R) -> Option<Figure>) -> Figures {
    Figures::new(header, Evidence::Simulated, rows.iter().map(of)).intervals(NORMAL)
}

/// The column of deviations from a formula.
pub(super) fn off<R>(rows: &[R], deviation: impl Fn(&R) -> Option<f64>) -> Figures {
    let figures = rows.iter().map(|row| deviation(row).map(Figure::new));
    Figures::new("Off", Evidence::Simulated, figures).unit("standard errors")
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

/// Standard errors from a formula's value; none where all runs were equal and missed it, which few
/// runs may do.
pub(super) fn deviation(estimate: &Estimate, value: f64) -> Option<f64> {
    Some(estimate.deviation(value)).filter(|deviation| deviation.is_finite())
}

/// The largest absolute deviation, in words.
pub(super) fn largest(deviations: impl IntoIterator<Item = Option<f64>>) -> String {
    let sizes = deviations.into_iter().flatten().map(f64::abs);
    match sizes.reduce(f64::max) {
        None => "Too few runs to compare with the formula.".to_owned(),
        Some(most) => format!("Formula and runs differ by {most:.2} standard errors at most."),
    }
}
