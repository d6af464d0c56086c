//! Tables for programs.

use std::collections::HashSet;

use ::csv::{Terminator, WriterBuilder};

use super::{Column, Figures, Table};
use crate::report::figure::{Figure, Interval};

impl Table {
    /// The table as CSV (RFC 4180, with line feeds), a record per row below one of names.
    ///
    /// A name is the header in lower case, the unit and the evidence, joined by underscores:
    /// `walltime_ms_measured`. Columns with intervals are followed by `…_low` and `…_high`. Numbers
    /// have the fewest digits that give back the same `f64`; missing ones are empty. Title and
    /// notes are left out.
    pub fn to_csv(&self) -> String {
        let mut writer = WriterBuilder::new()
            .terminator(Terminator::Any(b'\n'))
            .from_writer(Vec::new());
        let header: Vec<String> = self.columns.iter().flat_map(keys).collect();
        let rows =
            (0..self.rows()).map(|row| self.columns.iter().flat_map(|c| cells(c, row)).collect());
        for record in std::iter::once(header).chain(rows) {
            // Records are of one length, and memory takes them all.
            let written = writer.write_record(&record);
            debug_assert!(written.is_ok(), "{written:?}");
        }
        let bytes = writer.into_inner().unwrap_or_default();
        String::from_utf8(bytes).unwrap_or_default()
    }
}

/// A name that more than one column would have.
pub(super) fn repeated_key(columns: &[Column]) -> Option<String> {
    let mut seen = HashSet::new();
    let mut keys = columns.iter().flat_map(keys);
    keys.find(|key| !seen.insert(key.clone()))
}

fn keys(column: &Column) -> Vec<String> {
    match column {
        Column::Labels { header, .. } => vec![key(header)],
        Column::Figures(column) => figure_keys(column),
    }
}

fn figure_keys(column: &Figures) -> Vec<String> {
    let name = key(&format!("{} {}", column.title(), column.evidence));
    if !column.has_intervals() {
        return vec![name];
    }
    vec![name.clone(), format!("{name}_low"), format!("{name}_high")]
}

fn key(text: &str) -> String {
    let text = text
        .replace('%', " percent ")
        .replace('/', " per ")
        .to_lowercase();
    let words: Vec<&str> = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    words.join("_")
}

fn cells(column: &Column, row: usize) -> Vec<String> {
    match column {
        Column::Labels { cells, .. } => vec![cells[row].clone()],
        Column::Figures(column) => figure_cells(column, row),
    }
}

fn figure_cells(column: &Figures, row: usize) -> Vec<String> {
    let figure: Option<Figure> = column.figures[row];
    let value = number(figure.map(|figure| figure.value));
    if !column.has_intervals() {
        return vec![value];
    }
    let interval: Option<Interval> = figure.and_then(|figure| figure.interval);
    vec![
        value,
        number(interval.map(|interval| interval.low)),
        number(interval.map(|interval| interval.high)),
    ]
}

fn number(number: Option<f64>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words() {
        assert_eq!(
            key("Walltime, ms/token measured"),
            "walltime_ms_per_token_measured"
        );
        assert_eq!(key("Accepted, % paper"), "accepted_percent_paper");
        assert_eq!(key("α (small)"), "α_small");
    }
}
