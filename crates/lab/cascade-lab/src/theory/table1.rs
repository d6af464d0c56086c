//! `cascade-lab theory table1`: the paper's Table 1, printed and computed.

use std::io::Write;
use std::num::NonZeroU64;

use anyhow::Result;
use cascade_reproduce::theory::{Horizontal, ModelSizes, Table1Row, table1};

use serde_json::{Value, json};

use super::args::{OutputArgs, Table1Args};
use super::report::with_error;
use crate::terminal;

pub(super) fn print(out: &mut impl Write, args: &Table1Args) -> Result<()> {
    let mut sizes = ModelSizes::FLAN_T5;
    sizes.target = args.target_parameters.unwrap_or(sizes.target);
    let rows = table1(&sizes);
    if args.output.json {
        for row in &rows {
            terminal::write_json(out, &table1_json(row, &args.output)?)?;
        }
        return Ok(());
    }
    writeln!(
        out,
        "EWIF of Table 1; costs from {}, {} and {} parameters; ± is the standard error",
        millions(sizes.small),
        millions(sizes.base),
        millions(sizes.target)
    )?;
    writeln!(
        out,
        "{:<8} {:<11} {:>7} {:>6} {:>9} {:>16} {:>17}",
        "dataset", "drafters", "k", "paper", "computed", "simulated", "best k, computed"
    )?;
    for row in &rows {
        let simulated = match args.output.simulated(&row.system)? {
            Some(simulated) => with_error(&simulated),
            None => "-".to_owned(),
        };
        let best = format!("{}: {:.4}", lengths(&row.best.system), row.best.ewif);
        writeln!(
            out,
            "{:<8} {:<11} {:>7} {:>6.2} {:>9.4} {simulated:>16} {best:>17}",
            row.dataset,
            row.drafters.join(", "),
            lengths(&row.system),
            row.paper,
            row.ewif(),
        )?;
    }
    Ok(())
}

/// As `248M`.
fn millions(parameters: NonZeroU64) -> String {
    format!("{}M", parameters.get() as f64 / 1e6)
}

/// As `5, 3`.
fn lengths(system: &Horizontal) -> String {
    let lengths = system.segments.iter().map(|s| s.tokens.to_string());
    lengths.collect::<Vec<_>>().join(", ")
}

fn table1_json(row: &Table1Row, output: &OutputArgs) -> Result<Value> {
    let tokens =
        |system: &Horizontal| -> Vec<usize> { system.segments.iter().map(|s| s.tokens).collect() };
    Ok(json!({
        "dataset": row.dataset,
        "drafters": row.drafters,
        "tokens": tokens(&row.system),
        "paper": { "ewif": row.paper },
        "computed": { "ewif": row.ewif() },
        "simulated": output.simulated(&row.system)?,
        "best": { "tokens": tokens(&row.best.system), "ewif": row.best.ewif },
    }))
}
