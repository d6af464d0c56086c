//! What forwards of a recorded target and of drafters cost.

use std::path::PathBuf;

use anyhow::{Result, bail};
use cascade_config::{Config, CostFile, Drafter};
use cascade_core::RowTimes;
use cascade_traces::trace::Trace;
use cascade_traces::tune::Times;

use crate::{costs, terminal};

/// The file with the costs of a model, and its name.
///
/// # Errors
/// If there is none.
fn of_model<'c>(costs: &'c [(String, CostFile)], model: &str) -> Result<&'c (String, CostFile)> {
    let Some(found) = costs.iter().find(|(_, file)| file.of.model == model) else {
        let known: Vec<_> = costs
            .iter()
            .map(|(_, file)| file.of.model.as_str())
            .collect();
        bail!(
            "--costs: no file has costs of {model}, only of {}; measure them with `cascade bench \
             model {model} --save FILE`",
            known.join(", ")
        );
    };
    Ok(found)
}

/// The times of files, for the target of a trace and the drafters of a configuration, which files
/// must have costs of; which ones are used is said.
pub(crate) fn times(files: &[PathBuf], config: &Config, trace: &Trace) -> Result<Times> {
    let files = costs::open(files)?;
    let context = trace.typical_context();
    let of = |model: &str| -> Result<RowTimes> {
        let (name, file) = of_model(&files, model)?;
        terminal::note(format_args!("{}", file.describe(name)));
        Ok(file.times(context))
    };
    let drafters = config.drafters().iter().map(|drafter| match drafter {
        Drafter::Neural { model, .. } => of(&model.source.to_string()).map(Some),
        Drafter::Statistical { .. } => Ok(None),
    });
    Ok(Times {
        target: of(&trace.header.model)?,
        drafters: drafters.collect::<Result<_>>()?,
    })
}
