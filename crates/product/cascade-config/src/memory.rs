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
