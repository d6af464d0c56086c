//! Heads: drafters that read the hidden states of their target.
//!
//! A head is small because its target has done the work: beside tokens, it reads the states that
//! the target had when it verified them, and it shares the target's output head, most also its
//! embedding. What a checkpoint of one says of itself is read in [`config`]; there is one file for
//! each kind of head: [`eagle`], [`eagle3`], [`medusa`], [`mtp`].

mod basis;
mod config;
mod eagle;
mod eagle3;
mod fed_rows;
mod layer;
mod medusa;
mod mtp;
mod observed;
mod recurrent;
mod session;

use std::fmt::Debug;
use std::sync::Arc;

use cascade_checkpoint::{Checkpoint, read_json};
use cascade_core::{Architecture, HiddenLayers, ScorerInfo, TokenId, TokenTree};
use cascade_cpu::PAGE_SLOTS;
use cascade_hub::{ModelFiles, WeightFormat};

pub use self::basis::HeadBasis;
pub use self::session::HeadSession;

use self::config::{HeadConfig, LayerHead};
use self::eagle::Eagle;
use self::eagle3::Eagle3;
use self::medusa::{Heads, Medusa};
use self::mtp::Mtp;
use self::observed::Observed;
use self::recurrent::{Recurrent, RecurrentNetwork};
use crate::backend::cpu::Cpu;
use crate::backend::{Backend, BackendNetwork, Loader, ModelInfo};
use crate::checks::{product, sum};
use crate::config::{ModelConfig, read_config};
use crate::model::max_nodes;
use crate::weights::CheckpointWeights;
use crate::{DType, Error, LoadOptions, MemoryEstimate, Model, Result};

/// A drafter that reads the hidden states of one target: EAGLE-1, EAGLE-2, EAGLE-3,
/// Medusa, and the MTP layer in the files of a MiMo.
///
/// It shares the target's weights, which it keeps alive: the output head unless it has one, and the
/// embedding unless its files have one. It computes on the CPU. Any number of
/// [sessions](Self::session) share it.
#[derive(Debug)]
pub struct Head {
    kind: &'static str,
    network: Arc<dyn HeadNetwork>,
    /// Over the target's vocabulary.
    info: ModelInfo,
    architecture: Architecture,
    /// The token that the target's decoder begins with, if it stands beside an encoder.
    start: Option<TokenId>,
    bytes_per_forward: usize,
    warnings: Vec<String>,
    files: ModelFiles,
}

/// What a head computes with.
trait HeadNetwork: Debug + Send + Sync {
    /// The target's states that it reads, side by side in the order in which a set gives them.
    fn observes(&self) -> HiddenLayers;

    /// How tall a tree may be behind a context of which so many tokens, beside the last, have no
    /// states; `None` if it can say nothing there.
    fn reach(&self, beyond: usize) -> Option<usize>;

    /// Where it computes, and keeps what keys and values it has.
    fn cpu(&self) -> &Cpu;

    /// What a session keeps. Allocates nothing.
    fn memory(self: Arc<Self>) -> Box<dyn Memory>;
}

/// What a session of a head has computed, and what it answers.
trait Memory: Debug + Send {
    /// Logits after a context and each node of a tree, within reach of what was observed, and how
    /// many rows of the context were computed.
    fn logits(
        &mut self,
        observed: &Observed,
        context: &[TokenId],
        tree: &TokenTree,
    ) -> (Vec<f32>, usize);

    /// Forgets everything.
    fn clear(&mut self);
}

/// Loads the head of these files for `target`. What its config.json and the shapes of its tensors
/// say is compared with the target before weights are read.
///
/// # Errors
/// [`Error::Config`] for files that are of no known kind of head or do not fit the target, a target
/// that gives no states or does not compute on the CPU, and a device other than the CPU; else as
/// [`load_files`](crate::load_files).
pub fn load_head(files: ModelFiles, target: &Model, options: &LoadOptions) -> Result<Head> {
    let refused = |problem, cure| Error::config(&files.config, problem, cure);
    if !options.device.is_cpu() {
        let problem = "heads compute on the CPU, with our kernels, and it was to compute elsewhere";
        return Err(refused(problem, "give it and its target `device: cpu`"));
    }
    let network = target.on_cpu().ok_or_else(|| {
        let problem = "its target computes elsewhere than on the CPU with our kernels";
        refused(problem, "give the target `device: cpu`")
    })?;
    load_for(files, target.described(), Arc::clone(network), options)
}

/// Loads a head for a target on the CPU.
fn load_for(
    files: ModelFiles,
    of_target: &ModelInfo,
    target: Arc<BackendNetwork<Cpu>>,
    options: &LoadOptions,
) -> Result<Head> {
    let (config, weights) = checked(&files, of_target)?;
    let weights = CheckpointWeights(weights);
    let info = config.info(of_target);
    let loader = Loader {
        info,
        weights: &weights,
        dtype: options.dtype,
        backend: Cpu::new(options.cache_dtype)?,
    };
    let shared = info.parameters_of_all_rows - info.parameters;
    let shared = target.backend.held().bytes_of(shared);
    let (kind, network) = load_network(&config, target, &weights.0, loader)?;
    let held = network.cpu().held();
    let mut warnings = config.warnings().to_vec();
    warnings.extend(held.sentences());
    warnings.extend(weights.0.notes());
    let bytes_per_forward = held.bytes_of(info.parameters) + shared;
    refuse_leftovers(&weights.0, &config)?;
    Ok(Head {
        kind,
        network,
        info,
        architecture: of_target.architecture,
        start: of_target.start,
        bytes_per_forward,
        warnings,
        files,
    })
}

/// Reads the weights of a head; its kind, for users.
fn load_network(
    config: &HeadConfig,
    target: Arc<BackendNetwork<Cpu>>,
    weights: &Checkpoint,
    mut loader: Loader<'_, Cpu>,
) -> Result<(&'static str, Arc<dyn HeadNetwork>)> {
    let info = loader.info;
    let positions = info.max_context.unwrap_or_default();
    let to = &mut loader;
    let (kind, layer): (_, Box<dyn Recurrent>) = match config {
        HeadConfig::Layer(layer, LayerHead::Eagle(own)) => {
            ("EAGLE", Box::new(Eagle::load(layer, own, positions, to)?))
        }
        HeadConfig::Layer(layer, LayerHead::Eagle3(own)) => {
            let eagle = Eagle3::load(layer, own, positions, weights, to)?;
            ("EAGLE-3", Box::new(eagle))
        }
        HeadConfig::Layer(layer, LayerHead::Mtp) => {
            ("MTP", Box::new(Mtp::load(layer, positions, to)?))
        }
        HeadConfig::Medusa(shape, _) => {
            let heads = Heads::load(shape, to)?;
            let cpu = loader.backend;
            return Ok(("Medusa", Arc::new(Medusa { heads, cpu })));
        }
    };
    let network = RecurrentNetwork {
        layer,
        cpu: loader.backend,
        info,
        target,
    };
    Ok((kind, Arc::new(network)))
}

/// Compares the files of a head with those of its target, before either is loaded: reads
/// config.json of both and the headers of the head's weights.
///
/// # Errors
/// [`Error::Config`] for files that are of no known kind of head or do not fit the target; a
/// config.json that cannot be read, or that no model can be built from.
pub fn check_head(files: &ModelFiles, target: &ModelFiles) -> Result<()> {
    let target = ModelConfig::parse(&target.config, &read_config(target)?)?;
    checked(files, &target.info()).map(|_| ())
}

/// Files of a head that fits a target.
fn checked(files: &ModelFiles, target: &ModelInfo) -> Result<(HeadConfig, Checkpoint)> {
    let (config, weights) = open(files, Some((target.layers, target.size)))?;
    config.check_target(target, &files.config)?;
    Ok((config, weights))
}

/// Files of a head over a model of so many layers of so many elements, if that is known: what they
/// say, and the weights, of which only the headers are read.
fn open(files: &ModelFiles, target: Option<(usize, usize)>) -> Result<(HeadConfig, Checkpoint)> {
    if files.weight_format == WeightFormat::Gguf {
        let problem = "it is a GGUF file, in which no heads are read";
        let cure = "take config.json and model.safetensors or pytorch_model.bin as released";
        return Err(Error::config(&files.config, problem, cure));
    }
    let weights = Checkpoint::open_as_named(files)?;
    let config = HeadConfig::read(&read_json(&files.config)?, &weights, &files.config, target)?;
    Ok((config, weights))
}

/// Refuses tensors that nothing is computed with, but tables that follow from settings, and the
/// lists of a reduced vocabulary: which tokens have a row follows from which token a row is, and
/// nobody needs either where there is a row for every token.
///
/// Of the files of a model, MTP layers are what is a head's.
fn refuse_leftovers(weights: &Checkpoint, config: &HeadConfig) -> Result<()> {
    let mut unused = weights.unused();
    if let HeadConfig::Layer(_, LayerHead::Mtp) = config {
        unused.retain(|name| name.starts_with(mtp::LAYERS));
    }
    let useless =
        |name: &str| ["t2d", "d2t"].contains(&name) || name.ends_with("rotary_emb.inv_freq");
    let left: Vec<&str> = unused
        .iter()
        .filter(|name| !useless(name))
        .map(String::as_str)
        .collect();
    match left.first() {
        None => Ok(()),
        Some(example) => {
            let problem = format!(
                "it has {} tensor(s) that no head of this kind computes with, such as {example}",
                left.len()
            );
            let cure = "take the files as they were released; a head of another kind is not read";
            Err(Error::config(weights.files(), problem, cure))
        }
    }
}

impl Head {
    /// The source, as [`ModelSource`](crate::ModelSource) writes it.
    pub fn name(&self) -> &str {
        &self.files.name
    }

    /// What kind of head it is, in words.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The files that it was loaded from.
    pub fn files(&self) -> &ModelFiles {
        &self.files
    }

    /// What the user should know of its settings and weights, in sentences.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Parameters of its own, without an embedding; what it shares with the target is the target's.
    pub fn num_parameters(&self) -> usize {
        self.info.parameters
    }

    /// Parameters that drafting a token reads: its own, and the output head.
    pub fn parameters_per_forward(&self) -> usize {
        self.info.parameters_of_all_rows
    }

    /// Bytes of weights that drafting a token reads. EAGLE scores a tree level by level: one of
    /// height h reads those of the layer h + 1 times, and those of the output head once. Of Medusa
    /// they are those of all its heads.
    pub fn bytes_per_forward(&self) -> usize {
        self.bytes_per_forward
    }

    /// Bytes of the keys and values of all its sessions at present.
    pub fn cache_bytes(&self) -> usize {
        self.network.cpu().cache_bytes()
    }

    /// Bytes of keys and values that a session takes at most for so many positions.
    pub fn cache_bytes_of(&self, positions: usize) -> usize {
        let positions = positions.saturating_add(PAGE_SLOTS);
        let cpu = self.network.cpu();
        cpu.page_bytes(self.info.cache_shape(), positions)
    }

    /// The vocabulary and the limits of its sessions, and what they observe.
    pub fn info(&self) -> ScorerInfo {
        ScorerInfo::new(self.architecture, self.info.vocab_size)
            .with_max_context(self.info.max_context)
            .with_max_nodes(Some(max_nodes(&self.info)))
            .observing(self.network.observes())
    }

    /// A session that has observed nothing yet. Allocates nothing.
    pub fn session(self: &Arc<Self>) -> HeadSession {
        HeadSession::new(Arc::clone(self))
    }
}

impl MemoryEstimate {
    /// Estimates a head as [`of`](Self::of) does a model. Reads config.json and the headers of
    /// weights.
    ///
    /// # Errors
    /// Files that are of no known kind of head.
    pub fn of_head(
        files: &ModelFiles,
        dtype: DType,
        cache: Option<crate::CacheType>,
        tokens: usize,
        nodes: usize,
    ) -> Result<Self> {
        let (config, _) = open(files, None)?;
        let own = config.own_parameters();
        let slots = tokens.saturating_add(nodes);
        let cache = cache.unwrap_or_default().bytes();
        Ok(Self {
            weights: dtype
                .bytes(own)
                .unwrap_or(own.saturating_mul(size_of::<f32>())),
            // Beside keys and values, the states of the text and of what was drafted behind it.
            cache: product(&[config.cached(), cache, slots]).saturating_add(product(&[
                config.size(),
                size_of::<f32>(),
                slots,
            ])),
            workspace: product(&[
                sum(&[
                    product(&[512, 14, config.size()]),
                    product(&[nodes, config.vocab_size()]),
                ]),
                size_of::<f32>(),
            ]),
        })
    }
}
