//! Times of forwards by regression (SpecDec++, Table 2).

use crate::report::{Evidence, Figure, Figures, Table};

use super::super::data::Data;
use super::super::notes;
use super::group::{counted, Group};
use super::lines::{begin, lines, paper_column, Line};
use crate::regression::ForwardTimes;
use crate::{Metric, Result, Row};

const METRICS: [Metric; 3] = [Metric::DraftTime, Metric::TargetTime, Metric::R2];

/// `None` in a replay, which has no times.
pub(super) fn table(data: &Data, groups: &[Group<'_>]) -> Result<Option<Table>> {
    if data.plan.evidence != Evidence::Measured {
        return Ok(None);
    }
    // The generations of a single variant hardly determine two times.
    let several = |row: &Row| row.variants(0).is_ok_and(|all| all.len() > 1);
    let wanted = |row: &Row| row.drafters.is_empty() || several(row);
    let lines = lines(data, groups, &METRICS, wanted);
    let fits: Vec<Option<ForwardTimes>> = lines.iter().map(fit).collect();
    let runs = fits
        .iter()
        .map(|fit| fit.map_or(0, |fit| fit.generations).to_string());
    let title = format!("{}: times of forwards by regression", notes::title(data));
    let mut table = begin(title, &lines)?.labels("Generations", runs)?;
    for metric in METRICS {
        if let Some(paper) = paper_column(&lines, metric, metric.title()) {
            table = table.figures(match metric {
                Metric::R2 => paper.decimals(4),
                _ => paper.unit("ms").decimals(1),
            })?;
        }
        table = table.figures(our_column(&fits, metric))?;
    }
    let prompt = column(&fits, "of the prompt", |fit| Some(1e3 * fit.prompt));
    table = table.figures(prompt.unit("ms"))?;
    Ok(Some(all_notes(data).into_iter().fold(table, Table::note)))
}

fn our_column(fits: &[Option<ForwardTimes>], metric: Metric) -> Figures {
    let header = metric.title();
    match metric {
        Metric::DraftTime => column(fits, header, |fit| Some(1e3 * fit.drafter?)).unit("ms"),
        Metric::TargetTime => column(fits, header, |fit| Some(1e3 * fit.target)).unit("ms"),
        _ => column(fits, header, |fit| Some(fit.r2)),
    }
}

fn column(
    fits: &[Option<ForwardTimes>],
    header: &str,
    of: fn(&ForwardTimes) -> Option<f64>,
) -> Figures {
    let figures = fits.iter().map(|fit| Some(Figure::new(of(fit.as_ref()?)?)));
    Figures::new(header, Evidence::Measured, figures).decimals(4)
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
