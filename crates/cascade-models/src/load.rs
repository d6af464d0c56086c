//! Files to a model that is ready to score.

use std::sync::Arc;

use cascade_checkpoint::{Checkpoint, Leftovers};
use cascade_core::{ScorerInfo, StatedSampling, TokenId};

use crate::config::{ModelConfig, check_kind, in_file, read_config};
use crate::dtype::Types;
use crate::estimate::check_weights;
use crate::generation::Generation;
use crate::weights::CheckpointWeights;
use crate::{
    CacheType, DType, Device, Error, HubOptions, Model, ModelFiles, ModelSource, Overcommit,
    Result, Session, Tokenizer,
};

/// How a model is loaded.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Where the model computes.
    pub device: Device,
    /// The type that the model computes in; weights are converted when they are read.
    pub dtype: DType,
    /// What keys and values are held in: with our kernels f32 if nothing is said, with candle
    /// always what the model computes in.
    pub cache_dtype: Option<CacheType>,
    /// Where models of the hub come from.
    pub hub: HubOptions,
    /// Whether downloads show a progress bar on standard error.
    pub progress: bool,
    /// Where the tokenizer is, if not with the model.
    pub tokenizer: Option<ModelSource>,
    /// What happens to weights that are larger than the memory that can be had.
    pub overcommit: Overcommit,
}

impl LoadOptions {
    pub(crate) fn types(&self) -> Types {
        Types {
            weights: self.dtype,
            cache: self.cache_dtype,
        }
    }
}

/// f32 on the CPU, the hub and [`Overcommit`] as the environment says, progress on standard error.
impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            device: Device::Cpu,
            dtype: DType::F32,
            cache_dtype: None,
            hub: HubOptions::from_env(),
            progress: true,
            tokenizer: None,
            overcommit: Overcommit::from_env(),
        }
    }
}

/// A model, its tokenizer, and what else generation needs, checked against each other.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoadedModel {
    /// The source, as [`ModelSource`] writes it.
    pub name: String,
    /// The weights.
    pub model: Arc<Model>,
    /// The tokenizer; the model has an embedding for each of its ids, but perhaps for added tokens,
    /// which it then refuses to read.
    pub tokenizer: Tokenizer,
    /// The tokens that end a generation, in order: those of generation_config.json if it names any,
    /// else those of config.json. Empty if neither does.
    pub eos_token_ids: Vec<TokenId>,
    /// What the model's files ask for and is not done, in sentences.
    pub generation_warnings: Vec<String>,
    /// The sampling that generation_config.json or a GGUF file recommends: nobody has to follow it.
    pub recommended: StatedSampling,
    /// The type that the model computes in.
    pub dtype: DType,
    /// The files it was loaded from.
    pub files: ModelFiles,
}

impl LoadedModel {
    /// A session of its own, which shares the weights.
    pub fn session(&self) -> Session {
        self.model.session()
    }

    /// How the model reads its prompt, its rows and its limits.
    pub fn info(&self) -> ScorerInfo {
        self.model.info()
    }

    /// Number of parameters; a tied head counts once.
    pub fn num_parameters(&self) -> usize {
        self.model.num_parameters()
    }
}

/// Finds, checks and loads a model.
///
/// # Errors
/// Every way in which files can be missing, damaged, or not belong together: see [`enum@Error`].
pub fn load(source: &ModelSource, options: &LoadOptions) -> Result<LoadedModel> {
    load_files(locate(source, options)?, options)
}

/// Finds the files of a model, and downloads those that are missing.
///
/// # Errors
/// Files that are missing or cannot be downloaded.
pub fn locate(source: &ModelSource, options: &LoadOptions) -> Result<ModelFiles> {
    let (hub, progress) = (&options.hub, options.progress);
    let files = match &options.tokenizer {
        None => source.files(hub, progress),
        Some(other) => source.files_with_tokenizer_of(other, hub, progress),
    }?;
    Ok(files)
}

/// Checks and loads a model whose files have been [located](locate).
///
/// # Errors
/// As [`load`].
pub fn load_files(files: ModelFiles, options: &LoadOptions) -> Result<LoadedModel> {
    let config = read_config(&files)?;
    check_kind(&files.config, &config)?;
    let tokenizer = Tokenizer::load(&files.tokenizer)?;
    let weights = CheckpointWeights(Checkpoint::open(&files)?);
    let described = ModelConfig::parse(&files.config, &config)?;
    let (device, overcommit) = (&options.device, options.overcommit);
    let model = (&files.config, &described, Some(&files));
    check_weights(model, options.dtype, device, overcommit)?;
    let model = Model::new(&described, &weights, device, options.types())
        .map_err(|error| in_file(&files.config, error))?;
    let warnings = check_leftovers(&weights.0)?
        .into_iter()
        .chain(weights.0.notes());
    let model = Arc::new(model.with_warnings(warnings));
    tokenizer.check_fits(model.info().vocab_size)?;
    let generation = Generation::of(&files, &config, model.info().vocab_size)?;
    Ok(LoadedModel {
        name: files.name.clone(),
        model,
        tokenizer,
        eos_token_ids: generation.ends,
        generation_warnings: generation.warnings,
        recommended: generation.recommended,
        dtype: options.dtype,
        files,
    })
}

/// Refuses layers that no one asked for (with too few layers in config.json, a model loads and
/// generates nonsense), and says which other tensors nothing is computed with.
fn check_leftovers(weights: &Checkpoint) -> Result<Option<String>> {
    let unused = weights.unused();
    let left = Leftovers::of(unused.iter().map(String::as_str));
    match left.of_layers.first() {
        None => Ok(left.warning("are not read")),
        Some(&example) => Err(Error::LeftoverLayers {
            files: weights.files(),
            example: example.to_owned(),
            count: left.of_layers.len(),
        }),
    }
}
