//! What there is to learn from.

use cascade_core::Scorer;
use cascade_engine::{CLASSIFIER_FEATURES, CLASSIFIER_WANT, classifier_features};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::trace::{Record, along};
use crate::train::{Error, Result};

/// Tokens that are scored in one forward.
pub(crate) const PIECE: usize = 32;

/// A token that a drafter said after a prefix of the target's output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Example {
    /// The drafter's distribution, and the position.
    pub features: [f32; CLASSIFIER_FEATURES],
    /// Whether it is the target's token.
    pub accepted: bool,
}

impl Example {
    /// 1 if it is accepted, 0 if not.
    pub(crate) fn label(&self) -> f32 {
        f32::from(u8::from(self.accepted))
    }
}

/// The examples of one output, in the order of its tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output(pub Vec<Example>);

/// The examples of a recorded output: the drafter says one token after each prefix of it, greedily.
///
/// An output that is longer than the drafter's context ends where that is full.
///
/// # Errors
/// Errors of the drafter.
pub fn examples(drafter: &mut dyn Scorer, record: &Record) -> Result<Output> {
    let prompt = record.prompt();
    let room = match drafter.info().max_context {
        None => usize::MAX,
        Some(most) => (most + 1).saturating_sub(prompt.context.len()),
    };
    let output = &record.output[..record.output.len().min(room)];
    let mut examples = Vec::with_capacity(output.len());
    let how = (PIECE, CLASSIFIER_WANT);
    along(drafter, &prompt, output, how, |tokens, scores| {
        for (row, &token) in tokens.iter().enumerate() {
            let top = scores.top.as_ref().map_or(&[][..], |top| top.row(row));
            let entropy = scores.entropy.as_ref().map_or(0.0, |entropy| entropy[row]);
            examples.push(Example {
                features: classifier_features(top, entropy, examples.len()),
                accepted: scores.argmax[row] == token,
            });
        }
        Result::Ok(())
    })?;
    Ok(Output(examples))
}

/// Outputs by what they are for.
#[derive(Clone, Debug, PartialEq)]
pub struct Split<T = Output> {
    /// To train on: 70%.
    pub training: Vec<T>,
    /// To decide when to stop training, and to choose a threshold by: 15%.
    pub choice: Vec<T>,
    /// To report on, and for nothing else: 15%.
    pub held_out: Vec<T>,
}

impl Split {
    /// Splits outputs at random; the same seed splits them in the same way.
    ///
    /// # Errors
    /// Fewer than 10 outputs that have tokens.
    pub fn new(outputs: Vec<Output>, seed: u64) -> Result<Self> {
        let mut outputs = outputs;
        outputs.retain(|output| !output.0.is_empty());
        Self::of(outputs, seed)
    }
}

impl<T> Split<T> {
    /// Outputs to train on, to choose by, and held out.
    pub fn sizes(&self) -> [usize; 3] {
        [&self.training, &self.choice, &self.held_out].map(Vec::len)
    }

    /// Splits what has tokens.
    pub(crate) fn of(mut outputs: Vec<T>, seed: u64) -> Result<Self> {
        let count = outputs.len();
        if count < 10 {
            return Err(Error::too_few(count));
        }
        outputs.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        let few = count * 15 / 100;
        let held_out = outputs.split_off(count - few);
        let choice = outputs.split_off(count - 2 * few);
        Ok(Self {
            training: outputs,
            choice,
            held_out,
        })
    }
}
