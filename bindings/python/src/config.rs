//! Configurations: YAML, or the names of models.

use std::path::PathBuf;
use std::sync::Arc;

use cascade::config::{
    Assembly, CascadeSpec, Neural, NgramTable, Notices, StandIn, StopRuleConfig, TextDrafter,
    model_source,
};
use cascade::{AssembleOptions, DeviceSpec, ModelPool, Scorer, Target};
use pyo3::exceptions::{PyKeyError, PyUserWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::cascade::Cascade;
use crate::error::to_python;
use crate::parts::lenience;
use crate::scorer::PyScorer;

/// A configuration; see the stubs.
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
    #[staticmethod]
    fn open(path: PathBuf) -> PyResult<Self> {
        cascade::Config::open(path).map(Self).map_err(to_python)
    }

    #[staticmethod]
    #[pyo3(signature = (text, base=PathBuf::new()))]
    fn parse(text: &str, base: PathBuf) -> PyResult<Self> {
        cascade::Config::parse(text, "configuration", base)
            .map(Self)
            .map_err(to_python)
    }

    #[staticmethod]
    #[pyo3(signature = (
        target, drafters=vec![], *, max_gram=None, table=None, draft_tokens=None, max_nodes=None, lenience=None,
        stop_rule=None, dtype=None, device=None
    ))]
    #[allow(clippy::too_many_arguments)]
    fn of_models(
        py: Python<'_>,
        target: &str,
        drafters: Vec<String>,
        max_gram: Option<&Bound<'_, PyAny>>,
        table: Option<&str>,
        draft_tokens: Option<Vec<usize>>,
        max_nodes: Option<usize>,
        lenience: Option<f64>,
        stop_rule: Option<&str>,
        dtype: Option<&str>,
        device: Option<&str>,
    ) -> PyResult<Self> {
        let neural = |name: &str| -> PyResult<Neural> {
            let mut neural = Neural::new(model_source(name).map_err(to_python)?);
            neural.dtype = dtype
                .map(|own| own.parse().map_err(to_python))
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
        spec.draft_tokens = draft_tokens;
        spec.max_nodes = max_nodes;
        spec.lenience = lenience.map(|own| self::lenience(Some(own))).transpose()?;
        spec.stop_rule = stop_rule.map(stop_rule_of).transpose()?;
        let options = assemble_options(device_of(device)?);
        let config = py
            .detach(|| spec.config("load", &options))
            .map_err(to_python)?;
        Ok(Self(config))
    }

    fn to_yaml(&self) -> PyResult<String> {
        self.0.to_yaml().map_err(to_python)
    }

    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.warnings()
    }

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

    #[pyo3(signature = (*, scorers=None, device=None))]
    fn assemble(
        &self,
        py: Python<'_>,
        scorers: Option<&Bound<'_, PyDict>>,
        device: Option<&str>,
    ) -> PyResult<Cascade> {
        let options = assemble_options(device_of(device)?);
        let mut pool = self.0.pool(&options);
        let mut target = None;
        if let Some(scorers) = scorers {
            let levels = self.neural_levels();
            for (name, object) in scorers {
                let name: String = name.extract()?;
                match levels.iter().position(|(level, _)| *level == name) {
                    None => return Err(unknown_level(&name, &levels)),
                    Some(0) => target = Some(self.target_of(py, &object, &options)?),
                    Some(_) => pool = pool.with_stand_in(&name, stand_in(&name, &object)?),
                }
            }
        }
        self.assembled(py, &pool, target, &options)
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
        py: Python<'_>,
        pool: &ModelPool,
        target: Option<Target>,
        options: &AssembleOptions,
    ) -> PyResult<Cascade> {
        let config = &self.0;
        py.detach(|| {
            let chat = config
                .target_chat(options)
                .map_err(to_python)?
                .templates()
                .map_err(to_python)?
                .map(|all| all.get(None).cloned())
                .transpose()
                .map_err(to_python)?;
            let assembly = Assembly::of(config).chat(&chat);
            let (architecture, assembly) = match target {
                Some(target) => (target.scorer.info().architecture, assembly.target(target)),
                None => {
                    let model = pool.target(config).map_err(to_python)?;
                    (model.info().architecture, assembly)
                }
            };
            let assembled = pool.assemble(assembly).map_err(to_python)?;
            let mut cascade = Cascade::new(assembled.cascade, architecture);
            cascade.settings = config.generation.clone();
            cascade.chat = chat;
            cascade.warnings = assembled.warnings;
            cascade.notes = assembled.notes;
            Ok(cascade)
        })
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

fn stop_rule_of(text: &str) -> PyResult<StopRuleConfig> {
    text.parse()
        .map_err(|error| PyValueError::new_err(format!("stop_rule: {error}")))
}
