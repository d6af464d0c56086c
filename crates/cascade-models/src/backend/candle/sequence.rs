//! Sequences in candle's tensors.

use std::sync::Arc;

use cascade_core::{HiddenLayer, HiddenStates, Matrix, Result, Scores, TokenId};

use super::cache::CandleCache;
use super::forward::{CandleForward, Outputs, Wanted};
use super::Candle;
use crate::backend::host::HostRows;
use crate::backend::{BackendNetwork, CacheShape, Forward};
use crate::network::{Read, Sequence};
use crate::plan::Plan;
use crate::{readout, Error};

/// Rows appended to a network on one of candle's devices.
#[derive(Debug)]
pub(crate) struct CandleSequence {
    model: Arc<BackendNetwork<Candle>>,
    cache: CandleCache,
    source: Vec<TokenId>,
    /// Keys and values of the source, once rows were appended.
    encoded: Option<CandleCache>,
}

impl CandleSequence {
    pub(super) fn new(model: Arc<BackendNetwork<Candle>>) -> Self {
        Self {
            cache: model.backend.cache(model.info.cache_shape()),
            model,
            source: Vec::new(),
            encoded: None,
        }
    }

    /// Appends the rows of `plan` and gives what is to be read of them.
    pub(super) fn append(&mut self, plan: &Plan<'_>, read: Read) -> Result<Scores> {
        let outputs = self.run(plan, read).map_err(Error::from)?;
        let size = self.model.info.size;
        let states = outputs.hidden.into_iter();
        let hidden = states.fold(HiddenStates::default(), |all, (layer, rows)| {
            all.with(layer, Matrix::new(size, rows))
        });
        let scores = match read {
            Read::Hidden(..) => Scores::default(),
            Read::Scores(want) => {
                let vocab_size = self.model.info.vocab_size;
                readout::scores(outputs.logits, vocab_size, plan.tree(), want)?
            }
        };
        self.cache.commit(plan.rows());
        Ok(scores.with_hidden(hidden))
    }

    fn run(&mut self, plan: &Plan<'_>, read: Read) -> candle_core::Result<Outputs> {
        let model = Arc::clone(&self.model);
        let mut encoded = match self.encoded.take() {
            Some(encoded) => encoded,
            None => encode(&model, &self.source)?,
        };
        self.cache.reserve(plan.rows())?;
        let (hidden, hidden_rows) = read.hidden(plan);
        let wanted = Wanted {
            logits: read.logits(plan),
            hidden,
            hidden_rows,
        };
        let whole = wanted.logits > 0 || hidden.contains(HiddenLayer::Last);
        let rows = HostRows::Decoder(plan);
        let caches = [&mut self.cache, &mut encoded];
        let outputs = forward(&model, rows, caches, wanted, &mut |forward| {
            model.layers.decode(forward, whole);
        });
        self.encoded = Some(encoded);
        outputs
    }
}

/// Runs what `write` writes down over some rows. Keys and values are left behind the committed
/// slots of the caches.
fn forward(
    model: &BackendNetwork<Candle>,
    rows: HostRows<'_>,
    caches: [&mut CandleCache; 2],
    wanted: Wanted,
    write: &mut dyn FnMut(&mut dyn Forward<Candle>),
) -> candle_core::Result<Outputs> {
    let on = (&model.backend, model.info.heads);
    let mut forward = CandleForward::new(on, rows, caches, wanted)?;
    write(&mut forward);
    forward.outputs()
}

/// Keys and values of a source in every layer; a cache of nothing without an encoder.
fn encode(model: &BackendNetwork<Candle>, source: &[TokenId]) -> candle_core::Result<CandleCache> {
    let shape = model.info.cache_shape();
    let mut encoded = model.backend.cache(shape);
    if !model.layers.has_encoder() {
        return Ok(encoded);
    }
    let mut scratch = model.backend.cache(CacheShape { layers: 1, ..shape });
    scratch.reserve(source.len())?;
    encoded.reserve(source.len())?;
    let rows = HostRows::Encoder(source);
    let caches = [&mut scratch, &mut encoded];
    forward(model, rows, caches, Wanted::default(), &mut |forward| {
        model.layers.encode(forward);
    })?;
    encoded.commit(source.len());
    Ok(encoded)
}

impl Sequence for CandleSequence {
    fn set_source(&mut self, source: &[TokenId]) {
        self.source = source.to_vec();
        self.encoded = None;
    }

    fn truncate(&mut self, len: usize) {
        self.cache.truncate(len);
    }

    fn retain(&mut self, at: usize, slots: &[u32]) -> Result<()> {
        Ok(self.cache.retain(at, slots).map_err(Error::from)?)
    }
}
