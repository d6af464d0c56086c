//! Predicts what a cascade does along recorded texts.

use std::sync::Arc;

use cascade_engine::{Clock, GenerationOutput, KMatrix, Lenience, Options, VirtualClock};

use super::recording::{Recorded, Recording};
use super::{Times, recorded};

/// The settings of a cascade that a search varies.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Tokens that each drafter adds for each reviewer.
    pub k: KMatrix,
    /// λ of drafters' reviews of neural drafts.
    pub lenience: Lenience,
    /// Nodes of a draft at most, where a drafter grows trees: with no more of them than the K
    /// matrix asks for, they are chains.
    pub nodes: Option<usize>,
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "k {:?}, lenience {}", self.k.rows(), self.lenience)?;
        match self.nodes {
            Some(nodes) => write!(f, ", nodes {nodes}"),
            None => Ok(()),
        }
    }
}

/// Predicted counts for a setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Tokens of the texts.
    pub tokens: u64,
    /// Forwards of the target, then of each drafter, largest first; statistical ones count their
    /// proposals.
    pub calls: Vec<u64>,
    /// Time of all forwards, in the unit of [`Times`].
    pub seconds: f64,
}

impl Prediction {
    /// Nothing yet, of a cascade of so many models.
    pub(super) fn none(models: usize) -> Self {
        Self {
            tokens: 0,
            calls: vec![0; models],
            seconds: 0.0,
        }
    }

    /// Counts tokens and calls of a generation.
    pub(super) fn add(&mut self, generation: &GenerationOutput) {
        self.tokens += generation.tokens.len() as u64;
        for (calls, model) in self.calls.iter_mut().zip(&generation.models) {
            *calls += model.usage.calls;
        }
    }

    /// Standardized walltime improvement: tokens · c(target) / Σ calls · c(model). `costs` are
    /// those of the target and of each drafter; 0 for statistical ones.
    ///
    /// # Panics
    /// If there are fewer costs than models.
    pub fn swi(&self, costs: &[f64]) -> f64 {
        let spent: f64 = self
            .calls
            .iter()
            .zip(costs)
            .map(|(&calls, cost)| calls as f64 * cost)
            .sum();
        self.tokens as f64 * costs[0] / spent
    }

    /// How many times as fast as plain decoding.
    pub fn speedup(&self, times: &Times) -> f64 {
        self.tokens as f64 * times.target.seconds(1) / self.seconds
    }

    /// Cost of drafting per token, in forwards of the target.
    pub fn drafting_per_token(&self, costs: &[f64]) -> f64 {
        let calls = self.calls.iter().zip(costs).skip(1);
        let spent: f64 = calls.map(|(&calls, cost)| calls as f64 * cost).sum();
        spent / (costs[0] * self.tokens as f64)
    }
}

/// Recordings of several texts, all with the same drafters.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Recordings {
    texts: Vec<Arc<Recording>>,
}

impl Recordings {
    /// Recordings of these texts.
    pub(super) fn new(texts: Vec<Recording>) -> Self {
        Self {
            texts: texts.into_iter().map(Arc::new).collect(),
        }
    }

    /// Predicts greedy decoding by a cascade with chain drafts and `setting`: the engine runs with
    /// recordings in place of models.
    ///
    /// The number of target forwards is exact. The cost of a draft beyond its first rejected token
    /// is an estimate: there the drafters are assumed to agree with each other as they do along the
    /// text.
    ///
    /// # Errors
    /// If the K matrix does not have one row for each drafter.
    pub(super) fn predict(
        &self,
        setting: &Setting,
        times: &Times,
    ) -> cascade_engine::Result<Prediction> {
        let clock = VirtualClock::default();
        let mut prediction = Prediction::none(setting.k.size() + 1);
        for text in self.texts.iter().filter(|text| !text.tokens.is_empty()) {
            let mut cascade = recorded::cascade(text, times, &clock)
                .k_matrix(setting.k.clone())
                .lenience(setting.lenience)
                .max_nodes(usize::MAX)
                .build()?;
            let options = Options::default().with_max_new_tokens(text.tokens.len());
            prediction.add(&cascade.generate_tokens(&recorded::prompt(), &options)?);
        }
        prediction.seconds = clock.now().as_secs_f64();
        Ok(prediction)
    }

    /// Tokens of all texts.
    pub(super) fn tokens(&self) -> usize {
        self.texts.iter().map(|text| text.tokens.len()).sum()
    }

    /// Number of drafters.
    pub(super) fn drafters(&self) -> usize {
        self.texts.first().map_or(0, |text| text.drafters.len())
    }

    /// Whether drafter `j` is neural.
    pub(super) fn is_neural(&self, j: usize) -> bool {
        let recorded = self.texts.first().and_then(|text| text.drafters.get(j));
        matches!(recorded, Some(Recorded::Neural { .. }))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use cascade_core::toy::ToyScorer;
    use cascade_core::{
        Architecture, Budget, Drafter, Prompt, ScoredTree, Scorer, TokenId, TokenTree, Want,
    };
    use cascade_engine::{Cascade, Convention, Options};

    const VOCABULARY: usize = 12;

    fn toy(seed: u64, agreement: u64) -> ToyScorer {
        ToyScorer::drafter("toy", VOCABULARY, 9, seed, agreement)
    }

    /// Continues counting from the last token.
    #[derive(Clone)]
    struct Counter;

    impl Drafter for Counter {
        fn set_source(&mut self, _source: &[TokenId]) {}

        fn propose(&mut self, context: &[TokenId], budget: Budget) -> ScoredTree {
            let last = context.last().copied().unwrap_or(0);
            TokenTree::chain(
                (1..=budget.depth as TokenId).map(|i| (last + i) % VOCABULARY as TokenId),
            )
            .into()
        }
    }

    fn text(prompt: &Prompt, length: usize) -> Vec<TokenId> {
        let mut target = toy(0, 256);
        let mut context = prompt.context.clone();
        for _ in 0..length {
            let scores = target.score(&context, &TokenTree::new(), Want::ARGMAX);
            context.push(scores.expect("a toy does not fail").argmax[0]);
        }
        context.split_off(prompt.context.len())
    }

    fn matrix(rows: &[[usize; 3]; 3]) -> KMatrix {
        let rows = rows.iter().map(|row| row.to_vec()).collect();
        KMatrix::new(rows, Convention::Added).expect("upper triangular")
    }

    fn recorded(prompt: &Prompt, length: usize) -> Recordings {
        let mut recording = Recording::new(text(prompt, length));
        recording.add_statistical(&mut Counter, prompt, 10);
        recording
            .add_neural(&mut toy(2, 150), prompt)
            .expect("a toy does not fail");
        recording
            .add_neural(&mut toy(1, 220), prompt)
            .expect("a toy does not fail");
        Recordings::new(vec![recording])
    }

    fn times() -> Times {
        Times::linear(&[1.0, 0.1, 0.05, 0.0], 0.02)
    }

    #[test]
    fn rows_take_time() {
        let prompt = Prompt::new(Architecture::DecoderOnly, vec![1, 3]);
        let setting = Setting {
            k: matrix(&[[0, 0, 10], [0; 3], [0; 3]]),
            lenience: Lenience::STRICT,
            nodes: None,
        };
        let recordings = recorded(&prompt, 60);
        let with = |row| {
            let times = Times::linear(&[1.0, 0.1, 0.05, 0.0], row);
            let prediction = recordings.predict(&setting, &times).unwrap();
            (
                prediction.speedup(&times),
                prediction.swi(&times.of_one_row()),
            )
        };
        let ((free, swi), (dear, same)) = (with(0.0), with(0.5));
        assert!(
            (free - swi).abs() < 1e-6 && swi == same,
            "SWI counts forwards"
        );
        assert!(dear < 0.6 * free, "{free} {dear}");
    }

    fn measured(prompt: &Prompt, length: usize, setting: &Setting) -> Vec<u64> {
        let mut cascade = Cascade::builder()
            .target("target", toy(0, 256))
            .neural("base", toy(1, 220))
            .neural("small", toy(2, 150))
            .statistical("counter", Counter)
            .k_matrix(setting.k.clone())
            .lenience(setting.lenience)
            .build()
            .expect("fits");
        let options = Options::default().with_max_new_tokens(length);
        let generation = cascade
            .generate_tokens(prompt, &options)
            .expect("toys do not fail");
        generation
            .models
            .iter()
            .map(|model| model.usage.calls)
            .collect()
    }

    #[test]
    fn strict_predictions_are_what_the_cascade_does_to_its_target() {
        for start in 0..6 {
            let prompt = Prompt::new(Architecture::DecoderOnly, vec![start, 3]);
            let recordings = recorded(&prompt, 60);
            for k in [
                [[0, 0, 0], [0, 0, 0], [0, 0, 0]],
                [[3, 0, 0], [0, 0, 0], [0, 0, 0]],
                [[2, 2, 3], [0, 1, 2], [0, 0, 2]],
                [[0, 4, 2], [0, 0, 0], [0, 0, 3]],
                [[0, 0, 5], [0, 0, 0], [0, 0, 0]],
            ] {
                let setting = Setting {
                    k: matrix(&k),
                    lenience: Lenience::STRICT,
                    nodes: None,
                };
                let predicted = recordings.predict(&setting, &times()).unwrap();
                let measured = measured(&prompt, 60, &setting);
                // The cost of a draft beyond its first mistake is an estimate; the number of target
                // forwards is exact.
                assert_eq!(predicted.calls[0], measured[0], "{k:?}");
                if k[0][0] == 0 && k[0][1] == 0 {
                    assert_eq!(predicted.calls, measured, "{k:?}");
                }
            }
        }
    }

    #[test]
    fn estimates_of_the_drafters_calls_are_close() {
        let setting = Setting {
            k: matrix(&[[4, 2, 3], [0, 2, 2], [0, 0, 2]]),
            lenience: Lenience::new(2.0).unwrap(),
            nodes: None,
        };
        let (mut predicted, mut found) = ([0.0; 3], [0.0; 3]);
        for start in 0..12 {
            let prompt = Prompt::new(Architecture::DecoderOnly, vec![start, 5]);
            let predicted_calls = recorded(&prompt, 80).predict(&setting, &times());
            let calls = predicted_calls.unwrap().calls;
            let measured = measured(&prompt, 80, &setting);
            for model in 0..3 {
                predicted[model] += calls[model] as f64;
                found[model] += measured[model] as f64;
            }
        }
        for (predicted, found) in predicted.iter().zip(found) {
            assert!((predicted / found - 1.0).abs() < 0.1, "{predicted} {found}");
        }
    }

    #[test]
    fn plain_decoding_has_an_swi_of_one() {
        let prompt = Prompt::new(Architecture::DecoderOnly, vec![1, 3]);
        let setting = Setting {
            k: matrix(&[[0; 3]; 3]),
            lenience: Lenience::STRICT,
            nodes: None,
        };
        let prediction = recorded(&prompt, 30).predict(&setting, &times()).unwrap();
        assert!((prediction.speedup(&times()) - 1.0).abs() < 1e-6);
        assert_eq!(prediction.swi(&[11300.0, 220.0, 60.0, 0.0]), 1.0);
        assert_eq!(prediction.drafting_per_token(&[1.0, 0.1, 0.1, 0.0]), 0.0);
    }
}
