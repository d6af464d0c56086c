//! What a head learns from: hidden states, and the probabilities that their tokens are accepted.

use cascade_core::{Distribution, HiddenLayer, Sampling, Scorer, Scores, TokenId, TokenTree, Want};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::trace::Record;
use crate::train::error::ErrorKind;
use crate::train::example::PIECE;
use crate::train::{Error, Result, Split};

/// Numbers of hidden states that are held at most: 16 GB of them.
const MOST_NUMBERS: usize = 4 << 30;

/// The model or recording whose probabilities decide what is accepted.
pub enum Teacher<'a> {
    /// The recorded tokens: the drafter says its most probable token, which is accepted if it is
    /// the recorded one. For greedy decoding.
    Recorded,
    /// The recorded probabilities of samples, which were drawn by these settings: the drafter draws
    /// its token by them, too, and it is accepted with probability min(1, p/q). For sampling.
    Probabilities(Sampling),
    /// The probabilities of this target, whatever was recorded.
    Target(&'a mut dyn Scorer, Sampling),
}

/// The tokens of one output that the drafter said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeadOutput {
    /// `[tokens, size]`: the hidden state that belongs to each token.
    pub hidden: Vec<f32>,
    /// The probability that each is accepted, where all before it are.
    pub acceptance: Vec<f32>,
    /// Whether each token is accepted, drawn once by its acceptance.
    pub accepted: Vec<bool>,
}

impl HeadOutput {
    /// The hidden state of each token, and the probability that it is accepted.
    pub fn tokens(&self) -> impl Iterator<Item = (&[f32], f32)> {
        let size = self.hidden.len() / self.acceptance.len().max(1);
        let states = self.hidden.chunks_exact(size.max(1));
        states.zip(self.acceptance.iter().copied())
    }
}

/// The examples of all outputs, by what they are for.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadExamples {
    /// Length of hidden states.
    pub size: usize,
    /// Outputs to train on were read with mixed tokens, the others with the target's alone.
    pub split: Split<HeadOutput>,
}

/// How outputs are read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadPass {
    /// Share of the tokens of an output to train on that remain the target's; the others are
    /// replaced by the drafter's, and only these are learned from. The paper keeps 0.15.
    pub mix: f64,
    /// Seed of the split and of all that is drawn.
    pub seed: u64,
}

impl HeadPass {
    /// Reads all outputs. `step` is called after each.
    ///
    /// An output that is longer than the drafter's context ends where that is full. What is read is
    /// a function of the arguments.
    ///
    /// # Errors
    /// Errors of the models; fewer than 10 outputs; a share that is none; hidden states of more
    /// than 16 GB; a record without the probabilities that the teacher needs.
    pub fn read<'r>(
        self,
        drafter: &mut dyn Scorer,
        mut teacher: Teacher<'_>,
        records: impl IntoIterator<Item = &'r Record>,
        mut step: impl FnMut(),
    ) -> Result<HeadExamples> {
        self.check()?;
        let full = records.into_iter().filter(|r| !r.output.is_empty());
        let split: Split<(usize, &Record)> = Split::of(full.enumerate().collect(), self.seed)?;
        let (mut size, mut numbers) = (0, 0);
        let mut part = |records: Vec<(usize, &Record)>, mix: Option<f64>| {
            let mut outputs = Vec::with_capacity(records.len());
            for (number, record) in records {
                let mut reading = Reading::new(self.seed, number, drafter, &mut teacher);
                let output = reading.output(record, mix)?;
                step();
                numbers += output.hidden.len();
                if numbers > MOST_NUMBERS {
                    return Err(Error::too_much(outputs.len()));
                }
                let state = output.tokens().next().map(|(state, _)| state.len());
                if let Some(length) = state {
                    size = length;
                    outputs.push(output);
                }
            }
            Ok(outputs)
        };
        let split = Split {
            training: part(split.training, Some(self.mix))?,
            choice: part(split.choice, None)?,
            held_out: part(split.held_out, None)?,
        };
        Ok(HeadExamples { size, split })
    }
}

impl HeadPass {
    fn check(self) -> Result<()> {
        if (0.0..1.0).contains(&self.mix) {
            Ok(())
        } else {
            let cure = "give 0 or more, and less than 1";
            Err(Error::setting(
                "the share of the target's tokens",
                self.mix,
                cure,
            ))
        }
    }
}

struct Reading<'a, 'b> {
    drafter: &'a mut dyn Scorer,
    teacher: &'a mut Teacher<'b>,
    random: ChaCha8Rng,
}

impl<'a, 'b> Reading<'a, 'b> {
    /// The pass over the output of a number: it is the same whatever is read before it.
    fn new(
        seed: u64,
        number: usize,
        drafter: &'a mut dyn Scorer,
        teacher: &'a mut Teacher<'b>,
    ) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(number as u64);
        Self {
            drafter,
            teacher,
            random,
        }
    }

    fn output(&mut self, record: &Record, mix: Option<f64>) -> Result<HeadOutput> {
        if let Teacher::Probabilities(_) = self.teacher {
            check_probabilities(record)?;
        }
        let prompt = record.prompt();
        self.drafter.set_source(&prompt.source)?;
        if let Teacher::Target(target, _) = self.teacher {
            target.set_source(&prompt.source)?;
        }
        let room = match self.drafter.info().max_context {
            None => usize::MAX,
            Some(most) => most.saturating_sub(prompt.context.len()),
        };
        let output = &record.output[..record.output.len().min(room)];
        let said = self.said(record, output)?;
        match mix {
            Some(mix) => self.mixed(&prompt.context, output, &said, mix),
            None => self.exact(&prompt.context, output, &said),
        }
    }

    /// What the drafter says after each prefix of the output, and the probability that it is
    /// accepted.
    fn said(&mut self, record: &Record, output: &[TokenId]) -> Result<Vec<(TokenId, f64)>> {
        let mut context = record.context.clone();
        let mut said = Vec::with_capacity(output.len());
        let mut recorded = record.top.iter().flatten();
        for tokens in output.chunks(PIECE) {
            let chain = TokenTree::chain(tokens[..tokens.len() - 1].iter().copied());
            match self.teacher {
                Teacher::Recorded => {
                    let scores = self.drafter.score(&context, &chain, Want::ARGMAX)?;
                    let pairs = scores.argmax.iter().zip(tokens);
                    said.extend(
                        pairs.map(|(&own, token)| (own, f64::from(u8::from(own == *token)))),
                    );
                }
                Teacher::Probabilities(sampling) => {
                    let own = self.drafter.score(&context, &chain, Want::LOGITS)?;
                    for (row, top) in (0..tokens.len()).zip(recorded.by_ref()) {
                        let q = distribution(&own, row, sampling)?;
                        let p = |token| top.iter().find(|(id, _)| *id == token);
                        let p = |token| p(token).map_or(0.0, |&(_, p)| f64::from(p));
                        said.push(drawn(&mut self.random, &q, p));
                    }
                }
                Teacher::Target(target, sampling) => {
                    let own = self.drafter.score(&context, &chain, Want::LOGITS)?;
                    let other = target.score(&context, &chain, Want::LOGITS)?;
                    for row in 0..tokens.len() {
                        let q = distribution(&own, row, sampling)?;
                        let p = distribution(&other, row, sampling)?;
                        said.push(drawn(&mut self.random, &q, |token| probability(&p, token)));
                    }
                }
            }
            context.extend_from_slice(tokens);
        }
        Ok(said)
    }

    /// The hidden states of the drafter's tokens in a text in which most are the drafter's.
    fn mixed(
        &mut self,
        context: &[TokenId],
        output: &[TokenId],
        said: &[(TokenId, f64)],
        mix: f64,
    ) -> Result<HeadOutput> {
        let keep: Vec<bool> = output
            .iter()
            .map(|_| self.random.random_bool(mix))
            .collect();
        let text: Vec<TokenId> = output
            .iter()
            .zip(said)
            .zip(&keep)
            .map(|((&token, said), &keep)| if keep { token } else { said.0 })
            .collect();
        let mut context = context.to_vec();
        let mut found = HeadOutput::default();
        for (piece, tokens) in text.chunks(PIECE).enumerate() {
            let chain = TokenTree::chain(tokens.iter().copied());
            let scores = self
                .drafter
                .score(&context, &chain, Want::ARGMAX.with_last_hidden())?;
            for node in 0..tokens.len() {
                let at = piece * PIECE + node;
                if !keep[at] {
                    self.add(&mut found, &scores, node, said[at].1)?;
                }
            }
            context.extend_from_slice(tokens);
        }
        Ok(found)
    }

    /// The hidden states of the drafter's tokens, each after the target's tokens alone: beside the
    /// output in one tree.
    fn exact(
        &mut self,
        context: &[TokenId],
        output: &[TokenId],
        said: &[(TokenId, f64)],
    ) -> Result<HeadOutput> {
        let mut context = context.to_vec();
        let mut found = HeadOutput::default();
        for (tokens, said) in output.chunks(PIECE).zip(said.chunks(PIECE)) {
            let mut tree = TokenTree::chain(tokens.iter().copied());
            let mut nodes = Vec::with_capacity(said.len());
            for (at, (own, _)) in said.iter().enumerate() {
                nodes.push(if *own == tokens[at] {
                    at
                } else {
                    tree.push(*own, at.checked_sub(1))
                });
            }
            let scores = self
                .drafter
                .score(&context, &tree, Want::ARGMAX.with_last_hidden())?;
            for (node, (_, acceptance)) in nodes.into_iter().zip(said) {
                self.add(&mut found, &scores, node, *acceptance)?;
            }
            context.extend_from_slice(tokens);
        }
        Ok(found)
    }

    fn add(
        &mut self,
        found: &mut HeadOutput,
        scores: &Scores,
        node: usize,
        acceptance: f64,
    ) -> Result<()> {
        let hidden = scores
            .hidden
            .of(HiddenLayer::Last)
            .ok_or_else(Error::no_hidden)?;
        found
            .hidden
            .extend_from_slice(hidden.row(TokenTree::row(Some(node))));
        found.acceptance.push(acceptance as f32);
        found.accepted.push(self.random.random_bool(acceptance));
        Ok(())
    }
}

fn distribution(scores: &Scores, row: usize, sampling: &Sampling) -> Result<Distribution> {
    let logits = scores.logits.as_ref().ok_or_else(Error::no_hidden)?;
    Ok(sampling.distribution(logits.row(row))?)
}

/// The probability of a token; 0 for one that the target does not know.
fn probability(p: &Distribution, token: TokenId) -> f64 {
    if p.vocab_size() > token as usize {
        p.probability(token)
    } else {
        0.0
    }
}

/// A token of q, and the probability min(1, p/q) that it is accepted.
fn drawn(random: &mut ChaCha8Rng, q: &Distribution, p: impl Fn(TokenId) -> f64) -> (TokenId, f64) {
    let token = q.at_quantile(random.random());
    (token, (p(token) / q.probability(token)).min(1.0))
}

/// Lists that leave more than this of a distribution out do not say what is accepted.
const LEFT_OUT: f64 = 1e-3;

fn check_probabilities(record: &Record) -> Result<()> {
    let sum = |row: &Vec<(TokenId, f32)>| row.iter().map(|&(_, p)| f64::from(p)).sum::<f64>();
    let sums = record.top.iter().flatten().map(sum);
    let least = match record.top {
        None => 0.0,
        Some(_) => sums.fold(1.0, f64::min),
    };
    if least >= 1.0 - LEFT_OUT {
        Ok(())
    } else {
        let message = format!(
            "record {} has no more than {least:.3} of a distribution that its tokens were drawn \
             from; record with --top-probabilities of at least the --top-k, or name the --target",
            record.id
        );
        Err(Error::new(ErrorKind::NoProbabilities, message))
    }
}
