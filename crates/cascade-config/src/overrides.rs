//! Settings that take precedence over those of a configuration.

use cascade_core::StatedSampling;
use cascade_engine::{Placement, Rule, StopSequences};
use cascade_models::{CacheType, DType};

use crate::{Config, Drafter, Error, Neural, Result, SamplingSettings, ScheduleConfig};
use crate::{DeviceSpec, PromptTemplate, StopRuleConfig};

/// Settings that a command line gives in place of a configuration's: those that are there. Checked
/// all together by [`Config::with`].
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `--schedule`.
    pub schedule: Option<ScheduleName>,
    /// `--stop-rule`: when the turns of all drafters end early.
    pub stop_rule: Option<StopRuleConfig>,
    /// `--dtype`: the type of the weights of all models.
    pub dtype: Option<DType>,
    /// `--cache-dtype`: the type of all keys and values.
    pub cache_dtype: Option<CacheType>,
    /// `--max-new-tokens`.
    pub max_new_tokens: Option<usize>,
    /// `--temperature`, `--top-k` and the like.
    pub sampling: StatedSampling,
    /// `--seed`.
    pub seed: Option<u64>,
    /// `--rule`: the rule of all reviews.
    pub rule: Option<Rule>,
    /// `--stop`: texts that end an answer; the configuration's own if there are none.
    pub stop: Vec<String>,
    /// `--template`, of a dataset's questions.
    pub prompt: Option<PromptTemplate>,
    /// `--device` of all models.
    pub device: Option<DeviceSpec>,
}

/// Who decides how much is drafted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleName {
    /// Acceptance and costs of late.
    Online,
    /// The K matrix.
    Static,
}

impl Config {
    /// The configuration with other settings.
    ///
    /// # Errors
    /// A setting out of its range, or without effect; `static` without a K matrix; settings that do
    /// not fit together.
    pub fn with(mut self, overrides: &Overrides) -> Result<Self> {
        match overrides.schedule {
            Some(ScheduleName::Online) if !self.drafters.is_empty() => {
                self.schedule = ScheduleConfig::Online;
                self.placement = Placement::Sequential;
            }
            Some(ScheduleName::Static) if self.k().is_none() => {
                return Err(Error::Override(format!(
                    "--schedule static: {} has no `k`, which would say how much is drafted; add one",
                    self.label
                )));
            }
            _ => {}
        }
        if let Some(rule) = &overrides.stop_rule {
            for drafter in &mut self.drafters {
                *drafter.stop_rule_mut() = Some(rule.clone());
            }
        }
        for neural in self.neural_mut() {
            neural.dtype = overrides.dtype.or(neural.dtype);
            neural.cache_dtype = overrides.cache_dtype.or(neural.cache_dtype);
            neural.rule = overrides.rule.unwrap_or(neural.rule);
        }
        if let Some(device) = overrides.device {
            self.set_device(device);
        }
        self.prompt = overrides.prompt.or(self.prompt);
        self.override_generation(overrides)?;
        self.checked()
    }

    fn override_generation(&mut self, overrides: &Overrides) -> Result<()> {
        let generation = &mut self.generation;
        generation.sampling = overrides.sampling(generation.sampling)?;
        generation.max_new_tokens = overrides
            .max_new_tokens
            .unwrap_or(generation.max_new_tokens);
        generation.seed = overrides.seed.unwrap_or(generation.seed);
        if !overrides.stop.is_empty() {
            let stop = StopSequences::new(&overrides.stop);
            generation.stop = Some(stop.map_err(|error| Error::Override(error.to_string()))?);
        }
        Ok(())
    }

    fn neural_mut(&mut self) -> impl Iterator<Item = &mut Neural> {
        let drafters = self
            .drafters
            .iter_mut()
            .filter_map(|drafter| match drafter {
                Drafter::Neural { model, .. } => Some(&mut **model),
                Drafter::Statistical { .. } => None,
            });
        std::iter::once(&mut self.target).chain(drafters)
    }
}

impl Overrides {
    fn sampling(&self, configured: SamplingSettings) -> Result<SamplingSettings> {
        let own = self.sampling;
        let settings = SamplingSettings::try_from(own.or(configured.stated()))
            .map_err(|error| Error::Override(error.to_string()))?;
        // Where no temperature is stated, a model may recommend one.
        let is_stated = settings.stated().temperature.is_some();
        let truncates = own.top_k.is_some() || own.top_p.is_some() || own.min_p.is_some();
        if truncates && is_stated && settings.truncates_in_vain() {
            let problem = "--top-k, --top-p and --min-p have no effect at temperature 0 (greedy \
                           decoding); also give --temperature";
            return Err(Error::Override(problem.to_owned()));
        }
        Ok(settings)
    }
}
