//! Heads: drafters that read the hidden states of their target.
//!
//! A head is small because its target has done the work: beside tokens, it reads the states that
//! the target had when it verified them, and it shares the target's output head, most also its
//! embedding. What a checkpoint of one says of itself is read in [`config`]; there is one file for
//! each kind of head: [`eagle`], [`eagle3`].

mod config;
mod eagle;
mod eagle3;
mod fed_rows;
mod observed;
mod session;

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use cascade_checkpoint::{read_json, Checkpoint};
use cascade_core::{Architecture, HiddenLayers, ScorerInfo};
use cascade_cpu::Cache;
use cascade_hub::{ModelFiles, WeightFormat};

pub use self::session::HeadSession;

use self::config::{HeadConfig, Kind};
use self::eagle::Eagle;
use self::eagle3::Eagle3;
use crate::backend::cpu::{Cpu, CpuForward, CpuLoader, Map, Table};
use crate::backend::{Backend, BackendNetwork, ModelInfo, Vocabulary};
use crate::checks::{product, sum};
use crate::config::{read_config, ModelConfig};
use crate::plan::Plan;
use crate::session::max_nodes;
use crate::weights::CheckpointWeights;
use crate::{DType, Error, LoadOptions, MemoryEstimate, Model, Result};

/// A drafter that reads the hidden states of one target: EAGLE-1, EAGLE-2 and EAGLE-3.
///
/// It shares the target's weights, which it keeps alive: the output head unless it has one, and the
/// embedding unless its files have one. It computes on the CPU. Any number of
/// [sessions](Self::session) share it.
#[derive(Debug)]
pub struct Head {
    name: String,
    kind: &'static str,
    layer: Box<dyn Recurrent>,
    cpu: Cpu,
    /// Of its layers, over the target's vocabulary.
    info: ModelInfo,
    target: Arc<BackendNetwork<Cpu>>,
    warnings: Vec<String>,
    files: ModelFiles,
}

/// A layer that feeds on what it gives: what kinds of heads differ in.
trait Recurrent: Debug + Send + Sync {
    /// The target's states that it reads, side by side in the order in which a set gives them.
    fn observes(&self) -> HiddenLayers;

    /// Of states of the target, what rows read.
    fn enter<'a>(&self, observed: &'a [f32]) -> Cow<'a, [f32]>;

    /// Rows of tokens beside `states`, one for each: to the states that follow them. `shared` is
    /// the target's embedding.
    fn rows(&self, forward: &mut CpuForward<'_>, states: &[f32], shared: &Table);

    /// Logits over the target's vocabulary of what rows gave. `shared` is the target's output head.
    fn logits(&self, given: &[f32], shared: &Map) -> Vec<f32>;
}

/// Loads the head of these files for `target`. What its config.json and the shapes of its tensors
/// say is compared with the target before weights are read.
///
/// # Errors
/// [`Error::Head`] for files that are of no known kind of head or do not fit the target, a target
/// that gives no states or does not compute on the CPU, and a device other than the CPU; else as
/// [`load_files`](crate::load_files).
pub fn load_head(files: ModelFiles, target: &Model, options: &LoadOptions) -> Result<Head> {
    let refused = |problem: String, cure: &str| Error::Head {
        file: files.config.to_string(),
        problem,
        cure: cure.to_owned(),
    };
    if !options.device.is_cpu() {
        let problem = "heads compute on the CPU, and it was to compute on a GPU".to_owned();
        return Err(refused(problem, "give it and its target `device: cpu`"));
    }
    let network = target.on_cpu().ok_or_else(|| {
        let problem = "its target computes on a GPU, which gives no hidden states".to_owned();
        refused(problem, "give the target `device: cpu`")
    })?;
    let of_target = target.network().info();
    let (config, weights) = checked(&files, of_target)?;
    let weights = CheckpointWeights(weights);
    let info = config.info(of_target);
    let mut loader = CpuLoader::new(info, &weights, options.types())?;
    let positions = info.max_context.unwrap_or_default();
    let (kind, layer): (_, Box<dyn Recurrent>) = match &config.kind {
        Kind::Eagle(own) => {
            let eagle = Eagle::load(&config, own, positions, &mut loader)?;
            ("EAGLE", Box::new(eagle))
        }
        Kind::Eagle3(own) => {
            let eagle = Eagle3::load(&config, own, positions, &weights.0, &mut loader)?;
            ("EAGLE-3", Box::new(eagle))
        }
    };
    let cpu = loader.backend();
    let mut warnings = config.layer.warnings().to_vec();
    warnings.extend(cpu.notes());
    warnings.extend(weights.0.notes());
    refuse_leftovers(&weights.0)?;
    Ok(Head {
        name: files.name.clone(),
        kind,
        layer,
        cpu,
        info,
        target: network,
        warnings,
        files,
    })
}

/// Compares the files of a head with those of its target, before either is loaded: reads config.json
/// of both and the headers of the head's weights.
///
/// # Errors
/// [`Error::Head`] for files that are of no known kind of head or do not fit the target; a
/// config.json that cannot be read, or that no model can be built from.
pub fn check_head(files: &ModelFiles, target: &ModelFiles) -> Result<()> {
    let target = ModelConfig::parse(&target.config, &read_config(target)?)?;
    checked(files, &target.info()).map(|_| ())
}

/// Files of a head that fits a target.
fn checked(files: &ModelFiles, target: &ModelInfo) -> Result<(HeadConfig, Checkpoint)> {
    if target.architecture == Architecture::EncoderDecoder {
        return Err(Error::Head {
            file: files.config.to_string(),
            problem: "its target has an encoder, and heads read decoders alone".to_owned(),
            cure: "take a drafter with a tokenizer of its own".to_owned(),
        });
    }
    let (config, weights) = open(files, Some((target.layers, target.size)))?;
    config.check_target(target, &files.config)?;
    Ok((config, weights))
}

/// Files of a head over a model of so many layers of so many elements, if that is known: what they
/// say, and the weights, of which only the headers are read.
fn open(files: &ModelFiles, target: Option<(usize, usize)>) -> Result<(HeadConfig, Checkpoint)> {
    if files.weight_format == WeightFormat::Gguf {
        return Err(Error::Head {
            file: files.config.to_string(),
            problem: "it is a GGUF file, in which no heads are read".to_owned(),
            cure: "take config.json and model.safetensors or pytorch_model.bin as released"
                .to_owned(),
        });
    }
    let weights = Checkpoint::open_as_named(files)?;
    let config = HeadConfig::read(&read_json(&files.config)?, &weights, &files.config, target)?;
    Ok((config, weights))
}

/// The largest number of a state. A head that does not belong to its target may give states that
/// grow from row to row, until nothing can be computed with them.
const LARGEST: f32 = 1e6;

/// Puts nothing in place of states that have grown too large to go on with.
fn forget_overflown(states: &mut [f32], size: usize) {
    for state in states.chunks_exact_mut(size) {
        if !state.iter().all(|x| x.abs() <= LARGEST) {
            state.fill(0.0);
        }
    }
}

/// Refuses tensors that nothing is computed with, but tables that follow from settings, and the
/// lists of a reduced vocabulary: which tokens have a row follows from which token a row is, and
/// nobody needs either where there is a row for every token.
fn refuse_leftovers(weights: &Checkpoint) -> Result<()> {
    let unused = weights.unused();
    let useless =
        |name: &str| ["t2d", "d2t"].contains(&name) || name.ends_with("rotary_emb.inv_freq");
    let left = unused.iter().filter(|name| !useless(name));
    let left: Vec<&str> = left.map(String::as_str).collect();
    match left.first() {
        None => Ok(()),
        Some(example) => Err(Error::Head {
            file: weights.files(),
            problem: format!(
                "it has {} tensor(s) that no head of this kind computes with, such as {example}",
                left.len()
            ),
            cure: "take the files as they were released; a head of another kind is not read"
                .to_owned(),
        }),
    }
}

impl Head {
    /// The source, as [`ModelSource`](crate::ModelSource) writes it.
    pub fn name(&self) -> &str {
        &self.name
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

    /// Bytes of weights that drafting a token reads. A tree is scored level by level: one of height
    /// h reads those of the layer h + 1 times, and those of the output head once.
    pub fn bytes_per_forward(&self) -> usize {
        self.cpu.held_bytes() + self.head_bytes()
    }

    /// The part of them that it shares with the target: the output head, or nothing.
    pub fn head_bytes(&self) -> usize {
        let shared = self.info.parameters_of_all_rows - self.info.parameters;
        self.target.weight_bytes(shared)
    }

    /// The vocabulary and the limits of its sessions, and what they observe.
    pub fn info(&self) -> ScorerInfo {
        ScorerInfo::new(self.info.architecture, self.info.vocab_size)
            .with_max_context(self.info.max_context)
            .with_max_nodes(Some(max_nodes(&self.info)))
            .observing(self.layer.observes())
    }

    /// A session that has observed nothing yet. Allocates nothing.
    pub fn session(self: &Arc<Self>) -> HeadSession {
        HeadSession::new(Arc::clone(self))
    }

    /// Length of its states.
    fn size(&self) -> usize {
        self.info.size
    }

    /// Room for keys and values. Allocates nothing.
    fn cache(&self) -> Cache {
        self.cpu.cache(self.info.cache_shape())
    }

    /// Runs what computes with the head where it is fastest.
    fn scope<T: Send>(&self, run: impl FnOnce() -> T + Send) -> T {
        self.cpu.scope(run)
    }

    /// Of states of the target, what rows read.
    fn enter<'a>(&self, observed: &'a [f32]) -> Cow<'a, [f32]> {
        self.layer.enter(observed)
    }

    /// What the rows of `plan` give, whose tokens stand beside `states`.
    fn forward(&self, plan: &Plan<'_>, states: &[f32], cache: &mut Cache) -> Vec<f32> {
        let Vocabulary { table, .. } = self.vocabulary();
        let mut write = |forward: &mut CpuForward<'_>| self.layer.rows(forward, states, table);
        let mut given = self.cpu.run_fed(&self.info, plan, cache, &mut write);
        forget_overflown(&mut given, self.size());
        given
    }

    /// Logits of states.
    fn logits(&self, states: &[f32]) -> Vec<f32> {
        self.layer.logits(states, self.vocabulary().head)
    }

    /// Where the target's tokens enter and leave it.
    fn vocabulary(&self) -> Vocabulary<'_, Cpu> {
        let vocabulary = self.target.vocabulary();
        vocabulary.expect("decoders have both, and others no heads")
    }
}

impl MemoryEstimate {
    /// As [`of`](Self::of), for the files of a head. Reads config.json and the headers of weights.
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
        let heads = config.layer.heads;
        let slots = tokens.saturating_add(nodes);
        Ok(Self {
            weights: dtype
                .bytes(own)
                .unwrap_or(own.saturating_mul(size_of::<f32>())),
            cache: product(&[2, heads.kv, heads.size, cache.unwrap_or_default().bytes()])
                .saturating_mul(slots)
                // The states of the text, and of what was drafted behind it.
                .saturating_add(product(&[config.layer.size, size_of::<f32>(), slots])),
            workspace: product(&[
                sum(&[
                    product(&[512, 14, config.layer.size]),
                    product(&[nodes, config.layer.vocab_size]),
                ]),
                size_of::<f32>(),
            ]),
        })
    }
}
