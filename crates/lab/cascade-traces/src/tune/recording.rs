//! Drafter outputs along a text of the target.

use cascade_core::{Budget, Drafter, Prompt, Result, Sampling, Scorer, TokenId, Want};

use crate::trace::{along, logits};

/// Maximum rows of one forward: bounds the memory for logits.
const ROWS: usize = 64;

/// One drafter's outputs along a text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Recorded {
    /// A neural drafter, after each prefix of the text.
    Neural {
        /// Its most probable token.
        choices: Vec<TokenId>,
        /// Its probability of that token.
        confidences: Vec<f32>,
        /// Its probabilities of the most probable token of each smaller neural drafter, then of the
        /// text's own token.
        others: Vec<Vec<f32>>,
    },
    /// A statistical drafter: the chain that it proposes after each prefix.
    Statistical {
        /// Tokens, the next one first.
        chains: Vec<Vec<TokenId>>,
    },
}

/// A text of the target and each drafter's outputs along it, largest first.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Recording {
    pub(super) tokens: Vec<TokenId>,
    pub(super) drafters: Vec<Recorded>,
}

impl Recording {
    /// Starts a recording of the target's text for a prompt, without drafters.
    pub(super) fn new(tokens: Vec<TokenId>) -> Self {
        Self {
            tokens,
            drafters: Vec::new(),
        }
    }

    /// Records a statistical drafter as the next larger one: chains of at most `depth` tokens.
    pub(super) fn add_statistical(
        &mut self,
        drafter: &mut dyn Drafter,
        prompt: &Prompt,
        depth: usize,
    ) {
        drafter.set_source(&prompt.source);
        let mut context = prompt.context.clone();
        let mut chains = Vec::with_capacity(self.tokens.len());
        for &token in &self.tokens {
            let tree = drafter.propose(&context, Budget::chain(depth)).into_tree();
            chains.push(tree.tokens().collect());
            context.push(token);
        }
        self.drafters.insert(0, Recorded::Statistical { chains });
    }

    /// Records a neural drafter as the next larger one, by teacher forcing: one forward per 64
    /// tokens. Drafters must be recorded smallest first, since a larger drafter's probabilities of
    /// the smaller ones' choices are recorded.
    ///
    /// # Errors
    /// Errors of the model.
    pub(super) fn add_neural(&mut self, scorer: &mut dyn Scorer, prompt: &Prompt) -> Result<()> {
        let (mut choices, mut confidences) = (Vec::new(), Vec::new());
        let smaller: Vec<&[TokenId]> = self.drafters.iter().filter_map(Recorded::choices).collect();
        let mut others = vec![Vec::new(); smaller.len() + 1];
        let how = (ROWS, Want::LOGITS);
        along(scorer, prompt, &self.tokens, how, |tokens, scores| {
            for ((logits, &choice), &token) in logits(scores)?.zip(&scores.argmax).zip(tokens) {
                let distribution = Sampling::PLAIN.distribution(logits)?;
                let asked = smaller.iter().map(|choices| choices[confidences.len()]);
                for (others, token) in others.iter_mut().zip(asked.chain([token])) {
                    others.push(distribution.probability(token) as f32);
                }
                choices.push(choice);
                confidences.push(distribution.probability(choice) as f32);
            }
            Result::Ok(())
        })?;
        let recorded = Recorded::Neural {
            choices,
            confidences,
            others,
        };
        self.drafters.insert(0, recorded);
        Ok(())
    }
}

impl Recorded {
    pub(super) fn choices(&self) -> Option<&[TokenId]> {
        match self {
            Self::Neural { choices, .. } => Some(choices),
            Self::Statistical { .. } => None,
        }
    }

    /// A neural drafter's probability of a token after `at` tokens of `text`, if recorded: for its
    /// own choice, for those of the smaller drafters (`smaller`, largest first), and for the text's
    /// token. 0 for any other token.
    pub(super) fn probability(
        &self,
        at: usize,
        token: TokenId,
        smaller: &[Recorded],
        text: &[TokenId],
    ) -> f32 {
        let Self::Neural {
            choices,
            confidences,
            others,
        } = self
        else {
            return 1.0;
        };
        if choices[at] == token {
            return confidences[at];
        }
        let known = smaller.iter().filter_map(Self::choices).chain([text]);
        let found = known.zip(others).find(|(tokens, _)| tokens[at] == token);
        found.map_or(0.0, |(_, probabilities)| probabilities[at])
    }
}
