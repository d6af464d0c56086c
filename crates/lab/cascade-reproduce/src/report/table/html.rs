//! Tables in HTML.

use maud::{Markup, html};

use super::{Column, Figures, Table};
use crate::report::evidence::Evidence;
use crate::report::figure::Figure;
use crate::report::text::shown;

impl Table {
    /// The table as an HTML fragment, escaped, with classes for the style sheet of a report.
    /// Neighbouring columns with one header and unit share a header cell, so that ours and
    /// the paper's figures stand together.
    pub fn to_html(&self) -> String {
        self.markup().into_string()
    }

    pub(crate) fn markup(&self) -> Markup {
        html! {
            figure class=(self.class()) {
                figcaption { (shown(&self.title)) }
                div.scroll {
                    table {
                        thead {
                            tr { @for title in &self.heads() { (head(title)) } }
                            tr {
                                @for column in self.all_figures() {
                                    th.figures scope="col" { (badge(column.evidence)) }
                                }
                            }
                        }
                        tbody {
                            @for row in 0..self.rows() {
                                tr { @for (i, column) in self.columns.iter().enumerate() { (cell(column, row, i == 0)) } }
                            }
                        }
                    }
                }
                @let notes = self.all_notes();
                @if !notes.is_empty() {
                    ul.notes { @for note in &notes { li { (shown(note)) } } }
                }
            }
        }
    }

    /// A table of many columns is printed across the page.
    fn class(&self) -> &'static str {
        match self.columns.len() {
            0..=7 => "table",
            _ => "table wide",
        }
    }

    /// The cells of the first header row: titles, how many columns of figures share one, and none
    /// for a column of text.
    fn heads(&self) -> Vec<(String, usize)> {
        let mut heads: Vec<(String, usize)> = Vec::new();
        for column in &self.columns {
            let (title, figures) = (column.title(), column.figures().is_some());
            match heads.last_mut() {
                Some((last, span)) if figures && *span > 0 && *last == title => *span += 1,
                _ => heads.push((title, usize::from(figures))),
            }
        }
        heads
    }
}

fn head((title, span): &(String, usize)) -> Markup {
    html! {
        @match span {
            0 => { th scope="col" rowspan="2" { (shown(title)) } },
            1 => { th.figures scope="col" { (shown(title)) } },
            _ => { th.figures.group scope="colgroup" colspan=(span) { (shown(title)) } },
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
        Column::Figures(column) => figure_cell(column, column.figures[row]),
    }
}

fn figure_cell(column: &Figures, figure: Option<Figure>) -> Markup {
    let decimals = column.decimals;
    html! {
        td.figures {
            @match figure {
                None => { span.missing title="missing" { "–" } },
                Some(figure) => {
                    (typeset(&crate::report::figure::fixed(figure.value, decimals)))
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
