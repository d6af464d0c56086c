//! What a cascade would do along recorded texts.

use cascade_core::TokenId;
use cascade_engine::KMatrix;

use super::{Recorded, Recording};

/// A setting of a cascade: what a search varies.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Tokens that each drafter adds for each reviewer.
    pub k: KMatrix,
    /// λ of drafters' reviews of neural drafts.
    pub lenience: f32,
}

/// What a setting is predicted to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Tokens of the texts.
    pub tokens: u64,
    /// Forwards of the target, then of each drafter, largest first; statistical ones count their proposals.
    pub calls: Vec<u64>,
}

impl Prediction {
    /// Standardized walltime improvement: tokens · c(target) / Σ calls · c(model). `costs` are those of the target and of
    /// each drafter; 0 for statistical ones.
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

    /// Tokens per forward of the target.
    pub fn mean_acceptance_length(&self) -> f64 {
        self.tokens as f64 / self.calls[0] as f64
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
pub struct Recordings(pub Vec<Recording>);

impl Recordings {
    /// What a cascade of chains with `setting` would do, decoding greedily.
    ///
    /// As long as a draft follows the text, this is what the cascade does, call by call. Beyond the first token that does not,
    /// nothing is accepted whatever it is, but drafting goes on and costs calls; there the drafters are taken to agree with
    /// each other as they do along the text.
    ///
    /// # Panics
    /// If the matrix does not have one row for each drafter.
    pub fn predict(&self, setting: &Setting) -> Prediction {
        let drafters = setting.k.size();
        let mut prediction = Prediction {
            tokens: 0,
            calls: vec![0; drafters + 1],
        };
        for recording in &self.0 {
            assert_eq!(
                recording.drafters.len(),
                drafters,
                "one row for each drafter"
            );
            Walk {
                setting,
                text: &recording.tokens,
                drafters: &recording.drafters,
                calls: &mut prediction.calls,
            }
            .run();
            prediction.tokens += recording.tokens.len() as u64;
        }
        prediction
    }

    /// Number of drafters.
    pub fn drafters(&self) -> usize {
        self.0
            .first()
            .map_or(0, |recording| recording.drafters.len())
    }

    /// Whether drafter `j` is neural.
    pub fn is_neural(&self, j: usize) -> bool {
        let recorded = self
            .0
            .first()
            .and_then(|recording| recording.drafters.get(j));
        matches!(recorded, Some(Recorded::Neural { .. }))
    }
}

/// One text.
struct Walk<'a> {
    setting: &'a Setting,
    text: &'a [TokenId],
    drafters: &'a [Recorded],
    calls: &'a mut [u64],
}

/// A drafted token and the probability that a lenient review compares; none if it is a statistical drafter's.
#[derive(Clone, Copy)]
struct Guess {
    token: TokenId,
    probability: Option<f32>,
}

impl Walk<'_> {
    fn run(&mut self) {
        let mut at = 0;
        while at < self.text.len() {
            let draft = self.draft(0, at, self.text.len() - at - 1);
            let follows = draft.iter().zip(&self.text[at..]);
            let accepted = follows
                .take_while(|(guess, token)| guess.token == **token)
                .count();
            self.calls[0] += 1;
            at += accepted + 1;
        }
    }

    /// What is drafted for the reviewer of `row` after `at` tokens: the recursion of the engine, over recorded answers.
    fn draft(&mut self, row: usize, at: usize, limit: usize) -> Vec<Guess> {
        let mut draft: Vec<Guess> = Vec::new();
        let mut share = 0;
        for j in row..self.drafters.len() {
            let added = self.setting.k.added(row, j);
            share += added;
            while added > 0 && draft.len() < share.min(limit) {
                let place = at + draft.len();
                match &self.drafters[j] {
                    Recorded::Statistical { chains } => {
                        let quota = share.min(limit) - draft.len();
                        self.calls[j + 1] += 1;
                        let chain = chains[place].iter().take(quota);
                        draft.extend(chain.map(|&token| Guess {
                            token,
                            probability: None,
                        }));
                        break;
                    }
                    Recorded::Neural { .. } => {
                        let room = limit - draft.len();
                        draft.extend(self.draft_and_review(j, place, room));
                    }
                }
            }
        }
        draft
    }

    /// The levels below drafter `j` draft, it reviews, and adds a token of its own.
    fn draft_and_review(&mut self, j: usize, at: usize, room: usize) -> Vec<Guess> {
        let below = self.draft(j + 1, at, room - 1);
        self.calls[j + 1] += 1;
        let (reviewer, smaller) = (&self.drafters[j], &self.drafters[j + 1..]);
        let Recorded::Neural { choices, .. } = reviewer else {
            return Vec::new();
        };
        let mut kept = Vec::with_capacity(below.len() + 1);
        for guess in below {
            let place = at + kept.len();
            let p = reviewer.probability(place, guess.token, smaller, self.text);
            let lenience = self.setting.lenience;
            let excused = guess
                .probability
                .is_some_and(|q| lenience > 1.0 && q <= lenience * p);
            if choices[place] != guess.token && !excused {
                break;
            }
            kept.push(Guess {
                token: guess.token,
                probability: Some(p),
            });
        }
        let place = at + kept.len();
        kept.push(Guess {
            token: choices[place],
            probability: Some(reviewer.probability(place, choices[place], smaller, self.text)),
        });
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cascade_core::toy::ToyScorer;
    use cascade_core::{
        Architecture, Budget, Drafter, Prompt, ScoredTree, Scorer, TokenTree, Want,
    };
    use cascade_engine::{Cascade, Convention, Options};
    use std::ops::ControlFlow;

    const VOCABULARY: usize = 12;

    fn toy(seed: u64, agreement: u64) -> ToyScorer {
        ToyScorer::drafter("toy", VOCABULARY, 9, seed, agreement)
    }

    /// Counts on from the last token.
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
        Recordings(vec![recording])
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
        let options = Options {
            max_new_tokens: length,
            ..Options::default()
        };
        let generation = cascade
            .generate_tokens(prompt, &options, |_| ControlFlow::Continue(()))
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
                    lenience: 1.0,
                };
                let predicted = recordings.predict(&setting);
                let measured = measured(&prompt, 60, &setting);
                // What a draft costs beyond its first mistake is an estimate; how often the target is asked is not.
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
            lenience: 2.0,
        };
        let (mut predicted, mut found) = ([0.0; 3], [0.0; 3]);
        for start in 0..12 {
            let prompt = Prompt::new(Architecture::DecoderOnly, vec![start, 5]);
            let calls = recorded(&prompt, 80).predict(&setting).calls;
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
            lenience: 1.0,
        };
        let prediction = recorded(&prompt, 30).predict(&setting);
        assert_eq!(prediction.swi(&[11300.0, 220.0, 60.0, 0.0]), 1.0);
        assert_eq!(prediction.mean_acceptance_length(), 1.0);
        assert_eq!(prediction.drafting_per_token(&[1.0, 0.1, 0.1, 0.0]), 0.0);
    }
}
