//! Whether a configuration's output is its target's.

use std::sync::Arc;

use cascade::config::ModelPool;
use cascade::core::seed_of;
use cascade::models::LoadedModel;
use cascade::{Decoding, Rule, Sampling};
use cascade_eval::lossless::{with_random_settings, Comparisons, Findings, Tolerance, Trial};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::config::Config;
use crate::error::to_python;
use crate::interrupt::Interrupt;
use crate::json::object;
use crate::options::settings;
use crate::prompts::GivenPrompt;

/// Samples per prompt of rules whose tokens cannot be compared one by one.
const SAMPLES: u64 = 5000;

/// See the stubs.
#[pyfunction]
#[pyo3(signature = (
    config, prompts, *, generations=None, random_settings=None, tolerance=None, samples=None, length=3, level=0.001,
    device=None, **given
))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn check_lossless<'py>(
    py: Python<'py>,
    config: &Config,
    prompts: Vec<GivenPrompt>,
    generations: Option<usize>,
    random_settings: Option<u64>,
    tolerance: Option<f32>,
    samples: Option<u64>,
    length: usize,
    level: f64,
    device: Option<&str>,
    given: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut config = config.clone();
    config.0.generation = settings(&config.0.generation, given)?;
    if !config.0.generation.options().is_lossless() {
        return Err(PyValueError::new_err(
            "the output is lossy, as it was asked for: leave out `lossy` to check the rest",
        ));
    }
    let trials = generations.unwrap_or(prompts.len());
    let asked = Asked {
        trials,
        random_settings,
        tolerance,
        length,
        level,
    };
    asked.check(prompts.len(), samples)?;
    if samples.is_some() && config.0.generation.sampling.decoding().is_greedy() {
        return Err(PyValueError::new_err(
            "samples has no effect at temperature 0; also give a temperature",
        ));
    }
    let pool = config.pool(device)?;
    let mut interrupt = Interrupt::default();
    let checked = py.detach(|| {
        let checker = Checker {
            target: pool.target(&config.0)?,
            config: &config.0,
            pool: &pool,
            prompts: &prompts,
            of_sampling: samples.is_none(),
            asked,
        };
        checker.all(samples, &mut interrupt)
    });
    interrupt.check()?;
    match checked.map_err(to_python)? {
        Report::Rescored(findings) => object(py, &findings),
        Report::Sampled(comparisons) => object(py, &comparisons),
    }
}

struct Asked {
    trials: usize,
    random_settings: Option<u64>,
    tolerance: Option<f32>,
    length: usize,
    level: f64,
}

impl Asked {
    fn check(&self, prompts: usize, samples: Option<u64>) -> PyResult<()> {
        let problem = if prompts == 0 || self.trials == 0 || samples == Some(0) || self.length == 0
        {
            Some("give one prompt, generation, sample and token at least")
        } else if self
            .tolerance
            .is_some_and(|gap| !gap.is_finite() || gap < 0.0)
        {
            Some("tolerance: give a finite number of 0 or more")
        } else if !(self.level > 0.0 && self.level < 1.0) {
            Some("level: give a number between 0 and 1")
        } else {
            None
        };
        problem.map_or(Ok(()), |problem| Err(PyValueError::new_err(problem)))
    }
}

enum Report {
    Rescored(Findings),
    Sampled(Comparisons),
}

struct Checker<'a> {
    config: &'a cascade::Config,
    pool: &'a ModelPool,
    target: Arc<LoadedModel>,
    prompts: &'a [GivenPrompt],
    /// Whether sampled tokens are compared one by one, for which sampling may be random too.
    of_sampling: bool,
    asked: Asked,
}

impl Checker<'_> {
    fn all(&self, samples: Option<u64>, interrupt: &mut Interrupt) -> cascade_eval::Result<Report> {
        let decoding = self.config.generation.options().decoding;
        match (decoding, samples) {
            (Decoding::Sampled(sampling), Some(samples)) => {
                self.sampled(&sampling, samples, interrupt)
            }
            (Decoding::Sampled(sampling), None) if self.config.target.rule != Rule::Coupled => {
                self.sampled(&sampling, SAMPLES, interrupt)
            }
            _ => self.rescored(decoding, interrupt),
        }
    }

    fn trial(&self, number: usize) -> cascade_eval::Result<Trial> {
        let mut config = self.config.clone();
        if let Some(seed) = self.asked.random_settings {
            config = with_random_settings(&config, seed_of(seed, number as u64), self.of_sampling)?;
        }
        let cascade = self.pool.assemble(&config)?.cascade;
        let prompt = &self.prompts[number % self.prompts.len()];
        Ok(Trial {
            number,
            prompt: prompt.encode(&cascade, self.target.info().architecture)?,
            eos: self.pool.end_tokens(&config, None)?,
            cascade,
            config,
        })
    }

    fn rescored(
        &self,
        decoding: Decoding,
        interrupt: &mut Interrupt,
    ) -> cascade_eval::Result<Report> {
        let of_type = || Tolerance::of_type(self.target.dtype);
        let tolerance = self.asked.tolerance.map_or_else(of_type, Tolerance::fixed);
        let mut findings = Findings::new(decoding);
        for number in 0..self.asked.trials {
            if interrupt.look().is_break() {
                break;
            }
            findings.check(
                &mut self.trial(number)?,
                || self.target.session(),
                tolerance,
            )?;
        }
        Ok(Report::Rescored(findings))
    }

    fn sampled(
        &self,
        sampling: &Sampling,
        samples: u64,
        interrupt: &mut Interrupt,
    ) -> cascade_eval::Result<Report> {
        let trials = self.asked.trials;
        let mut report = Comparisons::new(self.asked.level, self.asked.length);
        for number in 0..trials {
            if interrupt.look().is_break() {
                break;
            }
            let (mut trial, mut target) = (self.trial(number)?, self.target.session());
            report.check(&mut trial, &mut target, (sampling, samples), trials, || {})?;
        }
        Ok(Report::Sampled(report))
    }
}
