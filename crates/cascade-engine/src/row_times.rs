//! What a forward takes by its rows, as it is assumed or was measured.

/// Time of a forward by its rows: linear between known numbers of rows and beyond.
#[derive(Clone, Debug, PartialEq)]
pub struct RowTimes {
    /// Rows and seconds, by rising rows; never empty.
    known: Vec<(usize, f64)>,
}

impl RowTimes {
    /// A forward of one row takes `seconds`, and each further row adds the share `row` of that.
    pub fn linear(seconds: f64, row: f64) -> Self {
        Self {
            known: vec![(1, seconds), (2, seconds * (1.0 + row))],
        }
    }

    /// Measured times, as rows and seconds in any order; `None` without one of at least one row.
    /// Times that fall as rows rise are noise, and are levelled.
    pub fn measured(times: impl IntoIterator<Item = (usize, f64)>) -> Option<Self> {
        let mut known: Vec<(usize, f64)> = times.into_iter().collect();
        known.retain(|&(rows, seconds)| rows > 0 && seconds.is_finite() && seconds >= 0.0);
        known.sort_by_key(|&(rows, _)| rows);
        known.dedup_by_key(|&mut (rows, _)| rows);
        for at in 1..known.len() {
            known[at].1 = known[at].1.max(known[at - 1].1);
        }
        (!known.is_empty()).then_some(Self { known })
    }

    /// Seconds of a forward of `rows`.
    pub fn seconds(&self, rows: usize) -> f64 {
        let after = self.known.partition_point(|&(known, _)| known < rows);
        let (high, low) = match after.min(self.known.len() - 1) {
            0 => return self.known[0].1,
            high => (self.known[high], self.known[high - 1]),
        };
        let share = (rows as f64 - low.0 as f64) / (high.0 - low.0) as f64;
        low.1 + share * (high.1 - low.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_linear_between_what_is_known_and_beyond() {
        let linear = RowTimes::linear(2.0, 0.5);
        assert_eq!([1, 2, 5].map(|rows| linear.seconds(rows)), [2.0, 3.0, 6.0]);
        let known = [(8, 3.0), (1, 1.0), (4, 2.0), (16, 2.5)];
        let measured = RowTimes::measured(known).unwrap();
        let at = |rows| measured.seconds(rows);
        assert_eq!(
            [at(1), at(4), at(6), at(16), at(99)],
            [1.0, 2.0, 2.5, 3.0, 3.0]
        );
        assert_eq!(RowTimes::measured([]), None);
        assert_eq!(RowTimes::measured([(3, 1.5)]).unwrap().seconds(9), 1.5);
    }
}
