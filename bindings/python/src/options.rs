//! Options of a generation, from keyword arguments.

use cascade::config::{GenerationSettings, SamplingSettings};
use cascade::core::StatedSampling;
use cascade::{Options, StopSequences};
use pyo3::prelude::*;

use crate::error::to_python;

/// What a call asks for in place of a configuration's settings: a dictionary of all options, as
/// `cascade_decoding._options` makes it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Asked {
    max_new_tokens: Option<usize>,
    temperature: Option<f32>,
    top_k: Option<usize>,
    top_p: Option<f32>,
    min_p: Option<f32>,
    repetition_penalty: Option<f32>,
    presence_penalty: Option<f32>,
    frequency_penalty: Option<f32>,
    seed: Option<u64>,
    stop: Option<Vec<String>>,
    speculate: Option<bool>,
    logprobs: Option<usize>,
    drafts: Option<bool>,
}

impl Asked {
    /// The options of a call.
    pub(crate) fn options(&self, settings: &GenerationSettings) -> PyResult<Options> {
        let mut changed = settings.clone();
        let asked = StatedSampling {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
        };
        let sampling = SamplingSettings::try_from(asked.or(settings.sampling.stated()));
        changed.sampling = sampling.map_err(to_python)?;
        changed.max_new_tokens = self.max_new_tokens.unwrap_or(settings.max_new_tokens);
        changed.seed = self.seed.unwrap_or(settings.seed);
        if let Some(stop) = &self.stop {
            changed.stop = StopSequences::new(stop.clone()).map_err(to_python)?.into();
        }
        let options = changed.options();
        Ok(options
            .with_speculation(self.speculate.unwrap_or(true))
            .with_logprobs(self.logprobs)
            .with_drafts_reported(self.drafts.unwrap_or(false)))
    }
}
