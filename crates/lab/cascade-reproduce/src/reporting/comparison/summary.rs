//! The best of each row beside the paper's figures.

use super::super::data::{Data, INTERVALS};
use super::super::notes;
use super::Scored;
use crate::report::{Evidence, Figure, Figures, Table};
use crate::variant::names;
use crate::{Metric, Result};

/// The best of each row by one metric, and the paper's figures of the rows.
pub(super) struct Best {
    measure: &'static str,
    papers: Vec<Option<Figure>>,
    ours: Vec<Option<Figure>>,
    evidence: Evidence,
}

impl Best {
    /// By walltime, times plain decoding's; in tokens per second where the paper has figures and
    /// none of plain decoding.
    pub(super) fn of(scored: &Scored<'_>, of_paper: &str, metric: Metric) -> Self {
        let rows = &scored.data.definition.rows;
        let papers = rows
            .iter()
            .map(|row| Some(row.figure(of_paper, metric)?.value));
        let papers: Vec<Option<f64>> = papers.collect();
        let plain = papers.first().copied().flatten();
        let is_rate =
            metric == Metric::Walltime && plain.is_none() && papers.iter().any(Option::is_some);
        let (measure, unit) = match metric {
            Metric::Walltime if is_rate => ("walltime, tokens/s", 1.0),
            Metric::Walltime => (metric.compared(), plain.unwrap_or(1.0)),
            _ => (metric.compared(), 1.0),
        };
        let figure = |variant| {
            if is_rate {
                scored.sheet.tokens_per_second(variant)
            } else {
                scored.figure(variant)
            }
        };
        let paper = |value: Option<f64>| Some(Figure::new(value? / unit));
        Self {
            measure,
            papers: papers.into_iter().map(paper).collect(),
            ours: scored.best_of_rows(figure),
            evidence: scored.evidence(),
        }
    }

    /// Whether the paper has figures of any row.
    pub(super) fn has_papers(&self) -> bool {
        self.papers.iter().any(Option::is_some)
    }
}

/// Columns of a summary, which has a line for each row.
#[derive(Default)]
pub(super) struct Summary {
    columns: Vec<Figures>,
    notes: Vec<String>,
}

impl Summary {
    /// Adds what the paper has figures of, and says how many pairs of rows are in its order.
    pub(super) fn add_beside(&mut self, best: Best, dataset: &str) {
        let rows = best.papers.iter().zip(&best.ours);
        let rows = rows.filter_map(|(paper, ours)| Some(((*paper)?.value, (*ours)?.value)));
        let rows: Vec<(f64, f64)> = rows.collect();
        let later = |i: usize| rows[..i].iter();
        let pairs = rows
            .iter()
            .enumerate()
            .flat_map(|(i, a)| later(i).map(move |b| (a, b)));
        let alike = pairs.clone().filter(|(a, b)| (a.0 > b.0) == (a.1 > b.1));
        let (alike, pairs) = (alike.count(), pairs.count());
        let measure = best.measure;
        self.notes.push(format!(
            "{dataset}, {measure}: {alike} of {pairs} pairs of rows are in the paper's order."
        ));
        self.columns
            .push(Figures::new(measure, Evidence::Paper, best.papers));
        self.columns
            .push(Figures::new(measure, best.evidence, best.ours).intervals(INTERVALS));
    }

    /// Adds what the paper has no figures of.
    pub(super) fn add(&mut self, best: Best, dataset: &str) {
        let header = format!("{}, {dataset}", best.measure);
        self.columns
            .push(Figures::new(header, best.evidence, best.ours).intervals(INTERVALS));
    }

    /// `None` without a column.
    pub(super) fn table(self, data: &Data, title: &str) -> Result<Option<Table>> {
        if self.columns.is_empty() {
            return Ok(None);
        }
        let rows = data.definition.rows.iter();
        let table = Table::new(title)
            .labels("Algorithm", rows.clone().map(|row| row.algorithm.as_str()))?
            .labels("Drafters", rows.map(|row| names(&row.drafters)))?
            .note(format!("{}.", notes::title(data)))
            .notes(self.notes);
        self.columns
            .into_iter()
            .try_fold(table, Table::figures)
            .map(Some)
    }
}
