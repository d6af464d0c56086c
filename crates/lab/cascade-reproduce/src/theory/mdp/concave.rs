//! Concave piecewise linear functions on [0, 1].

/// Points that are on a line but for rounding are left out.
const ROUNDING: f64 = 1e-13;

/// A function of more points than this is made simpler, and how far it may be from what it stands
/// for then: values are about 1, a forward of the target.
const MANY: usize = 256;
const TOLERANCE: f64 = 1e-6;

/// A concave function of s in [0, 1], by its values at some points in ascending order, the first at
/// 0 and the last at 1, with straight lines between.
#[derive(Clone, Debug)]
pub(super) struct Concave(Vec<(f64, f64)>);

impl Concave {
    /// constant + slope·s.
    pub(super) fn line(constant: f64, slope: f64) -> Self {
        Self(vec![(0.0, constant), (1.0, constant + slope)])
    }

    /// The value at `s`.
    pub(super) fn at(&self, s: f64) -> f64 {
        let above = self.0.partition_point(|point| point.0 < s);
        let last = self.0.len() - 1;
        let ((x0, y0), (x1, y1)) = match above {
            0 => return self.0[0].1,
            above => (self.0[above - 1], self.0[above.min(last)]),
        };
        if x1 > x0 {
            y0 + (y1 - y0) * ((s - x0) / (x1 - x0))
        } else {
            y1
        }
    }

    /// constant + slope·s + Σ weight·f(scale·s), over the (weight, scale, f) of `terms`, whose
    /// weights are not negative and scales in [0, 1].
    pub(super) fn sum(constant: f64, slope: f64, terms: &[(f64, f64, &Self)]) -> Self {
        let mut places = vec![0.0, 1.0];
        for (weight, scale, f) in terms.iter().filter(|term| term.0 > 0.0 && term.1 > 0.0) {
            debug_assert!(*weight > 0.0);
            let inner = f.0.iter().map(|point| point.0 / scale);
            places.extend(inner.filter(|&s| s > 0.0 && s < 1.0));
        }
        places.sort_by(f64::total_cmp);
        places.dedup();
        let value = |s: f64| {
            let terms = terms
                .iter()
                .map(|(weight, scale, f)| weight * f.at(scale * s));
            constant + slope * s + terms.sum::<f64>()
        };
        let points = places.into_iter().map(|s| (s, value(s)));
        Self(simplified(points.collect()))
    }

    /// The lesser of this function and a line that is not above it at 0, and the greatest s up to
    /// which the line is the lesser: 1 if it always is.
    pub(super) fn min_with_line(self, constant: f64, slope: f64) -> (Self, f64) {
        let line = |s: f64| constant + slope * s;
        // The difference is concave and not negative at 0, so it changes its sign once at most.
        let below = |point: &&(f64, f64)| point.1 < line(point.0);
        let Some(first) = self.0.iter().position(|point| below(&point)) else {
            return (Self::line(constant, slope), 1.0);
        };
        let crossing = match first {
            0 => 0.0,
            first => {
                let ((x0, y0), (x1, y1)) = (self.0[first - 1], self.0[first]);
                let (above, under) = (y0 - line(x0), line(x1) - y1);
                x0 + (x1 - x0) * (above / (above + under))
            }
        };
        let mut points = vec![(0.0, constant)];
        if crossing > 0.0 {
            points.push((crossing, line(crossing)));
        }
        points.extend(self.0[first..].iter().filter(|point| point.0 > crossing));
        (Self(simplified(points)), crossing)
    }
}

/// The points without those that are needless; of many points, without those that hardly matter.
fn simplified(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let points = within(points, ROUNDING);
    if points.len() > MANY {
        within(points, TOLERANCE)
    } else {
        points
    }
}

/// The points without those that are almost on the line between their neighbours: no value changes
/// by more than `tolerance`.
fn within(points: Vec<(f64, f64)>, tolerance: f64) -> Vec<(f64, f64)> {
    let slope = |a: (f64, f64), b: (f64, f64)| (b.1 - a.1) / (b.0 - a.0);
    let mut kept: Vec<(f64, f64)> = Vec::with_capacity(points.len());
    // The slope behind the last point that was kept: the greatest of those since, for the function
    // is concave.
    let mut steepest = f64::INFINITY;
    for pair in points.windows(2) {
        let (point, next) = (pair[0], pair[1]);
        let flattest = slope(point, next);
        let lost = kept.last().map(|last| {
            // A concave function is this far above its chord at most.
            (steepest - flattest).max(0.0) * (next.0 - last.0) / 4.0
        });
        if lost.is_none_or(|lost| lost > tolerance) {
            kept.push(point);
            steepest = flattest;
        }
    }
    kept.extend(points.last());
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tent() -> Concave {
        Concave(vec![(0.0, 0.0), (0.5, 1.0), (1.0, 0.0)])
    }

    #[test]
    fn values_lie_on_the_lines() {
        for (s, value) in [(0.0, 0.0), (0.25, 0.5), (0.5, 1.0), (0.75, 0.5), (1.0, 0.0)] {
            assert_eq!(tent().at(s), value);
        }
    }

    #[test]
    fn sums_are_those_of_the_values() {
        let tent = tent();
        let line = Concave::line(2.0, -1.0);
        let terms = [(0.5, 0.8, &tent), (0.3, 1.0, &line), (0.2, 0.0, &tent)];
        let sum = Concave::sum(1.0, 3.0, &terms);
        for i in 0..=100 {
            let s = f64::from(i) / 100.0;
            let expected = 1.0 + 3.0 * s + 0.5 * tent.at(0.8 * s) + 0.3 * (2.0 - s);
            assert!((sum.at(s) - expected).abs() < 1e-12, "{s}");
        }
        assert_eq!(sum.0.len(), 3, "{sum:?}");
    }

    #[test]
    fn the_lesser_begins_with_the_line() {
        let falling = Concave(vec![(0.0, 3.0), (0.5, 3.0), (1.0, 1.0)]);
        let (lesser, crossing) = falling.clone().min_with_line(2.0, 0.0);
        assert!((crossing - 0.75).abs() < 1e-12);
        for (s, value) in [(0.0, 2.0), (0.6, 2.0), (0.75, 2.0), (1.0, 1.0)] {
            assert!((lesser.at(s) - value).abs() < 1e-12, "{s}");
        }
        let (lesser, crossing) = falling.min_with_line(0.5, 0.0);
        assert_eq!((lesser.at(0.3), crossing), (0.5, 1.0));
    }

    #[test]
    fn points_on_a_line_are_left_out() {
        let points = (0..=1000).map(|i| (f64::from(i) / 1000.0, f64::from(i) / 500.0));
        assert_eq!(simplified(points.collect()), [(0.0, 0.0), (1.0, 2.0)]);
        let curve = (0..=1000).map(|i| (f64::from(i) / 1000.0, -f64::from(i * i)));
        assert_eq!(simplified(curve.collect()).len(), 1001);
        // A curve that is almost straight has few points, and hardly another value anywhere.
        let bend = |s: f64| 1.0 - 1e-3 * s * s;
        let fine: Vec<_> = (0..=10_000).map(|i| f64::from(i) / 10_000.0).collect();
        let coarse = Concave(simplified(fine.iter().map(|&s| (s, bend(s))).collect()));
        assert!(coarse.0.len() < 100, "{}", coarse.0.len());
        assert!(
            fine.iter()
                .all(|&s| (coarse.at(s) - bend(s)).abs() <= TOLERANCE)
        );
    }
}
