//! Lines of tables: the best of each row on each dataset, and what the paper has besides.

use crate::report::{Evidence, Figure, Figures};

use super::super::data::{Data, INTERVALS};
use super::group::Group;
use crate::{Criterion, Metric, Result, Row};

/// One row on one dataset.
pub(super) struct Line<'a> {
    pub(super) dataset: String,
    /// The dataset of the paper's figures.
    pub(super) of_paper: String,
    /// Where it ran; `None` for what the paper alone has.
    pub(super) group: Option<&'a Group<'a>>,
    pub(super) row: &'a Row,
    /// The best variant; `None` for a row that did not run.
    pub(super) variant: Option<usize>,
    /// How it was chosen.
    pub(super) chosen: String,
}

impl Line<'_> {
    /// The hyperparameters.
    pub(super) fn setting(&self) -> String {
        match (self.group, self.variant) {
            (Some(group), Some(variant)) => group.data.variants[variant].describe(),
            _ => "-".to_owned(),
        }
    }

    /// The paper's figure.
    pub(super) fn paper(&self, metric: Metric) -> Option<Figure> {
        let figure = self.row.figure(&self.of_paper, metric)?;
        Some(Figure::new(figure.value))
    }

    /// A figure of the variant, if it ran and its output is right.
    pub(super) fn ours(&self, of: impl Fn(&Group<'_>, usize) -> Option<Figure>) -> Option<Figure> {
        let (group, variant) = (self.group?, self.variant?);
        group
            .data
            .failure(variant)
            .is_none()
            .then(|| of(group, variant))?
    }
}

/// The lines of all rows that `wanted` chooses: those of the datasets that ran, and then what the
/// paper has of others.
pub(super) fn lines<'a>(
    data: &'a Data,
    groups: &'a [Group<'a>],
    metrics: &[Metric],
    wanted: impl Fn(&Row) -> bool,
) -> Vec<Line<'a>> {
    let rows = || data.definition.rows.iter().filter(|row| wanted(row));
    let mut lines = Vec::new();
    for group in groups {
        for row in rows() {
            lines.push(line(group, row));
        }
    }
    for dataset in papers(data, groups) {
        let has = |row: &&Row| {
            metrics
                .iter()
                .any(|&metric| row.figure(&dataset, metric).is_some())
        };
        for row in rows().filter(has) {
            lines.push(Line {
                dataset: dataset.clone(),
                of_paper: dataset.clone(),
                group: None,
                row,
                variant: None,
                chosen: "-".to_owned(),
            });
        }
    }
    lines
}

fn line<'a>(group: &'a Group<'a>, row: &'a Row) -> Line<'a> {
    let variants = group.variants_of(row);
    let by = match row.chosen_by {
        Criterion::Speed => "",
        Criterion::Latency => " by latency",
    };
    let chosen = match (variants.len(), row.variants(0).map_or(0, |all| all.len())) {
        (0, _) => "absent".to_owned(),
        (1, _) => "-".to_owned(),
        (n, all) if n < all => format!("best of {n}{by}, {} absent", all - n),
        (n, _) => format!("best of {n}{by}"),
    };
    Line {
        dataset: group.dataset.to_owned(),
        of_paper: group.of_paper().to_owned(),
        group: Some(group),
        row,
        variant: group.best_of(row),
        chosen,
    }
}

/// Datasets that the paper has figures of and that did not run.
fn papers(data: &Data, groups: &[Group<'_>]) -> Vec<String> {
    let mut datasets: Vec<String> = Vec::new();
    for figure in data.definition.rows.iter().flat_map(|row| &row.paper) {
        let ran = groups
            .iter()
            .any(|group| group.of_paper() == figure.dataset);
        if !ran && !datasets.contains(&figure.dataset) {
            datasets.push(figure.dataset.clone());
        }
    }
    datasets
}

/// A column of the paper's figures, if there is one.
pub(super) fn paper_column(lines: &[Line<'_>], metric: Metric, header: &str) -> Option<Figures> {
    let figures: Vec<Option<Figure>> = lines.iter().map(|line| line.paper(metric)).collect();
    let some = figures.iter().any(Option::is_some);
    some.then(|| Figures::new(header, Evidence::Paper, figures))
}

/// A column of ours.
pub(super) fn our_column(
    lines: &[Line<'_>],
    header: &str,
    evidence: Evidence,
    of: impl Fn(&Group<'_>, usize) -> Option<Figure>,
) -> Figures {
    let figures: Vec<Option<Figure>> = lines.iter().map(|line| line.ours(&of)).collect();
    Figures::new(header, evidence, figures).intervals(INTERVALS)
}

/// A figure times a number.
pub(super) fn scaled(figure: Figure, by: f64) -> Figure {
    match figure.interval {
        None => Figure::new(by * figure.value),
        Some(interval) => {
            Figure::with_interval(by * figure.value, by * interval.low, by * interval.high)
        }
    }
}

/// A table that begins with datasets and algorithms.
pub(super) fn begin(title: String, lines: &[Line<'_>]) -> Result<crate::report::Table> {
    Ok(crate::report::Table::new(title)
        .labels("Dataset", lines.iter().map(|line| line.dataset.clone()))?
        .labels(
            "Algorithm",
            lines.iter().map(|line| line.row.algorithm.clone()),
        )?)
}
