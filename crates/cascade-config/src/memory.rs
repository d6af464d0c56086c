//! Whether the models of a configuration fit into memory together, before any is loaded.

use std::num::NonZeroUsize;
use std::sync::Arc;

use cascade_core::Prompt;
use cascade_models::{DType, DeviceSpec, FreeMemory, Head, MemoryEstimate, Model, Overcommit};

use crate::config::{Config, Drafter, Neural};
use crate::{Error, ModelPool, Result};

/// Tokens of a prompt that the estimate counts, beside the new ones.
const PROMPT_TOKENS: usize = 1024;

/// Texts that are generated at a time at most, unless somebody asks for more.
const MOST_PLAIN_TEXTS: usize = 16;

/// What a model takes of the memory of a device.
struct Demand<'a> {
    spec: DeviceSpec,
    model: &'a Neural,
    estimate: MemoryEstimate,
    dtype: DType,
}

/// What the keys and values of a session take on one device.
struct Caches {
    spec: DeviceSpec,
    bytes: usize,
    free: Option<FreeMemory>,
}

/// The memory that keys and values take of the sessions of a configuration's models, as far as it
/// is counted: on the CPU, with our kernels.
#[derive(Debug)]
pub struct CacheUse {
    /// The models that have sessions in a cascade, one for each of its levels.
    models: Vec<Arc<Model>>,
    heads: Vec<Arc<Head>>,
    /// What could be had on the CPU when the models were loaded, if that is known.
    pub free: Option<FreeMemory>,
}

impl CacheUse {
    /// Bytes of all sessions that these models have at present; of what several of them share,
    /// once.
    pub fn bytes(&self) -> usize {
        let mut counted: Vec<&Arc<Model>> = Vec::new();
        for model in &self.models {
            if !counted.iter().any(|known| Arc::ptr_eq(known, model)) {
                counted.push(model);
            }
        }
        let of_models = counted.iter().filter_map(|model| model.cache_bytes());
        let of_heads = self.heads.iter().map(|head| head.cache_bytes());
        of_models.chain(of_heads).sum()
    }

    /// Bytes that a cascade takes at most for a prompt, an answer of so many tokens, and trees of
    /// so many nodes.
    pub fn needed(&self, prompt: &Prompt, tokens: usize, nodes: usize) -> usize {
        let positions = prompt.context.len().saturating_add(tokens);
        let (positions, source) = (positions.saturating_add(nodes), prompt.source.len());
        let models = self.models.iter();
        let of_models = models.filter_map(|model| model.cache_bytes_of(positions, source));
        let of_heads = self.heads.iter().map(|head| head.cache_bytes_of(positions));
        of_models.chain(of_heads).fold(0, usize::saturating_add)
    }

    /// Whether anything is counted.
    pub fn is_counted(&self) -> bool {
        self.models
            .iter()
            .any(|model| model.cache_bytes().is_some())
    }
}

impl ModelPool {
    /// Refuses models that do not fit into the memory that can be had on their devices together, or
    /// warns of them, as far as that is known: downloads what is missing and reads the
    /// configurations, but loads nothing. Models that the pool has loaded are not counted again.
    ///
    /// # Errors
    /// [`Error::Memory`]; a device that is not there; files that are missing.
    pub(crate) fn check_memory<'a>(
        &self,
        config: &Config,
        models: impl Iterator<Item = (String, &'a Neural)>,
    ) -> Result<()> {
        let tokens = config.generation.max_new_tokens + PROMPT_TOKENS;
        let mut demands: Vec<Demand<'a>> = Vec::new();
        let mut counted = Vec::new();
        for (key, neural) in models {
            let fail = |source| Error::model(&config.label, &key, source);
            let spec = self.device(neural).map_err(fail)?.spec;
            let identity = self.key(neural).map_err(fail)?;
            if self.is_loaded(&identity) || counted.contains(&identity) {
                continue;
            }
            counted.push(identity);
            let estimate = self
                .estimate(neural, tokens, config.max_nodes)
                .map_err(fail)?;
            demands.push(Demand {
                spec,
                model: neural,
                estimate,
                dtype: neural.dtype_on(spec == DeviceSpec::Cpu),
            });
        }
        while let Some(spec) = demands.first().map(|demand| demand.spec) {
            let (of_device, others): (Vec<_>, Vec<_>) =
                demands.into_iter().partition(|demand| demand.spec == spec);
            self.check_demands(config, spec, &of_device)?;
            demands = others;
        }
        Ok(())
    }

    /// What to say if so many sessions of so many tokens, on weights that are loaded, may take more
    /// memory than is free on the device of any model.
    ///
    /// # Errors
    /// As [`assemble`](Self::assemble), of a configuration that has not been assembled.
    pub fn check_caches(
        &self,
        config: &Config,
        sessions: usize,
        tokens: usize,
    ) -> Result<Option<String>> {
        for Caches { spec, bytes, free } in self.caches(config, tokens)? {
            let total = bytes.saturating_mul(sessions);
            if let Some(free) = free.filter(|free| total > free.bytes) {
                let gb = total as f64 / 1e9;
                return Ok(Some(format!(
                    "the keys and values of all sessions may take {gb:.1} GB on {spec}, where {free}"
                )));
            }
        }
        Ok(None)
    }

    /// The memory of the sessions of a configuration's models, which are loaded if they are not.
    ///
    /// # Errors
    /// As [`assemble`](Self::assemble).
    pub fn cache_use(&self, config: &Config) -> Result<CacheUse> {
        let target = self.target(config)?;
        let mut cache_use = CacheUse {
            models: vec![Arc::clone(&target.model)],
            heads: Vec::new(),
            free: None,
        };
        for (key, neural) in config.neural_drafters() {
            let fail = |source| Error::model(&config.label, &key, source);
            if self.stand_in(&neural.name).is_some() {
                continue;
            }
            if neural.is_head {
                let head = self.head_of(neural, &target.model).map_err(fail)?;
                cache_use.heads.push(head);
            } else {
                let model = self.model(neural).map_err(fail)?;
                cache_use.models.push(Arc::clone(&model.model));
            }
        }
        let caches = self.caches(config, 1)?.into_iter();
        let mut on_cpu = caches.filter(|caches| caches.spec == DeviceSpec::Cpu);
        cache_use.free = on_cpu.next().and_then(|caches| caches.free);
        Ok(cache_use)
    }

    /// How many sessions of so many tokens, on weights that are loaded, fit into the memory that is
    /// free on the devices of all models; `None` where that is not known.
    ///
    /// # Errors
    /// As [`check_caches`](Self::check_caches).
    pub fn sessions_that_fit(&self, config: &Config, tokens: usize) -> Result<Option<usize>> {
        let caches = self.caches(config, tokens)?.into_iter();
        let fit = caches.filter_map(|caches| Some(caches.free?.bytes / caches.bytes.max(1)));
        Ok(fit.min())
    }

    /// Texts of the target alone that are generated at a time unless somebody says how many: as
    /// many as there is memory for if each has so many tokens, at most 16; 1 where sessions take
    /// turns. Loads the target.
    ///
    /// # Errors
    /// As [`target`](Self::target).
    pub fn plain_texts_at_a_time(&self, config: &Config, tokens: usize) -> Result<NonZeroUsize> {
        let target = self.target(config)?;
        let tokens = target
            .info()
            .max_context
            .map_or(tokens, |most| most.min(tokens));
        let fit = if target.model.gathers() {
            self.sessions_that_fit(&config.plain(), tokens)?
        } else {
            Some(1)
        };
        let texts = fit.unwrap_or(MOST_PLAIN_TEXTS).min(MOST_PLAIN_TEXTS);
        Ok(NonZeroUsize::new(texts).unwrap_or(NonZeroUsize::MIN))
    }

    /// What a session of so many tokens takes on each device.
    fn caches(&self, config: &Config, tokens: usize) -> Result<Vec<Caches>> {
        let target = [("target".to_owned(), &config.target)];
        let mut by_device: Vec<Caches> = Vec::new();
        for (key, neural) in target.into_iter().chain(config.neural_drafters()) {
            let fail = |source| Error::model(&config.label, &key, source);
            let opened = self.device(neural).map_err(fail)?;
            let estimate = self.estimate(neural, tokens, config.max_nodes);
            let bytes = estimate.map_err(fail)?.cache;
            match by_device.iter_mut().find(|one| one.spec == opened.spec) {
                Some(one) => one.bytes = one.bytes.saturating_add(bytes),
                None => by_device.push(Caches {
                    spec: opened.spec,
                    bytes,
                    free: opened.device.free_memory(),
                }),
            }
        }
        Ok(by_device)
    }

    /// Checks what models take of one device together.
    fn check_demands(
        &self,
        config: &Config,
        spec: DeviceSpec,
        demands: &[Demand<'_>],
    ) -> Result<()> {
        let estimates = demands.iter().map(|demand| demand.estimate);
        let largest = demands.iter().rev().max_by_key(|of| of.estimate.weights);
        let (Some(needed), Some(largest)) = (estimates.reduce(MemoryEstimate::plus), largest)
        else {
            return Ok(());
        };
        let opened = self
            .device(largest.model)
            .map_err(|source| Error::model(&config.label, "device", source))?;
        let free = opened.device.free_memory();
        let Some(free) = free.filter(|free| needed.total() > free.bytes) else {
            return Ok(());
        };
        let names: Vec<_> = demands.iter().map(|of| of.model.name.as_str()).collect();
        let models = names.join(", ");
        match self.options.overcommit {
            Overcommit::Refuse => Err(Error::Memory {
                file: config.label.clone(),
                models,
                needed,
                device: spec,
                smaller: largest.dtype.smaller_on(spec == DeviceSpec::Cpu),
                free: Box::new(free),
            }),
            Overcommit::Allow => Ok(()),
            _ => {
                self.notices().say(&format!(
                    "{models} take about {needed} on {spec}, and {free}; loading may fail, or the system may end this \
                     process or another"
                ));
                Ok(())
            }
        }
    }
}

impl Config {
    /// The neural drafters, with the keys of their entries.
    pub(crate) fn neural_drafters(&self) -> impl Iterator<Item = (String, &Neural)> {
        let drafters = self.drafters().iter().enumerate();
        drafters.filter_map(|(j, drafter)| match drafter {
            Drafter::Neural { model, .. } => Some((format!("drafters[{j}]"), &**model)),
            Drafter::Statistical { .. } => None,
        })
    }
}
