//! Tables in Markdown.

use super::{Column, Table, row};
use crate::report::text::shown_line;

impl Table {
    /// The table as GitHub-flavoured Markdown: a heading, the table with its columns aligned in the
    /// source too, and the notes as a list. Headers name unit and evidence; missing ones are `–`.
    pub fn to_markdown(&self) -> String {
        let columns: Vec<Vec<String>> = self.columns.iter().map(lines).collect();
        let mut out = format!("## {}\n\n", escaped(&self.title));
        for line in 0..self.rows() + 2 {
            out += &format!("| {} |\n", row(&columns, line, " | "));
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

/// Header, rule and cells, all of one width.
fn lines(column: &Column) -> Vec<String> {
    let title = escaped(&column.title());
    let figures = column.figures();
    let header = match figures {
        Some(figures) => format!("{title} ({})", figures.evidence),
        None => title,
    };
    let cells = column.cells(escaped, |figure| figure.unwrap_or_else(|| "–".to_owned()));
    let texts = [vec![header], cells].concat();
    let widths = texts.iter().map(|text| text.chars().count());
    let width = widths.max().unwrap_or_default().max(3);
    let padded = texts.iter().map(|text| match figures {
        Some(_) => format!("{text:>width$}"),
        None => format!("{text:<width$}"),
    });
    let mut lines: Vec<String> = padded.collect();
    let rule = match figures {
        Some(_) => "-".repeat(width - 1) + ":",
        None => "-".repeat(width),
    };
    lines.insert(1, rule);
    lines
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
