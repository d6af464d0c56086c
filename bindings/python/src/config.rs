//! Configurations: YAML, or the names of models.

use std::path::PathBuf;
use std::sync::Arc;

use cascade::config::{
    Assembly, CascadeSpec, Neural, NgramTable, Notices, StandIn, StopRuleConfig, TextDrafter,
    model_source,
};
use cascade::models::parse_cache_type;
use cascade::{
    AssembleOptions, Convention, DeviceSpec, KMatrix, ModelPool, Schedule, Scorer, Target,
};
use pyo3::exceptions::{PyKeyError, PyUserWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::batch::Many;
use crate::engine::Engine;
use crate::error::{Fault, not_forked, to_python};
use crate::parts::lenience;
use crate::policy::{PyPart, PySchedule};
use crate::scorer::PyScorer;

/// A configuration: models, schedule, lenience, tables, generation settings.
///
/// It can be pickled, and assembled in another process.
///
/// >>> import cascade_decoding
/// >>> config = cascade_decoding.Config.open("embedded:demo-llama")
/// >>> config.assemble().level_names[0] == config.neural_levels[0][0]
/// True
#[pyclass(module = "cascade_decoding", frozen)]
#[derive(Clone)]
pub struct Config(pub cascade::Config);

/// A warning of Python's, which is an exception where warnings are errors.
pub(crate) fn warn(py: Python<'_>, message: &str) -> PyResult<()> {
    let message = std::ffi::CString::new(message.replace('\0', " ")).unwrap_or_default();
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &message, 1)
}

/// Notices as Python warnings.
fn assemble_options(device: Option<DeviceSpec>) -> AssembleOptions {
    // Where warnings are errors, one in the middle of a forward has nobody to raise it to.
    let warn = |notice: &str| drop(Python::attach(|py| warn(py, notice)));
    AssembleOptions::default()
        .with_device(device)
        .with_notices(Notices::new(warn))
}

fn device_of(name: Option<&str>) -> PyResult<Option<DeviceSpec>> {
    name.map(|name| name.parse().map_err(to_python)).transpose()
}

#[pymethods]
impl Config {
    /// Reads a YAML file, or ``embedded:demo-t5``, ``embedded:demo-llama``.
    #[staticmethod]
    fn open(path: PathBuf) -> PyResult<Self> {
        cascade::Config::open(path).map(Self).map_err(to_python)
    }

    /// Reads YAML; paths that begin with a dot are relative to ``base``.
    ///
    /// >>> import cascade_decoding
    /// >>> yaml = cascade_decoding.Config.of_models("embedded:demo-llama-target").to_yaml()
    /// >>> cascade_decoding.Config.parse(yaml).neural_levels
    /// [('demo-llama-target', 'embedded:demo-llama-target')]
    #[staticmethod]
    #[pyo3(signature = (text, base=PathBuf::new()))]
    fn parse(text: &str, base: PathBuf) -> PyResult<Self> {
        cascade::Config::parse(text, "configuration", base)
            .map(Self)
            .map_err(to_python)
    }

    /// The configuration that :func:`cascade_decoding.load` assembles. Loads tokenizers, and no
    /// weights.
    #[staticmethod]
    #[pyo3(signature = (
        target, drafters=vec![], *, max_gram=None, table=None, draft_tokens=None, k=None, schedule=None, max_nodes=None,
        lenience=None, stop_rule=None, dtype=None, cache_dtype=None, device=None
    ))]
    #[allow(clippy::too_many_arguments)]
    fn of_models(
        py: Python<'_>,
        target: &str,
        drafters: Vec<String>,
        max_gram: Option<&Bound<'_, PyAny>>,
        table: Option<&str>,
        draft_tokens: Option<Vec<usize>>,
        k: Option<Vec<Vec<usize>>>,
        schedule: Option<&str>,
        max_nodes: Option<usize>,
        lenience: Option<f64>,
        stop_rule: Option<&str>,
        dtype: Option<&str>,
        cache_dtype: Option<&str>,
        device: Option<&str>,
    ) -> PyResult<Self> {
        let neural = |name: &str| -> PyResult<Neural> {
            let mut neural = Neural::new(model_source(name).map_err(to_python)?);
            neural.dtype = dtype
                .map(|own| own.parse().map_err(to_python))
                .transpose()?;
            neural.cache_dtype = cache_dtype
                .map(|own| parse_cache_type(own).map_err(to_python))
                .transpose()?;
            Ok(neural)
        };
        let models = drafters
            .iter()
            .map(|name| neural(name))
            .collect::<PyResult<_>>()?;
        let mut spec = CascadeSpec::new(neural(target)?, models);
        if let Some(kind) = max_gram {
            let table = table.map_or(NgramTable::Fitting, NgramTable::parse);
            spec.text = text_drafter(kind)?.map(|drafter| (drafter, table));
        }
        spec.fixed = k.is_some() || is_static(schedule)?;
        spec.draft_tokens = draft_tokens;
        spec.max_nodes = max_nodes;
        spec.lenience = lenience.map(|own| self::lenience(Some(own))).transpose()?;
        spec.stop_rule = stop_rule.map(stop_rule_of).transpose()?;
        let options = assemble_options(device_of(device)?);
        let config = py
            .detach(|| spec.config("load", &options))
            .map_err(to_python)?;
        let Some(rows) = k else {
            return Ok(Self(config));
        };
        let k = KMatrix::new(rows, Convention::Added).map_err(to_python)?;
        config.with_schedule(k).map(Self).map_err(to_python)
    }

    /// The configuration as YAML, which :meth:`parse` reads.
    fn to_yaml(&self) -> PyResult<String> {
        self.0.to_yaml().map_err(to_python)
    }

    /// Settings that are valid but probably unintended.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.warnings()
    }

    /// Names and sources of the target and the neural drafters.
    #[getter]
    fn neural_levels(&self) -> Vec<(String, String)> {
        let target = std::iter::once(&self.0.target);
        let drafters = self
            .0
            .drafters()
            .iter()
            .filter_map(|drafter| match drafter {
                cascade::config::Drafter::Neural { model, .. } => Some(&**model),
                cascade::config::Drafter::Statistical { .. } => None,
            });
        let neural = target.chain(drafters);
        neural
            .map(|own| (own.name.clone(), own.source.to_string()))
            .collect()
    }

    /// Loads all models.
    ///
    /// ``scorers``: models in Python in place of neural levels, by name; the tokenizer stays the
    /// configuration's. ``schedule``: a :class:`Schedule` in place of the configuration's.
    #[pyo3(signature = (*, scorers=None, schedule=None, device=None))]
    fn assemble<'py>(
        &self,
        py: Python<'py>,
        scorers: Option<&Bound<'py, PyDict>>,
        schedule: Option<&Bound<'py, PyAny>>,
        device: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        not_forked()?;
        let options = assemble_options(device_of(device)?);
        let mut pool = self.0.pool(&options);
        let mut target = None;
        for (name, object) in scorers.into_iter().flatten() {
            let levels = self.neural_levels();
            let name: String = name.extract()?;
            match levels.iter().position(|(level, _)| *level == name) {
                None => return Err(unknown_level(&name, &levels)),
                Some(0) => target = Some(self.target_of(py, &object, &options)?),
                Some(_) => pool = pool.with_stand_in(&name, stand_in(&name, &object)?),
            }
        }
        let fault = Fault::default();
        let own = schedule.map(|object| PySchedule(PyPart::new(object, &fault)));
        let in_python = scorers.is_some() || own.is_some();
        let mut engine = py.detach(|| self.assembled(&pool, target, own, &options))?;
        engine.fault = fault;
        if !in_python {
            engine.many = Some(Many::new(self.0.clone(), engine.chat.clone(), pool));
        }
        let package = py.import("cascade_decoding")?;
        package.getattr("Cascade")?.call1((engine,))
    }

    fn __repr__(&self) -> String {
        let names: Vec<_> = self
            .0
            .drafters()
            .iter()
            .map(|drafter| drafter.name())
            .collect();
        format!(
            "Config(target={:?}, drafters={names:?})",
            self.0.target.name
        )
    }
}

impl Config {
    fn assembled(
        &self,
        pool: &ModelPool,
        target: Option<Target>,
        schedule: Option<impl Schedule + 'static>,
        options: &AssembleOptions,
    ) -> PyResult<Engine> {
        let config = &self.0;
        let chat = config
            .target_chat(options)
            .map_err(to_python)?
            .templates()
            .map_err(to_python)?
            .map(|all| all.get(None).cloned())
            .transpose()
            .map_err(to_python)?;
        let mut assembly = Assembly::of(config).chat(&chat);
        if let Some(schedule) = schedule {
            assembly = assembly.schedule(schedule);
        }
        let (architecture, assembly) = match target {
            Some(target) => (target.scorer.info().architecture, assembly.target(target)),
            None => {
                let model = pool.target(config).map_err(to_python)?;
                (model.info().architecture, assembly)
            }
        };
        let assembled = pool.assemble(assembly).map_err(to_python)?;
        let mut engine = Engine::new(assembled.cascade, architecture);
        engine.settings = config.generation.clone();
        engine.chat = chat;
        engine.warnings = assembled.warnings;
        engine.notes = assembled.notes;
        Ok(engine)
    }

    /// A scorer in place of the configuration's target, with the target's tokenizer.
    fn target_of(
        &self,
        py: Python<'_>,
        object: &Bound<'_, PyAny>,
        options: &AssembleOptions,
    ) -> PyResult<Target> {
        let tokenizer = py
            .detach(|| self.0.target.load_tokenizer(options))
            .map_err(to_python)?;
        let scorer = PyScorer::new(object)?;
        let ends: Vec<u32> = if self.0.generation.ignore_eos {
            Vec::new()
        } else {
            object.getattr("eos")?.extract()?
        };
        let source = self.0.target.source.to_string();
        let mut target = Target::new(scorer, source, tokenizer.fingerprint())
            .with_eos(ends)
            .with_codec(Arc::new(tokenizer));
        target.parameters = object.getattr("parameters")?.extract()?;
        Ok(target)
    }
}

fn unknown_level(name: &str, levels: &[(String, String)]) -> PyErr {
    let known: Vec<_> = levels.iter().map(|(level, _)| level.as_str()).collect();
    PyKeyError::new_err(format!(
        "the configuration has no neural level {name:?}; it has {}",
        known.join(", ")
    ))
}

/// A scorer in place of a drafter.
fn stand_in(name: &str, object: &Bound<'_, PyAny>) -> PyResult<StandIn> {
    let parameters = object.getattr("parameters")?.extract()?;
    PyScorer::new(object)?;
    let object = object.clone().unbind();
    let session = move || -> Box<dyn Scorer + Send> {
        Python::attach(|py| match PyScorer::new(object.bind(py)) {
            Ok(scorer) => Box::new(scorer) as Box<dyn Scorer + Send>,
            Err(error) => unreachable!("it was read before: {error}"),
        })
    };
    Ok(StandIn {
        source: name.to_owned(),
        parameters,
        session: Arc::new(session),
    })
}

fn text_drafter(kind: &Bound<'_, PyAny>) -> PyResult<Option<TextDrafter>> {
    if let Ok(wanted) = kind.extract::<bool>() {
        return Ok(wanted.then_some(TextDrafter::Tree));
    }
    match kind.extract::<String>()?.as_str() {
        "tree" => Ok(Some(TextDrafter::Tree)),
        "chain" => Ok(Some(TextDrafter::MaxGram)),
        other => Err(PyValueError::new_err(format!(
            "max_gram is {other:?}; give \"tree\" (also True), \"chain\" (the paper's) or False"
        ))),
    }
}

/// Whether a K matrix says how much is drafted.
fn is_static(schedule: Option<&str>) -> PyResult<bool> {
    match schedule {
        None | Some("online") => Ok(false),
        Some("static") => Ok(true),
        Some(other) => Err(PyValueError::new_err(format!(
            "schedule is {other:?}; give \"online\" (what pays is drafted), \"static\" (a K matrix) or a Schedule"
        ))),
    }
}

fn stop_rule_of(text: &str) -> PyResult<StopRuleConfig> {
    text.parse()
        .map_err(|error| PyValueError::new_err(format!("stop_rule: {error}")))
}
