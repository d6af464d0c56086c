//! Bar charts.

use maud::{html, Markup};

use super::scale::Scale;
use super::style::{colour, fill, short};
use super::svg::{base_line, whisker, Area, FAINT, LEADING, TEXT};
use super::{font, Bars};
use crate::figure::{fixed, Figure};
use crate::text::shown_line;

/// The share of a group's width that its bars have.
const FILLED: f64 = 0.74;
/// No bar is wider than this.
const WIDEST: f64 = 54.0;
/// Font size of the values above bars.
const NUMBER: f64 = 11.0;
/// How far above a bar's end its number stands.
const LIFT: f64 = 5.0;

/// Names of the groups below the area, and the height of the picture.
pub(super) fn x_axis(area: &Area, groups: &[String]) -> (Markup, f64) {
    let width = (area.right - area.left) / groups.len().max(1) as f64;
    let names: Vec<Vec<String>> = groups
        .iter()
        .map(|name| font::wrapped(&shown_line(name), TEXT, font::REGULAR, width - 8.0))
        .collect();
    let rows = names.iter().map(Vec::len).max().unwrap_or_default();
    let first = area.bottom + LEADING + 4.0;
    let markup = html! {
        (base_line(area))
        @for (group, lines) in names.iter().enumerate() {
            @for (row, line) in lines.iter().enumerate() {
                text x=(short(area.left + (group as f64 + 0.5) * width)) y=(short(first + LEADING * row as f64))
                    text-anchor="middle" { (line) }
            }
        }
    };
    (markup, first + LEADING * rows as f64)
}

/// The bars, their error bars and their numbers.
pub(super) fn marks(
    prefix: &str,
    area: &Area,
    y: &Scale,
    groups: &[String],
    bars: &[Bars],
) -> Markup {
    let slots = Slots::new(area, groups.len(), bars.len());
    let numbered = slots.width >= widest_number(bars) + 2.0;
    html! {
        @for (series, bars) in bars.iter().enumerate() {
            g {
                title { (shown_line(&bars.name)) ", " (bars.evidence.name()) }
                @for (group, figure) in bars.figures.iter().enumerate() {
                    @if let Some(figure) = figure {
                        g {
                            title {
                                (shown_line(&bars.name)) ", " (bars.evidence.name()) ", "
                                (shown_line(&groups[group])) ": " (figure.display(3))
                            }
                            (bar(area, y, slots.left(group, series), slots.width, figure, &Look {
                                fill: fill(prefix, series, bars.evidence),
                                colour: colour(series),
                                numbered,
                            }))
                        }
                    }
                }
            }
        }
        (base_line_at_zero(area, y))
    }
}

fn base_line_at_zero(area: &Area, y: &Scale) -> Markup {
    let zero = area.y(y.place(0.0));
    html! { path d={ "M" (short(area.left)) " " (short(zero)) "H" (short(area.right)) } stroke="#595959" {} }
}

/// Where bars stand.
struct Slots {
    first: f64,
    group: f64,
    width: f64,
}

impl Slots {
    fn new(area: &Area, groups: usize, series: usize) -> Self {
        let group = (area.right - area.left) / groups.max(1) as f64;
        let width = (group * FILLED / series.max(1) as f64).min(WIDEST);
        Self {
            first: area.left + (group - width * series as f64) / 2.0,
            group,
            width,
        }
    }

    fn left(&self, group: usize, series: usize) -> f64 {
        self.first + self.group * group as f64 + self.width * series as f64
    }
}

struct Look {
    fill: String,
    colour: &'static str,
    numbered: bool,
}

fn bar(area: &Area, y: &Scale, left: f64, width: f64, figure: &Figure, look: &Look) -> Markup {
    let at = |value: f64| area.y(y.place(value));
    let (zero, end) = (at(0.0), at(figure.value));
    let middle = left + width / 2.0;
    let above = at(figure.extent().1.max(0.0)) - LIFT;
    html! {
        rect x=(short(left + 1.0)) y=(short(zero.min(end))) width=(short(width - 2.0)) height=(short((zero - end).abs()))
            fill=(look.fill) stroke=(look.colour) stroke-width="1.2" {}
        @if let Some(interval) = figure.interval {
            // White below black is seen on every filling.
            g stroke-opacity="0.85" stroke-linecap="square" { (halo(middle, at(interval.high), at(interval.low))) }
            (whisker(middle, at(interval.high), at(interval.low), "#1a1a1a"))
        }
        @if look.numbered {
            text x=(short(middle)) y=(short(above)) text-anchor="middle" font-size=(NUMBER) fill=(FAINT) {
                (number(figure))
            }
        }
    }
}

fn halo(x: f64, top: f64, bottom: f64) -> Markup {
    html! {
        path d={ "M" (short(x)) " " (short(top)) "V" (short(bottom)) } stroke="#ffffff" stroke-width="4" fill="none" {}
    }
}

fn number(figure: &Figure) -> String {
    fixed(figure.value, 2).replace('-', "−")
}

fn widest_number(bars: &[Bars]) -> f64 {
    let figures = bars.iter().flat_map(|bars| bars.figures.iter().flatten());
    figures
        .map(|figure| font::width(&number(figure), NUMBER, font::REGULAR))
        .fold(0.0, f64::max)
}
