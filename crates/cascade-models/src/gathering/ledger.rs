//! What the rows of a text cost in forwards that it shares.

use std::sync::{Arc, Weak};
use std::time::Duration;

use cascade_core::SharedForward;

use crate::Model;

/// How much of earlier forwards counts after one.
const KEEP: f64 = 0.99;
/// What a row is thought to add to a forward before forwards of several sizes were seen, in
/// forwards, and how many squared rows of difference that thought weighs.
const PRIOR: f64 = 0.02;
const PRIOR_WEIGHT: f64 = 4.0;

/// Divides the time of forwards among those who have rows in them: what a row costs, of each model
/// there is.
#[derive(Debug, Default)]
pub(super) struct Ledger(Vec<(Weak<Model>, RowPrice)>);

impl Ledger {
    /// What each text pays of a forward of a model, by the rows that each had in it.
    pub(super) fn divide(
        &mut self,
        model: &Arc<Model>,
        forward: &SharedForward,
        rows: &[usize],
    ) -> Vec<Duration> {
        self.0.retain(|(model, _)| model.strong_count() > 0);
        let mut known = self.0.iter();
        let known = known
            .position(|(known, _)| known.as_ptr() == Arc::as_ptr(model))
            .unwrap_or_else(|| {
                self.0.push((Arc::downgrade(model), RowPrice::default()));
                self.0.len() - 1
            });
        let price = &mut self.0[known].1;
        if !forward.reads_prompt {
            price.learn(forward.rows, forward.time);
        }
        price.divide(forward.time, rows)
    }
}

/// The price of a row: how much longer a forward of a model takes with one row more, about as many
/// rows as lately, by least squares over the forwards of late that read no prompts.
#[derive(Clone, Copy, Debug)]
struct RowPrice {
    forwards: f64,
    /// Means of rows and seconds.
    rows: f64,
    seconds: f64,
    /// Sums of squared differences from the mean of rows, and of products with those of seconds.
    spread: f64,
    slope: f64,
    /// The price, in forwards of as many rows as lately.
    relative: f64,
}

impl Default for RowPrice {
    fn default() -> Self {
        Self {
            forwards: 0.0,
            rows: 0.0,
            seconds: 0.0,
            spread: 0.0,
            slope: 0.0,
            relative: PRIOR,
        }
    }
}

impl RowPrice {
    /// Learns what a forward took that read no prompt: rows of a prompt say little of what one
    /// more row of a draft costs.
    fn learn(&mut self, rows: usize, time: Duration) {
        if rows == 0 {
            return;
        }
        let (rows, seconds) = (rows as f64, time.as_secs_f64());
        self.forwards = KEEP * self.forwards + 1.0;
        let (by_rows, by_seconds) = (rows - self.rows, seconds - self.seconds);
        self.rows += by_rows / self.forwards;
        self.seconds += by_seconds / self.forwards;
        self.spread = KEEP * self.spread + by_rows * (rows - self.rows);
        self.slope = KEEP * self.slope + by_rows * (seconds - self.seconds);
        // Where all forwards have as many rows, what was known before is kept.
        let known = PRIOR_WEIGHT * self.relative * self.seconds;
        let price = (self.slope + known) / (self.spread + PRIOR_WEIGHT);
        self.relative = (price / self.seconds).clamp(0.0, 1.0);
    }

    /// Divides the time of a forward among its texts, by the rows of each. Each pays its rows at
    /// the price of a row, and all pay the rest of the forward in equal parts; those without a row
    /// pay nothing. The parts add up to the whole.
    fn divide(&self, time: Duration, rows: &[usize]) -> Vec<Duration> {
        let all: usize = rows.iter().sum();
        let texts = rows.iter().filter(|&&rows| rows > 0).count();
        if texts == 0 {
            return vec![Duration::ZERO; rows.len()];
        }
        let seconds = time.as_secs_f64();
        let price = (self.relative * self.seconds).min(seconds / all as f64);
        let rest = (seconds - price * all as f64) / texts as f64;
        let part = |&rows: &usize| match rows {
            0 => Duration::ZERO,
            rows => Duration::from_secs_f64((rest + price * rows as f64).max(0.0)),
        };
        rows.iter().map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A forward of a model whose first row takes 10 ms and each further one 2 ms.
    fn time(rows: usize) -> Duration {
        Duration::from_millis(8 + 2 * rows as u64)
    }

    fn learned(rows: &[usize]) -> RowPrice {
        let mut price = RowPrice::default();
        for _ in 0..100 {
            rows.iter().for_each(|&rows| price.learn(rows, time(rows)));
        }
        price
    }

    fn milliseconds(parts: &[Duration]) -> Vec<f64> {
        let rounded = |part: &Duration| (part.as_secs_f64() * 1e4).round() / 10.0;
        parts.iter().map(rounded).collect()
    }

    #[test]
    fn each_text_pays_its_rows_and_a_part_of_the_rest() {
        let price = learned(&[1, 4, 9, 16]);
        let parts = price.divide(time(10), &[1, 0, 9]);
        assert_eq!(milliseconds(&parts), [6.0, 0.0, 22.0]);
        assert_eq!(milliseconds(&price.divide(time(7), &[7])), [22.0]);
    }

    #[test]
    fn parts_add_up_and_none_is_negative_whatever_was_learned() {
        let prices = [RowPrice::default(), learned(&[8]), learned(&[1, 64])];
        for price in prices {
            for rows in [&[1, 1, 1][..], &[1, 95], &[512, 1, 0], &[3]] {
                let whole = Duration::from_micros(700);
                let parts = price.divide(whole, rows);
                let sum: f64 = parts.iter().map(Duration::as_secs_f64).sum();
                assert!((sum - whole.as_secs_f64()).abs() < 1e-6, "{parts:?}");
            }
        }
        assert_eq!(prices[0].divide(time(1), &[0, 0]), [Duration::ZERO; 2]);
    }

    #[test]
    fn a_price_outlasts_forwards_that_all_have_as_many_rows() {
        let mut price = learned(&[4, 8, 12]);
        for _ in 0..2000 {
            price.learn(8, time(8));
        }
        let parts = milliseconds(&price.divide(time(8), &[1, 7]));
        assert!((parts[1] - parts[0] - 12.0).abs() < 2.0, "{parts:?}");
    }

    #[test]
    fn many_texts_with_long_drafts_have_a_price_too() {
        let price = learned(&[100, 160, 200]);
        let parts = milliseconds(&price.divide(time(150), &[1, 11, 138]));
        assert!((parts[1] - parts[0] - 20.0).abs() < 0.5, "{parts:?}");
    }
}
