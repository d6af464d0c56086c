//! Line charts.

use maud::{html, Markup};

use super::scale::Scale;
use super::style::{colour, dashes, marker, short};
use super::svg::{base_line, length, whisker, Area, ADJUST, FAINT, LEADING, TEXT};
use super::{font, Axis, Line};
use crate::figure::Figure;
use crate::text::shown_line;

fn x_scale(axis: &Axis, lines: &[Line]) -> Scale {
    let points = lines.iter().flat_map(|line| &line.points);
    Scale::tight(axis, points.map(|(x, _)| *x))
}

/// Numbers and title below the area, and the height of the picture.
pub(super) fn x_axis(area: &Area, axis: &Axis, lines: &[Line]) -> (Markup, f64) {
    let scale = x_scale(axis, lines);
    let numbers = area.bottom + LEADING + 4.0;
    let title = numbers + LEADING + 8.0;
    let markup = html! {
        (base_line(area))
        @for (value, label) in &scale.ticks {
            @let x = short(area.x(scale.place(*value)));
            path d={ "M" (x) " " (short(area.bottom)) "v5" } stroke="#8c8c8c" {}
            text x=(x) y=(short(numbers)) text-anchor="middle" fill=(FAINT) { (label) }
        }
        @let axis_title = shown_line(&axis.title);
        text x=(short(area.x(0.5))) y=(short(title)) text-anchor="middle" fill=(FAINT)
            textLength=(length(&axis_title, TEXT, font::REGULAR, area.right - area.left)) lengthAdjust=(ADJUST) { (axis_title) }
    };
    (markup, title + LEADING)
}

/// The lines, their error bars and their points.
pub(super) fn marks(area: &Area, axis: &Axis, y: &Scale, lines: &[Line]) -> Markup {
    let x = x_scale(axis, lines);
    html! {
        @for (series, line) in lines.iter().enumerate() {
            g {
                title { (shown_line(&line.name)) ", " (line.evidence.name()) }
                path d=(path(area, &x, y, line)) fill="none" stroke=(colour(series)) stroke-width="2"
                    stroke-linejoin="round" stroke-dasharray=[dashes(line.evidence)] {}
                @for (position, figure) in &line.points {
                    (point(area, (&x, *position), (y, figure), series, line))
                }
            }
        }
    }
}

fn path(area: &Area, x: &Scale, y: &Scale, line: &Line) -> String {
    let points: Vec<String> = line
        .points
        .iter()
        .map(|(position, figure)| {
            let (x, y) = (area.x(x.place(*position)), area.y(y.place(figure.value)));
            format!("{} {}", short(x), short(y))
        })
        .collect();
    if points.is_empty() {
        String::new()
    } else {
        format!("M{}", points.join("L"))
    }
}

fn point(
    area: &Area,
    (x_scale, position): (&Scale, f64),
    (y_scale, figure): (&Scale, &Figure),
    series: usize,
    line: &Line,
) -> Markup {
    let x = area.x(x_scale.place(position));
    let at = |value: f64| area.y(y_scale.place(value));
    html! {
        g {
            title {
                (shown_line(&line.name)) ", " (line.evidence.name()) ", at " (position) ": " (figure.display(3))
            }
            @if let Some(interval) = figure.interval {
                (whisker(x, at(interval.high), at(interval.low), colour(series)))
            }
            (marker(series, line.evidence, x, at(figure.value)))
        }
    }
}
