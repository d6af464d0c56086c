//! Options of a generation, from keyword arguments.

use cascade::config::{GenerationSettings, SamplingSettings};
use cascade::core::StatedSampling;
use cascade::{Options, StopSequences};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::to_python;

/// What keyword arguments change of a configuration's settings. Each method that generates takes
/// these and no others; one that is unknown is a `TypeError`.
#[derive(Default)]
struct Given {
    max_new_tokens: Option<usize>,
    sampling: StatedSampling,
    seed: Option<u64>,
    stop: Option<Vec<String>>,
    speculate: Option<bool>,
    logprobs: Option<usize>,
    drafts: Option<bool>,
}

const KNOWN: [&str; 13] = [
    "max_new_tokens",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "seed",
    "stop",
    "speculate",
    "logprobs",
    "drafts",
];

/// The options of a call.
pub(crate) fn options(
    settings: &GenerationSettings,
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<Options> {
    let Some(given) = given else {
        return Ok(settings.options());
    };
    let read = Given::read(given)?;
    let options = read.over(settings)?.options();
    Ok(options
        .with_speculation(read.speculate.unwrap_or(true))
        .with_logprobs(read.logprobs)
        .with_drafts_reported(read.drafts.unwrap_or(false)))
}

impl Given {
    fn read(given: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut read = Self::default();
        for (key, value) in given {
            let key: String = key.extract()?;
            if !read.set(&key, &value)? {
                let known = KNOWN.join(", ");
                return Err(PyTypeError::new_err(format!(
                    "unknown option {key:?}; there are {known}"
                )));
            }
        }
        Ok(read)
    }

    /// Whether there is an option of this name.
    fn set(&mut self, key: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        match key {
            "max_new_tokens" => self.max_new_tokens = value.extract()?,
            "temperature" => self.sampling.temperature = value.extract()?,
            "top_k" => self.sampling.top_k = value.extract()?,
            "top_p" => self.sampling.top_p = value.extract()?,
            "min_p" => self.sampling.min_p = value.extract()?,
            "repetition_penalty" => self.sampling.repetition_penalty = value.extract()?,
            "presence_penalty" => self.sampling.presence_penalty = value.extract()?,
            "frequency_penalty" => self.sampling.frequency_penalty = value.extract()?,
            "seed" => self.seed = value.extract()?,
            "stop" => self.stop = stop_texts(value)?,
            "speculate" => self.speculate = value.extract()?,
            "logprobs" => self.logprobs = value.extract()?,
            "drafts" => self.drafts = value.extract()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn over(&self, settings: &GenerationSettings) -> PyResult<GenerationSettings> {
        let mut changed = settings.clone();
        let sampling = SamplingSettings::try_from(self.sampling.or(settings.sampling.stated()));
        changed.sampling = sampling.map_err(to_python)?;
        changed.max_new_tokens = self.max_new_tokens.unwrap_or(settings.max_new_tokens);
        changed.seed = self.seed.unwrap_or(settings.seed);
        if let Some(stop) = &self.stop {
            changed.stop = StopSequences::new(stop.clone()).map_err(to_python)?.into();
        }
        Ok(changed)
    }
}

/// One text, or several.
fn stop_texts(value: &Bound<'_, PyAny>) -> PyResult<Option<Vec<String>>> {
    match value.extract::<String>() {
        Ok(one) => Ok(Some(vec![one])),
        Err(_) => value.extract(),
    }
}
