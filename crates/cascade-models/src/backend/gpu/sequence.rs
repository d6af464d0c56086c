//! Sequences on a GPU.

use std::sync::Arc;

use cascade_core::{Error, GatheredProbs, Matrix, Result, RowDetail, Scores, TokenId, Top, Want};
use cascade_cpu::{entropy, first_maximum};
use cascade_gpu::{Cache, Result as GpuResult, Runner, MAX_ROWS};

use super::rows::{Piece, PlannedRows};
use super::Gpu;
use crate::backend::{BackendNetwork, CacheShape};
use crate::network::{Read, Sequence};
use crate::plan::Plan;

#[derive(Debug)]
pub(in crate::backend) struct GpuSequence {
    model: Arc<BackendNetwork<Gpu>>,
    /// Made when the first rows are appended.
    cache: Option<Cache>,
    source: Vec<TokenId>,
    /// Keys and values of the source, if it has an encoder, once rows were appended.
    encoded: Option<Option<Cache>>,
}

impl GpuSequence {
    pub(super) fn new(model: Arc<BackendNetwork<Gpu>>) -> Self {
        Self {
            model,
            cache: None,
            source: Vec::new(),
            encoded: None,
        }
    }

    /// Room for `rows` more, and the encoded source.
    fn prepare(
        &mut self,
        runner: &mut Runner,
        rows: usize,
    ) -> GpuResult<(&mut Cache, Option<&Cache>)> {
        let cache = match self.cache.take() {
            Some(cache) => cache,
            None => self.model.backend.cache(self.model.info.cache_shape())?,
        };
        let cache = self.cache.insert(cache);
        cache.reserve(rows)?;
        let encoded = match self.encoded.take() {
            Some(encoded) => encoded,
            None => encode(&self.model, runner, &self.source)?,
        };
        Ok((cache, self.encoded.insert(encoded).as_ref()))
    }

    /// Appends the rows of `plan` and gives what is to be read of them; of rows without scores,
    /// nothing.
    pub(super) fn append(&mut self, plan: &Plan<'_>, read: Read) -> Result<Scores> {
        let Read::Scores(want) = read else {
            self.run(plan, None, |_, _| Ok(()))?;
            return Ok(Scores::default());
        };
        let vocab_size = self.model.info.vocab_size;
        let mut read = Collected::new(want, vocab_size, plan.tree().len());
        self.run(plan, Some(want), |runner, piece| read.piece(runner, piece))?;
        Ok(read.scores())
    }

    /// Runs the rows of `plan` piece by piece, calling `read` after each whose rows are wanted.
    fn run(
        &mut self,
        plan: &Plan<'_>,
        want: Option<Want>,
        mut read: impl FnMut(&Runner, &Piece) -> Result<()>,
    ) -> Result<()> {
        let model = Arc::clone(&self.model);
        let mut runner = model.backend.runner();
        let rows = PlannedRows::new(
            plan,
            want.is_some_and(|want| want.rows == RowDetail::Gathered),
        )?;
        let prepared = self.prepare(&mut runner, plan.rows());
        let (cache, source) = prepared.map_err(Error::backend)?;
        let mut start = 0;
        while start < plan.rows() {
            let piece = rows.piece(start, want.is_some());
            let logits = piece.wanted() > 0;
            runner
                .forward(&piece.rows(), cache, source, |forward| {
                    model.layers.decode(forward, logits);
                })
                .map_err(Error::backend)?;
            if logits {
                read(&runner, &piece)?;
            }
            start += piece.len();
        }
        cache.commit(plan.rows());
        Ok(())
    }
}

/// Keys and values of a source for cross-attention; none for an architecture without it.
fn encode(
    model: &BackendNetwork<Gpu>,
    runner: &mut Runner,
    source: &[TokenId],
) -> GpuResult<Option<Cache>> {
    let BackendNetwork {
        backend,
        info,
        layers,
    } = model;
    let stages = layers.encoder_stages();
    if stages == 0 {
        return Ok(None);
    }
    let shape = info.cache_shape();
    let mut scratch = backend.cache(CacheShape { layers: 2, ..shape })?;
    let mut encoded = backend.cache(shape)?;
    scratch.reserve(source.len())?;
    encoded.reserve(source.len())?;
    let encoding = runner.encode(source, &scratch, &encoded)?;
    for stage in 0..stages {
        for chunk in 0..encoding.chunks() {
            runner.run_chunk(&encoding, chunk, |forward| layers.encode(stage, forward))?;
        }
    }
    encoded.commit(source.len());
    // What the encoder used is freed only when it is done.
    backend.device.synchronize()?;
    Ok(Some(encoded))
}

impl Sequence for GpuSequence {
    fn chunk(&self) -> usize {
        MAX_ROWS
    }

    fn set_source(&mut self, source: &[TokenId]) {
        self.source = source.to_vec();
        self.encoded = None;
    }

    fn truncate(&mut self, len: usize) {
        if let Some(cache) = &mut self.cache {
            cache.truncate(len);
        }
    }

    fn retain(&mut self, at: usize, slots: &[u32]) -> Result<()> {
        match &mut self.cache {
            Some(cache) => cache.retain(at, slots).map_err(Error::backend),
            None => Ok(()),
        }
    }
}

/// Rows behind others: of the first piece, which mostly is the only one, without a copy.
fn append(rows: &mut Vec<f32>, mut more: Vec<f32>) {
    if rows.is_empty() {
        *rows = more;
    } else {
        rows.append(&mut more);
    }
}

/// Scores as they come, piece by piece.
struct Collected {
    want: Want,
    vocab_size: usize,
    width: usize,
    argmax: Vec<TokenId>,
    gathered: GatheredProbs,
    top: Vec<(TokenId, f32)>,
    logits: Vec<f32>,
    entropy: Vec<f32>,
    hidden: Vec<f32>,
    rows: usize,
}

impl Collected {
    fn new(want: Want, vocab_size: usize, nodes: usize) -> Self {
        Self {
            want,
            vocab_size,
            width: want.top.min(vocab_size),
            argmax: Vec::new(),
            gathered: GatheredProbs {
                argmax: Vec::new(),
                nodes: vec![0.0; nodes],
            },
            top: Vec::new(),
            logits: Vec::new(),
            entropy: Vec::new(),
            hidden: Vec::new(),
            rows: 0,
        }
    }

    fn piece(&mut self, runner: &Runner, piece: &Piece) -> Result<()> {
        let wanted = piece.wanted();
        let readout = runner
            .readout(wanted, piece.nodes.len())
            .map_err(Error::backend)?;
        if readout.improper.is_some() {
            return Err(self.explain(runner, wanted));
        }
        self.rows += wanted;
        for (&node, &probability) in piece.nodes.iter().zip(&readout.picks) {
            self.gathered.nodes[node] = probability;
        }
        self.copy(runner, piece, &readout.greatest)
            .map_err(Error::backend)?;
        self.argmax.extend(readout.argmax);
        self.gathered.argmax.extend(readout.greatest);
        Ok(())
    }

    /// Copies what is larger than a few values a row.
    fn copy(&mut self, runner: &Runner, piece: &Piece, greatest: &[f32]) -> GpuResult<()> {
        let wanted = piece.wanted();
        let all_logits = self.want.rows == RowDetail::Logits;
        if all_logits || self.want.entropy {
            let logits = runner.logits(wanted)?;
            if self.want.entropy {
                self.entropy
                    .extend(logits.chunks_exact(self.vocab_size).map(entropy));
            }
            if all_logits {
                append(&mut self.logits, logits);
            }
        }
        if !self.want.hidden.is_empty() {
            let hidden = runner.hidden(piece.len() - wanted, wanted)?;
            append(&mut self.hidden, hidden);
        }
        if self.width > 0 {
            let top = runner.top(wanted, self.width)?;
            for (row, &probability) in top.chunks(self.width).zip(greatest) {
                let most = row[0].1;
                let of = |&(token, logit): &(u32, f32)| (token, (logit - most).exp() * probability);
                self.top.extend(row.iter().map(of));
            }
        }
        Ok(())
    }

    /// Finds on the host which logit is improper.
    fn explain(&self, runner: &Runner, wanted: usize) -> Error {
        match runner.logits(wanted) {
            Err(error) => Error::backend(error),
            Ok(logits) => {
                let mut rows = logits.chunks_exact(self.vocab_size);
                let found = rows.find_map(|row| first_maximum(row).err());
                found.unwrap_or(Error::ImproperLogits {
                    token: 0,
                    logit: f32::NAN,
                })
            }
        }
    }

    fn scores(self) -> Scores {
        let Want {
            rows,
            hidden,
            entropy,
            ..
        } = self.want;
        let size = self.hidden.len() / self.rows.max(1);
        Scores::default()
            .with_gathered((rows == RowDetail::Gathered).then_some(self.gathered))
            .with_logits(
                (rows == RowDetail::Logits).then(|| Matrix::new(self.vocab_size, self.logits)),
            )
            .with_entropy(entropy.then_some(self.entropy))
            .with_hidden((!hidden.is_empty()).then(|| Matrix::new(size, self.hidden)))
            .with_top((self.width > 0).then_some(Top {
                width: self.width,
                tokens: self.top,
            }))
            .with_argmax(self.argmax)
    }
}
