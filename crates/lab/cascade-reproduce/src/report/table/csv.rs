//! Tables for programs.

use std::collections::HashSet;

use ::csv::{Terminator, WriterBuilder};

use super::{Column, Table};
use crate::report::figure::Figure;

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
        let columns: Vec<Vec<String>> = self.columns.iter().flat_map(columns).collect();
        for row in 0..=self.rows() {
            // Records are of one length, and memory takes them all.
            let written = writer.write_record(columns.iter().map(|column| &column[row]));
            debug_assert!(written.is_ok(), "{written:?}");
        }
        let bytes = writer.into_inner().unwrap_or_default();
        String::from_utf8(bytes).unwrap_or_default()
    }
}

/// A name that more than one column would have.
pub(super) fn repeated_key(all: &[Column]) -> Option<String> {
    let mut seen = HashSet::new();
    let mut keys = all
        .iter()
        .flat_map(columns)
        .map(|mut column| column.swap_remove(0));
    keys.find(|key| !seen.insert(key.clone()))
}

/// Names and cells: those of a column of figures, and of the ends of its intervals.
fn columns(column: &Column) -> Vec<Vec<String>> {
    let figures = match column {
        Column::Labels { header, cells } => {
            return vec![[vec![key(header)], cells.clone()].concat()];
        }
        Column::Figures(figures) => figures,
    };
    let name = key(&format!("{} {}", figures.title(), figures.evidence));
    let column = |end: &str, of: &dyn Fn(&Figure) -> Option<f64>| {
        let numbers = figures.figures.iter().map(|figure| of(figure.as_ref()?));
        let cells = numbers.map(|n| n.map_or_else(String::new, |number| number.to_string()));
        std::iter::once(format!("{name}{end}"))
            .chain(cells)
            .collect()
    };
    let mut columns = vec![column("", &|figure| Some(figure.value))];
    if figures.has_intervals() {
        columns.push(column("_low", &|figure| Some(figure.interval?.low)));
        columns.push(column("_high", &|figure| Some(figure.interval?.high)));
    }
    columns
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
