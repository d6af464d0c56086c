//! Whether the models of a configuration fit into memory together, before any is loaded.

use cascade_models::{DeviceSpec, MemoryEstimate};

use crate::config::{Config, Drafter, Neural};
use crate::{Error, ModelPool, Result};

/// Tokens of a prompt that the estimate counts, beside the new ones.
const PROMPT_TOKENS: usize = 1024;

/// What the models on one device take.
struct Demand<'a> {
    /// The first of them, which is opened to ask for its free memory.
    model: &'a Neural,
    names: Vec<&'a str>,
    total: MemoryEstimate,
}

impl ModelPool {
    /// Refuses models that do not fit into the free memory of their devices together, as far as
    /// that is known: downloads what is missing and reads the configurations, but loads nothing.
    /// Models that the pool has loaded are not counted again.
    ///
    /// # Errors
    /// [`Error::Memory`]; a device that is not there; files that are missing.
    pub(crate) fn check_memory<'a>(
        &self,
        config: &Config,
        models: impl Iterator<Item = (String, &'a Neural)>,
    ) -> Result<()> {
        let tokens = config.generation.max_new_tokens + PROMPT_TOKENS;
        let mut demands: Vec<(DeviceSpec, Demand<'a>)> = Vec::new();
        let mut counted = Vec::new();
        for (key, neural) in models {
            let fail = |source| Error::model(&config.label, &key, source);
            let spec = self.device(neural).map_err(fail)?.spec;
            let identity = self.key(neural).map_err(fail)?;
            if self.is_loaded(&identity) || counted.contains(&identity) {
                continue;
            }
            counted.push(identity);
            let estimate = self.estimate(neural, tokens, config.max_nodes);
            let estimate = estimate.map_err(fail)?;
            match demands.iter_mut().find(|(known, _)| *known == spec) {
                Some((_, demand)) => {
                    demand.names.push(&neural.name);
                    demand.total = demand.total.plus(estimate);
                }
                None => demands.push((
                    spec,
                    Demand {
                        model: neural,
                        names: vec![&neural.name],
                        total: estimate,
                    },
                )),
            }
        }
        let mut demands = demands.iter();
        demands.try_for_each(|(spec, demand)| self.check_demand(config, *spec, demand))
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
        let target = [("target".to_owned(), &config.target)];
        let mut by_device: Vec<(DeviceSpec, &Neural, usize)> = Vec::new();
        for (key, neural) in target.into_iter().chain(config.neural_drafters()) {
            let fail = |source| Error::model(&config.label, &key, source);
            let spec = self.device(neural).map_err(fail)?.spec;
            let estimate = self.estimate(neural, tokens, config.max_nodes);
            let cache = estimate.map_err(fail)?.cache.saturating_mul(sessions);
            match by_device.iter_mut().find(|(known, ..)| *known == spec) {
                Some((.., total)) => *total = total.saturating_add(cache),
                None => by_device.push((spec, neural, cache)),
            }
        }
        for (spec, neural, total) in by_device {
            let device = self.device(neural).map(|opened| opened.device);
            let free = device.and_then(|device| device.free_memory());
            let free = free.map_err(|source| Error::model(&config.label, "device", source))?;
            if let Some(free) = free.filter(|&free| total > free) {
                let gb = |bytes: usize| bytes as f64 / 1e9;
                return Ok(Some(format!(
                    "the keys and values of all sessions may take {:.1} GB on {spec}, where {:.1} GB are free",
                    gb(total),
                    gb(free)
                )));
            }
        }
        Ok(None)
    }

    fn check_demand(&self, config: &Config, spec: DeviceSpec, demand: &Demand<'_>) -> Result<()> {
        let device = self.device(demand.model).map(|opened| opened.device);
        let free = device.and_then(|device| device.free_memory());
        let free = free.map_err(|source| Error::model(&config.label, "device", source))?;
        match free {
            Some(free) if demand.total.total() > free => Err(Error::Memory {
                file: config.label.clone(),
                models: demand.names.join(", "),
                needed: demand.total,
                device: spec,
                free,
            }),
            _ => Ok(()),
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
