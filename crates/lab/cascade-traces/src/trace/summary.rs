//! Statistics of a trace.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Finish, Record};

/// Logits closer to each other than this may swap ranks when sums are computed in another order.
pub const NEAR_TIE: f32 = 1e-4;

/// Counts over records.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Number of records.
    pub records: usize,
    /// Records of each category, in order of first appearance; records without a category are not
    /// counted.
    pub categories: Vec<(String, usize)>,
    /// Records by the reason why they ended.
    pub finishes: BTreeMap<Finish, usize>,
    /// Lengths of the prompts, in tokens.
    pub prompt_tokens: Vec<usize>,
    /// Lengths of the outputs, in tokens.
    pub output_tokens: Vec<usize>,
    /// All recorded margins.
    pub margins: Vec<f32>,
}

impl Summary {
    /// Adds a record.
    pub fn add(&mut self, record: &Record) {
        self.records += 1;
        if let Some(category) = &record.category {
            match self
                .categories
                .iter_mut()
                .find(|(name, _)| name == category)
            {
                Some((_, count)) => *count += 1,
                None => self.categories.push((category.clone(), 1)),
            }
        }
        *self.finishes.entry(record.finish).or_default() += 1;
        self.prompt_tokens.push(record.prompt().len());
        self.output_tokens.push(record.output.len());
        self.margins.extend(record.margins.iter().flatten());
    }

    /// Gaps below [`NEAR_TIE`].
    pub fn near_ties(&self) -> usize {
        self.margins
            .iter()
            .filter(|&&margin| margin < NEAR_TIE)
            .count()
    }
}

/// The order statistics of some values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Quantiles {
    sorted: Vec<f64>,
}

impl Quantiles {
    /// The order statistics of values that are not NaN; `None` if there are no values.
    pub fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = numbers.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        (!sorted.is_empty()).then_some(Self { sorted })
    }

    /// The `q`-quantile, with `q` from 0 to 1: the smallest value that at least a share `q` of all
    /// values does not exceed. The minimum for 0.
    pub fn at(&self, q: f64) -> f64 {
        let rank = (q.clamp(0.0, 1.0) * self.sorted.len() as f64).ceil() as usize;
        self.sorted[rank.saturating_sub(1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_among_the_values() {
        assert_eq!(Quantiles::of([]), None);
        let quantiles = Quantiles::of([3.0, 1.0, 2.0, 4.0]).unwrap();
        let at = [0.0, 0.25, 0.26, 0.5, 1.0].map(|q| quantiles.at(q));
        assert_eq!(at, [1.0, 1.0, 2.0, 2.0, 4.0]);
    }
}
