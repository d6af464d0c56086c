//! Files with costs of forwards.

use std::path::PathBuf;

use anyhow::{bail, Result};
use cascade_config::{AssembleOptions, Config, CostFile, Drafter};
use cascade_engine::RowTimes;
use cascade_traces::trace::Trace;
use cascade_traces::tune::Times;

use crate::args::ModelArgs;
use crate::{doctor, terminal};

/// Operating system and processor.
pub(crate) fn machine() -> String {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    format!("{os} {arch}, {}", doctor::cpu_model())
}

/// This program and its version.
pub(crate) const PROGRAM: &str = concat!("cascade ", env!("CARGO_PKG_VERSION"));

/// Reads files with costs, with their names.
pub(crate) fn open(files: &[PathBuf]) -> Result<Vec<(String, CostFile)>> {
    let opened = files.iter().map(|path| {
        let file = CostFile::open(path)?;
        Ok((path.display().to_string(), file))
    });
    opened.collect()
}

/// The options with the costs of the arguments, which must have been measured on this machine.
pub(crate) fn with_costs(options: AssembleOptions, args: &ModelArgs) -> Result<AssembleOptions> {
    let costs = open(&args.costs)?;
    let here = machine();
    if let Some((name, file)) = costs.iter().find(|(_, file)| file.machine != here) {
        bail!(
            "{name}: costs of another machine ({}), and this one is {here}; measure them here with \
             `cascade bench model {} --save FILE`",
            file.machine,
            file.of.model
        );
    }
    Ok(options.with_costs(costs, args.fixed_costs))
}

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
    let files = open(files)?;
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
