//! Expected walltime improvement factors of the paper.

use cascade_reproduce::theory::{
    table1 as rows_of_table1, Drafter, Horizontal, ModelSizes, Segment, Speculative, System,
    Vertical,
};
use pyo3::prelude::*;

use crate::error::to_python;

fn drafter((acceptance, cost): (f64, f64)) -> PyResult<Drafter> {
    Drafter::new(acceptance, cost).map_err(to_python)
}

/// See the stubs.
#[pyfunction]
pub(crate) fn ewif_speculative(drafter: (f64, f64), tokens: usize) -> PyResult<f64> {
    let drafter = self::drafter(drafter)?;
    Ok(Speculative { drafter, tokens }.ewif())
}

/// See the stubs.
#[pyfunction]
pub(crate) fn ewif_vertical(
    drafter: (f64, f64),
    below: (f64, f64),
    rounds: usize,
    tokens: usize,
) -> PyResult<f64> {
    let system = Vertical {
        drafter: self::drafter(drafter)?,
        below: self::drafter(below)?,
        rounds,
        tokens,
    };
    Ok(system.ewif())
}

/// See the stubs.
#[pyfunction]
pub(crate) fn ewif_horizontal(segments: Vec<((f64, f64), usize)>) -> PyResult<f64> {
    let segments = segments
        .into_iter()
        .map(|(own, tokens)| {
            let drafter = drafter(own)?;
            Ok(Segment { drafter, tokens })
        })
        .collect::<PyResult<_>>()?;
    Ok(Horizontal { segments }.ewif())
}

/// Dataset, drafters, tokens of each, EWIF by the formula, EWIF in the paper.
type Table1Row = (&'static str, Vec<&'static str>, Vec<usize>, f64, f64);

/// See the stubs.
#[pyfunction]
pub(crate) fn table1() -> Vec<Table1Row> {
    let rows = rows_of_table1(&ModelSizes::FLAN_T5).into_iter();
    let row = |row: cascade_reproduce::theory::Table1Row| {
        let tokens = row
            .system
            .segments
            .iter()
            .map(|segment| segment.tokens)
            .collect();
        (
            row.dataset,
            row.drafters.clone(),
            tokens,
            row.ewif(),
            row.paper,
        )
    };
    rows.map(row).collect()
}
