//! What forwards cost, as a configuration says or as it was measured.

use cascade_core::{ForwardTimes, RowTimes};

use super::costs::Costs;

/// What forwards cost: as measured before, or assumed, as where times are withheld.
#[derive(Clone, Debug, PartialEq)]
pub struct AssumedCosts {
    /// What one more row adds to a forward, in forwards of one row.
    pub row: f64,
    /// A forward of each drafter in forwards of the target, largest drafter first; 0 for
    /// statistical ones. Missing ones cost a fifth.
    pub drafters: Vec<f64>,
    /// What forwards take by rows where that was measured before, by level, the target first, in
    /// place of the above.
    pub measured: Vec<Option<ForwardTimes>>,
    /// Whether these costs are kept, whatever forwards take: the machine is as busy as it was.
    pub fixed: bool,
}

impl AssumedCosts {
    /// Costs of a level's forwards. Measured ones only if the schedule sees times, or they are to
    /// be kept.
    pub(super) fn of_level(&self, level: usize, untimed: bool) -> Costs {
        let measured = self.measured.get(level).and_then(Option::as_ref);
        match measured.filter(|_| self.fixed || !untimed) {
            Some(times) => Costs::new(times.clone(), Some(1.0)),
            None => Costs::new(RowTimes::linear(1.0, self.row).into(), None),
        }
    }
}

impl Default for AssumedCosts {
    /// A row adds 2%.
    fn default() -> Self {
        Self {
            row: RowTimes::ASSUMED_ROW,
            drafters: Vec::new(),
            measured: Vec::new(),
            fixed: false,
        }
    }
}
