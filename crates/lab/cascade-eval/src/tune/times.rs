//! What forwards cost in a prediction.

use cascade_engine::RowTimes;

/// Times of the forwards of a target and its drafters, by rows; statistical drafters take none.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    /// Of the target.
    pub target: RowTimes,
    /// Of each drafter, largest first; `None` for statistical ones.
    pub drafters: Vec<Option<RowTimes>>,
}

impl Times {
    /// Costs of forwards of one row, the target's first and 0 for statistical drafters; each
    /// further row adds the share `row`.
    ///
    /// # Panics
    /// If there is no cost.
    pub fn linear(costs: &[f64], row: f64) -> Self {
        let times = |cost: f64| RowTimes::linear(cost, row);
        let drafters = costs[1..].iter();
        Self {
            target: times(costs[0]),
            drafters: drafters
                .map(|&cost| (cost > 0.0).then(|| times(cost)))
                .collect(),
        }
    }

    /// What a forward costs if its rows cost nothing, of the target and each drafter: the costs of
    /// the standardized walltime improvement, which counts forwards.
    pub fn of_one_row(&self) -> Vec<f64> {
        let drafters = self.drafters.iter();
        let drafters = drafters.map(|times| times.as_ref().map_or(0.0, |times| times.seconds(1)));
        std::iter::once(self.target.seconds(1))
            .chain(drafters)
            .collect()
    }
}
