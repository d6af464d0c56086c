//! Files with costs of forwards.

use std::path::PathBuf;

use anyhow::{Result, bail};
use cascade_config::{AssembleOptions, CostFile, machine};

use crate::args::ModelArgs;

/// Reads files with costs, with their names.
pub fn open(files: &[PathBuf]) -> Result<Vec<(String, CostFile)>> {
    let opened = files.iter().map(|path| {
        let file = CostFile::open(path)?;
        Ok((path.display().to_string(), file))
    });
    opened.collect()
}

/// The options with the costs of the arguments, which must have been measured on this machine.
pub fn with_costs(options: AssembleOptions, args: &ModelArgs) -> Result<AssembleOptions> {
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
