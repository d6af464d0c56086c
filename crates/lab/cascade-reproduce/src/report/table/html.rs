//! Tables in HTML.

use maud::{Markup, html};

use super::{Column, Figures, Table, groups};
use crate::report::evidence::Evidence;
use crate::report::figure::fixed;
use crate::report::text::shown;

impl Table {
    /// The table as an HTML fragment, escaped, with classes for the style sheet of a report.
    /// Neighbouring columns with one header and unit share a header cell, so that ours and
    /// the paper's figures stand together.
    pub fn to_html(&self) -> String {
        self.markup().into_string()
    }

    pub(crate) fn markup(&self) -> Markup {
        let width: usize = width(&self.columns);
        // A table that is too wide for a page is printed across it, or comes in pieces.
        let class = if width > UPRIGHT {
            "table wide"
        } else {
            "table"
        };
        html! {
            figure class=(class) {
                figcaption { (shown(&self.title)) }
                @for columns in self.pieces(ACROSS, self::width) {
                    div.scroll { (piece(&columns, self.rows())) }
                }
                @let notes = self.all_notes();
                @if !notes.is_empty() {
                    ul.notes { @for note in &notes { li { (shown(note)) } } }
                }
            }
        }
    }
}

/// The characters of a line: of an upright page of A4, and of one across or a window of 1280
/// pixels.
const UPRIGHT: usize = 115;
const ACROSS: usize = 150;

/// The characters that a group takes: intervals stand below figures, and text is broken.
fn width(group: &[Column]) -> usize {
    /// Beside a cell.
    const GAP: usize = 3;
    let longest = |text: &str| text.chars().count();
    let of = |column: &Column| match column {
        Column::Labels { cells, .. } => cells.iter().map(|cell| longest(cell).min(20)).max(),
        Column::Figures(column) => {
            let figure = |row: usize| {
                let interval = column.figures[row]?.display_interval(column.decimals);
                Some(interval.len().max(6 + longest(&column.mark(row))))
            };
            (0..column.figures.len()).filter_map(figure).max()
        }
    };
    let cells = group
        .iter()
        .map(|column| GAP + of(column).unwrap_or(0).max(5));
    let title = group[0].title();
    let word = title.split(' ').map(longest).max();
    cells.sum::<usize>().max(GAP + word.unwrap_or(0))
}

fn piece(columns: &[Column], rows: usize) -> Markup {
    let figures = || columns.iter().filter_map(Column::figures);
    html! {
        table {
            thead {
                tr { @for group in groups(columns) { (head(group)) } }
                tr { @for column in figures() { th.figures scope="col" { (badge(column.evidence)) } } }
            }
            tbody {
                @for row in 0..rows {
                    tr { @for (i, column) in columns.iter().enumerate() { (cell(column, row, i == 0)) } }
                }
            }
        }
    }
}

/// A cell of the first header row: of a group of columns of figures, or of one of text.
fn head(group: &[Column]) -> Markup {
    let title = group[0].title();
    html! {
        @match (group[0].figures(), group.len()) {
            (None, _) => { th scope="col" rowspan="2" { (shown(&title)) } },
            (Some(_), 1) => { th.figures scope="col" { (shown(&title)) } },
            (Some(_), span) => { th.figures.group scope="colgroup" colspan=(span) { (shown(&title)) } },
        }
    }
}

/// The name of a kind of evidence, with what it means.
pub(crate) fn badge(evidence: Evidence) -> Markup {
    html! {
        span class={ "badge " (evidence.name()) } title=(evidence.meaning()) { (evidence.name()) }
    }
}

fn cell(column: &Column, row: usize, first: bool) -> Markup {
    match column {
        Column::Labels { cells, .. } if first => html! { th scope="row" { (shown(&cells[row])) } },
        Column::Labels { cells, .. } => html! { td { (shown(&cells[row])) } },
        Column::Figures(column) => figure_cell(column, row),
    }
}

fn figure_cell(column: &Figures, row: usize) -> Markup {
    let (decimals, mark) = (column.decimals, column.mark(row));
    html! {
        td.figures {
            @match column.figures[row] {
                None => { span.missing title="missing" { "–" } },
                Some(figure) => {
                    (typeset(&fixed(figure.value, decimals)))
                    @if !mark.is_empty() { " " span.mark { (typeset(&mark)) } }
                    @if figure.interval.is_some() {
                        " " span.interval { (typeset(&figure.display_interval(decimals))) }
                    }
                },
            }
        }
    }
}

/// A number with a minus sign instead of a hyphen.
fn typeset(number: &str) -> String {
    number.replace('-', "−")
}
