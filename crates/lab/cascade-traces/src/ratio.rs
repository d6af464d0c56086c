//! Ratios of sums over records, and their intervals.

use cascade_eval::Bootstrap;

/// Two figures of each record, such as its tokens and the time that they took.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ByRecord(pub(crate) Vec<(f64, f64)>);

impl ByRecord {
    /// The sums of both figures over all records.
    pub(crate) fn sums(&self) -> (f64, f64) {
        sums(&self.0)
    }

    /// The first sum over the second.
    pub(crate) fn ratio(&self) -> f64 {
        let (first, second) = self.sums();
        first / second
    }

    /// The 95% interval of what `figure` makes of both sums, by resampling records.
    pub(crate) fn interval(&self, figure: impl Fn(f64, f64) -> f64) -> Option<(f64, f64)> {
        Bootstrap::default().interval(self.0.len(), |chosen| {
            let (first, second) = sums(chosen.iter().map(|&at| &self.0[at]));
            figure(first, second)
        })
    }
}

fn sums<'r>(records: impl IntoIterator<Item = &'r (f64, f64)>) -> (f64, f64) {
    let add = |sum: (f64, f64), record: &(f64, f64)| (sum.0 + record.0, sum.1 + record.1);
    records.into_iter().fold((0.0, 0.0), add)
}
