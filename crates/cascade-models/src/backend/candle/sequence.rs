//! Sequences in candle's tensors.

use std::sync::Arc;

use cascade_candle::{Cache, Device};
use cascade_core::{
    Error, HiddenLayer, HiddenLayers, HiddenStates, Matrix, Result, Scores, TokenId,
};

use super::{Answer, Candle, CandleForward, Heads};
use crate::backend::host::{HostRows, PerWindow};
use crate::backend::{BackendNetwork, CacheShape, Forward};
use crate::network::{Read, Sequence};
use crate::plan::Plan;
use crate::readout;

/// Rows of a context that a forward takes at most.
const CHUNK: usize = 512;

#[derive(Debug)]
pub(in crate::backend) struct CandleSequence {
    model: Arc<BackendNetwork<Candle>>,
    cache: Cache,
    source: Vec<TokenId>,
    /// Keys and values of the source, once rows were appended.
    encoded: Option<Cache>,
}

/// What is read of the rows of a forward, from the last one.
#[derive(Clone, Copy, Default)]
struct Wanted {
    logits: usize,
    hidden: HiddenLayers,
    hidden_rows: usize,
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
        let answer = self.run(plan, read).map_err(Error::backend)?;
        let size = self.model.info.size;
        let hidden = answer
            .hidden
            .into_iter()
            .fold(HiddenStates::default(), |all, (layer, rows)| {
                all.with(layer, Matrix::new(size, rows))
            });
        let scores = match read {
            Read::Hidden(..) => Scores::default(),
            Read::Scores(want) => {
                let vocab_size = self.model.info.vocab_size;
                readout::scores(answer.logits, vocab_size, plan.tree(), want)?
            }
        };
        self.cache.commit(plan.rows());
        Ok(scores.with_hidden(hidden))
    }

    fn run(&mut self, plan: &Plan<'_>, read: Read) -> cascade_candle::Result<Answer> {
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
        let answer = forward(&model, rows, caches, wanted, &mut |forward| {
            model.layers.decode(forward, whole);
        });
        self.encoded = Some(encoded);
        answer
    }
}

/// Runs what `write` writes down over some rows. Keys and values are left behind the committed
/// slots of the caches.
fn forward(
    model: &BackendNetwork<Candle>,
    rows: HostRows<'_>,
    [cache, source]: [&mut Cache; 2],
    wanted: Wanted,
    write: &mut dyn FnMut(&mut dyn Forward<Candle>),
) -> cascade_candle::Result<Answer> {
    let Candle { device, dtype, .. } = &model.backend;
    let device: &Device = device;
    let heads = model.info.heads;
    let heads = Heads {
        queries: heads.queries,
        kv: heads.kv,
        size: heads.size,
    };
    let (tokens, positions) = (rows.tokens(), rows.positions());
    let inputs = (&tokens[..], &positions[..]);
    let mut forward = CandleForward {
        forward: cascade_candle::Forward::new(device, (heads, *dtype), inputs, cache, source)?,
        rows,
        biases: PerWindow::new(),
        wanted: wanted.logits,
        hidden: wanted.hidden,
        hidden_rows: wanted.hidden_rows,
        layers: Vec::new(),
        read: Vec::new(),
        failed: None,
    };
    write(&mut forward);
    forward.answered()
}

/// Keys and values of a source in every layer; a cache of nothing without an encoder.
fn encode(model: &BackendNetwork<Candle>, source: &[TokenId]) -> cascade_candle::Result<Cache> {
    let BackendNetwork {
        backend,
        info,
        layers,
    } = model;
    let shape = info.cache_shape();
    let mut encoded = backend.cache(shape);
    if layers.encoder_stages() == 0 {
        return Ok(encoded);
    }
    let mut scratch = backend.cache(CacheShape { layers: 2, ..shape });
    scratch.reserve(source.len())?;
    encoded.reserve(source.len())?;
    let rows = HostRows::Encoder(source);
    let caches = [&mut scratch, &mut encoded];
    forward(model, rows, caches, Wanted::default(), &mut |forward| {
        (0..layers.encoder_stages()).for_each(|stage| layers.encode(stage, forward));
    })?;
    encoded.commit(source.len());
    Ok(encoded)
}

impl Sequence for CandleSequence {
    fn chunk(&self) -> usize {
        CHUNK
    }

    fn set_source(&mut self, source: &[TokenId]) {
        self.source = source.to_vec();
        self.encoded = None;
    }

    fn truncate(&mut self, len: usize) {
        self.cache.truncate(len);
    }

    fn retain(&mut self, at: usize, slots: &[u32]) -> Result<()> {
        self.cache.retain(at, slots).map_err(Error::backend)
    }
}
