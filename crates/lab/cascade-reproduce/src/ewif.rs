//! Table 1: expected walltime improvement by formula.

use crate::report::{Axis, Bars, Evidence, Figure, Figures, Manifest, Plot, Report, Table};
use crate::reporting::Reported;
use crate::theory::{ModelSizes, Table1Row, table1};
use crate::{Definition, Result};

/// What is said of the costs.
const COSTS: &str = "The paper calls its figures simulated and does not say of which costs. Ours follow from its formulas with \
    costs by parameters: small 77M, base 248M, and for xxl 11.23B, with which all six printed figures come out (11.21B to \
    11.24B do). With the 11.3B of the model card, beside it, the first two are 0.006 and 0.005 above the printed ones and the \
    other four come out as well.";

/// The report of an experiment of formulas: nothing is run, and it takes no time.
///
/// # Errors
/// None that a test would not have met.
pub fn report_ewif(definition: &Definition, manifest: Manifest) -> Result<Reported> {
    let rows = table1(&ModelSizes::FLAN_T5);
    let table = table(definition, &rows)?;
    let values: Vec<String> = rows
        .iter()
        .map(|row| format!("{:.2}", row.ewif()))
        .collect();
    let summary = format!("Expected walltime improvement: {}.", values.join(", "));
    let report = Report::new(
        format!("{}: {}", definition.name, definition.title),
        summary.clone(),
        manifest,
    )
    .text(definition.about.clone())
    .plot(
        plot(definition, &rows)?,
        "The formulas beside the paper's figures.",
    )
    .table(table.clone());
    Ok(Reported {
        report,
        tables: vec![table],
        overviews: 1,
        summary,
        unequal: 0,
    })
}

fn figures(rows: &[Table1Row], of: impl Fn(&Table1Row) -> f64) -> Vec<Figure> {
    rows.iter().map(|row| Figure::new(of(row))).collect()
}

fn table(definition: &Definition, rows: &[Table1Row]) -> Result<Table> {
    let cards = table1(&ModelSizes::CARDS);
    let (paper, ours) = (
        figures(rows, |row| row.paper),
        figures(rows, Table1Row::ewif),
    );
    let of_cards = figures(&cards, Table1Row::ewif);
    let best = figures(&cards, |row| row.best.ewif);
    let table = Table::new(&definition.title)
        .labels("Dataset", rows.iter().map(|row| row.dataset))?
        .labels("Drafters", rows.iter().map(|row| row.drafters.join(", ")))?
        .labels("k", rows.iter().map(|row| lengths(&row.system.segments)))?
        .figures(Figures::new("EWIF", Evidence::Paper, paper))?
        .figures(Figures::new("EWIF", Evidence::Computed, ours))?
        .figures(Figures::new("EWIF, xxl 11.3B", Evidence::Computed, of_cards).decimals(4))?
        .labels(
            "best k",
            cards.iter().map(|row| lengths(&row.best.system.segments)),
        )?
        .figures(Figures::new("EWIF at the best k", Evidence::Computed, best).decimals(4))?;
    Ok(table.note(COSTS))
}

fn plot(definition: &Definition, rows: &[Table1Row]) -> Result<Plot> {
    let groups = rows
        .iter()
        .map(|row| format!("{} {}", row.dataset, row.drafters.join(", ")));
    let ours = figures(rows, Table1Row::ewif);
    let paper = figures(rows, |row| row.paper);
    let bars = vec![
        Bars::new("formula", Evidence::Computed, ours),
        Bars::new("paper", Evidence::Paper, paper),
    ];
    let groups: Vec<String> = groups.collect();
    Plot::bars(&definition.title, groups, Axis::new("EWIF"), bars)
}

fn lengths(segments: &[crate::theory::Segment]) -> String {
    segments
        .iter()
        .map(|segment| segment.tokens.to_string())
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table1_is_the_papers() {
        let figures: Vec<String> = table1(&ModelSizes::FLAN_T5)
            .iter()
            .map(|row| format!("{:.2}", row.ewif()))
            .collect();
        assert_eq!(figures, ["2.65", "2.96", "3.03", "3.61", "3.75", "3.93"]);
    }
}
