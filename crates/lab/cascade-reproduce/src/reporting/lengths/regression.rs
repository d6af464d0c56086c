//! Times of forwards by regression (SpecDec++, Table 2).

use super::super::data::Data;
use super::group::{Group, counted};
use super::lines::{Line, Lines};
use crate::regression::ForwardTimes;
use crate::report::{Evidence, Figure, Figures, Table};
use crate::{Metric, PaperRow, Result};

/// A time or share of a fit.
type Of = fn(&ForwardTimes) -> Option<f64>;

/// What is compared with the paper, with the unit of both and the decimals of the paper's.
const METRICS: [(Metric, &str, usize, Of); 3] = [
    (Metric::DraftTime, "ms", 1, |fit| Some(1e3 * fit.drafter?)),
    (Metric::TargetTime, "ms", 1, |fit| Some(1e3 * fit.target)),
    (Metric::R2, "", 4, |fit| Some(fit.r2)),
];

/// `None` in a replay, which has no times.
pub(super) fn table(data: &Data, groups: &[Group<'_>]) -> Result<Option<Table>> {
    if data.plan.evidence != Evidence::Measured {
        return Ok(None);
    }
    // The generations of a single variant hardly determine two times.
    let several = |row: &PaperRow| row.variants(0).is_ok_and(|all| all.len() > 1);
    let wanted = |row: &PaperRow| row.drafters.is_empty() || several(row);
    let lines = Lines::best(data, groups, &METRICS.map(|(metric, ..)| metric), wanted);
    let fits: Vec<Option<ForwardTimes>> = lines.lines.iter().map(fit).collect();
    let column = |header: &str, unit: &str, of: Of| {
        let figures = fits.iter().map(|fit| Some(Figure::new(of(fit.as_ref()?)?)));
        let column = Figures::new(header, Evidence::Measured, figures);
        column.unit(unit).decimals(4)
    };
    let runs = fits.iter().map(|fit| fit.map_or(0, |fit| fit.generations));
    let mut table = lines
        .table("times of forwards by regression")?
        .labels("Generations", runs.map(|runs| runs.to_string()))?;
    for (metric, unit, decimals, of) in METRICS {
        table = lines.paper(table, metric, metric.title(), (unit, decimals))?;
        table = table.figures(column(metric.title(), unit, of))?;
    }
    let prompt = column("of the prompt", "ms", |fit| Some(1e3 * fit.prompt));
    Ok(Some(table.figures(prompt)?.notes(all_notes(data))))
}

/// Over all runs of all variants of a row on a dataset.
fn fit(line: &Line<'_>) -> Option<ForwardTimes> {
    let group = line.group?;
    let variants = group.variants_of(line.row).into_iter();
    let right = variants.filter(|&variant| group.data.failure(variant).is_none());
    let all: Vec<_> = right
        .flat_map(|variant| counted(&group.all, variant))
        .collect();
    ForwardTimes::fit(&all)
}

fn all_notes(data: &Data) -> Vec<String> {
    let mut said = vec![
        "Least squares over generations: T = prompt + t_draft · N_draft + t_target · N_target. A row has no times where its \
         generations do not determine them. What further rows of the target's forward cost is in t_draft."
            .to_owned(),
    ];
    let bench: Vec<String> = data
        .forward_seconds
        .iter()
        .map(|(place, seconds)| format!("{place} {:.4} ms", 1e3 * seconds))
        .collect();
    if !bench.is_empty() {
        said.push(format!(
            "Forwards of one row on their own, medians of a bench in a context of 64 tokens: {}.",
            bench.join(", ")
        ));
    }
    said
}
