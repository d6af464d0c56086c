//! EAGLE-3 (arXiv:2503.01840): one layer that reads the target's states from three depths at once,
//! and an output head of its own over fewer tokens.
//!
//! Row i reads the embedding of token i + 1 and the state after token i, each behind a norm of its
//! own. Of verified text, that state is made of three of the target's, side by side; else it is
//! what the row before gave. The authors' files call the layer `midlayer`; those of the speculators
//! library `layers.0`.

use std::borrow::Cow;

use cascade_checkpoint::Checkpoint;
use cascade_core::{HiddenLayer, HiddenLayers};

use super::config::Eagle3Config;
use super::layer::Layer;
use super::recurrent::{Recurrent, own_embedding};
use crate::backend::cpu::{Cpu, CpuForward, Map, Norm, Table};
use crate::backend::{LinearSpec, Loader, Vocabulary};
use crate::decoder::DecoderConfig;
use crate::{Error, Result};

/// The weights of a head.
#[derive(Debug)]
pub(super) struct Eagle3 {
    embedding: Option<Table>,
    reads: HiddenLayers,
    /// The norm of the target's states side by side, before they become one.
    entering_norm: Option<Norm>,
    fuse: Map,
    embedding_norm: Norm,
    state_norm: Norm,
    /// Whether the residual stream begins behind the norm of the states.
    normed_stream: bool,
    layer: Layer,
    norm: Norm,
    /// Whether rows are fed with what is behind that norm.
    normed_output: bool,
    head: Map,
    /// The target's token of each row of the head; all, in their order, if there is no list.
    tokens: Option<Vec<usize>>,
    /// Rows of the target's head.
    vocab_size: usize,
}

impl Eagle3 {
    /// Reads the weights.
    ///
    /// # Errors
    /// Tensors that are missing, or of another shape than config.json says; a list of tokens that
    /// the target has not, or that are not in order.
    pub(super) fn load(
        layer: &DecoderConfig,
        own: &Eagle3Config,
        positions: usize,
        weights: &Checkpoint,
        loader: &mut Loader<'_, Cpu>,
    ) -> Result<Self> {
        let at = own.layer;
        let (size, states) = (layer.size, own.reads.len() * own.target_size);
        let reads = own.reads.iter().map(|&layer| HiddenLayer::Entering(layer));
        let tokens = if own.rows == layer.vocab_size {
            None
        } else {
            Some(tokens(weights, own.rows, layer.vocab_size)?)
        };
        Ok(Self {
            embedding: own_embedding(own.embedding, loader)?,
            reads: reads.fold(HiddenLayers::NONE, HiddenLayers::with),
            entering_norm: own
                .normed_states
                .then(|| loader.norm_of("input_norm", states))
                .transpose()?,
            fuse: loader.linear(LinearSpec::new(states, [("fc".to_owned(), size)]))?,
            embedding_norm: loader.norm(&format!("{at}.input_layernorm"))?,
            state_norm: loader.norm(&format!("{at}.hidden_norm"))?,
            normed_stream: own.normed_stream,
            layer: Layer::load(layer, at, 2 * size, positions, loader)?,
            norm: loader.norm("norm")?,
            normed_output: own.normed_output,
            head: loader.linear(LinearSpec::new(size, [("lm_head".to_owned(), own.rows)]))?,
            tokens,
            vocab_size: layer.vocab_size,
        })
    }
}

/// The target's token of each of `rows`: `d2t` says how many tokens there are between.
fn tokens(weights: &Checkpoint, rows: usize, vocab_size: usize) -> Result<Vec<usize>> {
    let steps = weights.longs("d2t", rows)?;
    let mut tokens: Vec<usize> = Vec::with_capacity(rows);
    for (row, step) in steps.into_iter().enumerate() {
        let token = i64::try_from(row)
            .ok()
            .and_then(|row| row.checked_add(step));
        let token = token.and_then(|token| usize::try_from(token).ok());
        let next = tokens.last().map_or(0, |last| last + 1);
        match token.filter(|&token| (next..vocab_size).contains(&token)) {
            Some(token) => tokens.push(token),
            None => {
                let problem = format!(
                    "d2t is {step} at {row}, which leads to no token between {next} and {vocab_size}"
                );
                let cure = "download the weights again; d2t lists tokens of the target in order";
                return Err(Error::config(weights.files(), problem, cure));
            }
        }
    }
    Ok(tokens)
}

impl Recurrent for Eagle3 {
    fn observes(&self) -> HiddenLayers {
        self.reads
    }

    fn enter<'a>(&self, observed: &'a [f32]) -> Cow<'a, [f32]> {
        match &self.entering_norm {
            Some(norm) => self.fuse.forward(&norm.apply(observed)).into(),
            None => self.fuse.forward(observed).into(),
        }
    }

    fn rows(&self, forward: &mut CpuForward<'_>, states: &[f32], shared: &Table) {
        let embeddings = forward.embeddings(self.embedding.as_ref().unwrap_or(shared));
        let normed = self.state_norm.apply(states);
        let both = forward.side_by_side(&self.embedding_norm.apply(&embeddings), &normed);
        let stream = if self.normed_stream {
            normed
        } else {
            states.to_vec()
        };
        forward.begin(stream, both);
        self.layer.run(forward);
    }

    fn give(&self, states: Vec<f32>) -> Vec<f32> {
        if self.normed_output {
            self.norm.apply(&states)
        } else {
            states
        }
    }

    /// Tokens that the head has no row for have none to say: −∞.
    fn logits(&self, given: &[f32], _: &Vocabulary<'_, Cpu>) -> Vec<f32> {
        let own = if self.normed_output {
            self.head.forward(given)
        } else {
            self.head.forward(&self.norm.apply(given))
        };
        let Some(tokens) = &self.tokens else {
            return own;
        };
        let rows = own.len() / tokens.len();
        let mut logits = vec![f32::NEG_INFINITY; rows * self.vocab_size];
        let rows = logits.chunks_exact_mut(self.vocab_size);
        for (row, own) in rows.zip(own.chunks_exact(tokens.len())) {
            tokens
                .iter()
                .zip(own)
                .for_each(|(&token, &logit)| row[token] = logit);
        }
        logits
    }
}
