//! Colours, dashes, markers and fills of series.

use maud::{html, Markup};

use crate::evidence::Evidence;

/// Colours of series: those of Tol's high-contrast scheme and three more. Their lightness differs
/// by ten and more, so that they differ in grey too, and to the colour-blind.
const COLOURS: [&str; 6] = [
    "#004488", "#DDAA33", "#BB5566", "#6699CC", "#1B6B3A", "#222222",
];

/// The colour of a series. After six they repeat, with other markers.
pub(super) fn colour(series: usize) -> &'static str {
    COLOURS[series % COLOURS.len()]
}

/// The dashes of a line, by its evidence.
pub(super) fn dashes(evidence: Evidence) -> Option<&'static str> {
    match evidence {
        Evidence::Measured => None,
        Evidence::Modelled => Some("16 4"),
        Evidence::Replayed => Some("10 4"),
        Evidence::Simulated => Some("5 3.5"),
        Evidence::Computed => Some("1.5 3"),
        Evidence::Paper => Some("10 3 2 3"),
    }
}

/// The marker of a series around (x, y). Hollow ones are of what was not measured or replayed, and
/// not made of measurements.
pub(super) fn marker(series: usize, evidence: Evidence, x: f64, y: f64) -> Markup {
    let colour = colour(series);
    let solid = !matches!(
        evidence,
        Evidence::Simulated | Evidence::Computed | Evidence::Paper
    );
    let fill = if solid { colour } else { "#ffffff" };
    let d = outline(series, x, y);
    html! { path d=(d) fill=(fill) stroke=(colour) stroke-width="1.5" stroke-dasharray="none" {} }
}

fn outline(series: usize, x: f64, y: f64) -> String {
    let at = |dx: f64, dy: f64| format!("{} {}", short(x + dx), short(y + dy));
    let polygon = |points: &[(f64, f64)]| {
        let points: Vec<String> = points.iter().map(|&(dx, dy)| at(dx, dy)).collect();
        format!("M{}Z", points.join("L"))
    };
    match series % 5 {
        0 => format!("M{}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z", at(-4.0, 0.0)),
        1 => polygon(&[(-3.6, -3.6), (3.6, -3.6), (3.6, 3.6), (-3.6, 3.6)]),
        2 => polygon(&[(0.0, -4.8), (4.6, 3.4), (-4.6, 3.4)]),
        3 => polygon(&[(0.0, -5.2), (5.2, 0.0), (0.0, 5.2), (-5.2, 0.0)]),
        _ => polygon(&[(0.0, 4.8), (4.6, -3.4), (-4.6, -3.4)]),
    }
}

/// What bars of a series are filled with. Patterns are defined by [`pattern`].
pub(super) fn fill(prefix: &str, series: usize, evidence: Evidence) -> String {
    match evidence {
        Evidence::Measured => colour(series).to_owned(),
        Evidence::Paper => "#ffffff".to_owned(),
        _ => format!("url(#{prefix}-fill-{series})"),
    }
}

/// The definition of the pattern that [`fill`] names, if it names one.
pub(super) fn pattern(prefix: &str, series: usize, evidence: Evidence) -> Option<Markup> {
    let colour = colour(series);
    let (ground, ink, width) = match evidence {
        Evidence::Measured | Evidence::Paper => return None,
        Evidence::Modelled => (colour, "#ffffff", "0.6"),
        Evidence::Replayed => (colour, "#ffffff", "1.2"),
        Evidence::Simulated | Evidence::Computed => ("#ffffff", colour, "2"),
    };
    let crossed = evidence == Evidence::Computed;
    Some(html! {
        pattern id={ (prefix) "-fill-" (series) } width="6" height="6" patternUnits="userSpaceOnUse"
            patternTransform="rotate(45)" {
            rect width="6" height="6" fill=(ground) {}
            path d="M3 0V6" stroke=(ink) stroke-width=(width) {}
            @if crossed { path d="M0 3H6" stroke=(ink) stroke-width=(width) {} }
        }
    })
}

/// A coordinate to a hundredth, without trailing zeros.
pub(super) fn short(number: f64) -> String {
    let text = crate::figure::fixed(number, 2);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// CIE lightness, of which grey print is a picture.
    fn lightness(colour: &str) -> f64 {
        let channel = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 {
                value / 12.92
            } else {
                ((value + 0.055) / 1.055).powf(2.4)
            }
        };
        let luminance = 0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5);
        116.0 * luminance.cbrt() - 16.0
    }

    #[test]
    fn colours_differ_in_grey() {
        let mut all: Vec<f64> = COLOURS.iter().map(|colour| lightness(colour)).collect();
        all.sort_by(f64::total_cmp);
        assert!(
            all.windows(2).all(|pair| pair[1] - pair[0] > 9.0),
            "{all:?}"
        );
        assert!(
            all[5] < 75.0,
            "the lightest is still seen on white: {all:?}"
        );
    }

    #[test]
    fn coordinates_are_short() {
        assert_eq!(short(12.0), "12");
        assert_eq!(short(12.3456), "12.35");
        assert_eq!(short(-0.001), "0");
    }
}
