//! Values with confidence intervals.

/// A value, with a confidence interval if one is known.
///
/// It has no [`Evidence`](crate::report::Evidence) of its own: that belongs to the column or the
/// series that it is in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The value.
    pub value: f64,
    /// Its confidence interval. The column names its kind.
    pub interval: Option<Interval>,
}

/// A confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end, no less than the lower one.
    pub high: f64,
}

impl Figure {
    /// A value without an interval.
    pub const fn new(value: f64) -> Self {
        Self {
            value,
            interval: None,
        }
    }

    /// A value with its confidence interval.
    pub const fn with_interval(value: f64, low: f64, high: f64) -> Self {
        Self {
            value,
            interval: Some(Interval { low, high }),
        }
    }

    /// The figure of a rising or falling function of what this is the figure of.
    #[must_use]
    pub(crate) fn map(self, of: impl Fn(f64) -> f64) -> Self {
        let value = of(self.value);
        self.interval.map_or(Self::new(value), |interval| {
            let (a, b) = (of(interval.low), of(interval.high));
            Self::with_interval(value, a.min(b), a.max(b))
        })
    }

    /// The lowest and the highest number of the figure.
    pub(crate) fn extent(&self) -> (f64, f64) {
        match self.interval {
            None => (self.value, self.value),
            Some(interval) => (self.value.min(interval.low), self.value.max(interval.high)),
        }
    }

    /// What is wrong with it, and the cure.
    pub(crate) fn flaw(&self) -> Option<String> {
        let ends = self.interval.map(|i| [i.low, i.high]);
        let mut numbers = [self.value].into_iter().chain(ends.into_iter().flatten());
        if let Some(number) = numbers.find(|n| !n.is_finite()) {
            let cure = "where there is nothing to divide by, leave the figure out";
            return Some(format!("{number} is not a finite number; {cure}"));
        }
        match self.interval {
            Some(Interval { low, high }) if low > high => {
                let problem = "ends before it begins; swap its ends";
                Some(format!("the interval [{low}, {high}] {problem}"))
            }
            _ => None,
        }
    }

    /// The figure for display: `1.73` or `1.73 [1.70, 1.76]`.
    pub(crate) fn display(&self, decimals: usize) -> String {
        let value = fixed(self.value, decimals);
        match self.interval {
            None => value,
            Some(_) => format!("{value} {}", self.display_interval(decimals)),
        }
    }

    /// The interval alone, empty where there is none.
    pub(crate) fn display_interval(&self, decimals: usize) -> String {
        self.interval.map_or_else(String::new, |interval| {
            format!(
                "[{}, {}]",
                fixed(interval.low, decimals),
                fixed(interval.high, decimals)
            )
        })
    }
}

impl From<f64> for Figure {
    fn from(value: f64) -> Self {
        Self::new(value)
    }
}

/// A number with that many decimals, and without a sign if it rounds to nothing.
pub(crate) fn fixed(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$}");
    match text.strip_prefix('-') {
        Some(digits) if digits.chars().all(|c| c == '0' || c == '.') => digits.to_owned(),
        _ => text,
    }
}
