//! T(R): what a forward takes by its rows and its context, as it is assumed or was measured.

/// Time of a forward by its rows: linear between known numbers of rows and beyond.
#[derive(Clone, Debug, PartialEq)]
pub struct RowTimes {
    /// Rows and seconds, by rising rows; never empty.
    known: Vec<(usize, f64)>,
}

impl RowTimes {
    /// What a further row adds to a forward of one row if nothing was measured, in forwards.
    pub const ASSUMED_ROW: f64 = 0.02;

    /// These times, and at the rows of others as much more than theirs as between these.
    fn filled_by(&self, others: &Self) -> Option<Self> {
        let more = |&(rows, seconds): &(usize, f64)| (rows, seconds - others.seconds(rows));
        let more = Self {
            known: self.known.iter().map(more).collect(),
        };
        let filled = |&(rows, seconds): &(usize, f64)| (rows, seconds + more.seconds(rows));
        Self::measured(others.known.iter().map(filled).chain(self.known.clone()))
    }

    /// A forward of one row takes `seconds`, and each further row adds the share `row` of that.
    pub fn linear(seconds: f64, row: f64) -> Self {
        Self {
            known: vec![(1, seconds), (2, seconds * (1.0 + row))],
        }
    }

    /// Measured times, as rows and seconds in any order; `None` without one of at least one row.
    /// What disturbs a measurement makes it longer, so a forward takes no more than one of more
    /// rows took.
    pub fn measured(times: impl IntoIterator<Item = (usize, f64)>) -> Option<Self> {
        let mut known: Vec<(usize, f64)> = times.into_iter().collect();
        known.retain(|&(rows, seconds)| rows > 0 && seconds.is_finite() && seconds >= 0.0);
        known.sort_by_key(|&(rows, _)| rows);
        known.dedup_by_key(|&mut (rows, _)| rows);
        for at in (1..known.len()).rev() {
            known[at - 1].1 = known[at - 1].1.min(known[at].1);
        }
        (!known.is_empty()).then_some(Self { known })
    }

    /// Seconds of a forward of `rows`.
    pub fn seconds(&self, rows: usize) -> f64 {
        self.at(rows as f64)
    }

    /// Seconds of a forward of a mean number of rows.
    pub fn at(&self, rows: f64) -> f64 {
        let (low, high, share) = neighbours(&self.known, rows);
        low + share * (high - low)
    }
}

/// T(R) of a model on this machine: times of its forwards by rows, after contexts of one length or
/// more. Between them a row's attention takes time in proportion to the context, and beyond.
#[derive(Clone, Debug, PartialEq)]
pub struct ForwardTimes {
    /// Context lengths, rising, and the times after each; never empty.
    by_context: Vec<(usize, RowTimes)>,
}

impl ForwardTimes {
    /// Measured times, as context, rows and seconds in any order; `None` without one of at least
    /// one row after the shortest context. After others, what was not measured takes as much longer
    /// as its neighbours do.
    pub fn measured(times: impl IntoIterator<Item = (usize, usize, f64)>) -> Option<Self> {
        let mut times: Vec<_> = times.into_iter().collect();
        times.sort_by_key(|&(context, rows, _)| (context, rows));
        let mut by_context: Vec<(usize, RowTimes)> = Vec::new();
        for same in times.chunk_by(|a, b| a.0 == b.0) {
            let own = same.iter().map(|&(_, rows, seconds)| (rows, seconds));
            let own = RowTimes::measured(own);
            let filled = match by_context.first() {
                None => own,
                Some((_, shortest)) => own.and_then(|own| own.filled_by(shortest)),
            };
            by_context.extend(filled.map(|filled| (same[0].0, filled)));
        }
        (!by_context.is_empty()).then_some(Self { by_context })
    }

    /// Times after a context of so many tokens. Shorter contexts than the shortest one take as
    /// long.
    pub fn after(&self, context: usize) -> RowTimes {
        let (low, high, share) = neighbours(&self.by_context, context as f64);
        let times = low.known.iter().chain(&high.known).map(|&(rows, _)| {
            let (low, high) = (low.seconds(rows), high.seconds(rows));
            (rows, low + share * (high - low).max(0.0))
        });
        RowTimes::measured(times).unwrap_or_else(|| low.clone())
    }
}

/// What is known below and above a place, the last two beyond them, and where between these it is;
/// the first, twice, before it.
#[inline]
fn neighbours<T>(known: &[(usize, T)], at: f64) -> (&T, &T, f64) {
    let after = known.partition_point(|&(known, _)| (known as f64) < at);
    let above = after.min(known.len() - 1);
    let ((low, before), (high, behind)) = (&known[above.saturating_sub(1)], &known[above]);
    let share = (at - *low as f64) / (*high - *low).max(1) as f64;
    (before, behind, share)
}

impl From<RowTimes> for ForwardTimes {
    fn from(times: RowTimes) -> Self {
        Self {
            by_context: vec![(0, times)],
        }
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
            [1.0, 2.0, 2.25, 2.5, 2.5]
        );
        assert_eq!(RowTimes::measured([]), None);
        assert_eq!(RowTimes::measured([(3, 1.5)]).unwrap().seconds(9), 1.5);
    }

    #[test]
    fn attention_takes_time_in_proportion_to_the_context() {
        let measured = [(1100, 1, 2.0), (100, 2, 1.1), (100, 1, 1.0), (1100, 2, 2.4)];
        let times = ForwardTimes::measured(measured).unwrap();
        let at = |context| times.after(context).seconds(2);
        for (context, seconds) in [(0, 1.1), (100, 1.1), (600, 1.75), (1100, 2.4), (2100, 3.7)] {
            assert!(
                (at(context) - seconds).abs() < 1e-9,
                "{context}: {}",
                at(context)
            );
        }
        assert_eq!(ForwardTimes::measured([]), None);
        // A step at two rows is there after long contexts, too, and what was disturbed is not.
        let measured = [
            (0, 1, 1.0),
            (0, 2, 3.0),
            (0, 3, 3.0),
            (0, 5, 9.0),
            (0, 9, 3.5),
        ];
        let long = [(10, 1, 2.0), (10, 9, 6.5)];
        let times = ForwardTimes::measured(measured.into_iter().chain(long)).unwrap();
        let short = times.after(0);
        assert_eq!([short.seconds(2), short.seconds(5)], [3.0, 3.5]);
        assert_eq!(
            [1, 2, 5, 9].map(|rows| times.after(10).seconds(rows)),
            [2.0, 4.25, 5.5, 6.5]
        );
        let alone = ForwardTimes::from(RowTimes::linear(1.0, 0.5));
        assert_eq!(
            [0, 9999].map(|context| alone.after(context).at(2.5)),
            [1.75, 1.75]
        );
    }
}
