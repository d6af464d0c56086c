//! Generated text, each token with the level that drafted it.

use cascade_core::LevelId;

use crate::error::{Error, Result};
use crate::report::evidence::Evidence;

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
    pub(crate) steps: Vec<Vec<(String, LevelId)>>,
}

impl Sample {
    /// A sample. `levels` are the names of the models, the target first; `steps` are the emitted
    /// tokens, each with the level that proposed it first. Tokens in a row are read as one text, so
    /// white space belongs in them.
    ///
    /// # Errors
    /// A token that was proposed by a level without a name.
    pub fn new(
        title: impl Into<String>,
        evidence: Evidence,
        prompt: impl Into<String>,
        levels: Vec<String>,
        steps: Vec<Vec<(String, LevelId)>>,
    ) -> Result<Self> {
        let title = title.into();
        for (step, tokens) in steps.iter().enumerate() {
            for (token, (_, LevelId(level))) in tokens.iter().enumerate() {
                let names = levels.len();
                if *level >= names {
                    return Err(Error::invalid(format!(
                        "token {token} of step {step} of \"{title}\" was proposed by level {level}, and only {names} \
                         levels have names; name every level, the target first"
                    )));
                }
            }
        }
        Ok(Self {
            title,
            evidence,
            prompt: prompt.into(),
            levels,
            steps,
        })
    }

    pub(crate) fn tokens(&self) -> usize {
        self.steps.iter().map(Vec::len).sum()
    }

    /// How many tokens a level proposed.
    pub(crate) fn proposed_by(&self, level: usize) -> usize {
        let tokens = self.steps.iter().flatten();
        tokens.filter(|(_, proposer)| proposer.0 == level).count()
    }
}
