//! How sure a target was of its tokens.

use std::sync::{Arc, Mutex};

use cascade_core::{Architecture, Result, RowDetail, Scorer, Scores, TokenId, TokenTree, Want};

/// The gaps that a [`GapMeter`] has measured since they were taken last. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Gaps(Arc<Mutex<Vec<f32>>>);

impl Gaps {
    /// Takes all gaps, in the order of the calls.
    pub(super) fn take(&self) -> Vec<f32> {
        self.0
            .lock()
            .map(|mut gaps| std::mem::take(&mut *gaps))
            .unwrap_or_default()
    }

    fn push(&self, gap: f32) {
        if let Ok(mut gaps) = self.0.lock() {
            gaps.push(gap);
        }
    }
}

/// Decorates a scorer that decodes plainly and greedily: measures in each call by how much the best logit after the context is
/// above the second best. Costs a copy of the logits of one row.
pub(super) struct GapMeter<S> {
    scorer: S,
    gaps: Gaps,
}

impl<S> GapMeter<S> {
    pub(super) fn new(scorer: S) -> (Self, Gaps) {
        let gaps = Gaps::default();
        let meter = Self {
            scorer,
            gaps: gaps.clone(),
        };
        (meter, gaps)
    }
}

impl<S: Scorer> Scorer for GapMeter<S> {
    fn architecture(&self) -> Architecture {
        self.scorer.architecture()
    }

    fn vocab_size(&self) -> usize {
        self.scorer.vocab_size()
    }

    fn max_context(&self) -> Option<usize> {
        self.scorer.max_context()
    }

    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        self.gaps.take();
        self.scorer.set_source(source)
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        let logits = Want {
            rows: RowDetail::Logits,
            ..want
        };
        let scores = self.scorer.score(context, tree, logits)?;
        if let Some(logits) = &scores.logits {
            self.gaps.push(gap(logits.row(0)));
        }
        Ok(scores)
    }
}

/// Distance of the two largest; what is not a number JSON can hold becomes the largest that it can.
fn gap(logits: &[f32]) -> f32 {
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
    use super::gap;

    #[test]
    fn gaps_are_distances_of_the_best_two() {
        assert_eq!(gap(&[1.0, 3.5, -2.0, 3.0]), 0.5);
        assert_eq!(gap(&[3.5, 1.0]), 2.5);
        assert_eq!(gap(&[2.0, 2.0, 1.0]), 0.0);
        for hopeless in [&[1.0][..], &[], &[f32::NAN, f32::NAN]] {
            assert_eq!(gap(hopeless), f32::MAX);
        }
    }
}
