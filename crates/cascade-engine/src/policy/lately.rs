//! How fast the schedule forgets.

/// How far the last outcome counts: of some 30 that are remembered, of what holds for all texts,
/// and of some 10, of what changes within a text.
pub(super) const SLOW: f64 = 0.03;
pub(super) const FAST: f64 = 0.1;
/// Outcomes that what is expected before any was seen is worth.
const WORTH: f64 = 4.0;
/// How far the last time counts if it is shorter than expected, and how many times the expected one
/// it counts for at most: a pause of the machine is no cost, and neither is a prompt, which is read
/// once, but nothing is done much faster by chance.
const SHORTER: f64 = 0.25;
const MOST: f64 = 2.0;

/// How far one more outcome counts after so many.
pub(super) fn weight(least: f64, seen: f64) -> f64 {
    least.max(1.0 / (WORTH + seen))
}

/// How long something takes, as a moving average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Lately(pub(super) Option<f64>);

impl Lately {
    pub(super) fn learn(&mut self, time: f64) {
        let before = self.0.unwrap_or(time);
        let weight = if time < before { SHORTER } else { FAST };
        self.0 = Some(before + weight * (time.min(MOST * before) - before));
    }

    /// 0 before the first time.
    pub(super) fn time(self) -> f64 {
        self.0.unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_and_a_pause_are_no_cost() {
        let mut time = Lately::default();
        time.learn(1e-3);
        (0..20).for_each(|_| time.learn(2e-5));
        assert!((time.time() / 2e-5 - 1.0).abs() < 0.2, "{time:?}");
        time.learn(1.0);
        assert!(time.time() < 2.7e-5, "{time:?}");
        (0..60).for_each(|_| time.learn(8e-5));
        assert!(time.time() > 7e-5, "{time:?}");
    }
}
