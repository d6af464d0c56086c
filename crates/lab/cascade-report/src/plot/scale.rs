//! Axis scales.

use super::Axis;

/// A map from values to `0..=1`, with ticks at round values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    min: f64,
    max: f64,
    log: bool,
    /// Ticks: round values between `min` and `max`, and their labels.
    pub(super) ticks: Vec<(f64, String)>,
}

impl Scale {
    /// A scale that begins and ends at round values.
    pub(super) fn rounded(axis: &Axis, numbers: impl Iterator<Item = f64>) -> Self {
        let (min, max) = extent(axis, numbers);
        if axis.log {
            return Self::log(min, max);
        }
        let step = step(max - min);
        // A hair of slack, so that 0.30000000000000004 does not open another step.
        let first = (min / step + 1e-9).floor();
        let last = (max / step - 1e-9).ceil();
        Self::linear(first * step, last * step, step)
    }

    /// A scale a little wider than the values.
    pub(super) fn tight(axis: &Axis, numbers: impl Iterator<Item = f64>) -> Self {
        let (min, max) = extent(axis, numbers);
        if axis.log {
            return Self::log(min, max);
        }
        let margin = 0.04 * (max - min);
        let low = if axis.from_zero && min == 0.0 {
            0.0
        } else {
            min - margin
        };
        Self::linear(low, max + margin, step(max - min))
    }

    fn linear(min: f64, max: f64, step: f64) -> Self {
        let decimals = (-step.log10().floor()).clamp(0.0, 12.0) as usize;
        let (first, last) = ((min / step - 1e-9).ceil(), (max / step + 1e-9).floor());
        let count = (last - first).clamp(0.0, 100.0) as i32;
        let ticks = (0..=count).map(|i| {
            let value = (first + f64::from(i)) * step;
            (value, label(value, decimals))
        });
        Self {
            min,
            max,
            log: false,
            ticks: ticks.collect(),
        }
    }

    fn log(min: f64, max: f64) -> Self {
        let decades = max.log10() - min.log10();
        let digits: &[f64] = if decades <= 3.0 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let every = (decades / 8.0).ceil().max(1.0) as i32;
        let all: Vec<f64> = (-324 / every - 1..=308 / every + 1)
            .flat_map(|i| {
                digits
                    .iter()
                    .map(move |digit| digit * 10f64.powi(i * every))
            })
            .filter(|value| value.is_finite() && *value > 0.0)
            .collect();
        let slack = 1e-9;
        let below = all
            .iter()
            .copied()
            .rfind(|value| *value <= min * (1.0 + slack));
        let above = all
            .iter()
            .copied()
            .find(|value| *value >= max * (1.0 - slack));
        let (min, max) = (below.unwrap_or(min), above.unwrap_or(max));
        let inside = all.iter().filter(|value| (min..=max).contains(*value));
        Self {
            min,
            max,
            log: true,
            ticks: inside.map(|&value| (value, log_label(value))).collect(),
        }
    }

    /// The place of a number: 0 at the beginning of the scale and 1 at its end.
    pub(super) fn place(&self, value: f64) -> f64 {
        if self.log {
            (value / self.min).ln() / (self.max / self.min).ln()
        } else {
            (value - self.min) / (self.max - self.min)
        }
    }
}

fn extent(axis: &Axis, numbers: impl Iterator<Item = f64>) -> (f64, f64) {
    let zero = (axis.from_zero && !axis.log).then_some(0.0);
    let (min, max) = numbers
        .chain(zero)
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
    match (min < max, axis.log) {
        (true, _) => (min, max),
        (false, true) => (min / 2.0, max * 2.0),
        (false, false) => {
            let half = if min == 0.0 { 1.0 } else { min.abs() / 2.0 };
            (min - half, max + half)
        }
    }
}

/// 1, 2 or 5 times a power of ten, four to ten times in the span.
fn step(span: f64) -> f64 {
    let rough = span / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let digit = match rough / power {
        ratio if ratio < 1.5 => 1.0,
        ratio if ratio < 3.5 => 2.0,
        ratio if ratio < 7.5 => 5.0,
        _ => 10.0,
    };
    digit * power
}

fn label(value: f64, decimals: usize) -> String {
    let text = if value.abs() >= 1e7 {
        format!("{value:e}")
    } else {
        crate::figure::fixed(value, decimals)
    };
    text.replace('-', "−")
}

fn log_label(value: f64) -> String {
    let decimals = (-value.log10().floor()).clamp(0.0, 12.0) as usize;
    if value < 1e-4 {
        format!("{value:e}").replace('-', "−")
    } else {
        label(value, decimals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale) -> Vec<&str> {
        scale
            .ticks
            .iter()
            .map(|(_, label)| label.as_str())
            .collect()
    }

    #[test]
    fn linear_scales_are_round() {
        let scale = Scale::rounded(&Axis::new("y"), [1.03, 3.88].into_iter());
        assert_eq!(
            labels(&scale),
            ["1.0", "1.5", "2.0", "2.5", "3.0", "3.5", "4.0"]
        );
        assert_eq!((scale.place(1.0), scale.place(4.0)), (0.0, 1.0));
    }

    #[test]
    fn log_scales_have_equal_decades() {
        let scale = Scale::rounded(&Axis::new("y").log(), [0.015, 90.0].into_iter());
        assert_eq!(labels(&scale), ["0.01", "0.1", "1", "10", "100"]);
        assert!((scale.place(1.0) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn one_number_has_a_scale() {
        for axis in [
            Axis::new("y"),
            Axis::new("y").log(),
            Axis::new("y").from_zero(),
        ] {
            for number in [3.0, 1e-9, 1e12] {
                let scale = Scale::rounded(&axis, std::iter::once(number));
                assert!(
                    (0.0..=1.0).contains(&scale.place(number)),
                    "{axis:?} {number}"
                );
                assert!(
                    scale.ticks.len() >= 2,
                    "{axis:?} {number}: {:?}",
                    scale.ticks
                );
            }
        }
        let zero = Scale::rounded(&Axis::new("y").from_zero(), std::iter::once(0.0));
        assert_eq!(zero.place(0.0), 0.5);
    }
}
