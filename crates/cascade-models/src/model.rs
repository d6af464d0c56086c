//! Models: weights on a device, and what is known of them.

use std::sync::{Arc, OnceLock};

use cascade_core::{
    Architecture, ForwardTimes, HiddenLayers, LARGEST_FORWARD, RowTimes, ScorerInfo,
};

#[cfg(feature = "candle")]
use crate::backend::candle::Candle;
use crate::backend::cpu::Cpu;
use crate::backend::network::Network;
use crate::backend::{Backend, BackendNetwork, Loader, ModelInfo};
use crate::config::ModelConfig;
use crate::dtype::Types;
use crate::weights::{CallerWeights, Provider};
use crate::{DType, Device, ModelFile, WeightSource};

/// The weights of a model on a device, of any architecture, shared by any number of
/// [sessions](crate::Session).
#[derive(Debug)]
pub struct Model {
    network: Network,
    described: ModelInfo,
    info: ScorerInfo,
    warnings: Vec<String>,
    times: OnceLock<ForwardTimes>,
}

impl Model {
    /// The model that `config` describes, loaded.
    pub(crate) fn new(
        config: &ModelConfig,
        weights: &dyn Provider,
        device: &Device,
        types: Types,
    ) -> crate::Result<Self> {
        let dtype = types.weights;
        let network = match device {
            Device::Cpu => Network::Cpu(load(config, weights, dtype, Cpu::new(types.cache)?)?),
            #[cfg(feature = "candle")]
            Device::Candle(device) => {
                let backend = Candle::new(device, types)?;
                Network::Candle(load(config, weights, dtype, backend)?)
            }
        };
        let described = config.info();
        let of_settings = config.warnings().iter().cloned();
        Ok(Self {
            info: ScorerInfo::new(described.architecture, described.vocab_size)
                .with_max_context(described.max_context)
                .with_max_nodes(Some(max_nodes(&described)))
                .with_hidden(HiddenLayers::up_to(described.layers)),
            warnings: of_settings.chain(network.held().sentences()).collect(),
            described,
            network,
            times: OnceLock::new(),
        })
    }

    /// Adds warnings for the user.
    pub(crate) fn with_warnings(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        self.warnings.extend(warnings);
        self
    }

    /// The model that `config` (the content of a config.json) describes, with a caller's own
    /// weights, computing in `dtype` on `device`.
    ///
    /// # Errors
    /// [`Config`](crate::Error::Config) for a configuration that no model can be built from; what
    /// `weights` and the device fail with.
    pub fn build(
        config: serde_json::Value,
        weights: &dyn WeightSource,
        device: &Device,
        dtype: DType,
    ) -> crate::Result<Self> {
        let file = ModelFile::Embedded {
            name: "the model's configuration".to_owned(),
            bytes: &[],
        };
        let config = ModelConfig::parse(&file, &config)?;
        Self::new(&config, &CallerWeights(weights), device, dtype.into())
    }

    /// What the user should know of the model's settings, in sentences: settings of its config.json
    /// that are not known here, limits that follow from others, weights that are held in another
    /// type than was asked for, and those in its files that nothing is computed with.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// How it reads its prompt, the rows of its embedding, and the limits of its
    /// [sessions](crate::Session). T5 has no limit of positions: its are relative.
    pub fn info(&self) -> ScorerInfo {
        self.info
    }

    /// Length of its hidden states.
    pub fn hidden_size(&self) -> usize {
        self.described.size
    }

    /// T(R), what its forwards take on this machine: an assumption until it is
    /// [said](Self::set_forward_times).
    pub(crate) fn forward_times(&self) -> &ForwardTimes {
        static ASSUMED: OnceLock<ForwardTimes> = OnceLock::new();
        let assumed =
            || ASSUMED.get_or_init(|| RowTimes::linear(1.0, RowTimes::ASSUMED_ROW).into());
        self.times.get().unwrap_or_else(assumed)
    }

    /// Says what its forwards take on this machine, by which texts that share them pay. What was
    /// said first stays.
    pub fn set_forward_times(&self, times: ForwardTimes) {
        let _known = self.times.set(times);
    }

    /// Number of parameters; a tied head counts once.
    pub fn num_parameters(&self) -> usize {
        self.described.parameters
    }

    /// Bytes of weights that a forward of so many rows reads: for one row, what bounds plain
    /// decoding. For T5 it is the decoder's; the encoder runs once per source.
    ///
    /// It never falls with the rows. The layers of the architectures that load read the same for
    /// any number of them; where rows are routed to experts, more rows read more.
    pub fn bytes_per_forward(&self, rows: usize) -> usize {
        let parameters = self.described.parameters_per_forward(rows);
        self.network.held().bytes_of(parameters)
    }

    /// Bytes that a forward reads: its weights, and keys and values of all positions that its last
    /// row sees, of which `source` are the source's, for a model with an encoder. `rows` are those
    /// of the last context token and of a chain behind it.
    pub fn bytes_read(&self, context: usize, rows: usize, source: usize) -> usize {
        let sequence =
            usize::from(self.described.start.is_some()) + context + rows.saturating_sub(1);
        let source = match self.info().architecture {
            Architecture::EncoderDecoder => source,
            Architecture::DecoderOnly => 0,
        };
        self.bytes_per_forward(rows) + (sequence + source) * self.network.bytes_per_position()
    }

    /// Bytes of the keys and values of all its sessions at present, pages that several of them
    /// share counted once; `None` where they are not counted, which is elsewhere than on the CPU
    /// with our kernels.
    pub fn cache_bytes(&self) -> Option<usize> {
        Some(self.on_cpu()?.backend.cache_bytes())
    }

    /// Bytes of keys and values that a session takes at most for so many positions of a context and
    /// of the trees behind it, and for a model with an encoder of a source; `None` where they are
    /// not counted.
    pub fn cache_bytes_of(&self, positions: usize, source: usize) -> Option<usize> {
        let (cpu, shape) = (&self.on_cpu()?.backend, self.described.cache_shape());
        let bytes = |positions| cpu.page_bytes(shape, positions);
        let start = usize::from(self.described.start.is_some());
        let sequence = bytes(positions.saturating_add(start));
        // A page that others have, too, is copied before it is written.
        let copied = bytes(1);
        let of_source = match self.info().architecture {
            Architecture::EncoderDecoder => bytes(source),
            Architecture::DecoderOnly => 0,
        };
        Some(sequence.saturating_add(of_source).saturating_add(copied))
    }

    /// Layers that a forward goes through: the decoder's.
    pub fn layers(&self) -> usize {
        self.described.layers
    }

    /// Operations that encoding a source of `tokens` tokens takes, of models with an encoder; 0 for
    /// others.
    pub fn encoding_operations(&self, tokens: usize) -> f64 {
        match self.info().architecture {
            Architecture::EncoderDecoder => self.described.encoding_operations(tokens),
            Architecture::DecoderOnly => 0.0,
        }
    }

    /// Whether one forward computes rows of several sessions, which costs what it costs for as many
    /// rows of one. It does on a CPU; on a GPU, sessions take turns.
    pub fn gathers(&self) -> bool {
        self.on_cpu().is_some()
    }

    /// Whether the bits of a row do not depend on the rows beside it, so that verifying a draft
    /// gives the very values of plain decoding: with our kernels, not with candle's.
    pub fn is_row_invariant(&self) -> bool {
        self.on_cpu().is_some()
    }

    pub(crate) fn network(&self) -> &Network {
        &self.network
    }

    /// What is known of it without running it.
    pub(crate) fn described(&self) -> &ModelInfo {
        &self.described
    }

    /// The network on the CPU, for heads that share its weights; `None` on another device.
    pub(crate) fn on_cpu(&self) -> Option<&Arc<BackendNetwork<Cpu>>> {
        self.network.on_cpu()
    }
}

/// Loads a model onto a backend.
fn load<B: Backend>(
    config: &ModelConfig,
    weights: &dyn Provider,
    dtype: DType,
    backend: B,
) -> crate::Result<Arc<BackendNetwork<B>>> {
    let info = config.info();
    let mut loader = Loader {
        info,
        weights,
        dtype,
        backend,
    };
    let layers = config.layers(&mut loader)?;
    Ok(Arc::new(BackendNetwork {
        backend: loader.backend,
        info,
        layers,
    }))
}

/// The largest tree that is scored: the one whose attention to itself and whose logits take no more
/// than [`LARGEST_FORWARD`] bytes.
pub(crate) fn max_nodes(info: &ModelInfo) -> usize {
    let fits = |nodes: usize| {
        let logits = (nodes + 1)
            .saturating_mul(info.vocab_size)
            .saturating_mul(size_of::<f32>());
        logits.saturating_add(info.attention_bytes(nodes)) <= LARGEST_FORWARD
    };
    // The logits of so many nodes alone are too many.
    let (mut least, mut most) = (1, LARGEST_FORWARD);
    while least + 1 < most {
        let middle = least + (most - least) / 2;
        if fits(middle) {
            least = middle
        } else {
            most = middle
        }
    }
    least
}
