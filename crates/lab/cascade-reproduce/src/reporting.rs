//! From a folder of results to tables and plots.

mod by_category;
mod comparison;
mod data;
mod lengths;
mod notes;
mod positions;
mod samples;

use std::path::Path;

use self::data::Data;
use crate::report::{Manifest, Report, Table};
use crate::samples::SAMPLES;
use crate::{Error, ErrorKind, ExperimentKind, Result};

/// A report, and what a caller must know of it.
pub struct Reported {
    /// The report, to be written.
    pub report: Report,
    /// Its tables.
    pub tables: Vec<Table>,
    /// How many of the first tables sum up the others.
    pub overviews: usize,
    /// What was found, a sentence to a line.
    pub summary: String,
    /// Runs with output that differs from plain decoding's by more than rounding explains. Not 0:
    /// something is wrong, and the cascades concerned have no figures.
    pub unequal: usize,
}

/// Makes the report of a folder of results. Prompts that some variant has not answered yet are left
/// out, and the report says so.
///
/// # Errors
/// A folder without a plan; results that cannot be read.
pub fn report(folder: &Path, manifest: Manifest) -> Result<Reported> {
    let data = Data::of_folder(folder)?;
    let made = match data.definition.kind {
        ExperimentKind::Ewif | ExperimentKind::Cascades => comparison::made(&data)?,
        ExperimentKind::Positions => positions::made(&data)?,
        ExperimentKind::Replay | ExperimentKind::Drafters => by_category::made(&data)?,
        ExperimentKind::Lengths => lengths::made(&data)?,
    };
    let mut report = begin(&data, &made, manifest).text(notes::provenance(&data));
    for (plot, caption) in made.plots {
        report = report.plot(plot, caption);
    }
    for table in &made.tables {
        report = report.table(table.clone());
    }
    report =
        samples::add(report, &data, folder, made.best).map_err(|error| match error.kind() {
            ErrorKind::Invalid => {
                let problem = format!("{error}; restore the file, or run the experiment again");
                Error::content(&folder.join(SAMPLES), problem)
            }
            _ => error,
        })?;
    Ok(Reported {
        report,
        overviews: made.overviews.len(),
        tables: [made.overviews, made.tables].concat(),
        summary: made.summary,
        unequal: data.unequal(),
    })
}

/// A report with its title, what was found and what the experiment is.
fn begin(data: &Data, made: &Made, mut manifest: Manifest) -> Report {
    let models = data.plan.models.iter();
    manifest.models = models.map(|model| model.weights.clone()).collect();
    manifest
        .seeds
        .insert("prompts and bootstrap".to_owned(), data.plan.seed);
    let title = format!("{}: {}", data.plan.name, notes::title(data));
    let about = &data.definition.about;
    if made.overviews.is_empty() {
        return Report::new(title, made.summary.clone(), manifest).text(about);
    }
    let report = Report::new(title, about, manifest);
    let tables = made.overviews.iter().cloned();
    let report = tables.fold(report, Report::table);
    let found = made.summary.lines().fold(report, Report::text);
    found.heading("In detail")
}

/// The parts of a report that are an experiment's own.
#[derive(Default)]
struct Made {
    summary: String,
    tables: Vec<Table>,
    plots: Vec<(crate::report::Plot, String)>,
    /// Tables that sum up the others.
    overviews: Vec<Table>,
    /// The variant that samples are shown of, if it is not the one of most drafters.
    best: Option<usize>,
}
