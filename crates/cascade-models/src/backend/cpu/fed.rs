//! Forwards over tokens beside hidden states: what heads that read a target are made of.

use cascade_core::{HiddenLayer, HiddenLayers, TokenId};
use cascade_cpu::Cache;

use super::{run, Cpu, CpuForward, Map, Norm, Table};
use crate::backend::host::{HostInput, HostRows, SourceCache};
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
            wanted: 0,
            hidden: HiddenLayers::LAST,
            hidden_rows: plan.rows(),
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
    /// Embeddings of the tokens, each followed by as much of `states` as belongs to its row,
    /// through a linear map to the residual stream. What follows reads it without a norm.
    pub(crate) fn join(&mut self, table: &Table, states: &[f32], fuse: &Map) {
        let tokens = self.tokens();
        let (size, width) = (table.size(), states.len() / tokens.len());
        let mut joined = vec![0.0; tokens.len() * (size + width)];
        let rows = joined.chunks_exact_mut(size + width);
        for ((row, token), state) in rows.zip(tokens).zip(states.chunks_exact(width)) {
            table.read_row(token as usize, &mut row[..size]);
            row[size..].copy_from_slice(state);
        }
        self.stream = fuse.forward(&joined);
        self.normed.clone_from(&self.stream);
    }

    /// States of the rows to the residual stream, as they are or normed; what follows reads the
    /// embeddings of the tokens and the states side by side, both normed.
    pub(crate) fn stand_beside(
        &mut self,
        table: &Table,
        states: &[f32],
        [of_embeddings, of_states]: [&Norm; 2],
        normed_stream: bool,
    ) {
        let size = table.size();
        let embeddings = of_embeddings.apply(&self.embeddings(table));
        let normed = of_states.apply(states);
        let rows = embeddings.chunks_exact(size).zip(normed.chunks_exact(size));
        self.normed = rows
            .flat_map(|(left, right)| [left, right].concat())
            .collect();
        self.stream = if normed_stream {
            normed
        } else {
            states.to_vec()
        };
    }

    /// States of the rows, each followed by the embedding of its token, both normed, through a
    /// linear map to the residual stream. What follows reads it behind `next`.
    pub(crate) fn join_normed(
        &mut self,
        table: &Table,
        states: &[f32],
        [of_states, of_embeddings]: [&Norm; 2],
        fuse: &Map,
        next: &Norm,
    ) {
        let size = table.size();
        let embeddings = of_embeddings.apply(&self.embeddings(table));
        let states = of_states.apply(states);
        let rows = states.chunks_exact(size).zip(embeddings.chunks_exact(size));
        let joined: Vec<f32> = rows
            .flat_map(|(left, right)| [left, right].concat())
            .collect();
        self.stream = fuse.forward(&joined);
        self.normed = next.apply(&self.stream);
    }

    /// Embeddings of the tokens.
    fn embeddings(&self, table: &Table) -> Vec<f32> {
        let (tokens, size) = (self.tokens(), table.size());
        let mut embeddings = vec![0.0; tokens.len() * size];
        for (row, token) in embeddings.chunks_exact_mut(size).zip(tokens) {
            table.read_row(token as usize, row);
        }
        embeddings
    }

    /// Adds a linear map of the inner layer to the residual stream, which the forward ends with.
    pub(crate) fn end(&mut self, down: &Map) {
        let delta = down.forward(&self.inner);
        let sums = self.stream.iter_mut().zip(delta);
        sums.for_each(|(sum, delta)| *sum += delta);
        let stream = std::mem::take(&mut self.stream);
        self.keep_hidden(HiddenLayer::Last, &stream);
    }

    fn tokens(&self) -> Vec<TokenId> {
        let texts = self.texts.iter();
        texts.flat_map(|text| text.input.rows.tokens()).collect()
    }
}
