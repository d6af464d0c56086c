//! Means of simulated runs, with their standard errors.

/// A mean over simulated runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Its standard error.
    pub standard_error: f64,
    /// Runs that it is taken over, at least 2.
    pub runs: u64,
}

/// The 97.5th percentile of the standard normal distribution.
const NORMAL: f64 = 1.959_963_984_540_054;

impl Estimate {
    /// The 95% interval, by the normal approximation.
    pub fn interval(&self) -> (f64, f64) {
        let half = NORMAL * self.standard_error;
        (self.mean - half, self.mean + half)
    }

    /// How many standard errors the mean is above `value`. 0 if it is exactly there, even where all
    /// runs were equal.
    pub fn deviation(&self, value: f64) -> f64 {
        let off = self.mean - value;
        // What rounding leaves of runs that are all equal is no deviation.
        if off.abs() <= 1e-9 * value.abs().max(1.0) {
            0.0
        } else {
            off / self.standard_error
        }
    }
}

/// Adds up runs, one number each.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    runs: u64,
    mean: f64,
    /// Sum of squared deviations from the mean (Welford).
    squares: f64,
}

impl Tally {
    /// Adds a run.
    pub fn add(&mut self, value: f64) {
        self.runs += 1;
        let before = value - self.mean;
        self.mean += before / self.runs as f64;
        self.squares += before * (value - self.mean);
    }

    /// The mean so far; `None` before the second run, when there is no standard error.
    pub fn estimate(&self) -> Option<Estimate> {
        let runs = self.runs as f64;
        (self.runs >= 2).then(|| Estimate {
            mean: self.mean,
            standard_error: (self.squares / (runs - 1.0) / runs).sqrt(),
            runs: self.runs,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_standard_error_are_those_of_the_numbers() {
        let mut tally = Tally::default();
        assert_eq!(tally.estimate(), None);
        tally.add(1.0);
        assert_eq!(tally.estimate(), None);
        for value in [2.0, 4.0, 5.0] {
            tally.add(value);
        }
        let estimate = tally.estimate().unwrap();
        // Squared deviations from 3: 4 + 1 + 1 + 4.
        assert_eq!((estimate.mean, estimate.runs), (3.0, 4));
        assert!((estimate.standard_error - (10.0f64 / 3.0 / 4.0).sqrt()).abs() < 1e-15);
        assert!((estimate.deviation(2.0) - 1.0 / estimate.standard_error).abs() < 1e-12);
        let (low, high) = estimate.interval();
        assert!((low + high - 6.0).abs() < 1e-12 && low < 3.0);
    }

    #[test]
    fn equal_runs_do_not_deviate_from_themselves() {
        let mut tally = Tally::default();
        (0..10).for_each(|_| tally.add(0.1));
        let estimate = tally.estimate().unwrap();
        assert_eq!(estimate.deviation(0.1), 0.0);
        assert!(estimate.deviation(0.2).abs() > 1e3);
    }
}
