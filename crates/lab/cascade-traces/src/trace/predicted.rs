//! How well a model predicts recorded outputs.

use cascade_core::{Error, Result, Scorer, TokenId, TokenTree, Want};
use cascade_eval::Bootstrap;

use super::Record;

/// Tokens of a forward: enough to be quick, and few enough that their logits are small.
const TOKENS: usize = 128;

/// Probabilities that a model gives the tokens of recorded outputs, each after the prompt and the
/// recorded tokens before it; by record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Predicted {
    records: Vec<Counts>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    tokens: usize,
    /// Sum of the negative logarithms of their probabilities.
    nats: f64,
    /// Tokens that are the model's most probable ones.
    agreed: usize,
}

impl Predicted {
    /// Adds what a model says of a record.
    ///
    /// Takes a forward for every 128 tokens.
    ///
    /// # Errors
    /// As [`Scorer::score`], which refuses tokens that the model does not have;
    /// [`Error::ImproperLogits`].
    pub fn add(&mut self, model: &mut impl Scorer, record: &Record) -> Result<()> {
        let mut counts = Counts::default();
        let most = model
            .info()
            .max_nodes
            .map_or(TOKENS, |most| most.min(TOKENS));
        model.set_source(&record.source)?;
        let mut context = record.context.clone();
        for tokens in record.output.chunks(most.max(1)) {
            let tree = TokenTree::chain(tokens.iter().copied());
            let scores = model.score(&context, &tree, Want::LOGITS)?;
            let logits = scores.logits.as_ref().ok_or_else(no_logits)?;
            for (row, &token) in tokens.iter().enumerate() {
                counts.nats += surprise(logits.row(row), token)?;
                counts.agreed += usize::from(scores.argmax[row] == token);
            }
            counts.tokens += tokens.len();
            context.extend(tokens);
        }
        self.records.push(counts);
        Ok(())
    }

    /// All tokens.
    pub fn tokens(&self) -> usize {
        self.records.iter().map(|record| record.tokens).sum()
    }

    /// The exponential of the mean negative logarithm of a token's probability; `None` without
    /// tokens.
    pub fn perplexity(&self) -> Option<f64> {
        self.over_all(Self::perplexity_of)
    }

    /// The share of the tokens that are the model's most probable ones; `None` without tokens.
    pub fn agreement(&self) -> Option<f64> {
        self.over_all(Self::agreement_of)
    }

    /// The perplexity's interval, by resampling records.
    pub fn interval(&self, bootstrap: Bootstrap) -> Option<(f64, f64)> {
        bootstrap.interval(self.records.len(), |chosen| self.perplexity_of(chosen))
    }

    fn over_all(&self, figure: impl Fn(&Self, &[usize]) -> f64) -> Option<f64> {
        let all: Vec<usize> = (0..self.records.len()).collect();
        (self.tokens() > 0).then(|| figure(self, &all))
    }

    fn perplexity_of(&self, chosen: &[usize]) -> f64 {
        (self.sum(chosen, |counts| counts.nats) / self.count(chosen)).exp()
    }

    fn agreement_of(&self, chosen: &[usize]) -> f64 {
        self.sum(chosen, |counts| counts.agreed as f64) / self.count(chosen)
    }

    fn count(&self, chosen: &[usize]) -> f64 {
        self.sum(chosen, |counts| counts.tokens as f64)
    }

    fn sum(&self, chosen: &[usize], figure: impl Fn(&Counts) -> f64) -> f64 {
        chosen.iter().map(|&i| figure(&self.records[i])).sum()
    }
}

/// The negative logarithm of a token's probability, the softmax of its logit. In f64, as a
/// probability may be too small for f32.
fn surprise(logits: &[f32], token: TokenId) -> Result<f64> {
    let greatest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let above = |logit: f32| f64::from(logit) - f64::from(greatest);
    let sum: f64 = logits.iter().map(|&logit| above(logit).exp()).sum();
    match logits.get(token as usize) {
        _ if !sum.is_finite() => Err(Error::improper_logits(logits)),
        Some(&logit) => Ok(sum.ln() - above(logit)),
        None => Err(Error::TokenOutOfVocabulary {
            token,
            vocab_size: logits.len(),
        }),
    }
}

fn no_logits() -> Error {
    Error::BrokenContract {
        interface: "Scorer::score",
        violation: "it returned no logits, which were asked for".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use cascade_core::toy::ToyScorer;
    use cascade_core::Prompt;
    use cascade_engine::Options;

    use super::*;
    use crate::trace::{Recorder, Subject};

    fn record(target: ToyScorer, tokens: usize) -> Record {
        let options = Options::default().with_max_new_tokens(tokens);
        let mut recorder = Recorder::new("target", target, [], None, &options).unwrap();
        let prompt = Prompt {
            context: vec![1, 2, 3],
            ..Prompt::default()
        };
        let recorded = recorder.record(Subject::new("0"), &prompt, |_| {});
        recorded.unwrap().0
    }

    #[test]
    fn what_is_no_distribution_is_an_error() {
        assert!((surprise(&[0.0, 0.0], 1).unwrap() - 2f64.ln()).abs() < 1e-12);
        // A probability that f32 has no number for.
        assert_eq!(surprise(&[200.0, 0.0], 1).unwrap(), 200.0);
        for logits in [
            [0.0, f32::NAN],
            [f32::INFINITY, 0.0],
            [f32::NEG_INFINITY; 2],
        ] {
            let found = surprise(&logits, 0);
            assert!(
                matches!(found, Err(Error::ImproperLogits { .. })),
                "{logits:?}"
            );
        }
        let found = surprise(&[0.0, 0.0], 2);
        assert!(matches!(found, Err(Error::TokenOutOfVocabulary { .. })));
    }

    /// The product of the weights' shares, token by token.
    #[test]
    fn perplexities_are_those_of_the_probabilities_one_by_one() {
        let model = ToyScorer::target("target", 16, 7);
        // More than a forward takes.
        let record = record(model.clone(), 300);
        let mut nats = 0.0;
        let mut context = record.context.clone();
        for &token in &record.output {
            let weights = model.weights(&context);
            let sum: u64 = weights.iter().sum();
            nats -= (weights[token as usize] as f64 / sum as f64).ln();
            context.push(token);
        }
        let expected = (nats / 300.0).exp();
        let mut found = Predicted::default();
        found.add(&mut model.clone(), &record).unwrap();
        let perplexity = found.perplexity().unwrap();
        assert!((perplexity / expected - 1.0).abs() < 1e-5, "{perplexity}");
        assert_eq!((found.tokens(), found.agreement()), (300, Some(1.0)));
        // Another model is less sure of it, and says other tokens.
        let mut other = Predicted::default();
        let mut drafter = ToyScorer::drafter("base", 16, 7, 1, 200);
        other.add(&mut drafter, &record).unwrap();
        assert!(other.perplexity() > found.perplexity());
        assert!(other.agreement() < found.agreement());
        // One record has no interval, two equal ones no spread, and no records no figures.
        assert_eq!(other.interval(Bootstrap::default()), None);
        other.add(&mut drafter, &record).unwrap();
        let (low, high) = other.interval(Bootstrap::default()).unwrap();
        assert!((high - low).abs() < 1e-9);
        assert_eq!(Predicted::default().perplexity(), None);
    }
}
