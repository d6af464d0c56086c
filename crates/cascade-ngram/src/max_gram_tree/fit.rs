//! Fits [`Weights`] to recorded answers.
//!
//! ```
//! use cascade_ngram::max_gram_tree::fit::Fitter;
//! use cascade_ngram::{MaxGramTree, MaxGramTreeConfig};
//!
//! let answers = [(vec![1, 2, 3, 1, 2], vec![3, 1, 2, 3, 1, 2, 3])];
//! let mut fitter = Fitter::new(MaxGramTree::new(MaxGramTreeConfig::default(), None));
//! let mut before = f64::INFINITY;
//! for _pass in 0..3 {
//!     fitter.forget();
//!     let mut fitted = Default::default();
//!     for (prompt, answer) in &answers {
//!         fitted = fitter.read(&[], prompt, answer);
//!     }
//!     assert!(fitted.nats_per_token() < before);
//!     before = fitted.nats_per_token();
//! }
//! let file = fitter.weights().to_json()?;
//! # assert!(file.contains("context"));
//! # Ok::<(), String>(())
//! ```

use std::ops::AddAssign;

use cascade_core::{Drafter, TokenId};

use super::weights::PARAMETERS;
use super::{MaxGramTree, Weights};

/// Moves the weights of a [`MaxGramTree`] so that it gives the tokens of recorded answers higher
/// probabilities: by the gradient of their logarithms, one step (Adagrad) for each token.
///
/// The drafter reads each answer as a generation would let it: what follows a token is not known
/// when its probability is asked for, and answers that were read before are in its session store.
/// Only evidence that the drafter has is fitted: with the table, the session store, or without
/// them. Recordings do not tell what the target would have said after other tokens, so the weights
/// of hints stay as they are.
///
/// # Cost
/// About 5 µs per token and pass; four passes over 100,000 tokens are enough.
#[derive(Clone, Debug)]
pub struct Fitter {
    /// The drafter as it was before it read anything.
    new: MaxGramTree,
    drafter: MaxGramTree,
    rate: f32,
    /// The sum of the squared slopes of each parameter.
    squares: [f32; PARAMETERS],
}

/// How well tokens were foreseen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Foreseen {
    /// Tokens of answers.
    pub tokens: usize,
    /// The sum of -ln p(token): the probabilities that the weights gave before they learned from
    /// the token. A token that nothing speaks for counts as one of probability 1e-4.
    pub nats: f64,
}

impl Foreseen {
    /// The mean of `nats` for a token; NaN if there are none.
    pub fn nats_per_token(&self) -> f64 {
        self.nats / self.tokens as f64
    }
}

impl AddAssign for Foreseen {
    fn add_assign(&mut self, other: Self) {
        self.tokens += other.tokens;
        self.nats += other.nats;
    }
}

impl Fitter {
    /// The rate that the shipped weights would be fitted with.
    pub const RATE: f32 = 0.1;
    /// What nothing speaks for.
    const FLOOR: f32 = 1e-4;

    /// Fits the weights of `drafter`, from those that it has. Its options say which evidence there
    /// is; their learning rate is not used.
    pub fn new(drafter: MaxGramTree) -> Self {
        Self {
            new: drafter.clone(),
            drafter,
            rate: Self::RATE,
            squares: [0.0; PARAMETERS],
        }
    }

    /// The fitter with another rate: how far the first step of each parameter goes, if all of the
    /// probability depends on it. 0 learns nothing, which measures weights as they are.
    pub fn with_rate(self, rate: f32) -> Self {
        Self { rate, ..self }
    }

    /// The weights so far.
    pub fn weights(&self) -> &Weights {
        self.drafter.weights()
    }

    /// Forgets the session and the text, and keeps the weights: another pass may begin.
    pub fn forget(&mut self) {
        let weights = self.weights().clone();
        self.drafter = self.new.clone().with_weights(weights);
    }

    /// Learns from one answer to a prompt; `source` is empty for decoder-only models.
    pub fn read(&mut self, source: &[TokenId], prompt: &[TokenId], answer: &[TokenId]) -> Foreseen {
        let Self {
            drafter,
            rate,
            squares,
            ..
        } = self;
        let mut foreseen = Foreseen::default();
        drafter.set_source(source);
        drafter.begin(prompt);
        drafter.read(answer, |gradient, weights| {
            foreseen += Foreseen {
                tokens: 1,
                nats: -f64::from(gradient.probability.max(Self::FLOOR)).ln(),
            };
            let mut slopes = [0.0; PARAMETERS];
            for (parameter, slope) in gradient.slopes() {
                slopes[parameter] += slope;
            }
            for (parameter, slope) in slopes.into_iter().enumerate() {
                if slope != 0.0 {
                    squares[parameter] += slope * slope;
                    weights.adjust(parameter, *rate * slope / squares[parameter].sqrt());
                }
            }
        });
        drafter.observed = drafter.history.id();
        foreseen
    }
}
