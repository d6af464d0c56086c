//! A model in the words of the format, whatever its architecture's own configuration.

use std::ops::Range;

use cascade_core::TokenId;

use super::convert::places;
use crate::blocks::BlockType;
use crate::gguf::settings::{Family, LOGIT_SCALE};
use crate::gguf::write::{Entries, Planned, Target};
use crate::{Checkpoint, HEAD};

/// The tensor of what each rotary frequency is divided by.
pub(crate) const FACTORS: &str = "rope_freqs.weight";

/// A model in the words of the format.
#[derive(Clone, Debug)]
pub struct Description {
    /// The architecture, as the format knows it.
    pub family: Family,
    /// Rows of the embedding.
    pub vocab_size: usize,
    /// The token that sources are padded with, if the architecture has one of its own.
    pub padding: Option<TokenId>,
    /// Layers of a decoder and 0, or of an encoder and a decoder.
    pub layers: (usize, usize),
    /// Heads of queries, and of keys and values.
    pub heads: (usize, usize),
    /// Whether a T5 has feed-forward layers without gates.
    pub ungated: bool,
    /// Whether a head among the tensors is passed over.
    pub tied: bool,
    /// What a T5 multiplies logits with.
    pub scale: Option<f64>,
    /// How matrices of the same input lie in the checkpoint, if they are one tensor.
    pub fused: Option<FusedRows>,
    /// How many positions a token sees, itself included, if not all.
    pub window: Option<usize>,
    /// Settings by their keys, without the name of the architecture that these begin with.
    pub keys: Vec<(&'static str, Setting)>,
    /// What each rotary frequency is divided by, if it is.
    pub factors: Option<Vec<f32>>,
    /// Weights of the model if its embedding is its head, and if it has a head of its own.
    pub parameters: (usize, usize),
}

/// The value of a key.
#[derive(Clone, Copy, Debug)]
pub enum Setting {
    /// A count, written as u32.
    Unsigned(usize),
    /// A number, written as f32.
    Number(f64),
    /// A text.
    Text(&'static str),
}

/// Rows of matrices of the same input that are one tensor, `qkv_proj` and `gate_up_proj`.
#[derive(Clone, Copy, Debug)]
pub struct FusedRows {
    /// Rows of queries, which come first.
    pub queries: usize,
    /// Rows of keys, and as many of values.
    pub keys: usize,
    /// Rows of the gate, and as many of what it gates.
    pub inner: usize,
}

impl Description {
    /// Whether the head of a checkpoint is written: the model has one, which is not the embedding.
    pub(crate) fn keeps_head(&self, checkpoint: &Checkpoint) -> crate::Result<bool> {
        let infos = checkpoint.infos();
        let Some(head) = infos.get(HEAD).filter(|_| !self.tied) else {
            return Ok(false);
        };
        // Readers take a copy for the embedding. Heads of decoders are read whatever they are.
        let embedding = places("shared.weight").find(|place| infos.contains_key(*place));
        let Some(embedding) = embedding.filter(|place| infos[*place] == *head) else {
            return Ok(true);
        };
        let of = |name| checkpoint.load(name, &head.shape);
        Ok(of(HEAD)?.bytes != of(embedding)?.bytes)
    }

    /// Where the tensor `own` lies, if the checkpoint has it as rows of another.
    pub(crate) fn part(&self, own: &str) -> Option<(String, Range<usize>)> {
        let FusedRows {
            queries: q,
            keys: k,
            inner,
        } = self.fused?;
        let (at, name) = own.strip_suffix(".weight")?.rsplit_once('.')?;
        let (whole, rows) = match name {
            "q_proj" => ("qkv_proj", 0..q),
            "k_proj" => ("qkv_proj", q..q + k),
            "v_proj" => ("qkv_proj", q + k..q + 2 * k),
            "gate_proj" => ("gate_up_proj", 0..inner),
            "up_proj" => ("gate_up_proj", inner..2 * inner),
            _ => return None,
        };
        Some((format!("{at}.{whole}.weight"), rows))
    }

    pub(crate) fn put(&self, entries: &mut Entries, own_head: bool) {
        for (key, value) in &self.keys {
            let key = format!("{}.{key}", self.family.name());
            match value {
                Setting::Unsigned(number) => entries.unsigned(&key, *number as u32),
                Setting::Number(number) => entries.number(&key, *number as f32),
                Setting::Text(text) => entries.text(&key, text),
            }
        }
        // Readers take it for granted that a tied head goes with scaled states, and no other; of a
        // head of its own without gates they cannot know.
        if let Some(scale) = self.scale
            && ((scale == 1.0) != own_head || own_head && self.ungated)
        {
            let key = format!("{}.{LOGIT_SCALE}", self.family.name());
            entries.number(&key, scale as f32);
        }
    }

    /// What frequencies are divided by, as a tensor.
    pub(crate) fn factors<'a>(&self) -> Option<Planned<'a>> {
        let factors = self.factors.as_ref()?;
        let bytes: Vec<u8> = factors.iter().flat_map(|f| f.to_le_bytes()).collect();
        let (shape, from) = (vec![factors.len()], BlockType::F32);
        let values = move || Ok(bytes.clone().into());
        Some(Planned::new(
            FACTORS.to_owned(),
            shape,
            from,
            Target::F32,
            None,
            values,
        ))
    }
}
