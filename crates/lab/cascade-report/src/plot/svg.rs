//! Plots as SVG.

use maud::{html, Markup, PreEscaped};

use super::scale::Scale;
use super::style::{colour, dashes, fill, marker, pattern, short};
use super::{bars, font, lines, Chart, Plot, Reference};
use crate::evidence::Evidence;
use crate::text::shown_line;

/// Width of a picture.
const WIDTH: f64 = 760.0;
/// Height of the area between the axes.
const AREA: f64 = 300.0;
/// White around everything.
const MARGIN: f64 = 20.0;
/// Size of the title.
const TITLE: f64 = 17.0;
/// Size of all other text.
pub(super) const TEXT: f64 = 12.5;
/// From line to line of text.
pub(super) const LEADING: f64 = 17.0;

/// Black for text.
const INK: &str = "#1a1a1a";
/// Grey for text that says less.
pub(super) const FAINT: &str = "#595959";
/// Grey for reference lines.
const REFERENCE: &str = "#404040";

/// Texts take the room that was measured for them also where the viewer lacks the font and draws
/// them with another, which may be wider.
pub(super) const ADJUST: &str = "spacingAndGlyphs";

/// The room of a line of text, `limit` at most.
pub(super) fn length(line: &str, size: f64, font: &[u8], limit: f64) -> String {
    short(font::width(line, size, font).min(limit))
}

/// The area between the axes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

impl Area {
    pub(super) fn x(&self, place: f64) -> f64 {
        self.left + place * (self.right - self.left)
    }

    pub(super) fn y(&self, place: f64) -> f64 {
        self.bottom - place * (self.bottom - self.top)
    }
}

impl Plot {
    /// The plot as an SVG file, 760 units wide. Text is text, and every mark has a title that names
    /// its series, evidence, figure and interval.
    pub fn to_svg(&self) -> String {
        let svg = self.markup("plot").into_string();
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{svg}\n")
    }

    /// The `svg` element. `prefix` sets its ids apart from those of others in one document.
    pub(crate) fn markup(&self, prefix: &str) -> Markup {
        let titles = font::wrapped(
            &shown_line(&self.title),
            TITLE,
            font::BOLD,
            WIDTH - 2.0 * MARGIN,
        );
        let legend = self.legend_rows();
        let title_end = MARGIN + 24.0 * titles.len() as f64;
        let legend_end = title_end + 22.0 * legend.len() as f64;
        let y = self.y_scale();
        let labels = self.reference_labels();
        let area = self.area(legend_end + 36.0, &y, &labels);
        let (x_axis, height) = self.x_axis(&area);
        html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (WIDTH) " " (short(height)) }
                width=(WIDTH) height=(short(height)) role="img" aria-labelledby={ (prefix) "-title" }
                font-family=(font::FAMILY) font-size=(TEXT) fill=(INK) {
                title id={ (prefix) "-title" } { (shown_line(&self.title)) }
                (self.patterns(prefix))
                rect width=(WIDTH) height=(short(height)) fill="#ffffff" {}
                @for (i, line) in titles.iter().enumerate() {
                    text x=(MARGIN) y=(MARGIN + 15.0 + 24.0 * i as f64) font-size=(TITLE) font-weight="600"
                        textLength=(length(line, TITLE, font::BOLD, WIDTH - 2.0 * MARGIN)) lengthAdjust=(ADJUST) { (line) }
                }
                @for (row, entries) in legend.iter().enumerate() {
                    (self.legend_row(prefix, entries, title_end + 16.0 + 22.0 * row as f64))
                }
                @let y_title = shown_line(&self.y.title);
                text x=(MARGIN) y=(short(area.top - 16.0)) fill=(FAINT)
                    textLength=(length(&y_title, TEXT, font::REGULAR, WIDTH - 2.0 * MARGIN)) lengthAdjust=(ADJUST) { (y_title) }
                (y_axis(&area, &y))
                (x_axis)
                (self.marks(prefix, &area, &y))
                (references(&area, &y, &labels))
            }
        }
    }

    fn area(&self, top: f64, y: &Scale, labels: &[Label<'_>]) -> Area {
        let widest = |widths: &mut dyn Iterator<Item = f64>| widths.fold(0.0, f64::max);
        let ticks = widest(
            &mut y
                .ticks
                .iter()
                .map(|(_, label)| font::width(label, TEXT, font::REGULAR)),
        );
        let texts = labels.iter().flat_map(|label| &label.lines);
        let margin = widest(&mut texts.map(|line| font::width(line, TEXT, font::REGULAR)));
        let right = if labels.is_empty() {
            MARGIN
        } else {
            MARGIN + 8.0 + margin
        };
        let left = MARGIN + ticks.ceil() + 10.0;
        let right = WIDTH - right.ceil();
        let left = match &self.chart {
            Chart::Bars { groups, .. } => bars::left(groups, left, right),
            Chart::Lines { .. } => left,
        };
        Area {
            left,
            right,
            top,
            bottom: top + AREA,
        }
    }

    fn y_scale(&self) -> Scale {
        let figures = self.figures().into_iter().flat_map(|(_, _, figure)| {
            let (low, high) = figure.extent();
            [low, high]
        });
        Scale::rounded(
            &self.y,
            figures.chain(self.references.iter().map(|r| r.value)),
        )
    }

    /// Everything below the area, and the height of the picture.
    fn x_axis(&self, area: &Area) -> (Markup, f64) {
        match &self.chart {
            Chart::Lines { x, lines } => lines::x_axis(area, x, lines),
            Chart::Bars { groups, .. } => bars::x_axis(area, groups),
        }
    }

    fn marks(&self, prefix: &str, area: &Area, y: &Scale) -> Markup {
        match &self.chart {
            Chart::Lines { x, lines } => lines::marks(area, x, y, lines),
            Chart::Bars { groups, bars } => bars::marks(prefix, area, y, groups, bars),
        }
    }

    fn patterns(&self, prefix: &str) -> Markup {
        let Chart::Bars { bars, .. } = &self.chart else {
            return PreEscaped(String::new());
        };
        let patterns = bars
            .iter()
            .enumerate()
            .filter_map(|(i, bars)| pattern(prefix, i, bars.evidence));
        html! { defs { @for pattern in patterns { (pattern) } } }
    }

    /// Entries of the legend, in rows that fit the width.
    fn legend_rows(&self) -> Vec<Vec<Entry>> {
        let mut rows: Vec<Vec<Entry>> = Vec::new();
        let mut x = MARGIN;
        for (series, (name, evidence)) in self.series().into_iter().enumerate() {
            let mut entry = Entry::new(series, name, evidence);
            let fits = x + entry.width <= WIDTH - MARGIN;
            entry.x = if fits { x } else { MARGIN };
            x = entry.x + entry.width + 24.0;
            match rows.last_mut() {
                Some(row) if fits => row.push(entry),
                _ => rows.push(vec![entry]),
            }
        }
        rows
    }

    fn legend_row(&self, prefix: &str, entries: &[Entry], y: f64) -> Markup {
        html! {
            @for entry in entries {
                (self.swatch(prefix, entry, y - 4.5))
                // Two texts: of one with two parts, some renderers stretch the first over both.
                text x=(short(entry.x + SWATCH)) y=(short(y)) textLength=(short(entry.name_width)) lengthAdjust=(ADJUST) {
                    (entry.name)
                }
                text x=(short(entry.x + entry.width - entry.tail_width)) y=(short(y)) textLength=(short(entry.tail_width))
                    lengthAdjust=(ADJUST) fill=(FAINT) { (entry.tail()) }
            }
        }
    }

    fn swatch(&self, prefix: &str, entry: &Entry, y: f64) -> Markup {
        let Entry {
            series,
            evidence,
            x,
            ..
        } = *entry;
        html! {
            @if let Chart::Lines { .. } = self.chart {
                path d={ "M" (short(x)) " " (short(y)) "h30" } stroke=(colour(series)) stroke-width="2"
                    stroke-dasharray=[dashes(evidence)] {}
                (marker(series, evidence, x + 15.0, y))
            } @else {
                rect x=(short(x + 8.0)) y=(short(y - 6.5)) width="22" height="13" fill=(fill(prefix, series, evidence))
                    stroke=(colour(series)) stroke-width="1.2" {}
            }
        }
    }

    fn reference_labels(&self) -> Vec<Label<'_>> {
        let mut labels: Vec<Label<'_>> = self.references.iter().map(Label::new).collect();
        labels.sort_by(|a, b| b.reference.value.total_cmp(&a.reference.value));
        labels
    }
}

/// Room for a swatch and the gap after it.
const SWATCH: f64 = 38.0;

/// An entry of the legend.
struct Entry {
    series: usize,
    name: String,
    evidence: Evidence,
    name_width: f64,
    /// Of the evidence, which is written behind the name.
    tail_width: f64,
    /// Of all.
    width: f64,
    x: f64,
}

impl Entry {
    fn new(series: usize, name: &str, evidence: Evidence) -> Self {
        let width = |text: &str| font::width(text, TEXT, font::REGULAR);
        let mut entry = Self {
            series,
            name: shown_line(name),
            evidence,
            name_width: 0.0,
            tail_width: 0.0,
            width: 0.0,
            x: 0.0,
        };
        entry.tail_width = width(&entry.tail());
        let rest = SWATCH + width(" ") + entry.tail_width;
        entry.name_width = width(&entry.name).min(WIDTH - 2.0 * MARGIN - rest);
        entry.width = rest + entry.name_width;
        entry
    }

    fn tail(&self) -> String {
        format!("· {}", self.evidence)
    }
}

fn y_axis(area: &Area, y: &Scale) -> Markup {
    html! {
        @for (value, label) in &y.ticks {
            @let at = area.y(y.place(*value));
            path d={ "M" (short(area.left)) " " (short(at)) "H" (short(area.right)) } stroke="#e3e3e3" {}
            text x=(short(area.left - 8.0)) y=(short(at + 4.5)) text-anchor="end" fill=(FAINT) { (label) }
        }
    }
}

/// The line at the bottom.
pub(super) fn base_line(area: &Area) -> Markup {
    html! {
        path d={ "M" (short(area.left)) " " (short(area.bottom)) "H" (short(area.right)) } stroke="#8c8c8c" {}
    }
}

/// An error bar with its caps.
pub(super) fn whisker(x: f64, top: f64, bottom: f64, colour: &str) -> Markup {
    let (left, width) = (short(x - 4.0), "h8");
    html! {
        path d={
            "M" (short(x)) " " (short(top)) "V" (short(bottom))
            "M" (left) " " (short(top)) (width) "M" (left) " " (short(bottom)) (width)
        } stroke=(colour) stroke-width="1.3" fill="none" {}
    }
}

/// The label at the right of a reference line.
struct Label<'a> {
    reference: &'a Reference,
    lines: Vec<String>,
}

impl<'a> Label<'a> {
    fn new(reference: &'a Reference) -> Self {
        let label = shown_line(&reference.label);
        let mut lines = font::wrapped(&label, TEXT, font::REGULAR, 130.0);
        lines.push(reference.evidence.name().to_owned());
        Self { reference, lines }
    }
}

/// Where the first lines of labels stand: at their values, from top to bottom, and lower where they
/// would overlap.
fn label_places(area: &Area, y: &Scale, labels: &[Label<'_>]) -> Vec<f64> {
    let mut free = f64::NEG_INFINITY;
    let place = |label: &Label<'_>| {
        let first = (area.y(y.place(label.reference.value)) + 4.5).max(free);
        free = first + LEADING * label.lines.len() as f64;
        first
    };
    labels.iter().map(place).collect()
}

fn references(area: &Area, y: &Scale, labels: &[Label<'_>]) -> Markup {
    html! {
        @for (label, first) in labels.iter().zip(label_places(area, y, labels)) {
            @let reference = label.reference;
            @let at = area.y(y.place(reference.value));
            g {
                title { (shown_line(&reference.label)) ", " (reference.evidence.name()) ": " (reference.value) }
                path d={ "M" (short(area.left)) " " (short(at)) "H" (short(area.right)) } stroke=(REFERENCE)
                    stroke-width="1.4" stroke-dasharray=[dashes(reference.evidence)] {}
                @for (i, line) in label.lines.iter().enumerate() {
                    text x=(short(area.right + 8.0)) y=(short(first + LEADING * i as f64)) fill=(REFERENCE)
                        textLength=(length(line, TEXT, font::REGULAR, f64::INFINITY)) lengthAdjust=(ADJUST) { (line) }
                }
            }
        }
    }
}
