//! Sequences on the CPU, and which row sees which key at what distance.

use std::num::NonZeroUsize;
use std::sync::Arc;

use cascade_core::{
    HiddenLayer, HiddenLayers, HiddenStates, Matrix, Result as CoreResult, Scores, TokenId, Want,
};
use cascade_cpu::{Cache, CacheShape};

use super::cpu::Cpu;
use super::{AttentionSpan, BackendNetwork, BiasTable, ModelInfo};
use crate::network::Sequence;
use crate::plan::Plan;
use crate::{readout, Error, Result};

/// What a forward runs over.
pub(super) struct HostInput<'a> {
    pub(super) rows: HostRows<'a>,
    pub(super) sequence: &'a mut Cache,
    pub(super) source: &'a mut Cache,
    /// How many rows, from the last one, logits are wanted of.
    pub(super) wanted: usize,
    /// Hidden states that are wanted.
    pub(super) hidden: HiddenLayers,
    /// Of how many rows, from the last one.
    pub(super) hidden_rows: usize,
}

/// Outputs of the requested rows, row-major.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) hidden: Vec<(HiddenLayer, Matrix)>,
    pub(super) logits: Vec<f32>,
}

/// The rows of a forward.
#[derive(Clone, Copy, Debug)]
pub(super) enum HostRows<'a> {
    /// A context and a tree.
    Decoder(&'a Plan<'a>),
    /// A source, all of whose tokens see each other.
    Encoder(&'a [TokenId]),
}

impl HostRows<'_> {
    pub(super) fn tokens(&self) -> Vec<TokenId> {
        match self {
            Self::Decoder(plan) => plan.tokens(),
            Self::Encoder(source) => source.to_vec(),
        }
    }

    pub(super) fn count(&self) -> usize {
        match self {
            Self::Decoder(plan) => plan.rows(),
            Self::Encoder(source) => source.len(),
        }
    }

    /// Position of each row.
    pub(super) fn positions(&self) -> Vec<u32> {
        match self {
            Self::Decoder(plan) => plan.positions(),
            Self::Encoder(source) => (0..source.len() as u32).collect(),
        }
    }

    /// Slots of the sequence that rows may attend to, their own included.
    pub(super) fn keys(&self) -> usize {
        match self {
            Self::Decoder(plan) => plan.keys(),
            Self::Encoder(source) => source.len(),
        }
    }

    /// `[rows, keys]`: 0 where a row sees a key, −∞ where it does not; nothing if all see all.
    fn mask(&self, window: Option<NonZeroUsize>) -> Option<Vec<f32>> {
        let Self::Decoder(plan) = self else {
            return None;
        };
        let within = |distance| window.is_none_or(|window| distance < window.get());
        if plan.sees_everything() && within(plan.keys() - 1) {
            return None;
        }
        Some(
            plan.table(f32::NEG_INFINITY, |distance| match within(distance) {
                true => 0.0,
                false => f32::NEG_INFINITY,
            }),
        )
    }

    /// Entries of a relative bias, `[rows, keys]`.
    fn entries(&self, bias: &RelativeBias) -> Vec<usize> {
        match self {
            Self::Decoder(plan) => {
                plan.table(bias.hidden(), |distance| bias.entry(distance as isize))
            }
            Self::Encoder(source) => {
                let rows = 0..source.len() as isize;
                rows.clone()
                    .flat_map(|row| rows.clone().map(move |key| bias.entry(row - key)))
                    .collect()
            }
        }
    }

    /// What is added to the scores of self-attention.
    pub(super) fn score_bias(&self, span: &AttentionSpan<'_, Cpu>) -> HostBias {
        match span {
            AttentionSpan::Biased(bias) => HostBias::PerHead(bias.look_up(&self.entries(bias))),
            AttentionSpan::Whole | AttentionSpan::Window(_) => {
                let mask = self.mask(span.window());
                mask.map_or(HostBias::None, HostBias::Shared)
            }
        }
    }
}

fn collected(states: Vec<(HiddenLayer, Matrix)>) -> HiddenStates {
    let all = HiddenStates::default();
    let states = states.into_iter();
    states.fold(all, |all, (layer, states)| all.with(layer, states))
}

/// Refuses a source whose attention would take more memory than there is.
fn check_source(info: &ModelInfo, tokens: usize) -> Result<()> {
    let bytes = info.attention_bytes(tokens);
    match crate::memory::available() {
        Some(free) if bytes > free.bytes => Err(Error::SourceTooLong {
            tokens,
            bytes,
            free,
        }),
        _ => Ok(()),
    }
}

/// What is made once for each window that layers of a forward have.
#[derive(Debug)]
pub(super) struct PerWindow<T>(Vec<(Option<NonZeroUsize>, T)>);

impl<T> PerWindow<T> {
    pub(super) fn new() -> Self {
        Self(Vec::new())
    }

    /// What there is for `window`, or what `make` makes.
    pub(super) fn of(&mut self, window: Option<NonZeroUsize>, make: impl FnOnce() -> T) -> &T {
        let found = self.0.iter().position(|(other, _)| *other == window);
        let place = found.unwrap_or_else(|| {
            self.0.push((window, make()));
            self.0.len() - 1
        });
        &self.0[place].1
    }
}

/// What is added to scores: see [`cascade_cpu::ScoreBias`].
#[derive(Clone, Debug)]
pub(super) enum HostBias {
    None,
    Shared(Vec<f32>),
    PerHead(Vec<f32>),
}

/// A bias by distance, for each head, and −∞ for keys that are hidden.
#[derive(Debug)]
pub(super) struct RelativeBias {
    /// `[heads][2 * reach + 2]`, the last entry −∞.
    entries: Vec<f32>,
    reach: isize,
}

impl RelativeBias {
    pub(super) fn new(table: BiasTable<'_>) -> Self {
        let heads = table.values.chunks_exact(2 * table.reach + 1);
        let with_hidden = |head: &[f32]| [head, &[f32::NEG_INFINITY]].concat();
        Self {
            entries: heads.flat_map(with_hidden).collect(),
            reach: table.reach as isize,
        }
    }

    /// Of a key so many positions before its query.
    fn entry(&self, distance: isize) -> usize {
        (self.reach + distance.clamp(-self.reach, self.reach)) as usize
    }

    fn hidden(&self) -> usize {
        2 * self.reach as usize + 1
    }

    /// `[rows, keys]` entries to `[heads, rows, keys]` values.
    fn look_up(&self, entries: &[usize]) -> Vec<f32> {
        let heads = self.entries.chunks_exact(self.hidden() + 1);
        heads
            .flat_map(|head| entries.iter().map(|&entry| head[entry]))
            .collect()
    }
}

/// Rows appended to a network on the CPU.
#[derive(Debug)]
pub(super) struct HostSequence {
    model: Arc<BackendNetwork<Cpu>>,
    cache: Cache,
    source: Vec<TokenId>,
    /// Keys and values of the source, once rows were appended.
    encoded: Option<Cache>,
}

impl HostSequence {
    pub(super) fn new(model: Arc<BackendNetwork<Cpu>>) -> Self {
        Self {
            cache: model.backend.cache(model.info.cache_shape()),
            model,
            source: Vec::new(),
            encoded: None,
        }
    }

    /// Keys and values of the source in every layer. Memory is quadratic in its length.
    fn encode(&self) -> Result<Cache> {
        let BackendNetwork {
            backend,
            info,
            layers,
        } = &*self.model;
        let shape = info.cache_shape();
        let mut encoded = backend.cache(shape);
        let stages = layers.encoder_stages();
        if stages > 0 {
            check_source(info, self.source.len())?;
            let mut scratch = backend.cache(CacheShape { layers: 2, ..shape });
            scratch.reserve(self.source.len());
            encoded.reserve(self.source.len());
            let input = HostInput {
                rows: HostRows::Encoder(&self.source),
                sequence: &mut scratch,
                source: &mut encoded,
                wanted: 0,
                hidden: HiddenLayers::NONE,
                hidden_rows: 0,
            };
            backend.run(info, input, &mut |forward| {
                (0..stages).for_each(|stage| layers.encode(stage, forward));
            });
            encoded.commit(self.source.len());
        }
        Ok(encoded)
    }

    /// Runs all rows of `plan`, of which the logits of the last `wanted` are read, and hidden
    /// states of so many.
    fn run(
        &mut self,
        plan: &Plan<'_>,
        wanted: usize,
        (hidden, hidden_rows): (HiddenLayers, usize),
    ) -> Result<Answer> {
        debug_assert_eq!(self.cache.len(), plan.first_position());
        let encoded = match self.encoded.take() {
            Some(encoded) => encoded,
            None => self.encode()?,
        };
        let source = self.encoded.insert(encoded);
        self.cache.reserve(plan.rows());
        let input = HostInput {
            rows: HostRows::Decoder(plan),
            sequence: &mut self.cache,
            source,
            wanted,
            hidden,
            hidden_rows,
        };
        let BackendNetwork {
            backend,
            info,
            layers,
        } = &*self.model;
        let whole = wanted > 0 || hidden.contains(HiddenLayer::Last);
        let answer = backend.run(info, input, &mut |forward| {
            layers.decode(forward, whole);
        });
        self.cache.commit(plan.rows());
        Ok(answer)
    }
}

impl Sequence for HostSequence {
    fn chunk(&self) -> usize {
        512
    }

    fn set_source(&mut self, source: &[TokenId]) {
        self.source = source.to_vec();
        self.encoded = None;
    }

    fn truncate(&mut self, len: usize) {
        self.cache.truncate(len);
    }

    fn retain(&mut self, at: usize, slots: &[u32]) -> CoreResult<()> {
        self.cache.retain(at, slots);
        Ok(())
    }

    fn append(
        &mut self,
        plan: &Plan<'_>,
        hidden: HiddenLayers,
        rows: usize,
    ) -> CoreResult<HiddenStates> {
        let hidden = match rows {
            0 => HiddenLayers::NONE,
            _ => hidden,
        };
        let answer = self.run(plan, 0, (hidden, rows))?;
        Ok(collected(answer.hidden))
    }

    fn score(&mut self, plan: &Plan<'_>, want: Want) -> CoreResult<Scores> {
        let before = self.cache.len();
        let nodes = plan.tree().len();
        let rows = want.hidden_rows(plan.context(), nodes).min(plan.rows());
        let answer = self.run(plan, nodes + 1, (want.hidden, rows))?;
        let scores = readout::scores(answer.logits, self.model.info.vocab_size, plan.tree(), want);
        let hidden = collected(answer.hidden);
        let scores = scores.map(|scores| scores.with_hidden(hidden));
        if scores.is_err() {
            self.cache.truncate(before);
        }
        scores
    }
}
