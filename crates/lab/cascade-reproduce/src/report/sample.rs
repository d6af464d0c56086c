//! Generated text, each token with the level that drafted it.

use cascade_core::LevelId;

use crate::error::{Error, Result};
use crate::report::evidence::Evidence;

/// A token as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its text. Tokens in a row are read as one text, so white space belongs in them.
    pub text: String,
    /// The level that proposed it first.
    pub proposer: LevelId,
}

impl Token {
    /// A token and the level that proposed it first.
    pub fn new(text: impl Into<String>, proposer: LevelId) -> Self {
        Self {
            text: text.into(),
            proposer,
        }
    }
}

/// A prompt, and what was generated for it, step by step.
///
/// A step is one forward of the target: the drafted tokens that it kept, and as a rule one of its
/// own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    pub(crate) title: String,
    pub(crate) evidence: Evidence,
    pub(crate) prompt: String,
    pub(crate) levels: Vec<String>,
    pub(crate) steps: Vec<Vec<Token>>,
}

impl Sample {
    /// A sample. `levels` are the names of the models, the target first; `steps` are the emitted
    /// tokens.
    ///
    /// # Errors
    /// A token that was proposed by a level without a name.
    pub fn new(
        title: impl Into<String>,
        evidence: Evidence,
        prompt: impl Into<String>,
        levels: impl IntoIterator<Item = impl Into<String>>,
        steps: Vec<Vec<Token>>,
    ) -> Result<Self> {
        let sample = Self {
            title: title.into(),
            evidence,
            prompt: prompt.into(),
            levels: levels.into_iter().map(Into::into).collect(),
            steps,
        };
        sample.check()?;
        Ok(sample)
    }

    fn check(&self) -> Result<()> {
        for (step, tokens) in self.steps.iter().enumerate() {
            for (token, Token { proposer, .. }) in tokens.iter().enumerate() {
                if proposer.0 >= self.levels.len() {
                    return Err(Error::invalid(format!(
                        "token {token} of step {step} of \"{}\" was proposed by level {}, and only {} levels have \
                         names; name every level, the target first",
                        self.title,
                        proposer.0,
                        self.levels.len()
                    )));
                }
            }
        }
        Ok(())
    }

    pub(crate) fn tokens(&self) -> usize {
        self.steps.iter().map(Vec::len).sum()
    }

    /// How many tokens a level proposed.
    pub(crate) fn proposed_by(&self, level: usize) -> usize {
        let tokens = self.steps.iter().flatten();
        tokens.filter(|token| token.proposer.0 == level).count()
    }
}
