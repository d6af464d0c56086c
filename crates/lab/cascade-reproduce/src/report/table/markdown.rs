//! Tables in Markdown.

use super::{Column, Figures, Table};
use crate::report::text::shown_line;

impl Table {
    /// The table as GitHub-flavoured Markdown: a heading, the table with its columns aligned in the
    /// source too, and the notes as a list. Headers name unit and evidence; missing ones are `–`.
    pub fn to_markdown(&self) -> String {
        let columns: Vec<Vec<String>> = self.columns.iter().map(cells).collect();
        let mut out = format!("## {}\n\n", escaped(&self.title));
        for row in 0..=self.rows() {
            out += &line(columns.iter().zip(&self.columns).map(|(cells, column)| {
                padded(&cells[row], width(cells), column.figures().is_some())
            }));
            if row == 0 {
                out += &line(
                    columns
                        .iter()
                        .zip(&self.columns)
                        .map(|(cells, column)| rule(width(cells), column.figures().is_some())),
                );
            }
        }
        out + &self.markdown_notes()
    }

    fn markdown_notes(&self) -> String {
        let kinds = self.evidence();
        let legend: Vec<String> = kinds
            .iter()
            .map(|kind| format!("*{kind}*: {}", kind.meaning()))
            .collect();
        let mut notes: Vec<String> = self.all_notes().iter().map(|note| escaped(note)).collect();
        if !legend.is_empty() {
            notes.push(format!("{}.", legend.join("; ")));
        }
        let mut out = String::from("\n");
        for note in notes {
            out += &format!("- {note}\n");
        }
        out
    }
}

/// Header and cells.
fn cells(column: &Column) -> Vec<String> {
    match column {
        Column::Labels { header, cells } => {
            let texts = std::iter::once(header).chain(cells);
            texts.map(|text| escaped(text)).collect()
        }
        Column::Figures(column) => figure_cells(column),
    }
}

fn figure_cells(column: &Figures) -> Vec<String> {
    let header = format!("{} ({})", escaped(&column.title()), column.evidence);
    let figures = column.figures.iter().map(|figure| match figure {
        None => "–".to_owned(),
        Some(figure) => figure.display(column.decimals),
    });
    std::iter::once(header).chain(figures).collect()
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.collect();
    format!("| {} |\n", cells.join(" | "))
}

fn width(cells: &[String]) -> usize {
    let longest = cells.iter().map(|cell| cell.chars().count()).max();
    longest.unwrap_or_default().max(3)
}

fn padded(cell: &str, width: usize, right: bool) -> String {
    if right {
        format!("{cell:>width$}")
    } else {
        format!("{cell:<width$}")
    }
}

fn rule(width: usize, right: bool) -> String {
    if right {
        format!("{}:", "-".repeat(width - 1))
    } else {
        "-".repeat(width)
    }
}

/// Text that Markdown shows as it is, on one line.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in shown_line(text).chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out
}
