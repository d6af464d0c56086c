//! Cascades of which only the models are named, as on a command line.

use cascade_core::Fingerprint;
use cascade_engine::Lenience;
use cascade_models::Tokenizer;
use cascade_ngram::{MaxGramConfig, MaxGramTreeConfig, TableLocator};

use crate::defaults::{
    NODES, default_draft_tokens, default_lenience, default_nodes, k_matrix, tree_depth,
};
use crate::vocabulary::shared;
use crate::{
    AssembleOptions, Config, DeviceSpec, Drafter, Error, Neural, Result, ScheduleConfig,
    StopRuleConfig, locator,
};

/// A target and its drafters; everything else has a default.
///
/// ```
/// use cascade_config::{model_source, AssembleOptions, CascadeSpec, Neural};
///
/// # cascade_demo::register();
/// let target = Neural::new(model_source("embedded:demo-llama-target")?);
/// let config = CascadeSpec::new(target, Vec::new()).config("example",
/// &AssembleOptions::default())?;
/// assert_eq!(config.drafters()[0].name(), "max-gram-tree");
/// # Ok::<(), cascade_config::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CascadeSpec {
    /// The model whose answers are kept.
    pub target: Neural,
    /// Neural drafters, largest first.
    pub drafters: Vec<Neural>,
    /// What drafts from the text itself, after all others, and with which table.
    pub text: Option<(TextDrafter, NgramTable)>,
    /// Whether a K matrix says how much is drafted, with `draft_tokens` or else default ones. If
    /// not, and without `draft_tokens`, what pays is drafted.
    pub fixed: bool,
    /// Tokens that each drafter adds for the target, those of the text last. If there is a K matrix
    /// and this is `None`, [`default_draft_tokens`], and as deep as nodes allow for the tree alone.
    pub draft_tokens: Option<Vec<usize>>,
    /// Nodes of a draft at most. If `None`, [`default_nodes`] for the Max-Gram tree alone with a K
    /// matrix, and otherwise what the engine allows.
    pub max_nodes: Option<usize>,
    /// λ of drafters' reviews of neural drafts; [`default_lenience`] if `None`.
    pub lenience: Option<Lenience>,
    /// When the turns of all drafters end early.
    pub stop_rule: Option<StopRuleConfig>,
}

/// What drafts from the text itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextDrafter {
    /// The tree of all matches: [`MaxGramTree`](cascade_ngram::MaxGramTree).
    Tree,
    /// The chain of the paper: [`MaxGram`](cascade_ngram::MaxGram).
    MaxGram,
}

/// The table of what drafts from the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NgramTable {
    /// The embedded table of the target's vocabulary, if there is one.
    Fitting,
    /// This one.
    At(TableLocator),
    /// None: drafts come from the text alone.
    None,
}

impl CascadeSpec {
    /// A cascade with the default settings: of neural drafters, or of the Max-Gram tree if there
    /// are none.
    pub fn new(target: Neural, drafters: Vec<Neural>) -> Self {
        let tree = (TextDrafter::Tree, NgramTable::Fitting);
        Self {
            text: drafters.is_empty().then_some(tree),
            target,
            drafters,
            fixed: false,
            draft_tokens: None,
            max_nodes: None,
            lenience: None,
            stop_rule: None,
        }
    }

    /// What it means in full, called `label` in messages. Loads the tokenizers, and no weights: a
    /// drafter that does not fit is found before gigabytes are read.
    ///
    /// # Errors
    /// A tokenizer that cannot be loaded; a drafter with another vocabulary than the target
    /// ([`Error::Vocabulary`]); as many draft tokens as there are not drafters; a table that the
    /// program does not have; for the Max-Gram tree alone, a device that is not there.
    pub fn config(&self, label: &str, options: &AssembleOptions) -> Result<Config> {
        let vocabulary = self.check_vocabularies(label, options)?;
        let mut drafters: Vec<_> = self.drafters.iter().cloned().map(Drafter::neural).collect();
        if let Some((drafter, table)) = &self.text {
            let table = table.resolve(label, &vocabulary)?;
            drafters.push(drafter.with_table(table));
        }
        let neural = self.drafters.len();
        let nodes = self.nodes(label, options)?;
        let schedule = if self.has_k() || drafters.is_empty() {
            let tokens = self.for_target(label, &drafters, nodes)?;
            let k = k_matrix(neural, &tokens).map_err(|error| Error::cascade(label, error))?;
            k.into()
        } else {
            ScheduleConfig::Online
        };
        for drafter in &mut drafters {
            drafter.stop_rule_mut().clone_from(&self.stop_rule);
        }
        let mut config = Config::new(self.target.clone());
        label.clone_into(&mut config.label);
        config = config.with_drafters(drafters, schedule)?;
        config.max_nodes = nodes;
        config.lenience = self.lenience.unwrap_or_else(|| default_lenience(neural));
        Ok(config)
    }

    /// Whether a K matrix says how much is drafted.
    fn has_k(&self) -> bool {
        self.fixed || self.draft_tokens.is_some()
    }

    /// Whether the tree drafts, and nothing else.
    fn is_tree_alone(&self) -> bool {
        let tree = matches!(self.text, Some((TextDrafter::Tree, _)));
        tree && self.drafters.is_empty()
    }

    fn nodes(&self, label: &str, options: &AssembleOptions) -> Result<usize> {
        if let Some(nodes) = self.max_nodes {
            return match nodes {
                0 => Err(Error::cascade(label, cascade_engine::Error::NoNodes)),
                nodes => Ok(nodes),
            };
        }
        if !self.is_tree_alone() || !self.has_k() {
            return Ok(NODES);
        }
        let device = options.device.or(self.target.device).unwrap_or_default();
        let device = match device {
            DeviceSpec::Auto => device.resolve().map(|opened| opened.spec),
            named => Ok(named),
        };
        let device = device.map_err(|source| Error::model(label, "device", source))?;
        Ok(default_nodes(device))
    }

    /// The target's vocabulary, which all drafters share.
    fn check_vocabularies(&self, label: &str, options: &AssembleOptions) -> Result<Fingerprint> {
        let load = |key: &str, neural: &Neural| {
            let tokenizer = neural.load_tokenizer(options);
            tokenizer.map_err(|source| Error::model(label, key, source))
        };
        let target: Tokenizer = load("target", &self.target)?;
        for (j, drafter) in self.drafters.iter().enumerate() {
            let tokenizer = load(&format!("drafters[{j}]"), drafter)?;
            shared(
                label,
                (&drafter.name, &tokenizer),
                (&self.target.name, &target.fingerprint()),
                || Some(target.clone()),
            )?;
        }
        Ok(target.fingerprint())
    }

    fn for_target(&self, label: &str, drafters: &[Drafter], nodes: usize) -> Result<Vec<usize>> {
        let Some(tokens) = &self.draft_tokens else {
            return Ok(if self.is_tree_alone() {
                vec![tree_depth(nodes)]
            } else {
                default_draft_tokens(self.drafters.len(), self.text.is_some())
            });
        };
        if tokens.len() == drafters.len() {
            return Ok(tokens.clone());
        }
        let names: Vec<_> = drafters.iter().map(Drafter::name).collect();
        let (given, expected) = (tokens.len(), drafters.len());
        Err(Error::entry(
            label,
            "-k",
            format!(
                "it gives {given} number(s), and there are {expected} drafter(s): {}",
                names.join(", ")
            ),
            "give the tokens that each adds, largest drafter first and that of the text last, as in -k 5,10",
        ))
    }
}

impl Config {
    /// Nodes of a draft at most where a K matrix takes the place of the online schedule, as `-k` on
    /// a command line does, for a target on this device: [`default_nodes`] for the Max-Gram tree
    /// alone, unless the configuration says another number.
    pub fn nodes_with_k(&self, device: DeviceSpec) -> usize {
        let is_tree = |drafter: &Drafter| drafter.settings::<MaxGramTreeConfig>().is_some();
        let tree_alone = self.drafters().len() == 1 && self.drafters().iter().all(is_tree);
        match self.schedule().k() {
            None if tree_alone && self.max_nodes == NODES => default_nodes(device),
            _ => self.max_nodes,
        }
    }
}

impl TextDrafter {
    fn with_table(self, table: Option<TableLocator>) -> Drafter {
        match self {
            Self::Tree => Drafter::statistical(MaxGramTreeConfig {
                table,
                ..MaxGramTreeConfig::default()
            }),
            Self::MaxGram => Drafter::statistical(MaxGramConfig {
                bigram: table,
                ..MaxGramConfig::default()
            }),
        }
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
                locator::embedded_table(name)
                    .map_err(|(problem, cure)| Error::entry(label, "--ngram", problem, cure))?;
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
        let file = self
            .tokenizer_source()
            .tokenizer(&options.hub, options.progress)?;
        Ok(Tokenizer::load(&file)?)
    }
}
