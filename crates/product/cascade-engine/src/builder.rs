//! Putting a cascade together.

use std::sync::Arc;

use cascade_core::{Drafter, Scorer, TextCodec, TokenId};
use cascade_verify::{Lenience, LeniencePolicy};

use crate::exact::check_exact;
use crate::level::{Level, Neural};
use crate::recursion::Recursion;
use crate::{
    Branching, Cascade, Error, KMatrix, NeuralOptions, Placement, Result, ReviewRule, Rule,
};

/// Nodes of a draft if nothing else is asked for.
const MAX_NODES: usize = 64;

/// Builds a [`Cascade`]. Drafters are added largest first.
#[derive(Default)]
pub struct CascadeBuilder {
    target: Option<Neural>,
    drafters: Vec<Level>,
    k: Option<KMatrix>,
    lenience: Option<f32>,
    statistical_lenience: Option<f32>,
    placement: Placement,
    max_nodes: Option<usize>,
    eos: Vec<TokenId>,
    codec: Option<Arc<dyn TextCodec>>,
}

impl CascadeBuilder {
    /// The model whose answers are kept.
    pub fn target(self, name: impl Into<String>, scorer: impl Scorer + Send + 'static) -> Self {
        self.target_with(name, scorer, Rule::default())
    }

    /// The model whose answers are kept, and the rule of its reviews when tokens are sampled.
    pub fn target_with(
        mut self,
        name: impl Into<String>,
        scorer: impl Scorer + Send + 'static,
        rule: impl ReviewRule + 'static,
    ) -> Self {
        let options = NeuralOptions::new(rule, Branching::default());
        self.target = Some(Neural::new(name.into(), Box::new(scorer), options));
        self
    }

    /// Adds a neural drafter below those already there. With nothing below it, it drafts one token per forward.
    pub fn neural(self, name: impl Into<String>, scorer: impl Scorer + Send + 'static) -> Self {
        self.neural_with(name, scorer, NeuralOptions::default())
    }

    /// The same, with a rule for its reviews and branches in its drafts.
    pub fn neural_with(
        mut self,
        name: impl Into<String>,
        scorer: impl Scorer + Send + 'static,
        options: NeuralOptions,
    ) -> Self {
        let neural = Neural::new(name.into(), Box::new(scorer), options);
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

    /// Where the drafters of one row of the K matrix draft; each after the one before if not set.
    pub fn placement(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// Nodes of a draft at most, whoever reviews it; 64 if not set. The leading path comes first, branches get what it
    /// leaves.
    pub fn max_nodes(mut self, nodes: usize) -> Self {
        self.max_nodes = Some(nodes);
        self
    }

    /// Tokens that end a text.
    pub fn eos(mut self, tokens: impl IntoIterator<Item = TokenId>) -> Self {
        self.eos = tokens.into_iter().collect();
        self
    }

    /// The tokenizer, for text prompts, text events and stop sequences.
    pub fn codec(mut self, codec: Arc<dyn TextCodec>) -> Self {
        self.codec = Some(codec);
        self
    }

    /// Checks that the parts fit together.
    ///
    /// # Errors
    /// No target; a K matrix that is missing or of the wrong size; a lenience below 1; a drafter whose vocabulary or
    /// architecture differs from the target's; no nodes to draft; a rule that would not be exact for what it reviews.
    pub fn build(self) -> Result<Cascade> {
        let target = self.target.ok_or(Error::NoTarget)?;
        let k = fitting_matrix(self.k, self.drafters.len())?;
        for level in &self.drafters {
            if let Level::Neural(neural) = level {
                check_fits(neural, &target)?;
            }
        }
        if self.max_nodes == Some(0) {
            return Err(Error::NoNodes);
        }
        let levels: Vec<_> = std::iter::once(Some(target.as_reviewer()))
            .chain(self.drafters.iter().map(Level::as_reviewer))
            .collect();
        check_exact(&levels, &k)?;
        let leniences = LeniencePolicy {
            neural: Lenience::new(self.lenience.unwrap_or(1.0))?,
            statistical: Lenience::new(self.statistical_lenience.unwrap_or(1.0))?,
        };
        Ok(Cascade {
            target,
            drafters: self.drafters,
            recursion: Recursion {
                k,
                leniences,
                placement: self.placement,
                max_nodes: self.max_nodes.unwrap_or(MAX_NODES),
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
