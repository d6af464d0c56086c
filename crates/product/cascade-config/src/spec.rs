//! Cascades of which only the models are named, as on a command line.

use cascade_core::Fingerprint;
use cascade_engine::Lenience;
use cascade_models::Tokenizer;
use cascade_ngram::{MaxGramConfig, TableLocator};

use crate::defaults::{default_draft_tokens, default_lenience, k_matrix};
use crate::vocabulary::check_same;
use crate::{locator, AssembleOptions, Config, Drafter, Error, Neural, Result};

/// A target and its drafters; everything else has a default.
///
/// ```
/// use cascade_config::{model_source, AssembleOptions, CascadeSpec, Neural};
///
/// let target = Neural::new(model_source("embedded:demo-llama-target")?);
/// let config = CascadeSpec::new(target, Vec::new()).config("example",
/// &AssembleOptions::default())?;
/// assert_eq!(config.drafters()[0].name(), "max-gram");
/// # Ok::<(), cascade_config::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CascadeSpec {
    /// The model whose answers are kept.
    pub target: Neural,
    /// Neural drafters, largest first.
    pub drafters: Vec<Neural>,
    /// Whether Max-Gram drafts, after all others, and with which table.
    pub max_gram: Option<NgramTable>,
    /// Tokens that each drafter adds for the target, Max-Gram's last;
    /// [`default_draft_tokens`] if `None`.
    pub draft_tokens: Option<Vec<usize>>,
    /// λ of drafters' reviews of neural drafts; [`default_lenience`] if `None`.
    pub lenience: Option<Lenience>,
}

/// The bigram table of Max-Gram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NgramTable {
    /// The embedded table of the target's vocabulary, if there is one.
    Fitting,
    /// This one.
    At(TableLocator),
    /// None: Max-Gram copies from the text alone.
    None,
}

impl CascadeSpec {
    /// A cascade with the default settings: of neural drafters, or of Max-Gram if there are none.
    pub fn new(target: Neural, drafters: Vec<Neural>) -> Self {
        Self {
            max_gram: drafters.is_empty().then_some(NgramTable::Fitting),
            target,
            drafters,
            draft_tokens: None,
            lenience: None,
        }
    }

    /// What it means in full, called `label` in messages. Loads the tokenizers, and no weights: a
    /// drafter that does not fit is found before gigabytes are read.
    ///
    /// # Errors
    /// A tokenizer that cannot be loaded; a drafter with another vocabulary than the target
    /// ([`Error::Vocabulary`]); as many draft tokens as there are not drafters; a table that the
    /// program does not have.
    pub fn config(&self, label: &str, options: &AssembleOptions) -> Result<Config> {
        let vocabulary = self.check_vocabularies(label, options)?;
        let mut drafters: Vec<_> = self.drafters.iter().cloned().map(Drafter::neural).collect();
        if let Some(table) = &self.max_gram {
            let mut max_gram = MaxGramConfig::default();
            max_gram.bigram = table.resolve(label, &vocabulary)?;
            drafters.push(Drafter::statistical(max_gram));
        }
        let neural = self.drafters.len();
        let tokens = self.for_target(label, &drafters)?;
        let k = k_matrix(neural, &tokens).map_err(|error| Error::cascade(label, error))?;
        let mut config = Config::new(self.target.clone());
        label.clone_into(&mut config.label);
        config = config.with_drafters(drafters, k)?;
        config.lenience = self.lenience.unwrap_or_else(|| default_lenience(neural));
        Ok(config)
    }

    /// The target's vocabulary, which all drafters have.
    fn check_vocabularies(&self, label: &str, options: &AssembleOptions) -> Result<Fingerprint> {
        let load = |key: &str, neural: &Neural| {
            let tokenizer = neural.load_tokenizer(options);
            tokenizer.map_err(|source| Error::Model {
                file: label.to_owned(),
                key: key.to_owned(),
                source: Box::new(source),
            })
        };
        let target: Tokenizer = load("target", &self.target)?;
        for (j, drafter) in self.drafters.iter().enumerate() {
            let tokenizer = load(&format!("drafters[{j}]"), drafter)?;
            let named = |neural: &Neural| neural.name.clone();
            check_same(
                label,
                (&named(drafter), &tokenizer),
                (&named(&self.target), Some(&target), &target.fingerprint()),
            )?;
        }
        Ok(target.fingerprint())
    }

    fn for_target(&self, label: &str, drafters: &[Drafter]) -> Result<Vec<usize>> {
        let Some(tokens) = &self.draft_tokens else {
            return Ok(default_draft_tokens(
                self.drafters.len(),
                self.max_gram.is_some(),
            ));
        };
        if tokens.len() == drafters.len() {
            return Ok(tokens.clone());
        }
        let names: Vec<_> = drafters.iter().map(Drafter::name).collect();
        Err(Error::Entry {
            file: label.to_owned(),
            key: "-k".to_owned(),
            problem: format!(
                "it gives {} number(s), and there are {} drafter(s): {}",
                tokens.len(),
                drafters.len(),
                names.join(", ")
            ),
            cure: "give the tokens that each adds, largest drafter first and Max-Gram last, as in \
                   -k 5,10"
                .to_owned(),
        })
    }
}

impl NgramTable {
    /// Reads a file's name, `embedded:NAME` or `none`.
    pub fn parse(text: &str) -> Self {
        match text {
            "none" => Self::None,
            text => Self::At(TableLocator::from(text)),
        }
    }

    fn resolve(&self, label: &str, vocabulary: &Fingerprint) -> Result<Option<TableLocator>> {
        match self {
            Self::None => Ok(None),
            Self::Fitting => Ok(locator::table_of(vocabulary)),
            Self::At(TableLocator::Embedded(name)) => {
                locator::embedded_table(name).map_err(|(problem, cure)| Error::Entry {
                    file: label.to_owned(),
                    key: "--ngram".to_owned(),
                    problem,
                    cure,
                })?;
                Ok(Some(TableLocator::Embedded(name.clone())))
            }
            Self::At(table) => Ok(Some(table.clone())),
        }
    }
}

impl Neural {
    /// Its tokenizer alone, without the model.
    ///
    /// # Errors
    /// A tokenizer that is missing, or cannot be read.
    pub fn load_tokenizer(&self, options: &AssembleOptions) -> cascade_models::Result<Tokenizer> {
        let source = self.tokenizer.as_ref().unwrap_or(&self.source);
        let file = source.tokenizer(&options.hub, options.progress)?;
        Tokenizer::load(&file)
    }
}
