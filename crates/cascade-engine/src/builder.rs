//! Putting a cascade together.

use std::sync::Arc;

use cascade_core::{Drafter, Scorer, TextCodec, TokenId};
use cascade_verify::{Lenience, Leniences};

use crate::level::{Level, Neural};
use crate::recursion::Recursion;
use crate::{Cascade, Error, KMatrix, Result};

/// Builds a [`Cascade`]. Drafters are added largest first.
#[derive(Default)]
pub struct CascadeBuilder {
    target: Option<Neural>,
    drafters: Vec<Level>,
    k: Option<KMatrix>,
    lenience: Option<f32>,
    statistical_lenience: Option<f32>,
    eos: Vec<TokenId>,
    codec: Option<Arc<dyn TextCodec + Send + Sync>>,
}

impl CascadeBuilder {
    /// The model whose answers are kept.
    pub fn target(mut self, name: impl Into<String>, scorer: impl Scorer + Send + 'static) -> Self {
        self.target = Some(Neural::new(name.into(), Box::new(scorer)));
        self
    }

    /// Adds a neural drafter below those already there. With nothing below it, it drafts one token per forward.
    pub fn neural(mut self, name: impl Into<String>, scorer: impl Scorer + Send + 'static) -> Self {
        let neural = Neural::new(name.into(), Box::new(scorer));
        self.drafters.push(Level::Neural(neural));
        self
    }

    /// Adds a statistical drafter below those already there. It proposes directly, whatever stands below it.
    pub fn statistical(
        mut self,
        name: impl Into<String>,
        drafter: impl Drafter + Send + 'static,
    ) -> Self {
        let drafter: Box<dyn Drafter + Send> = Box::new(drafter);
        self.drafters.push(Level::Statistical {
            name: name.into(),
            drafter: crate::Metered::new(drafter),
        });
        self
    }

    /// How many tokens each drafter adds for each reviewer. Needed unless there is no drafter.
    pub fn k_matrix(mut self, k: KMatrix) -> Self {
        self.k = Some(k);
        self
    }

    /// λ of reviews by drafters, for what neural drafters propose; 1 if not set.
    pub fn lenience(mut self, lenience: f32) -> Self {
        self.lenience = Some(lenience);
        self
    }

    /// λ of reviews by drafters, for what statistical drafters propose; 1 if not set, as in the paper.
    pub fn statistical_lenience(mut self, lenience: f32) -> Self {
        self.statistical_lenience = Some(lenience);
        self
    }

    /// Tokens that end a text.
    pub fn eos(mut self, tokens: impl IntoIterator<Item = TokenId>) -> Self {
        self.eos = tokens.into_iter().collect();
        self
    }

    /// The tokenizer, for text prompts, text events and stop sequences.
    pub fn codec(mut self, codec: Arc<dyn TextCodec + Send + Sync>) -> Self {
        self.codec = Some(codec);
        self
    }

    /// Checks that the parts fit together.
    ///
    /// # Errors
    /// No target; a K matrix that is missing or of the wrong size; a lenience below 1; a drafter whose vocabulary or
    /// architecture differs from the target's.
    pub fn build(self) -> Result<Cascade> {
        let target = self.target.ok_or(Error::NoTarget)?;
        let k = fitting_matrix(self.k, self.drafters.len())?;
        for level in &self.drafters {
            if let Level::Neural(neural) = level {
                check_fits(neural, &target)?;
            }
        }
        let leniences = Leniences {
            neural: Lenience::new(self.lenience.unwrap_or(1.0))?,
            statistical: Lenience::new(self.statistical_lenience.unwrap_or(1.0))?,
        };
        Ok(Cascade {
            target,
            drafters: self.drafters,
            recursion: Recursion {
                k,
                leniences,
                eos: self.eos,
            },
            codec: self.codec,
        })
    }
}

fn fitting_matrix(k: Option<KMatrix>, drafters: usize) -> Result<KMatrix> {
    match k {
        Some(k) if k.size() == drafters => Ok(k),
        Some(k) => Err(Error::KMatrixSize {
            size: k.size(),
            drafters,
        }),
        None if drafters == 0 => Ok(KMatrix::new(Vec::new(), Default::default())?),
        None => Err(Error::NoKMatrix { drafters }),
    }
}

fn check_fits(drafter: &Neural, target: &Neural) -> Result<()> {
    let (found, expected) = (drafter.scorer.architecture(), target.scorer.architecture());
    if found != expected {
        return Err(Error::ArchitectureMismatch {
            drafter: drafter.name.clone(),
            found,
            target: target.name.clone(),
            expected,
        });
    }
    let (found, expected) = (drafter.scorer.vocab_size(), target.scorer.vocab_size());
    if found != expected {
        return Err(Error::VocabularyMismatch {
            drafter: drafter.name.clone(),
            found,
            target: target.name.clone(),
            expected,
        });
    }
    Ok(())
}
