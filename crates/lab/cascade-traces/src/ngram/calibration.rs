//! Whether the probabilities that a drafter estimates come true.

use cascade_core::{Budget, Drafter, NodeId, ScoredTree};
use serde::Serialize;

use super::Forwards;
use crate::trace::Record;

/// Where bands of probabilities begin: finer where most nodes are.
const STARTS: [f64; 15] = [
    0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9,
];

/// How often drafted nodes were accepted, by the probability that the drafter gave to the path up
/// to them.
///
/// A node is accepted if the recorded output continues with the whole path up to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibration {
    /// Bands of probabilities, from 0 to 1.
    pub bands: Vec<Band>,
    /// What the drafts are worth.
    pub forwards: Forwards,
    /// Drafts without estimates, whose nodes are in no band.
    pub without_estimates: usize,
}

/// Nodes with about the same estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Band {
    /// The least estimate of the band; the next one begins where it ends.
    pub from: f64,
    /// Number of nodes.
    pub nodes: usize,
    /// Those that were accepted.
    pub accepted: usize,
    /// The sum of the estimates.
    pub estimated: f64,
}

impl Band {
    /// Share of the nodes that were accepted; `None` without nodes.
    pub fn share(&self) -> Option<f64> {
        (self.nodes > 0).then(|| self.accepted as f64 / self.nodes as f64)
    }

    /// Mean of the estimates; `None` without nodes.
    pub fn estimate(&self) -> Option<f64> {
        (self.nodes > 0).then(|| self.estimated / self.nodes as f64)
    }

    /// One standard error of [`share`](Self::share), as if nodes were independent, which siblings
    /// and children are not.
    pub fn standard_error(&self) -> Option<f64> {
        let share = self.share()?;
        Some((share * (1.0 - share) / self.nodes as f64).sqrt())
    }
}

impl Default for Calibration {
    fn default() -> Self {
        let band = |from| Band {
            from,
            ..Band::default()
        };
        Self {
            bands: STARTS.map(band).to_vec(),
            forwards: Forwards::default(),
            without_estimates: 0,
        }
    }
}

impl Calibration {
    /// Adds the drafts for one record.
    pub fn add(&mut self, drafter: &mut dyn Drafter, record: &Record, budget: Budget) {
        let mut forwards = Forwards::watched(drafter, record, budget, |draft, accepted| {
            self.add_draft(draft, accepted);
        });
        std::mem::swap(&mut forwards, &mut self.forwards);
        self.forwards += forwards;
    }

    fn add_draft(&mut self, draft: &ScoredTree, accepted: &[NodeId]) {
        let estimates: Option<Vec<f32>> = (0..draft.tree().len())
            .map(|node| draft.probability(node))
            .collect();
        let Some(estimates) = estimates else {
            self.without_estimates += 1;
            return;
        };
        let mut paths: Vec<f64> = Vec::with_capacity(draft.tree().len());
        for (node, estimate) in estimates.into_iter().enumerate() {
            let above = draft
                .tree()
                .parent(node)
                .map_or(1.0, |parent| paths[parent]);
            let path = above * f64::from(estimate);
            paths.push(path);
            let band = STARTS.partition_point(|&from| from <= path).max(1) - 1;
            let band = &mut self.bands[band];
            band.nodes += 1;
            band.accepted += usize::from(accepted.contains(&node));
            band.estimated += path;
        }
    }

    /// Tokens per forward as the drafter expects them: one more than the sum of the estimates of a
    /// draft; NaN without forwards.
    pub fn expected_tokens_per_forward(&self) -> f64 {
        let estimated: f64 = self.bands.iter().map(|band| band.estimated).sum();
        1.0 + estimated / self.forwards.forwards as f64
    }

    /// The mean distance of estimates from what came true, each band as often as it has nodes
    /// (expected calibration error); NaN without nodes.
    pub fn error(&self) -> f64 {
        let nodes: usize = self.bands.iter().map(|band| band.nodes).sum();
        let distance = |band: &Band| (band.accepted as f64 - band.estimated).abs();
        self.bands.iter().map(distance).sum::<f64>() / nodes as f64
    }
}
