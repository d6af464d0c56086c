//! A target and its drafters, ready to generate.

use std::sync::{Mutex, MutexGuard, PoisonError};

use cascade::config::{ChatTemplate, GenerationSettings, Message};
use cascade::{Architecture, Prompt, TokenId};
use numpy::{AllowTypeChange, PyArray1, PyArrayLike1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::error::{CascadeError, Fault, to_python};
use crate::options::options;
use crate::output::Output;
use crate::parts::{GivenDrafter, add, name_of, scheduled};
use crate::scorer::PyScorer;
use crate::stream::{Running, Stream};

/// A cascade; see the stubs.
#[pyclass(module = "cascade_decoding", frozen)]
pub struct Cascade {
    /// `None` while a generation has it.
    engine: Mutex<Option<cascade::Cascade>>,
    names: Vec<String>,
    architecture: Architecture,
    pub settings: GenerationSettings,
    pub fault: Fault,
    pub chat: Option<ChatTemplate>,
    #[pyo3(get)]
    pub warnings: Vec<String>,
    #[pyo3(get)]
    pub notes: Vec<String>,
}

impl Cascade {
    /// A cascade without a chat template, with the usual settings.
    pub fn new(engine: cascade::Cascade, architecture: Architecture) -> Self {
        let names = engine.level_names().into_iter();
        Self {
            names: names.map(str::to_owned).collect(),
            engine: Mutex::new(Some(engine)),
            architecture,
            settings: GenerationSettings::default(),
            fault: Fault::default(),
            chat: None,
            warnings: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    pub fn put_back(&self, engine: cascade::Cascade) {
        *self.engine() = Some(engine);
    }

    fn engine(&self) -> MutexGuard<'_, Option<cascade::Cascade>> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the engine while no generation has it.
    fn with<T>(&self, act: impl FnOnce(&mut cascade::Cascade) -> PyResult<T>) -> PyResult<T> {
        match &mut *self.engine() {
            Some(engine) => act(engine),
            None => Err(busy()),
        }
    }

    fn prompt(&self, prompt: &Bound<'_, PyAny>) -> PyResult<Prompt> {
        if let Ok(text) = prompt.cast::<PyString>() {
            let text: String = text.extract()?;
            return self.with(|engine| engine.encode(&text).map_err(to_python));
        }
        let tokens: PyArrayLike1<'_, TokenId, AllowTypeChange> = prompt.extract()?;
        Ok(Prompt::new(self.architecture, tokens.as_array().to_vec()))
    }

    /// Starts a generation. One that cannot start leaves the cascade as it was.
    fn run(
        own: &Bound<'_, Self>,
        prompt: &Prompt,
        given: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Running> {
        let this = own.get();
        let options = options(&this.settings, given)?;
        this.with(|engine| {
            engine
                .start_tokens(prompt, &options)
                .map(drop)
                .map_err(to_python)
        })?;
        this.fault.check()?;
        let engine = this.engine().take().ok_or_else(busy)?;
        let generation = engine
            .into_generation(prompt, &options)
            .map_err(to_python)?;
        Ok(Running::new(own.clone().unbind(), generation))
    }

    fn answer(
        own: &Bound<'_, Self>,
        prompt: &Prompt,
        given: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Output> {
        let mut running = Self::run(own, prompt, given)?;
        while running.step(own.py())?.is_some() {}
        running.end().ok_or_else(busy)
    }

    /// The prompt of a conversation, in the form of the target's own chat template.
    fn conversation(&self, messages: &Bound<'_, PyAny>) -> PyResult<Prompt> {
        let template = self.chat.as_ref().ok_or_else(|| {
            CascadeError::new_err(
                "the target comes with no chat template; use `generate` with a prompt",
            )
        })?;
        let text = template
            .render(&read_messages(messages)?)
            .map_err(to_python)?;
        self.with(|engine| {
            if template.holds_special_tokens() {
                engine.encode_verbatim(&text).map_err(to_python)
            } else {
                engine.encode(&text).map_err(to_python)
            }
        })
    }
}

fn busy() -> PyErr {
    CascadeError::new_err("the cascade is generating; take the stream to its end, or close it")
}

/// A text is what the user says.
fn read_messages(messages: &Bound<'_, PyAny>) -> PyResult<Vec<Message>> {
    if let Ok(text) = messages.cast::<PyString>() {
        let role = cascade::config::Role::User;
        return Ok(vec![Message::new(role, text.extract::<String>()?)]);
    }
    let json = messages
        .py()
        .import("json")?
        .call_method1("dumps", (messages,))?;
    let values: Vec<serde_json::Value> =
        serde_json::from_str(&json.extract::<String>()?).map_err(|error| {
            PyValueError::new_err(format!("messages: {error}; give a list of dictionaries"))
        })?;
    let messages = values
        .into_iter()
        .map(|value| Message::from_json(value).map_err(to_python));
    messages.collect()
}

#[pymethods]
impl Cascade {
    #[staticmethod]
    #[pyo3(signature = (target, drafters, *, k=None, schedule=None, lenience=None, max_nodes=None, eos=vec![]))]
    #[allow(clippy::too_many_arguments)]
    fn build(
        target: &Bound<'_, PyAny>,
        drafters: Vec<GivenDrafter<'_>>,
        k: Option<Vec<Vec<usize>>>,
        schedule: Option<&Bound<'_, PyAny>>,
        lenience: Option<f64>,
        max_nodes: Option<usize>,
        eos: Vec<TokenId>,
    ) -> PyResult<Self> {
        let fault = Fault::default();
        let scorer = PyScorer::new(target)?;
        let architecture = cascade::Scorer::info(&scorer).architecture;
        let name = name_of(target)?.unwrap_or_else(|| "target".to_owned());
        let mut builder = cascade::Cascade::builder()
            .target(name, scorer)
            .eos(eos)
            .lenience(crate::parts::lenience(lenience)?);
        if let Some(nodes) = max_nodes {
            builder = builder.max_nodes(nodes);
        }
        for (index, drafter) in drafters.iter().enumerate() {
            builder = add(builder, drafter, index, &fault)?;
        }
        let builder = scheduled(builder, k, schedule, &fault)?;
        let engine = builder.build().map_err(to_python);
        fault.check()?;
        Ok(Self {
            fault,
            ..Self::new(engine?, architecture)
        })
    }

    #[getter]
    fn level_names(&self) -> Vec<String> {
        self.names.clone()
    }

    #[getter]
    fn architecture(&self) -> String {
        self.architecture.to_string()
    }

    fn encode<'py>(&self, py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyArray1<TokenId>>> {
        let prompt = self.with(|engine| engine.encode(text).map_err(to_python))?;
        Ok(PyArray1::from_vec(
            py,
            [prompt.source, prompt.context].concat(),
        ))
    }

    fn decode(&self, tokens: PyArrayLike1<'_, TokenId, AllowTypeChange>) -> PyResult<String> {
        let codec = self
            .with(|engine| Ok(engine.codec().cloned()))?
            .ok_or_else(|| CascadeError::new_err("the cascade has no tokenizer"))?;
        let mut decoder = codec.decoder();
        let mut text = String::new();
        for &token in tokens.as_array() {
            text.push_str(&decoder.push(token).map_err(to_python)?);
        }
        text.push_str(&decoder.finish().map_err(to_python)?);
        Ok(text)
    }

    #[pyo3(signature = (prompt, **given))]
    fn generate(
        own: &Bound<'_, Self>,
        prompt: &Bound<'_, PyAny>,
        given: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Output> {
        let prompt = own.get().prompt(prompt)?;
        Self::answer(own, &prompt, given)
    }

    #[pyo3(signature = (prompt, **given))]
    fn stream(
        own: &Bound<'_, Self>,
        prompt: &Bound<'_, PyAny>,
        given: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Stream> {
        let prompt = own.get().prompt(prompt)?;
        Ok(Stream::new(Self::run(own, &prompt, given)?))
    }

    #[pyo3(signature = (messages, **given))]
    fn chat(
        own: &Bound<'_, Self>,
        messages: &Bound<'_, PyAny>,
        given: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Output> {
        let prompt = own.get().conversation(messages)?;
        Self::answer(own, &prompt, given)
    }

    #[pyo3(signature = (messages, **given))]
    fn stream_chat(
        own: &Bound<'_, Self>,
        messages: &Bound<'_, PyAny>,
        given: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Stream> {
        let prompt = own.get().conversation(messages)?;
        Ok(Stream::new(Self::run(own, &prompt, given)?))
    }

    fn forget_texts(&self) -> PyResult<()> {
        self.with(|engine| {
            engine.forget_texts();
            Ok(())
        })
    }

    fn __repr__(&self) -> String {
        format!("Cascade({})", self.names.join(" <- "))
    }
}
