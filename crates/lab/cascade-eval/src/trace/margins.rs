//! Margins between a target's two greatest logits.

use std::sync::{Arc, Mutex};

use cascade_core::{Result, RowDetail, Scorer, ScorerInfo, Scores, TokenId, TokenTree, Want};

/// The margins that a [`MarginMeter`] has measured since the last [`take`](Self::take). Clones
/// share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Margins(Arc<Mutex<Vec<f32>>>);

impl Margins {
    /// Removes and returns all margins, in the order of the calls.
    pub(super) fn take(&self) -> Vec<f32> {
        self.0
            .lock()
            .map(|mut margins| std::mem::take(&mut *margins))
            .unwrap_or_default()
    }

    fn push(&self, margin: f32) {
        if let Ok(mut margins) = self.0.lock() {
            margins.push(margin);
        }
    }
}

/// Decorates a scorer that decodes plainly and greedily: measures in each call the margin between
/// the two greatest logits after the context. Costs a copy of the logits of one row.
pub(super) struct MarginMeter<S> {
    scorer: S,
    margins: Margins,
}

impl<S> MarginMeter<S> {
    pub(super) fn new(scorer: S) -> (Self, Margins) {
        let margins = Margins::default();
        let meter = Self {
            scorer,
            margins: margins.clone(),
        };
        (meter, margins)
    }
}

impl<S: Scorer> Scorer for MarginMeter<S> {
    fn info(&self) -> ScorerInfo {
        self.scorer.info()
    }

    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        self.margins.take();
        self.scorer.set_source(source)
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        let logits = want.with_rows(RowDetail::Logits);
        let scores = self.scorer.score(context, tree, logits)?;
        if let Some(logits) = &scores.logits {
            self.margins.push(margin(logits.row(0)));
        }
        Ok(scores)
    }
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
