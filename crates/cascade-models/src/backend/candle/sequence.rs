//! Sequences in candle's tensors.

use cascade_core::{HiddenStates, Matrix, Result, Scores, TokenId};

use super::Candle;
use super::cache::CandleCache;
use super::forward::{CandleForward, Outputs};
use crate::backend::host::HostRows;
use crate::backend::network::{NewRows, Read, Sequence, Wanted};
use crate::backend::{BackendNetwork, CacheShape};
use crate::plan::Plan;
use crate::{Error, readout};

/// Rows appended to a network on one of candle's devices.
#[derive(Debug)]
pub(crate) struct CandleSequence {
    cache: CandleCache,
    /// Keys and values of the source, once rows were appended.
    encoded: Option<CandleCache>,
}

impl CandleSequence {
    pub(crate) fn new(model: &BackendNetwork<Candle>) -> Self {
        Self {
            cache: model.backend.cache(model.info.cache_shape()),
            encoded: None,
        }
    }

    /// Forgets all slots from `len` on. Free.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.cache.truncate(len);
    }

    /// Moves slots as [`CandleCache::retain`] does.
    pub(crate) fn retain(&mut self, at: usize, slots: &[u32]) -> Result<()> {
        Ok(self.cache.retain(at, slots).map_err(Error::from)?)
    }
}

/// Appends rows to the sequences of several texts, one after the other.
pub(crate) fn forward(
    model: &BackendNetwork<Candle>,
    texts: Vec<NewRows<'_>>,
) -> Vec<Result<Scores>> {
    let answers = texts.into_iter().filter_map(|text| match text.sequence {
        // Networks make sequences of their own, which stay in sessions of that network.
        Sequence::Cpu(_) => None,
        Sequence::Candle(own) => Some(append(model, (own, text.source), &text.plan, text.read)),
    });
    answers.collect()
}

/// Appends the rows of `plan` to a sequence and gives what is to be read of them.
fn append(
    model: &BackendNetwork<Candle>,
    (sequence, source): (&mut CandleSequence, &[TokenId]),
    plan: &Plan<'_>,
    read: Read,
) -> Result<Scores> {
    let outputs = run(model, (sequence, source), plan, read).map_err(Error::from)?;
    let size = model.info.size;
    let states = outputs.hidden.into_iter();
    let hidden = states.fold(HiddenStates::default(), |all, (layer, rows)| {
        all.with(layer, Matrix::new(size, rows))
    });
    let scores = match read {
        Read::Hidden(..) => Scores::default(),
        Read::Scores(want) => {
            let vocab_size = model.info.vocab_size;
            readout::scores(outputs.logits, vocab_size, plan.tree(), want)?
        }
    };
    sequence.cache.commit(plan.rows());
    Ok(scores.with_hidden(hidden))
}

fn run(
    model: &BackendNetwork<Candle>,
    (CandleSequence { cache, encoded }, source): (&mut CandleSequence, &[TokenId]),
    plan: &Plan<'_>,
    read: Read,
) -> candle_core::Result<Outputs> {
    let encoded = match encoded {
        Some(encoded) => encoded,
        None => encoded.insert(encode(model, source)?),
    };
    cache.reserve(plan.rows())?;
    let wanted = read.wanted(plan);
    let rows = HostRows::Decoder(plan);
    let on = (&model.backend, model.info.heads);
    let mut forward = CandleForward::new(on, rows, [cache, encoded], wanted)?;
    model.layers.decode(&mut forward, wanted.is_whole());
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
    let on = (&model.backend, model.info.heads);
    let mut forward = CandleForward::new(on, rows, caches, Wanted::default())?;
    model.layers.encode(&mut forward);
    forward.outputs()?;
    encoded.commit(source.len());
    Ok(encoded)
}
