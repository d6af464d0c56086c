//! The threshold and the longest draft with the best predicted speed.

use cascade_engine::ClassifierWeights;
use serde::Serialize;

use crate::train::{Error, Example, Output, Result};

/// The greatest longest draft that is tried.
const LONGEST: usize = 20;

/// What a way to stop is predicted to give on recorded outputs, if all forwards of a model take
/// the same time.
///
/// A draft is walked along the recorded output. Its tokens up to the first rejection are the real
/// ones; those drafted after a rejection, which are discarded, are taken to be classified as the
/// target's tokens are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// Tokens per forward of the target's time: the speedup over plain decoding.
    pub speedup: f64,
    /// Tokens per forward of the target.
    pub tokens_per_review: f64,
    /// Discarded tokens per token.
    pub discard_rate: f64,
    /// Forwards of the target per token.
    pub verification_rate: f64,
}

/// A threshold and a longest draft.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// τ.
    pub threshold: f32,
    /// Tokens of a draft at most.
    pub longest: usize,
}

impl Choice {
    /// The best of thresholds in steps of 0.05 and longest drafts up to 20 tokens, on `outputs`. A
    /// forward of the drafter takes `cost` forwards of the target.
    ///
    /// # Errors
    /// A `cost` that is negative or not finite.
    pub fn best(weights: &ClassifierWeights, outputs: &[Output], cost: f64) -> Result<Self> {
        check(cost)?;
        let choices = (0..20).flat_map(|step| {
            let threshold = step as f32 * 0.05;
            let lengths = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, LONGEST];
            lengths.map(|longest| Self { threshold, longest })
        });
        let otherwise = Self {
            threshold: 0.5,
            longest: LONGEST,
        };
        let outputs = classified(weights, outputs);
        Ok(fastest(&outputs, cost, choices, Self::rule).unwrap_or(otherwise))
    }

    /// What it is predicted to give.
    ///
    /// # Errors
    /// As [`best`](Self::best).
    pub fn predicted(
        self,
        weights: &ClassifierWeights,
        outputs: &[Output],
        cost: f64,
    ) -> Result<Prediction> {
        check(cost)?;
        Ok(predict(&classified(weights, outputs), cost, self.rule()))
    }

    fn rule(self) -> impl Fn(&Drafted) -> bool {
        move |draft| draft.tokens >= self.longest || draft.last < self.threshold
    }
}

/// An output, of which is known what of it is accepted.
pub trait Accepted {
    /// Whether each of its tokens is accepted.
    fn accepted(&self) -> impl Iterator<Item = bool>;
}

impl Accepted for Output {
    fn accepted(&self) -> impl Iterator<Item = bool> {
        self.0.iter().map(|token| token.accepted)
    }
}

/// What drafts of 0, 1, 2, … 20 tokens are predicted to give, and an oracle's, which drafts as long
/// as tokens are accepted.
///
/// # Errors
/// As [`Choice::best`].
pub fn baselines(outputs: &[impl Accepted], cost: f64) -> Result<(Vec<Prediction>, Prediction)> {
    check(cost)?;
    let accepted = outputs.iter().map(Accepted::accepted);
    let outputs: Vec<Classified> = accepted
        .map(|tokens| Classified(tokens.map(|accepted| (1.0, accepted)).collect()))
        .collect();
    let fixed = (0..=LONGEST).map(|length| predict(&outputs, cost, |draft| draft.tokens >= length));
    let oracle = predict(&outputs, cost, |draft| !draft.next);
    Ok((fixed.collect(), oracle))
}

/// The first of the choices with the greatest predicted speed.
pub(crate) fn fastest<C: Copy, R: Fn(&Drafted) -> bool>(
    outputs: &[Classified],
    cost: f64,
    choices: impl IntoIterator<Item = C>,
    rule: impl Fn(C) -> R,
) -> Option<C> {
    let mut best: Option<(f64, C)> = None;
    for choice in choices {
        let speedup = predict(outputs, cost, rule(choice)).speedup;
        // Of no outputs it is not a number, and nothing is chosen.
        if best.map_or(!speedup.is_nan(), |(most, _)| speedup > most) {
            best = Some((speedup, choice));
        }
    }
    best.map(|(_, choice)| choice)
}

pub(crate) fn check(cost: f64) -> Result<()> {
    if cost.is_finite() && cost >= 0.0 {
        Ok(())
    } else {
        let cure = "give its time over that of the target's, 0 or more";
        Err(Error::setting(
            "the cost of a drafter's forward",
            cost,
            cure,
        ))
    }
}

/// An output's tokens: the prediction, and whether each is accepted.
pub(crate) struct Classified(pub(crate) Vec<(f32, bool)>);

fn classified(weights: &ClassifierWeights, outputs: &[Output]) -> Vec<Classified> {
    let token = |token: &Example| (weights.probability(&token.features), token.accepted);
    let of = |output: &Output| Classified(output.0.iter().map(token).collect());
    outputs.iter().map(of).collect()
}

#[derive(Default)]
struct Sums {
    tokens: usize,
    drafted: usize,
    accepted: usize,
    reviews: usize,
}

/// A draft in progress.
pub(crate) struct Drafted {
    pub(crate) tokens: usize,
    /// The prediction for the last token, 1 where there is none.
    pub(crate) last: f32,
    /// The product of the predictions for those before it.
    pub(crate) before: f32,
    /// Whether the next token will be accepted, which only an oracle may look at.
    pub(crate) next: bool,
}

/// What is predicted of a way to stop.
pub(crate) fn predict(
    outputs: &[Classified],
    cost: f64,
    stops: impl Fn(&Drafted) -> bool,
) -> Prediction {
    let mut sums = Sums::default();
    for Classified(tokens) in outputs {
        let mut at = 0;
        while at < tokens.len() {
            let rest = &tokens[at..];
            let drafted = drafted(rest, &stops);
            let draft = &rest[..drafted];
            let accepted = draft.iter().take_while(|token| token.1).count();
            sums.drafted += drafted;
            sums.accepted += accepted;
            sums.reviews += 1;
            sums.tokens += accepted + 1;
            at += accepted + 1;
        }
    }
    let tokens = sums.tokens as f64;
    let reviews = sums.reviews as f64;
    Prediction {
        speedup: tokens / (reviews + cost * sums.drafted as f64),
        tokens_per_review: tokens / reviews,
        discard_rate: (sums.drafted - sums.accepted) as f64 / tokens,
        verification_rate: reviews / tokens,
    }
}

/// How many of these tokens are drafted.
fn drafted(rest: &[(f32, bool)], stops: impl Fn(&Drafted) -> bool) -> usize {
    let mut draft = Drafted {
        tokens: 0,
        last: 1.0,
        before: 1.0,
        next: rest[0].1,
    };
    // The target says the last token itself.
    while draft.tokens + 1 < rest.len() && !stops(&draft) {
        draft.before *= draft.last;
        draft.last = rest[draft.tokens].0;
        draft.tokens += 1;
        draft.next = rest[draft.tokens].1;
    }
    draft.tokens
}
