//! Forwards over tokens beside hidden states: what heads that read a target are made of.

use cascade_core::{HiddenLayer, HiddenLayers};
use cascade_cpu::Cache;

use super::{Cpu, CpuForward, Map, Norm, run};
use crate::backend::host::{HostInput, HostRows, SourceCache};
use crate::backend::network::Wanted;
use crate::backend::{ModelInfo, Vocabulary};
use crate::plan::Plan;

impl Cpu {
    /// Runs what `write` writes down over the rows of `plan`, whose keys and values go behind those
    /// of `cache`. Gives the states that it [ends](CpuForward::end) with, of all rows.
    pub(crate) fn run_fed(
        &self,
        info: &ModelInfo,
        plan: &Plan<'_>,
        cache: &mut Cache,
        write: impl FnOnce(&mut CpuForward<'_>),
    ) -> Vec<f32> {
        cache.reserve(plan.rows());
        let no_source = self.cache(info.cache_shape());
        let input = HostInput {
            rows: HostRows::Decoder(plan),
            sequence: &mut *cache,
            source: SourceCache::Read(&no_source),
            wanted: Wanted {
                logits: 0,
                hidden: HiddenLayers::LAST,
                hidden_rows: plan.rows(),
            },
        };
        let answers = run(info, vec![input], write);
        cache.commit(plan.rows());
        let states = answers.into_iter().flat_map(|answer| answer.hidden);
        states
            .flat_map(|(_, states)| states.as_slice().to_vec())
            .collect()
    }
}

impl Vocabulary<'_, Cpu> {
    /// Logits of last hidden states.
    pub(crate) fn logits(&self, states: &[f32]) -> Vec<f32> {
        let mut logits = self.head.forward(states);
        if let Some(scale) = self.scale {
            logits.iter_mut().for_each(|logit| *logit *= scale as f32);
        }
        logits
    }
}

impl Map {
    /// What the map makes of rows.
    pub(crate) fn forward(&self, rows: &[f32]) -> Vec<f32> {
        self.linear.forward(rows)
    }
}

impl Norm {
    /// Rows, normed.
    pub(crate) fn apply(&self, rows: &[f32]) -> Vec<f32> {
        cascade_cpu::rms_norm(rows, &self.weight, self.epsilon)
    }
}

impl CpuForward<'_> {
    /// Begins with rows of the residual stream, and what the first map reads of them.
    pub(crate) fn begin(&mut self, stream: Vec<f32>, normed: Vec<f32>) {
        (self.stream, self.normed) = (stream, normed);
    }

    /// What belongs to each row, left and right, side by side.
    pub(crate) fn side_by_side(&self, left: &[f32], right: &[f32]) -> Vec<f32> {
        let rows = self.rows();
        let (of_left, of_right) = (left.len() / rows, right.len() / rows);
        let pairs = left.chunks_exact(of_left).zip(right.chunks_exact(of_right));
        pairs
            .flat_map(|(left, right)| [left, right].concat())
            .collect()
    }

    /// Adds a linear map of the inner layer to the residual stream, which the forward ends with.
    pub(crate) fn end(&mut self, down: &Map) {
        let delta = down.forward(&self.inner);
        self.add_to_stream(&delta);
        let stream = std::mem::take(&mut self.stream);
        self.keep_hidden(HiddenLayer::Last, &stream);
    }
}
