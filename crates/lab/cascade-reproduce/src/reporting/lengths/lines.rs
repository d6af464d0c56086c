//! Tables of variants on datasets: their lines, and how their columns are computed.

use super::super::data::{Data, INTERVALS};
use super::super::notes;
use super::group::Group;
use crate::report::{Evidence, Figure, Figures, Table};
use crate::{Criterion, Metric, PaperRow, Result};

/// One row on one dataset.
pub(super) struct Line<'a> {
    pub(super) dataset: &'a str,
    /// Where it ran; `None` for what the paper alone has.
    pub(super) group: Option<&'a Group<'a>>,
    pub(super) row: &'a PaperRow,
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
    fn paper(&self, metric: Metric) -> Option<Figure> {
        let dataset = self.group.map_or(self.dataset, Group::of_paper);
        let figure = self.row.figure(dataset, metric)?;
        Some(Figure::new(figure.value))
    }

    /// A figure of the variant, if it ran and its output is right.
    fn ours(&self, of: FigureOf) -> Option<Figure> {
        let (group, variant) = (self.group?, self.variant?);
        let right = group.data.failure(variant).is_none();
        right.then(|| of(group, variant))?
    }
}

/// The figure of a variant on a dataset.
pub(super) type FigureOf = fn(&Group<'_>, usize) -> Option<Figure>;

/// A column of figures of variants: its header, its unit (`""` for none), decimals, evidence (that
/// of the run if none is named), and how a figure is computed.
pub(super) struct Measure {
    pub(super) header: &'static str,
    pub(super) unit: &'static str,
    pub(super) decimals: usize,
    pub(super) evidence: Option<Evidence>,
    pub(super) of: FigureOf,
}

/// The lines of a table.
pub(super) struct Lines<'a> {
    pub(super) data: &'a Data,
    pub(super) lines: Vec<Line<'a>>,
}

impl<'a> Lines<'a> {
    /// The best of all rows that `wanted` chooses: those of the datasets that ran, and then what
    /// the paper has of others by one of the metrics.
    pub(super) fn best(
        data: &'a Data,
        groups: &'a [Group<'a>],
        metrics: &[Metric],
        wanted: impl Fn(&PaperRow) -> bool,
    ) -> Self {
        let rows = || data.definition.rows.iter().filter(|row| wanted(row));
        let ran = groups
            .iter()
            .flat_map(|group| rows().map(move |row| line(group, row)));
        let mut lines: Vec<Line<'_>> = ran.collect();
        for dataset in papers(data, groups) {
            let has = |row: &PaperRow| metrics.iter().any(|&m| row.figure(dataset, m).is_some());
            lines.extend(rows().filter(|row| has(row)).map(|row| Line {
                dataset,
                group: None,
                row,
                variant: None,
                chosen: "-".to_owned(),
            }));
        }
        Self { data, lines }
    }

    /// Each of some variants on each dataset.
    pub(super) fn of_variants(data: &'a Data, groups: &'a [Group<'a>], variants: &[usize]) -> Self {
        let line = |group: &'a Group<'a>, variant: usize| Line {
            dataset: group.dataset,
            group: Some(group),
            row: &data.definition.rows[data.variants[variant].row],
            variant: Some(variant),
            chosen: String::new(),
        };
        let lines = groups
            .iter()
            .flat_map(|group| variants.iter().map(move |&variant| line(group, variant)));
        Self {
            data,
            lines: lines.collect(),
        }
    }

    /// A table that begins with datasets and algorithms.
    pub(super) fn table(&self, what: &str) -> Result<Table> {
        Table::new(format!("{}: {what}", notes::title(self.data)))
            .labels("Dataset", self.lines.iter().map(|line| line.dataset))?
            .labels(
                "Algorithm",
                self.lines.iter().map(|line| line.row.algorithm.as_str()),
            )
    }

    /// Adds a column of text.
    pub(super) fn labels(
        &self,
        table: Table,
        header: &str,
        of: impl Fn(&Line<'a>) -> String,
    ) -> Result<Table> {
        table.labels(header, self.lines.iter().map(of))
    }

    /// Adds a column of the paper's figures, if there is one.
    pub(super) fn paper(
        &self,
        table: Table,
        metric: Metric,
        header: &str,
        (unit, decimals): (&str, usize),
    ) -> Result<Table> {
        let figures = self.lines.iter().map(|line| line.paper(metric));
        let column = Figures::new(header, Evidence::Paper, figures);
        table.figures_if_any(column.unit(unit).decimals(decimals))
    }

    /// Adds a column of each measure.
    pub(super) fn ours(&self, mut table: Table, measures: &[Measure]) -> Result<Table> {
        for measure in measures {
            let evidence = measure.evidence.unwrap_or(self.data.plan.evidence);
            let figures = self.lines.iter().map(|line| line.ours(measure.of));
            let column = Figures::new(measure.header, evidence, figures)
                .unit(measure.unit)
                .decimals(measure.decimals);
            table = table.figures(column.intervals(INTERVALS))?;
        }
        Ok(table)
    }
}

fn line<'a>(group: &'a Group<'a>, row: &'a PaperRow) -> Line<'a> {
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
        dataset: group.dataset,
        group: Some(group),
        row,
        variant: group.best_of(row),
        chosen,
    }
}

/// Datasets that the paper has figures of and that did not run.
fn papers<'a>(data: &'a Data, groups: &[Group<'_>]) -> Vec<&'a str> {
    let rows = data.definition.rows.iter();
    let datasets = rows
        .flat_map(|row| &row.paper)
        .map(|figure| figure.dataset.as_str());
    let ran = |dataset: &&str| groups.iter().any(|group| group.of_paper() == *dataset);
    notes::distinct(datasets.filter(|dataset| !ran(dataset)))
}
