//! What is measured of each row of a target: the margin between its two greatest logits, or its
//! most probable tokens.

use std::sync::{Arc, Mutex};

use cascade_core::{
    Result, RowDetail, Sampling, Scorer, ScorerInfo, Scores, TokenId, TokenTree, Want,
};

/// What a [`Meter`] has measured since the last [`take`](Self::take). Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured(Arc<Mutex<Rows>>);

/// Measurements in the order of the rows.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) margins: Vec<f32>,
    pub(super) top: Vec<Vec<(TokenId, f32)>>,
}

impl Measured {
    /// Removes and returns all measurements.
    pub(super) fn take(&self) -> Rows {
        let rows = self.0.lock();
        rows.map(|mut rows| std::mem::take(&mut *rows))
            .unwrap_or_default()
    }

    fn push(&self, what: &Measure, logits: &[f32]) -> Result<()> {
        let Ok(mut rows) = self.0.lock() else {
            return Ok(());
        };
        match *what {
            Measure::Margins => rows.margins.push(margin(logits)),
            Measure::Top(ref sampling, most) => rows.top.push(top(logits, sampling, most)?),
            Measure::Nothing => {}
        }
        Ok(())
    }
}

/// What is measured of each row.
#[derive(Clone, Copy, Debug)]
pub(super) enum Measure {
    /// The margin between the two greatest logits.
    Margins,
    /// So many of the most probable tokens of the distribution that is drawn from.
    Top(Sampling, usize),
    /// Nothing.
    Nothing,
}

/// Decorates a scorer that decodes plainly: measures in each call the row after the context. Costs
/// a copy of the logits of one row.
pub(super) struct Meter<S> {
    scorer: S,
    what: Measure,
    measured: Measured,
}

impl<S> Meter<S> {
    pub(super) fn new(scorer: S, what: Measure) -> (Self, Measured) {
        let measured = Measured::default();
        let meter = Self {
            scorer,
            what,
            measured: measured.clone(),
        };
        (meter, measured)
    }
}

impl<S: Scorer> Scorer for Meter<S> {
    fn info(&self) -> ScorerInfo {
        self.scorer.info()
    }

    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        self.measured.take();
        self.scorer.set_source(source)
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        let logits = want.with_rows(RowDetail::Logits);
        let scores = self.scorer.score(context, tree, logits)?;
        if let Some(logits) = &scores.logits {
            self.measured.push(&self.what, logits.row(0))?;
        }
        Ok(scores)
    }
}

/// The most probable tokens, greatest first.
fn top(logits: &[f32], sampling: &Sampling, most: usize) -> Result<Vec<(TokenId, f32)>> {
    let row = sampling.distribution(logits)?;
    let tokens = row.top(most).into_iter();
    // In f32, since JSON gives back the same f32, and not always the same f64.
    let top = tokens.map(|token| (token, row.probability(token) as f32));
    Ok(top.filter(|&(_, p)| p > 0.0).collect())
}

/// Difference of the two greatest logits; a value that JSON cannot represent becomes the greatest
/// finite one.
fn margin(logits: &[f32]) -> f32 {
    let (mut best, mut second) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
    for &logit in logits {
        if logit > best {
            (best, second) = (logit, best);
        } else if logit > second {
            second = logit;
        }
    }
    (best - second).min(f32::MAX)
}

#[cfg(test)]
mod tests {
    use super::margin;

    #[test]
    fn margins_are_distances_of_the_best_two() {
        assert_eq!(margin(&[1.0, 3.5, -2.0, 3.0]), 0.5);
        assert_eq!(margin(&[3.5, 1.0]), 2.5);
        assert_eq!(margin(&[2.0, 2.0, 1.0]), 0.0);
        for hopeless in [&[1.0][..], &[], &[f32::NAN, f32::NAN]] {
            assert_eq!(margin(hopeless), f32::MAX);
        }
    }
}
