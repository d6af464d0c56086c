//! Sequences on the CPU, and which row sees which key at what distance.

use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::sync::Arc;

use cascade_core::{HiddenLayer, HiddenStates, Matrix, Result as CoreResult, Scores, TokenId};
use cascade_cpu::{Cache, CacheShape, ScoreBias};

use super::cpu::{Cpu, CpuForward, run};
use super::network::{HostSequence, NewRows, Read, Wanted};
use super::{AttentionSpan, BackendNetwork, ModelInfo};
use crate::plan::Plan;
use crate::{Error, Result, readout};

/// What a forward runs over: rows of one text, and what they see.
pub(super) struct HostInput<'a> {
    pub(super) rows: HostRows<'a>,
    pub(super) sequence: &'a mut Cache,
    pub(super) source: SourceCache<'a>,
    pub(super) wanted: Wanted,
}

/// Keys and values of a source.
pub(super) enum SourceCache<'a> {
    /// While it is encoded.
    Written(&'a mut Cache),
    /// Afterwards.
    Read(&'a Cache),
}

impl SourceCache<'_> {
    pub(super) fn cache(&self) -> &Cache {
        match self {
            Self::Written(cache) => cache,
            Self::Read(cache) => cache,
        }
    }
}

/// What a forward gives for one text: the outputs of the rows that were requested, row-major.
#[derive(Debug, Default)]
pub(super) struct HostOutput {
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

    /// Slots of the sequence before the rows.
    #[cfg(feature = "candle")]
    pub(super) fn past(&self) -> usize {
        match self {
            Self::Decoder(plan) => plan.first_position(),
            Self::Encoder(_) => 0,
        }
    }

    /// `[rows, keys]`: 0 where a row sees a key, −∞ where it does not; nothing if all see all.
    pub(super) fn mask(&self, window: Option<NonZeroUsize>) -> Option<Vec<f32>> {
        let Self::Decoder(plan) = self else {
            return None;
        };
        let within = |distance| window.is_none_or(|window| distance < window.get());
        if plan.sees_everything() && within(plan.keys() - 1) {
            return None;
        }
        Some(plan.table(f32::NEG_INFINITY, |distance| {
            if within(distance) {
                0.0
            } else {
                f32::NEG_INFINITY
            }
        }))
    }

    /// Entries of a relative bias, `[rows, keys]`.
    pub(super) fn entries(&self, bias: &RelativeBias) -> Vec<usize> {
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
        match span.bias {
            Some(bias) => HostBias::PerHead(bias.look_up(&self.entries(bias))),
            None => {
                let mask = self.mask(span.window);
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

impl<T> Default for PerWindow<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> PerWindow<T> {
    /// What there is for `window`, or what `make` makes.
    pub(super) fn of(&mut self, window: Option<NonZeroUsize>, make: impl FnOnce() -> T) -> &T {
        let Ok(made) = self.try_of(window, || Ok::<_, Infallible>(make()));
        made
    }

    /// What there is for `window`, or what `make` makes unless it fails.
    pub(super) fn try_of<E>(
        &mut self,
        window: Option<NonZeroUsize>,
        make: impl FnOnce() -> std::result::Result<T, E>,
    ) -> std::result::Result<&T, E> {
        let known = self.0.iter().position(|(other, _)| *other == window);
        let index = match known {
            Some(index) => index,
            None => {
                self.0.push((window, make()?));
                self.0.len() - 1
            }
        };
        Ok(&self.0[index].1)
    }
}

/// What is added to scores: see [`cascade_cpu::ScoreBias`].
#[derive(Clone, Debug)]
pub(super) enum HostBias {
    None,
    Shared(Vec<f32>),
    PerHead(Vec<f32>),
}

impl HostBias {
    pub(super) fn view(&self) -> ScoreBias<'_> {
        match self {
            Self::None => ScoreBias::None,
            Self::Shared(bias) => ScoreBias::Shared(bias),
            Self::PerHead(bias) => ScoreBias::PerHead(bias),
        }
    }
}

/// A bias by distance, for each head, and −∞ for keys that are hidden.
#[derive(Debug)]
pub(crate) struct RelativeBias {
    /// `[heads][2 * reach + 2]`, the last entry −∞.
    entries: Vec<f32>,
    reach: isize,
}

impl RelativeBias {
    /// A bias of `[heads][2 * reach + 1]` values: entry reach + d is that of a key d positions
    /// before its query; farther ones have the last on their side.
    pub(crate) fn new(values: &[f32], reach: usize) -> Self {
        let heads = values.chunks_exact(2 * reach + 1);
        let with_hidden = |head: &[f32]| [head, &[f32::NEG_INFINITY]].concat();
        Self {
            entries: heads.flat_map(with_hidden).collect(),
            reach: reach as isize,
        }
    }

    /// All entries, `[heads][2 * reach + 2]`.
    #[cfg(feature = "candle")]
    pub(super) fn values(&self) -> &[f32] {
        &self.entries
    }

    #[cfg(feature = "candle")]
    pub(super) fn heads(&self) -> usize {
        self.entries.len() / (self.hidden() + 1)
    }

    /// The entry of a key so many positions before its query.
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

/// Appends rows to the sequences of several texts in one forward. What fails fails for its text.
pub(crate) fn forward(
    model: &BackendNetwork<Cpu>,
    texts: Vec<NewRows<'_>>,
) -> Vec<CoreResult<Scores>> {
    // Networks make sequences of their own, which stay in sessions of that network.
    let on_cpu = texts.into_iter().filter_map(|text| {
        Some(NewRows {
            sequence: text.sequence.on_cpu()?,
            source: text.source,
            plan: text.plan,
            read: text.read,
        })
    });
    let mut texts: Vec<NewRows<'_, HostSequence>> = on_cpu.collect();
    let encoded = encode(model, &mut texts);
    let ready = texts
        .iter_mut()
        .zip(&encoded)
        .filter_map(|(text, encoded)| encoded.as_ref().ok().map(|()| text));
    let mut answers = decode(model, ready.collect()).into_iter();
    let texts = texts.into_iter().zip(encoded);
    let vocab_size = model.info.vocab_size;
    texts
        .map(|(text, encoded)| {
            encoded?;
            read(text, answers.next().unwrap_or_default(), vocab_size)
        })
        .collect()
}

/// Source tokens that are encoded at a time, if they are of several texts.
const ENCODED_TOGETHER: usize = 512;

/// A source, and where its keys and values go.
type Unencoded<'a> = (&'a [TokenId], &'a mut Option<Arc<Cache>>);

/// Encodes the sources that have not been.
fn encode(model: &BackendNetwork<Cpu>, texts: &mut [NewRows<'_, HostSequence>]) -> Vec<Result<()>> {
    let info = &model.info;
    let mut together: Vec<Unencoded<'_>> = Vec::new();
    let mut tokens = 0;
    let begun = texts
        .iter_mut()
        .map(|text| {
            let (source, encoded) = (text.source, &mut text.sequence.encoded);
            if encoded.is_some() {
                return Ok(());
            }
            if !model.layers.has_encoder() {
                *encoded = Some(Arc::new(model.backend.cache(info.cache_shape())));
                return Ok(());
            }
            check_source(info, source.len())?;
            if tokens + source.len() > ENCODED_TOGETHER {
                encode_together(model, std::mem::take(&mut together));
                tokens = 0;
            }
            tokens += source.len();
            together.push((source, encoded));
            Ok(())
        })
        .collect();
    encode_together(model, together);
    begun
}

/// Computes keys and values of sources in every layer. Memory is quadratic in the length of each.
fn encode_together(model: &BackendNetwork<Cpu>, sources: Vec<Unencoded<'_>>) {
    if sources.is_empty() {
        return;
    }
    let shape = model.info.cache_shape();
    let mut caches: Vec<[Cache; 2]> = sources
        .iter()
        .map(|(source, _)| {
            let shapes = [CacheShape { layers: 1, ..shape }, shape];
            shapes.map(|shape| {
                let mut cache = model.backend.cache(shape);
                cache.reserve(source.len());
                cache
            })
        })
        .collect();
    let texts = sources
        .iter()
        .zip(&mut caches)
        .map(|((source, _), [scratch, encoded])| HostInput {
            rows: HostRows::Encoder(source),
            sequence: scratch,
            source: SourceCache::Written(encoded),
            wanted: Wanted::default(),
        });
    let texts = texts.collect();
    let write = |forward: &mut CpuForward<'_>| model.layers.encode(forward);
    model.backend.scope(|| run(&model.info, texts, write));
    for ((source, place), [_, mut encoded]) in sources.into_iter().zip(caches) {
        encoded.commit(source.len());
        *place = Some(Arc::new(encoded));
    }
}

/// The input of a forward over the new rows of a text.
fn input_of<'a>(
    BackendNetwork { backend, info, .. }: &BackendNetwork<Cpu>,
    text: &'a mut NewRows<'_, HostSequence>,
) -> HostInput<'a> {
    let HostSequence { cache, encoded } = &mut *text.sequence;
    debug_assert_eq!(cache.len(), text.plan.first_position());
    cache.reserve(text.plan.rows());
    HostInput {
        rows: HostRows::Decoder(&text.plan),
        sequence: cache,
        source: SourceCache::Read(
            encoded.get_or_insert_with(|| Arc::new(backend.cache(info.cache_shape()))),
        ),
        wanted: text.read.wanted(&text.plan),
    }
}

/// Runs the rows of all texts; their sources are encoded.
fn decode(
    model: &BackendNetwork<Cpu>,
    mut texts: Vec<&mut NewRows<'_, HostSequence>>,
) -> Vec<HostOutput> {
    if texts.is_empty() {
        return Vec::new();
    }
    let inputs: Vec<HostInput<'_>> = texts.iter_mut().map(|text| input_of(model, text)).collect();
    let whole = inputs.iter().any(|input| input.wanted.is_whole());
    let write = |forward: &mut CpuForward<'_>| model.layers.decode(forward, whole);
    let answers = model.backend.scope(|| run(&model.info, inputs, write));
    for text in texts {
        text.sequence.cache.commit(text.plan.rows());
    }
    answers
}

/// What is read of the rows of a text. After an error they are forgotten.
fn read(
    text: NewRows<'_, HostSequence>,
    answer: HostOutput,
    vocab_size: usize,
) -> CoreResult<Scores> {
    let NewRows {
        sequence,
        plan,
        read,
        ..
    } = text;
    let hidden = collected(answer.hidden);
    let Read::Scores(want) = read else {
        return Ok(Scores::default().with_hidden(hidden));
    };
    let scores = readout::scores(answer.logits, vocab_size, plan.tree(), want);
    if scores.is_err() {
        sequence.cache.truncate(plan.first_position());
    }
    scores.map(|scores| scores.with_hidden(hidden))
}
