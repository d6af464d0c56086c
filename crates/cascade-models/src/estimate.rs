//! The memory that a model takes, from its configuration alone.

use std::fmt;
use std::io::Write;

use cascade_hub::{ModelFile, ModelFiles};

use crate::backend::ModelInfo;
#[cfg(feature = "candle")]
use crate::backend::candle::compute_type;
use crate::config::{ModelConfig, read_config};
use crate::{CacheType, DType, Device, Error, Overcommit, Result};

/// Rows of the largest forward: a piece of a long prompt.
const ROWS: usize = 512;
/// Rows of the residual stream's size that a forward holds at once: the stream and its norm,
/// queries, keys and values, and the inner layer with its gate, which is about four wide.
const BUFFERS_PER_ROW: usize = 14;
const F32_BYTES: usize = 4;
/// What is said of weights that are loaded although they do not fit.
const MAY_FAIL: &str = "loading may fail, or the system may end this process or another";

/// Bytes that a model takes on its device, estimated from config.json before anything is loaded.
///
/// An estimate: weights and the KV cache are exact but for padding, and the cache is counted for
/// one sequence without the spare room that it grows by; the workspace is a bound for models whose
/// inner layer is about four times as wide as the residual stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryEstimate {
    /// Weights, in the type that the model computes in.
    pub weights: usize,
    /// Keys and values of one sequence: of the decoder's layers and, in an encoder-decoder, of the
    /// source in cross-attention.
    pub cache: usize,
    /// What one forward needs: activations of a piece of a prompt, and logits of a draft.
    pub workspace: usize,
}

impl MemoryEstimate {
    /// Estimates a model that computes in `dtype` with keys and values in `cache`, for a sequence
    /// of `tokens` tokens (prompt and output together) and drafts of `nodes` nodes. Reads
    /// config.json only.
    ///
    /// # Errors
    /// A configuration that cannot be read or that no model can be built from.
    pub fn of(
        files: &ModelFiles,
        device: &Device,
        dtype: DType,
        cache: Option<CacheType>,
        tokens: usize,
        nodes: usize,
    ) -> Result<Self> {
        let config = ModelConfig::parse(&files.config, &read_config(files)?)?;
        let weights = weight_bytes(&config, dtype, Some(files));
        let element = match device {
            Device::Cpu => cache.unwrap_or_default().bytes(),
            #[cfg(feature = "candle")]
            Device::Candle(_) => compute_type(dtype).size_in_bytes(),
        };
        Ok(Self::of_info(
            &config.info(),
            weights,
            element,
            tokens,
            nodes,
        ))
    }

    /// Estimates a model whose weights take so many bytes, and an element of keys and values
    /// `element` bytes.
    fn of_info(
        info: &ModelInfo,
        weights: usize,
        element: usize,
        tokens: usize,
        nodes: usize,
    ) -> Self {
        let tokens = tokens.min(info.max_context.unwrap_or(usize::MAX));
        let activations = ROWS * BUFFERS_PER_ROW * info.size;
        let slot = info.cache_shape().elements_per_slot() * element;
        Self {
            weights,
            cache: slot.saturating_mul(tokens),
            workspace: (activations + nodes.saturating_mul(info.vocab_size)) * F32_BYTES,
        }
    }

    /// Weights, cache and workspace together.
    pub fn total(&self) -> usize {
        let with_cache = self.weights.saturating_add(self.cache);
        with_cache.saturating_add(self.workspace)
    }

    /// The estimate of two models together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            weights: self.weights.saturating_add(other.weights),
            cache: self.cache.saturating_add(other.cache),
            workspace: self.workspace.saturating_add(other.workspace),
        }
    }
}

/// `13.5 GB (weights 12.6, KV cache 0.6, workspace 0.3)`.
impl fmt::Display for MemoryEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gb = |bytes: usize| bytes as f64 / 1e9;
        write!(
            f,
            "{:.1} GB (weights {:.1}, KV cache {:.1}, workspace {:.1})",
            gb(self.total()),
            gb(self.weights),
            gb(self.cache),
            gb(self.workspace)
        )
    }
}

/// Bytes of the weights of a model: what its files take if only they know.
fn weight_bytes(config: &ModelConfig, dtype: DType, files: Option<&ModelFiles>) -> usize {
    let parameters = config.info().parameters;
    let stored = || files?.weights.iter().map(file_bytes).sum();
    let bytes = dtype.bytes(parameters).or_else(stored);
    bytes.unwrap_or(parameters.saturating_mul(F32_BYTES))
}

fn file_bytes(file: &ModelFile) -> Option<usize> {
    match file {
        ModelFile::Disk(path) => usize::try_from(std::fs::metadata(path).ok()?.len()).ok(),
        ModelFile::Embedded { bytes, .. } => Some(bytes.len()),
    }
}

/// Refuses weights that are larger than the memory that can be had, as far as that is known, or
/// does with them what `overcommit` says. The model is described by a file, and has files of
/// weights unless they are made up.
///
/// # Errors
/// [`Error::DoesNotFit`].
pub(crate) fn check_weights(
    (file, config, files): (&ModelFile, &ModelConfig, Option<&ModelFiles>),
    dtype: DType,
    device: &Device,
    overcommit: Overcommit,
) -> Result<()> {
    let parameters = config.info().parameters;
    let bytes = weight_bytes(config, dtype, files);
    let Some(free) = device.free_memory().filter(|free| bytes > free.bytes) else {
        return Ok(());
    };
    match overcommit {
        Overcommit::Allow => Ok(()),
        Overcommit::Warn => {
            let gb = bytes as f64 / 1e9;
            // That nobody can read it is no reason to stop.
            let _ = writeln!(
                std::io::stderr(),
                "warning: {file}: its weights take {gb:.1} GB, and {free}; {MAY_FAIL}"
            );
            Ok(())
        }
        Overcommit::Refuse => Err(Error::DoesNotFit {
            model: file.to_string(),
            parameters,
            dtype,
            smaller: dtype.smaller_on(device.is_cpu()),
            bytes,
            free,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape;

    fn of_shape(name: &str, dtype: DType, tokens: usize) -> MemoryEstimate {
        let file = ModelFile::Embedded {
            name: name.to_owned(),
            bytes: &[],
        };
        let config = ModelConfig::parse(&file, &shape(name).unwrap()).unwrap();
        let weights = weight_bytes(&config, dtype, None);
        let element = if dtype == DType::BF16 { 2 } else { 4 };
        MemoryEstimate::of_info(&config.info(), weights, element, tokens, 64)
    }

    #[test]
    fn vicuna_7b_takes_what_is_known_of_it() {
        let bf16 = of_shape("vicuna-7b", DType::BF16, 1024);
        assert_eq!(bf16.weights, 2 * 6_738_415_616);
        // 32 layers of keys and values of 4096 elements: half a MiB a token.
        assert_eq!(bf16.cache, 1024 * (1 << 19));
        let f32 = of_shape("vicuna-7b", DType::F32, 1024);
        assert_eq!((f32.weights, f32.cache), (2 * bf16.weights, 2 * bf16.cache));
        assert_eq!(bf16.plus(f32).total(), bf16.total() + f32.total());
        let said = bf16.to_string();
        assert!(said.contains("weights 13.5, KV cache 0.5"), "{said}");
    }

    #[test]
    fn no_cache_is_longer_than_the_context() {
        let at_most = of_shape("vicuna-7b", DType::F32, 4096);
        assert_eq!(of_shape("vicuna-7b", DType::F32, 1 << 40), at_most);
        // T5 knows no longest context; nothing overflows.
        assert_eq!(
            of_shape("flan-t5-xl", DType::F32, usize::MAX).cache,
            usize::MAX
        );
    }
}
