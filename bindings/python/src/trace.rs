//! Recorded targets: recording and replaying.

use std::path::PathBuf;
use std::sync::Arc;

use cascade::config::ModelPool;
use cascade::{Decoding, Options, Prompt, Rule};
use cascade_core::fs::{Existing, Output};
use cascade_eval::Error;
use cascade_traces::trace::{
    recorded_target, replay as replay_record, replay_options, replay_warnings, replayed_json,
    seed_of_turn, totals_json, FirstPicks, Header, Recorder, Subject, Tallies, Trace as Recorded,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;

use crate::config::{warn, Config};
use crate::error::to_python;
use crate::interrupt::Interrupt;
use crate::json::object;
use crate::options::options;
use crate::prompts::{given, GivenPrompt};

/// Recorded outputs of a target; see the stubs.
#[pyclass(module = "cascade_decoding", frozen)]
pub struct Trace(pub Arc<Recorded>);

#[pymethods]
impl Trace {
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let trace = py.detach(|| Recorded::open_any(path)).map_err(to_python)?;
        Ok(Self(Arc::new(trace)))
    }

    #[pyo3(signature = (path, *, force=false))]
    fn write(&self, py: Python<'_>, path: PathBuf, force: bool) -> PyResult<()> {
        py.detach(|| {
            let no_inputs: [PathBuf; 0] = [];
            let existing = Existing::replaced_if(force);
            let output = Output::check(&path, existing, no_inputs).map_err(to_python)?;
            self.0.write(&output).map_err(to_python)
        })
    }

    #[getter]
    fn header<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        object(py, &self.0.header)
    }

    #[getter]
    fn records<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        object(py, &self.0.records)
    }

    fn __len__(&self) -> usize {
        self.0.records.len()
    }

    fn __repr__(&self) -> String {
        let trace = &self.0;
        format!(
            "Trace({:?}, {} records)",
            trace.header.model,
            trace.records.len()
        )
    }
}

/// See the stubs.
#[pyfunction]
#[pyo3(signature = (config, prompts, *, top_probabilities=None, device=None, **given))]
pub(crate) fn record(
    py: Python<'_>,
    config: &Config,
    prompts: Vec<GivenPrompt>,
    top_probabilities: Option<usize>,
    device: Option<&str>,
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<Trace> {
    let options = options(&config.0.generation, given)?;
    let pool = config.pool(device)?;
    let mut interrupt = Interrupt::default();
    let recorded = py.detach(|| {
        let recording = Recording::new(&config.0, &pool, options, top_probabilities)?;
        recording.all(&prompts, &mut interrupt)
    });
    interrupt.check()?;
    Ok(Trace(Arc::new(recorded.map_err(to_python)?)))
}

struct Recording {
    header: Header,
    recorder: Recorder,
    seed: u64,
}

impl Recording {
    fn new(
        config: &cascade::Config,
        pool: &ModelPool,
        options: Options,
        top: Option<usize>,
    ) -> cascade_eval::Result<Self> {
        if !options.decoding.is_greedy() && config.target.rule != Rule::Coupled {
            return Err(Error::not_coupled(config.target.rule));
        }
        if top.is_some() && options.decoding == Decoding::Greedy {
            return Err(Error::no_top());
        }
        let target = pool.target(config)?;
        let device = pool.device(&config.target)?;
        let mut header = Header::of_target(config, &target, device.spec, &options);
        header.eos = pool.end_tokens(config, None)?;
        header.program = Some(concat!("cascade_decoding ", env!("CARGO_PKG_VERSION")).to_owned());
        let (name, codec) = (&config.target.name, Arc::new(target.tokenizer.clone()));
        let (session, eos) = (target.session(), header.eos.clone());
        let recorder = match top {
            None => Recorder::new(name, session, eos, Some(codec), &options)?,
            Some(tokens) => {
                header = header.with_top_probabilities(tokens);
                Recorder::with_top_probabilities(tokens, name, session, eos, Some(codec), &options)?
            }
        };
        let seed = options.seed;
        Ok(Self {
            header,
            recorder,
            seed,
        })
    }

    fn all(
        mut self,
        prompts: &[GivenPrompt],
        interrupt: &mut Interrupt,
    ) -> cascade_eval::Result<Recorded> {
        let mut records = Vec::with_capacity(prompts.len());
        for (index, prompt) in prompts.iter().enumerate() {
            if interrupt.look().is_break() {
                break;
            }
            let prompt = self.encode(prompt)?;
            self.recorder.set_seed(seed_of_turn(self.seed, index, 0));
            let subject = Subject::new(index.to_string());
            records.push(self.recorder.record(subject, &prompt, |_| {})?.0);
        }
        Recorded::new("recording", self.header, records)
    }

    fn encode(&self, prompt: &GivenPrompt) -> cascade_eval::Result<Prompt> {
        match prompt {
            GivenPrompt::Text(text) => self.recorder.encode(text),
            GivenPrompt::Tokens(tokens) => Ok(given(self.header.architecture, tokens)),
        }
    }
}

/// See the stubs.
#[pyfunction]
#[pyo3(signature = (config, trace, *, limit=None, offset=0, device=None))]
pub(crate) fn replay<'py>(
    py: Python<'py>,
    config: &Config,
    trace: &Trace,
    limit: Option<usize>,
    offset: usize,
    device: Option<&str>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let (config, trace) = (&config.0, &trace.0);
    let options = replay_options(config, trace).map_err(to_python)?;
    for warning in replay_warnings(config, trace) {
        warn(py, &warning)?;
    }
    let pool = Config(config.clone()).pool(device)?;
    let mut interrupt = Interrupt::default();
    let replayed = py.detach(|| {
        let target = recorded_target(config, &pool, trace)?;
        let mut cascade = pool.assemble_with_target(config, target)?.cascade;
        let records = trace.records.iter().skip(offset);
        let mut replays = Replays::default();
        for record in records.take(limit.unwrap_or(usize::MAX)) {
            if interrupt.look().is_break() {
                break;
            }
            replays.add(&mut cascade, trace, record, &options)?;
        }
        Ok::<_, Error>(replays)
    });
    interrupt.check()?;
    let replays = replayed.map_err(to_python)?;
    let totals = totals_json(config, trace, &replays.tallies, &replays.picks);
    Ok((object(py, &replays.rows)?, object(py, &totals)?))
}

#[derive(Default)]
struct Replays {
    rows: Vec<Value>,
    tallies: Tallies,
    picks: FirstPicks,
}

impl Replays {
    fn add(
        &mut self,
        cascade: &mut cascade::Cascade,
        trace: &Recorded,
        record: &cascade_traces::trace::Record,
        options: &Options,
    ) -> cascade_eval::Result<()> {
        let top = trace.header.sampling();
        let generation = match top.and_then(|sampling| sampling.top_probabilities) {
            None => replay_record(cascade, record, options)?,
            Some(most) => self.picks.add(cascade, record, (options, most))?,
        };
        self.tallies.add(record.category.as_deref(), &generation);
        self.rows.push(replayed_json(record, &generation));
        Ok(())
    }
}
