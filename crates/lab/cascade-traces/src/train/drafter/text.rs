//! Recorded texts of a target and its hidden states, in files.

use std::path::Path;

use candle_core::safetensors::Load;
use candle_core::{Device, Tensor};
use cascade_core::{HiddenLayer, Scorer, TokenId, TokenTree, Want};
use safetensors::Dtype;
use sha2::{Digest, Sha256};

use crate::trace::Record;
use crate::train::checkpoint::{self, wrong};
use crate::train::fit::digits;
use crate::train::{Error, Result, Split};

/// Texts of a file. Of an interrupted recording, fewer than these are lost.
const TEXTS: usize = 32;

/// Numbers of hidden states that are held at most: 16 GB of them.
const MOST_NUMBERS: usize = 4 << 30;

/// The largest file of states that is read.
const LARGEST: u64 = 4 << 30;

/// The key of the fingerprint in a file's metadata.
const FINGERPRINT: &str = "cascade-train";

/// A text that the target said after a prompt, and its states.
#[derive(Clone, Debug)]
pub struct Text {
    /// Prompt and output; of a decoder beside an encoder, the token that it begins with and the
    /// output.
    pub tokens: Vec<TokenId>,
    /// Tokens before the output, one at least.
    pub prompt: usize,
    /// `[tokens - 1, size]`: the last hidden state after each token but the last.
    pub states: Tensor,
}

/// Texts with states, by what they are for.
#[derive(Clone, Debug)]
pub struct DrafterTexts {
    /// 70, 15 and 15% of the texts.
    pub split: Split<Text>,
    /// The fingerprint of the texts and their states.
    pub(crate) fingerprint: String,
}

impl DrafterTexts {
    /// Reads the outputs of `target` with two tokens or more, each in one pass, and keeps its last
    /// hidden states in files of `folder`: what is there is not computed again. `start` is the
    /// token that a decoder beside an encoder begins with. `step` is called after each output.
    ///
    /// A text that is longer than the target's context ends where that is full. `seed` is of the
    /// split.
    ///
    /// Memory: four bytes for each number of the states, which is what the files take, too.
    ///
    /// # Errors
    /// Errors of the target; fewer than 10 texts; states of more than 16 GB; files of other texts
    /// or of another target.
    pub fn record<'r>(
        target: &mut dyn Scorer,
        start: Option<TokenId>,
        records: impl IntoIterator<Item = &'r Record>,
        folder: &Path,
        seed: u64,
        mut step: impl FnMut(),
    ) -> Result<Self> {
        let most = target.info().max_context.unwrap_or(usize::MAX);
        let records = records.into_iter();
        let said: Vec<Said> = records
            .filter_map(|record| Said::of(record, start, most))
            .collect();
        let Some(first) = said.first() else {
            return Err(Error::too_few(0));
        };
        // Another target has other states, and so has the same one elsewhere in its last bits.
        let of_target = first.states(target)?;
        let mut texts: Vec<Text> = Vec::with_capacity(said.len());
        let (mut numbers, mut all) = (0, Sha256::new());
        for (number, piece) in said.chunks(TEXTS).enumerate() {
            let path = folder.join(format!("states-{number:05}.safetensors"));
            let fingerprint = fingerprint(&of_target, piece)?;
            all.update(&fingerprint);
            let states = states_in(&path, piece, target, &fingerprint)?;
            numbers += states.elem_count();
            if numbers > MOST_NUMBERS {
                return Err(Error::too_much(texts.len()));
            }
            texts.extend(texts_of(&path, piece, &states)?);
            piece.iter().for_each(|_| step());
        }
        Ok(Self {
            split: Split::of(texts, seed)?,
            fingerprint: digits(all),
        })
    }

    /// Elements of a state.
    pub fn size(&self) -> usize {
        let first = self.split.training.first();
        first.map_or(0, |text| text.states.dims().last().copied().unwrap_or(0))
    }
}

/// A text without states.
struct Said {
    source: Vec<TokenId>,
    tokens: Vec<TokenId>,
    prompt: usize,
    /// Tokens that the target reads before any of a context.
    unsaid: usize,
}

impl Said {
    /// `None` if nothing can be learned from it.
    fn of(record: &Record, start: Option<TokenId>, most: usize) -> Option<Self> {
        let mut tokens = Vec::from_iter(start);
        let unsaid = tokens.len();
        tokens.extend_from_slice(&record.context);
        let prompt = tokens.len();
        tokens.extend_from_slice(&record.output);
        tokens.truncate(most);
        (prompt > 0 && tokens.len() >= prompt + 2).then(|| Self {
            source: record.source.clone(),
            tokens,
            prompt,
            unsaid,
        })
    }

    /// The target's states after all tokens but the last.
    fn states(&self, target: &mut dyn Scorer) -> Result<Tensor> {
        let rows = self.tokens.len() - 1;
        let context = &self.tokens[self.unsaid..rows];
        let want = Want::ARGMAX
            .with_last_hidden()
            .with_hidden_after(Some(1 - self.unsaid));
        target.set_source(&self.source)?;
        let scores = target.score(context, &TokenTree::new(), want)?;
        let states = scores
            .hidden
            .of(HiddenLayer::Last)
            .ok_or_else(Error::no_hidden)?;
        if states.rows() != rows {
            return Err(Error::no_hidden());
        }
        let shape = (states.rows(), states.columns());
        Ok(Tensor::from_slice(states.as_slice(), shape, &Device::Cpu)?)
    }
}

/// The fingerprint of the target and of the texts of a file.
fn fingerprint(of_target: &Tensor, piece: &[Said]) -> Result<String> {
    let mut hash = Sha256::new();
    for x in of_target.flatten_all()?.to_vec1::<f32>()? {
        hash.update(x.to_le_bytes());
    }
    for said in piece {
        hash.update((said.source.len() as u64).to_le_bytes());
        let source = said.source.iter();
        source.for_each(|token| hash.update(token.to_le_bytes()));
        hash.update((said.prompt as u64).to_le_bytes());
        hash.update((said.tokens.len() as u64).to_le_bytes());
        let tokens = said.tokens.iter();
        tokens.for_each(|token| hash.update(token.to_le_bytes()));
    }
    Ok(digits(hash))
}

/// The states of the texts of a file, which is written if it is not there.
fn states_in(
    path: &Path,
    piece: &[Said],
    target: &mut dyn Scorer,
    fingerprint: &str,
) -> Result<Tensor> {
    if let Some(states) = read(path, fingerprint)? {
        return Ok(states);
    }
    let states = piece.iter().map(|said| said.states(target));
    let states = Tensor::cat(&states.collect::<Result<Vec<_>>>()?, 0)?;
    write(path, piece, &states, fingerprint)?;
    Ok(states)
}

/// The texts of a file, each with its part of the states.
fn texts_of(path: &Path, piece: &[Said], states: &Tensor) -> Result<Vec<Text>> {
    let rows = piece.iter().map(|said| said.tokens.len() - 1);
    if states.dims().first() != Some(&rows.clone().sum()) {
        return Err(wrong(path, "it has not the states of these texts"));
    }
    let (mut texts, mut at) = (Vec::with_capacity(piece.len()), 0);
    for (said, rows) in piece.iter().zip(rows) {
        texts.push(Text {
            tokens: said.tokens.clone(),
            prompt: said.prompt,
            states: states.narrow(0, at, rows)?,
        });
        at += rows;
    }
    Ok(texts)
}

/// Writes states and the tokens that they are of, as a whole.
fn write(path: &Path, piece: &[Said], states: &Tensor, fingerprint: &str) -> Result<()> {
    let ints = |numbers: Vec<u32>| {
        let count = numbers.len();
        Tensor::from_vec(numbers, count, &Device::Cpu)
    };
    let lengths = |of: fn(&Said) -> usize| ints(piece.iter().map(|said| of(said) as u32).collect());
    let tokens = piece.iter().flat_map(|said| said.tokens.clone()).collect();
    let tensors = [
        ("states", states.clone()),
        ("tokens", ints(tokens)?),
        ("lengths", lengths(|said| said.tokens.len())?),
        ("prompts", lengths(|said| said.prompt)?),
    ];
    let tensors = tensors.map(|(name, tensor)| (name.to_owned(), tensor));
    let fingerprint = (FINGERPRINT, fingerprint.to_owned());
    checkpoint::write(path, fingerprint, tensors.into())
}

/// The states of a file; `None` if there is none.
fn read(path: &Path, fingerprint: &str) -> Result<Option<Tensor>> {
    let Some(bytes) = checkpoint::read(path, LARGEST)? else {
        return Ok(None);
    };
    let (found, file) = checkpoint::open(path, &bytes, FINGERPRINT)?;
    if found.as_deref() != Some(fingerprint) {
        let problem = "it was recorded with other texts, or of another target";
        return Err(wrong(path, problem));
    }
    let states = file.tensor("states").map_err(|error| wrong(path, error))?;
    if states.dtype() != Dtype::F32 {
        return Err(wrong(path, "its states are not F32"));
    }
    Ok(Some(states.load(&Device::Cpu)?))
}
