//! Plots as SVG.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Plot, Series};
use crate::error::{Error, ErrorKind, Result};
use crate::report::evidence::Evidence;
use crate::report::figure::fixed;
use crate::report::text::{shown_line, wrapped};

const WIDTH: u32 = 760;
/// Height of the area between the axes.
const AREA: u32 = 300;
/// White around everything.
const MARGIN: i32 = 20;
/// Room for the numbers and the title of the y axis.
const Y_LABELS: u32 = 70;
/// From line to line of the legend and of names.
const LEADING: i32 = 20;
const TITLE_LEADING: i32 = 24;
/// Sizes of texts. The library writes them as `font-size` divided by 1.24.
const TITLE: f64 = 1.24 * 17.0;
const TEXT: f64 = 1.24 * 12.5;
const NUMBER: f64 = 1.24 * 11.0;
/// How wide a character is taken to be. SVG leaves fonts to the viewer, so that nothing can be
/// measured.
const TITLE_CHARACTER: f64 = 8.7;
const CHARACTER: f64 = 6.8;
const NUMBER_CHARACTER: f64 = 6.2;

const INK: RGBColor = RGBColor(0x1a, 0x1a, 0x1a);
const FAINT: RGBColor = RGBColor(0x59, 0x59, 0x59);
const GRID: RGBColor = RGBColor(0xe3, 0xe3, 0xe3);
/// Colours of series: those of Tol's high-contrast scheme and three more. They differ in lightness,
/// so that they differ in grey too, and to the colour-blind.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0x00, 0x44, 0x88),
    RGBColor(0xdd, 0xaa, 0x33),
    RGBColor(0xbb, 0x55, 0x66),
    RGBColor(0x66, 0x99, 0xcc),
    RGBColor(0x1b, 0x6b, 0x3a),
    RGBColor(0x22, 0x22, 0x22),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = std::result::Result<(), DrawingAreaErrorKind<std::io::Error>>;

impl Plot {
    /// The plot as an SVG file, 760 units wide. Text is text, in a font of the viewer's.
    ///
    /// # Errors
    /// What the library that draws says; no plot is known to cause it.
    pub fn to_svg(&self) -> Result<String> {
        let titles = wrapped(
            &self.title,
            ((f64::from(WIDTH) - 40.0) / TITLE_CHARACTER) as usize,
        );
        let names = self.groups.as_ref().map(|names| Names::new(names));
        let top = MARGIN
            + TITLE_LEADING * titles.len() as i32
            + LEADING * (self.series.len() + self.references.len()) as i32
            + 14;
        let below = names.as_ref().map_or(50, Names::height);
        let mut svg = String::new();
        let size = (WIDTH, top as u32 + AREA + below + MARGIN as u32);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        self.draw(&root, &titles, names.as_ref(), (top, below))
            .map_err(|source| {
                let message = format!("cannot draw \"{}\": {source}", self.title);
                Error::new(ErrorKind::Drawing, message)
            })?;
        drop(root);
        Ok(svg)
    }

    fn draw(
        &self,
        root: &Area<'_>,
        titles: &[String],
        names: Option<&Names>,
        (top, below): (i32, u32),
    ) -> Drawn {
        root.fill(&WHITE)?;
        let bold = ("sans-serif", TITLE, FontStyle::Bold).into_text_style(root);
        for (line, title) in titles.iter().enumerate() {
            let at = (MARGIN, MARGIN + TITLE_LEADING * line as i32);
            root.draw(&Text::new(title.clone(), at, bold.color(&INK)))?;
        }
        let first = MARGIN + TITLE_LEADING * titles.len() as i32 + 10;
        for (row, series) in self.all_series().enumerate() {
            self.legend_entry(root, row, series, first + LEADING * row as i32)?;
        }
        let mut builder = ChartBuilder::on(root);
        builder
            .margin_top(top)
            .margin_bottom(MARGIN)
            .margin_left(MARGIN)
            .margin_right(MARGIN)
            .x_label_area_size(below)
            .y_label_area_size(Y_LABELS);
        let (x, y) = (self.x_range(), self.y_range());
        if self.log {
            self.chart(root, builder, names, x.log_scale(), y)
        } else {
            self.chart(root, builder, names, x, y)
        }
    }

    fn legend_entry(&self, root: &Area<'_>, row: usize, series: &Series, y: i32) -> Drawn {
        let ends = [(MARGIN, y), (MARGIN + 30, y)];
        if self.groups.is_some() && row < self.series.len() {
            let corners = [(MARGIN + 4, y - 6), (MARGIN + 26, y + 6)];
            root.draw(&Rectangle::new(corners, fill(row, series.evidence)))?;
            root.draw(&Rectangle::new(corners, colour(row).stroke_width(1)))?;
        } else {
            let is_reference = row >= self.series.len();
            let colour = if is_reference { FAINT } else { colour(row) };
            line(root, ends, series.evidence, colour)?;
            if !is_reference {
                marker(root, row, series.evidence, (MARGIN + 15, y))?;
            }
        }
        let name = format!("{} · {}", shown_line(&series.name), series.evidence);
        let style = text(root, TEXT, HPos::Left, VPos::Center);
        root.draw(&Text::new(name, (MARGIN + 38, y), style.color(&INK)))
    }

    fn chart<X>(
        &self,
        root: &Area<'_>,
        mut builder: ChartBuilder<'_, '_, SVGBackend<'_>>,
        names: Option<&Names>,
        x: X,
        y: Range<f64>,
    ) -> Drawn
    where
        X: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64>,
    {
        let mut chart = builder.build_cartesian_2d(x, y)?;
        let mut mesh = chart.configure_mesh();
        if names.is_some() {
            mesh.disable_x_mesh().x_labels(0);
        }
        mesh.light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(FAINT)
            .label_style(text(root, TEXT, HPos::Left, VPos::Center).color(&FAINT))
            .x_label_formatter(&|value| tick(*value))
            .y_label_formatter(&|value| tick(*value))
            .x_desc(shown_line(&self.x.title))
            .y_desc(shown_line(&self.y.title))
            .draw()?;
        let area = chart.plotting_area();
        self.marks(root, names, |x, y| area.map_coordinate(&(x, y)))
    }

    /// All that stands between the axes, where `at` places a value.
    fn marks(
        &self,
        root: &Area<'_>,
        names: Option<&Names>,
        at: impl Fn(f64, f64) -> (i32, i32),
    ) -> Drawn {
        match names {
            Some(names) => self.bars_of(root, names, &at)?,
            None => self.lines_of(root, &at)?,
        }
        let x = self.x_range();
        for reference in &self.references {
            for (_, figure) in reference.points() {
                let ends = [at(x.start, figure.value), at(x.end, figure.value)];
                line(root, ends, reference.evidence, FAINT)?;
            }
        }
        Ok(())
    }

    fn lines_of(&self, root: &Area<'_>, at: impl Fn(f64, f64) -> (i32, i32)) -> Drawn {
        for (row, series) in self.series.iter().enumerate() {
            let colour = colour(row);
            let points: Vec<(i32, i32)> = series.points().map(|(x, y)| at(x, y.value)).collect();
            for pair in points.windows(2) {
                line(root, [pair[0], pair[1]], series.evidence, colour)?;
            }
            for ((x, figure), point) in series.points().zip(points) {
                if let Some(interval) = figure.interval {
                    whisker(root, at(x, interval.low), at(x, interval.high), colour)?;
                }
                marker(root, row, series.evidence, point)?;
            }
        }
        Ok(())
    }

    fn bars_of(
        &self,
        root: &Area<'_>,
        names: &Names,
        at: impl Fn(f64, f64) -> (i32, i32),
    ) -> Drawn {
        let width = 0.74 / self.series.len().max(1) as f64;
        let pixels = f64::from(at(width, 0.0).0 - at(0.0, 0.0).0);
        for (row, series) in self.series.iter().enumerate() {
            let left = -0.37 + width * row as f64;
            for (group, figure) in series.points() {
                let ends = [
                    at(group + left, 0.0),
                    at(group + left + width, figure.value),
                ];
                root.draw(&Rectangle::new(ends, fill(row, series.evidence)))?;
                root.draw(&Rectangle::new(ends, colour(row).stroke_width(1)))?;
                let (middle, highest) = (group + left + width / 2.0, figure.extent().1);
                if let Some(interval) = figure.interval {
                    let ends = [at(middle, interval.low), at(middle, interval.high)];
                    // White below black is seen on every filling.
                    root.draw(&PathElement::new(ends.to_vec(), WHITE.stroke_width(4)))?;
                    whisker(root, ends[0], ends[1], INK)?;
                }
                let number = fixed(figure.value, 2).replace('-', "−");
                if NUMBER_CHARACTER * number.chars().count() as f64 <= pixels {
                    let (x, y) = at(middle, highest.max(0.0));
                    let style = text(root, NUMBER, HPos::Center, VPos::Bottom);
                    root.draw(&Text::new(number, (x, y - 3), style.color(&FAINT)))?;
                }
            }
        }
        names.draw(root, |group| at(group, self.y_range().start))
    }

    fn x_range(&self) -> Range<f64> {
        match &self.groups {
            Some(groups) => -0.5..groups.len() as f64 - 0.5,
            None => {
                let points = self.series.iter().flat_map(Series::points);
                range(self.log, self.x.from_zero, points.map(|(x, _)| x))
            }
        }
    }

    fn y_range(&self) -> Range<f64> {
        let points = self.all_series().flat_map(Series::points);
        range(
            false,
            self.y.from_zero,
            points.flat_map(|(_, figure)| {
                let (low, high) = figure.extent();
                [low, high]
            }),
        )
    }
}

/// Names of groups of bars, in lines below them: level where each word has room, else upright.
struct Names {
    lines: Vec<Vec<String>>,
    upright: bool,
}

impl Names {
    fn new(names: &[String]) -> Self {
        let area = f64::from(WIDTH - Y_LABELS) - f64::from(2 * MARGIN);
        let room = area / names.len().max(1) as f64 - 8.0;
        let words = names.iter().flat_map(|name| name.split_whitespace());
        let longest = words.map(|word| word.chars().count()).max().unwrap_or(0);
        let upright = CHARACTER * longest as f64 > room;
        let limit = if upright { 170.0 } else { room };
        let lines = names
            .iter()
            .map(|name| wrapped(name, (limit / CHARACTER) as usize));
        Self {
            lines: lines.collect(),
            upright,
        }
    }

    fn height(&self) -> u32 {
        let lines = self.lines.iter().flatten();
        let longest = lines.map(|line| line.chars().count()).max().unwrap_or(0);
        let rows = self.lines.iter().map(Vec::len).max().unwrap_or(0);
        12 + if self.upright {
            (CHARACTER * longest as f64).ceil() as u32
        } else {
            LEADING as u32 * rows as u32
        }
    }

    fn draw(&self, root: &Area<'_>, below: impl Fn(f64) -> (i32, i32)) -> Drawn {
        for (group, lines) in self.lines.iter().enumerate() {
            let (x, y) = below(group as f64);
            for (row, line) in lines.iter().enumerate() {
                let row = row as i32;
                let (at, style) = if self.upright {
                    // Turned to the right, the first of several lines is the rightmost.
                    let offset = 8 * (lines.len() as i32 - 1) - 16 * row;
                    let style = text(root, TEXT, HPos::Left, VPos::Center);
                    (
                        (x + offset, y + 8),
                        style.transform(FontTransform::Rotate90),
                    )
                } else {
                    let style = text(root, TEXT, HPos::Center, VPos::Top);
                    ((x, y + 8 + LEADING * row), style)
                };
                root.draw(&Text::new(line.clone(), at, style.color(&INK)))?;
            }
        }
        Ok(())
    }
}

fn text<'a>(root: &Area<'_>, size: f64, h: HPos, v: VPos) -> TextStyle<'a> {
    ("sans-serif", size)
        .into_text_style(root)
        .pos(Pos::new(h, v))
}

/// The colour of a series. After six they repeat, with another marker.
fn colour(series: usize) -> RGBColor {
    COLOURS[series % COLOURS.len()]
}

/// Marks are filled where real models ran, pale where their calls were multiplied with costs, and
/// white where nothing was run.
fn fill(series: usize, evidence: Evidence) -> ShapeStyle {
    let share = match evidence {
        Evidence::Measured => 1.0,
        Evidence::Modelled => 0.75,
        Evidence::Replayed => 0.5,
        Evidence::Simulated | Evidence::Computed | Evidence::Paper => 0.0,
    };
    let RGBColor(r, g, b) = colour(series);
    let mix = |part: u8| (255.0 - share * (255.0 - f64::from(part))).round() as u8;
    RGBColor(mix(r), mix(g), mix(b)).filled()
}

/// Length of dashes and of the gaps between them, by the evidence of a line.
const fn dash(evidence: Evidence) -> (f64, f64) {
    match evidence {
        Evidence::Measured => (f64::INFINITY, 0.0),
        Evidence::Modelled => (16.0, 4.0),
        Evidence::Replayed => (10.0, 4.0),
        Evidence::Simulated => (5.0, 3.5),
        Evidence::Computed => (2.0, 3.0),
        Evidence::Paper => (10.0, 8.0),
    }
}

/// A straight line, with the dashes of its evidence.
fn line(
    root: &Area<'_>,
    [from, to]: [(i32, i32); 2],
    evidence: Evidence,
    colour: RGBColor,
) -> Drawn {
    let (length, gap) = dash(evidence);
    let (dx, dy) = (f64::from(to.0 - from.0), f64::from(to.1 - from.1));
    let whole = dx.hypot(dy);
    let place = |at: f64| {
        let share = (at / whole).min(1.0);
        let along = |start: i32, by: f64| start + (share * by).round() as i32;
        (along(from.0, dx), along(from.1, dy))
    };
    let mut start = 0.0;
    while start < whole {
        let points = vec![place(start), place(start + length)];
        root.draw(&PathElement::new(points, colour.stroke_width(2)))?;
        start += length + gap;
    }
    Ok(())
}

/// The mark of a point: a circle, and a square where colours are used for the second time.
fn marker(root: &Area<'_>, row: usize, evidence: Evidence, (x, y): (i32, i32)) -> Drawn {
    for style in [fill(row, evidence), colour(row).stroke_width(1)] {
        if (row / COLOURS.len()).is_multiple_of(2) {
            root.draw(&Circle::new((x, y), 4, style))?;
        } else {
            root.draw(&Rectangle::new([(x - 4, y - 4), (x + 4, y + 4)], style))?;
        }
    }
    Ok(())
}

/// An error bar with its caps.
fn whisker(root: &Area<'_>, low: (i32, i32), high: (i32, i32), colour: RGBColor) -> Drawn {
    let cap = |(x, y): (i32, i32)| [(x - 4, y), (x + 4, y)];
    for line in [[low, high], cap(low), cap(high)] {
        root.draw(&PathElement::new(line.to_vec(), colour.stroke_width(1)))?;
    }
    Ok(())
}

/// The range of an axis: a little wider than its numbers, and with 0 where the axis begins there.
fn range(log: bool, from_zero: bool, numbers: impl Iterator<Item = f64>) -> Range<f64> {
    let zero = (from_zero && !log).then_some(0.0);
    let (low, high) = numbers
        .chain(zero)
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
    if log {
        return low / 1.5..high * 1.5;
    }
    if low == high {
        let half = if low == 0.0 { 1.0 } else { low.abs() / 2.0 };
        return low - half..high + half;
    }
    let margin = 0.06 * (high - low);
    let end = |value: f64, beyond: f64| {
        if zero == Some(value) {
            value
        } else {
            value + beyond
        }
    };
    end(low, -margin)..end(high, margin)
}

/// A number at a tick, without what rounding has left of it.
fn tick(value: f64) -> String {
    let digits = (2.0 - value.abs().max(1e-12).log10().floor()).clamp(0.0, 12.0) as usize;
    let text = fixed(value, digits);
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    text.replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_short() {
        let ticks = [0.0, 0.30000000000000004, -2.5, 1500.0, 0.0125].map(tick);
        assert_eq!(ticks, ["0", "0.3", "−2.5", "1500", "0.0125"]);
    }

    #[test]
    fn one_number_has_a_range() {
        for (log, from_zero) in [(false, false), (true, false), (false, true)] {
            for number in [3.0, 1e-9, 1e12] {
                let range = range(log, from_zero, std::iter::once(number));
                assert!(range.start <= number && number < range.end, "{number}");
            }
        }
        assert_eq!(range(false, true, std::iter::once(0.0)), -1.0..1.0);
    }

    #[test]
    fn names_that_do_not_fit_are_upright() {
        let names = |groups: usize| vec!["Autoregressive decoding".to_owned(); groups];
        assert!(!Names::new(&names(3)).upright);
        assert!(Names::new(&names(12)).upright);
    }
}
