//! Folders of results: what may be written where.

use std::path::Path;

use crate::plan::{Plan, PLAN};
use crate::report::Sha256;
use crate::samples::SAMPLES;
use crate::times::{COSTS, WALLTIME};
use crate::{Definition, Error, Result};

/// The files of a run, without its records and its report.
const OURS: [&str; 4] = [PLAN, WALLTIME, COSTS, SAMPLES];

/// Whether a run writes a file of this name into its folder.
pub fn is_written(name: &str) -> bool {
    OURS.contains(&name) || crate::report::is_result_file(name)
}

/// Refuses a folder in which a run of this experiment would replace anything, before models are
/// loaded. Whether its results are of the same models and prompts is only known when these are:
/// [`Experiment::run`](crate::Experiment::run) refuses others.
///
/// # Errors
/// A folder of another experiment; one that has records already, unless `resume`; a folder with
/// files that no run has written.
pub fn check_folder(folder: &Path, definition: &Definition, resume: bool) -> Result<()> {
    refuse_foreign(folder)?;
    if let Ok(plan) = Plan::of_folder(folder) {
        let (found, expected) = (&plan.name, &definition.name);
        if (found, &plan.definition) != (expected, &definition.text) {
            let changed = if found == expected {
                " with another definition"
            } else {
                ""
            };
            let problem = format!(
                "holds results of the experiment `{found}`, and this is `{expected}`{changed}; write to another folder with \
                 --out, or delete that one if it is no longer wanted"
            );
            return Err(Error::other_results(folder, problem));
        }
    }
    let records = std::fs::metadata(folder.join("results.jsonl"));
    if records.is_ok_and(|records| records.len() > 0) && !resume {
        Err(Error::not_resumed(folder))
    } else {
        Ok(())
    }
}

/// Marks a folder as one of an experiment of formulas, which has no plan and no records, so that
/// only the same experiment replaces its report.
///
/// # Errors
/// A folder of other results, or with files that no run has written. Nothing is then written.
pub fn claim(folder: &Path, definition: &Definition) -> Result<()> {
    refuse_foreign(folder)?;
    let fingerprint = Sha256::of(definition.text.as_bytes()).to_string();
    let key = format!("{} by formula, {}", definition.name, &fingerprint[..16]);
    let experiment = crate::report::Experiment::new(key, 0);
    crate::report::claim(folder, &experiment)
}

/// Refuses a folder that is of no experiment and has files that a run would replace.
pub(crate) fn refuse_foreign(folder: &Path) -> Result<()> {
    crate::report::refuse_foreign(folder, &OURS)
}
