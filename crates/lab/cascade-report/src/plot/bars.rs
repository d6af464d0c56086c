//! Bar charts.

use maud::{html, Markup};

use super::scale::Scale;
use super::style::{colour, fill, short};
use super::svg::{base_line, length, whisker, Area, ADJUST, FAINT, LEADING, TEXT};
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

/// How wide lines of slanted names are at most.
const SLANTED: f64 = 130.0;
/// How much names are slanted, in degrees.
const SLANT: f64 = 40.0;
/// White between the names of two groups.
const GAP: f64 = 8.0;

/// Names of groups, in lines.
enum Names {
    /// Each below its group.
    Level(Vec<Vec<String>>),
    /// Each ends below its group, where a word would not fit its width.
    Slanted(Vec<Vec<String>>),
}

impl Names {
    fn new(groups: &[String], width: f64) -> Self {
        let room = width - GAP;
        let shown: Vec<String> = groups.iter().map(|name| shown_line(name)).collect();
        let lines = |limit: f64| {
            let lines = |name: &String| font::wrapped(name, TEXT, font::REGULAR, limit);
            shown.iter().map(lines).collect()
        };
        let words = shown.iter().flat_map(|name| name.split_whitespace());
        let longest = words.map(|word| font::width(word, TEXT, font::REGULAR));
        if longest.fold(0.0, f64::max) <= room {
            Self::Level(lines(room))
        } else {
            Self::Slanted(lines(SLANTED))
        }
    }
}

/// The left end of the area, so that slanted names of the first group have room.
pub(super) fn left(groups: &[String], left: f64, right: f64) -> f64 {
    match Names::new(groups, (right - left) / groups.len().max(1) as f64) {
        Names::Level(_) => left,
        Names::Slanted(_) => left.max(SLANTED * SLANT.to_radians().cos()),
    }
}

/// Names of the groups below the area, and the height of the picture.
pub(super) fn x_axis(area: &Area, groups: &[String]) -> (Markup, f64) {
    let width = (area.right - area.left) / groups.len().max(1) as f64;
    let middle = |group: usize| area.left + (group as f64 + 0.5) * width;
    let first = area.bottom + LEADING + 4.0;
    match Names::new(groups, width) {
        Names::Level(names) => level(area, &names, middle, first),
        Names::Slanted(names) => slanted(area, &names, middle, first),
    }
}

fn level(
    area: &Area,
    names: &[Vec<String>],
    middle: impl Fn(usize) -> f64,
    first: f64,
) -> (Markup, f64) {
    let rows = names.iter().map(Vec::len).max().unwrap_or_default();
    let markup = html! {
        (base_line(area))
        @for (group, lines) in names.iter().enumerate() {
            @for (row, line) in lines.iter().enumerate() {
                text x=(short(middle(group))) y=(short(first + LEADING * row as f64)) text-anchor="middle"
                    textLength=(length(line, TEXT, font::REGULAR, f64::INFINITY)) lengthAdjust=(ADJUST) { (line) }
            }
        }
    };
    (markup, first + LEADING * rows as f64)
}

fn slanted(
    area: &Area,
    names: &[Vec<String>],
    middle: impl Fn(usize) -> f64,
    first: f64,
) -> (Markup, f64) {
    let (sine, cosine) = SLANT.to_radians().sin_cos();
    let widest = |lines: &Vec<String>| {
        let widths = lines
            .iter()
            .map(|line| font::width(line, TEXT, font::REGULAR));
        widths.fold(0.0, f64::max).min(SLANTED)
    };
    let depth = |lines: &Vec<String>| widest(lines) * sine + LEADING * lines.len() as f64 * cosine;
    let deepest = names.iter().map(depth).fold(0.0, f64::max);
    let markup = html! {
        (base_line(area))
        @for (group, lines) in names.iter().enumerate() {
            g transform={ "translate(" (short(middle(group))) " " (short(first - 4.0)) ") rotate(-" (SLANT) ")" } {
                @for (row, line) in lines.iter().enumerate() {
                    text x="0" y=(short(LEADING * row as f64)) text-anchor="end"
                        textLength=(length(line, TEXT, font::REGULAR, SLANTED)) lengthAdjust=(ADJUST) { (line) }
                }
            }
        }
    };
    (markup, first + deepest + 6.0)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn names(groups: usize) -> Vec<String> {
        vec!["Autoregressive decoding".to_owned(); groups]
    }

    #[test]
    fn names_that_do_not_fit_are_slanted_and_all_of_the_picture() {
        let few = Names::new(&names(3), 200.0);
        assert!(matches!(few, Names::Level(lines) if lines[0].len() == 1));
        let many = names(12);
        assert!(matches!(Names::new(&many, 55.0), Names::Slanted(_)));
        let area = Area {
            left: left(&many, 50.0, 740.0),
            right: 740.0,
            top: 0.0,
            bottom: 300.0,
        };
        // The first name ends below its group and begins within the picture.
        assert!(area.left >= SLANTED * SLANT.to_radians().cos());
        let (_, height) = x_axis(&area, &many);
        assert!(height > 380.0, "{height}");
        assert_eq!(left(&names(3), 50.0, 740.0), 50.0);
    }
}
