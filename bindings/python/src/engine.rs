//! A target and its drafters, ready to generate: what a `Cascade` in Python works with.

use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cascade::config::{ChatTemplate, GenerationSettings, Message};
use cascade::{Architecture, Options, Prompt, TokenId};
use numpy::{AllowTypeChange, PyArray1, PyArrayLike1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::batch::Many;
use crate::error::{CascadeError, Fault, not_forked, to_python};
use crate::options::Asked;
use crate::output::output;
use crate::parts::{GivenDrafter, add, name_of, scheduled};
use crate::scorer::PyScorer;
use crate::stream::{Running, Steps};

type Tokens<'py> = Bound<'py, PyArray1<TokenId>>;

/// What a `Cascade` works with.
#[pyclass(module = "cascade_decoding._lib", frozen)]
pub struct Engine {
    /// `None` while a generation has it.
    cascade: Mutex<Option<cascade::Cascade>>,
    #[pyo3(get, name = "level_names")]
    pub names: Vec<String>,
    architecture: Architecture,
    pub settings: GenerationSettings,
    pub fault: Fault,
    pub chat: Option<ChatTemplate>,
    /// Where cascades for several texts come from, if no part is in Python.
    pub many: Option<Many>,
    #[pyo3(get)]
    pub warnings: Vec<String>,
    #[pyo3(get)]
    pub notes: Vec<String>,
}

impl Engine {
    /// An engine without a chat template, with the usual settings.
    pub fn new(cascade: cascade::Cascade, architecture: Architecture) -> Self {
        let names = cascade.level_names().into_iter();
        Self {
            names: names.map(str::to_owned).collect(),
            cascade: Mutex::new(Some(cascade)),
            architecture,
            settings: GenerationSettings::default(),
            fault: Fault::default(),
            chat: None,
            many: None,
            warnings: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub fn put_back(&self, cascade: cascade::Cascade) {
        *self.cascade() = Some(cascade);
    }

    fn cascade(&self) -> MutexGuard<'_, Option<cascade::Cascade>> {
        self.cascade.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the cascade while no generation has it.
    fn with<T>(&self, act: impl FnOnce(&mut cascade::Cascade) -> PyResult<T>) -> PyResult<T> {
        not_forked()?;
        match &mut *self.cascade() {
            Some(cascade) => act(cascade),
            None => Err(busy()),
        }
    }

    /// A text, or tokens.
    fn prompt(&self, prompt: &Bound<'_, PyAny>) -> PyResult<Prompt> {
        if let Ok(text) = prompt.cast::<PyString>() {
            let text: String = text.extract()?;
            return self.with(|cascade| cascade.encode(&text).map_err(to_python));
        }
        let tokens: PyArrayLike1<'_, TokenId, AllowTypeChange> = prompt.extract()?;
        Ok(Prompt::new(self.architecture, tokens.as_array().to_vec()))
    }

    /// A prompt, and how it is answered: a text is continued.
    fn asked(&self, prompt: &Bound<'_, PyAny>, asked: &Asked) -> PyResult<(Prompt, Options)> {
        let options = asked.options(&self.settings)?;
        let is_text = prompt.is_instance_of::<PyString>();
        Ok((self.prompt(prompt)?, options.with_continuation(is_text)))
    }

    /// Starts a generation. One that cannot start leaves the engine as it was.
    fn run(own: &Bound<'_, Self>, prompt: &Bound<'_, PyAny>, asked: Asked) -> PyResult<Running> {
        let this = own.get();
        let (prompt, options) = this.asked(prompt, &asked)?;
        this.with(|cascade| {
            let started = cascade.start_tokens(&prompt, &options);
            started.map(drop).map_err(to_python)
        })?;
        this.fault.check()?;
        let cascade = this.cascade().take().ok_or_else(busy)?;
        let generation = cascade
            .into_generation(&prompt, &options)
            .map_err(to_python)?;
        Ok(Running::new(own.clone().unbind(), generation))
    }

    /// The target's own chat template.
    fn template(&self) -> PyResult<&ChatTemplate> {
        self.chat.as_ref().ok_or_else(|| {
            CascadeError::new_err(
                "the target comes with no chat template; use `generate` with a prompt",
            )
        })
    }
}

fn busy() -> PyErr {
    CascadeError::new_err("the cascade is generating; take the stream to its end, or close it")
}

/// Messages from JSON.
fn read_messages(json: &str) -> PyResult<Vec<Message>> {
    let values: Vec<serde_json::Value> = serde_json::from_str(json).map_err(|error| {
        PyValueError::new_err(format!("messages: {error}; give a list of dictionaries"))
    })?;
    let messages = values
        .into_iter()
        .map(|value| Message::from_json(value).map_err(to_python));
    messages.collect()
}

fn array(py: Python<'_>, prompt: Prompt) -> Tokens<'_> {
    PyArray1::from_vec(py, [prompt.source, prompt.context].concat())
}

#[pymethods]
impl Engine {
    #[staticmethod]
    fn build(
        target: &Bound<'_, PyAny>,
        drafters: Vec<GivenDrafter<'_>>,
        k: Option<Vec<Vec<usize>>>,
        schedule: Option<&Bound<'_, PyAny>>,
        lenience: Option<f64>,
        max_nodes: Option<usize>,
        eos: Vec<TokenId>,
    ) -> PyResult<Self> {
        not_forked()?;
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
        let cascade = builder.build().map_err(to_python);
        fault.check()?;
        Ok(Self {
            fault,
            ..Self::new(cascade?, architecture)
        })
    }

    #[getter]
    fn architecture(&self) -> String {
        self.architecture.to_string()
    }

    /// Whether `answers` can be called.
    #[getter]
    fn batches(&self) -> bool {
        self.many.is_some()
    }

    /// Whether there is a tokenizer.
    #[getter]
    fn has_tokenizer(&self) -> PyResult<bool> {
        self.with(|cascade| Ok(cascade.codec().is_some()))
    }

    fn encode<'py>(&self, py: Python<'py>, text: &str) -> PyResult<Tokens<'py>> {
        let prompt = self.with(|cascade| cascade.encode(text).map_err(to_python))?;
        Ok(array(py, prompt))
    }

    fn decode(&self, tokens: PyArrayLike1<'_, TokenId, AllowTypeChange>) -> PyResult<String> {
        let codec = self
            .with(|cascade| Ok(cascade.codec().cloned()))?
            .ok_or_else(|| CascadeError::new_err("the cascade has no tokenizer"))?;
        let mut decoder = codec.decoder();
        let mut text = String::new();
        for &token in tokens.as_array() {
            text.push_str(&decoder.push(token).map_err(to_python)?);
        }
        text.push_str(&decoder.finish().map_err(to_python)?);
        Ok(text)
    }

    /// The text of a conversation.
    fn render(&self, messages: &str) -> PyResult<String> {
        let messages = read_messages(messages)?;
        self.template()?.render(&messages).map_err(to_python)
    }

    /// The prompt of a conversation.
    fn encode_chat<'py>(&self, py: Python<'py>, messages: &str) -> PyResult<Tokens<'py>> {
        let text = self.render(messages)?;
        let verbatim = self.template()?.holds_special_tokens();
        let prompt = self.with(|cascade| {
            let encoded = if verbatim {
                cascade.encode_verbatim(&text)
            } else {
                cascade.encode(&text)
            };
            encoded.map_err(to_python)
        })?;
        Ok(array(py, prompt))
    }

    fn answer<'py>(
        own: &Bound<'py, Self>,
        prompt: &Bound<'_, PyAny>,
        asked: Asked,
    ) -> PyResult<Bound<'py, PyDict>> {
        let mut running = Self::run(own, prompt, asked)?;
        while running.step(own.py())?.is_some() {}
        let answer = running.end().ok_or_else(busy)?;
        output(own.py(), &answer, &own.get().names)
    }

    /// The answers to several prompts, `texts` at a time; `done` is called with their number.
    fn answers<'py>(
        &self,
        py: Python<'py>,
        prompts: Vec<Bound<'py, PyAny>>,
        asked: Vec<Asked>,
        texts: NonZeroUsize,
        done: Py<PyAny>,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let items: Vec<(Prompt, Options)> = prompts
            .iter()
            .zip(&asked)
            .map(|(prompt, asked)| self.asked(prompt, asked))
            .collect::<PyResult<_>>()?;
        let many = self.many.as_ref().ok_or_else(busy)?;
        let answers = py.detach(|| many.answers(&items, texts, &done))?;
        answers
            .iter()
            .map(|answer| output(py, answer, &self.names))
            .collect()
    }

    fn start(own: &Bound<'_, Self>, prompt: &Bound<'_, PyAny>, asked: Asked) -> PyResult<Steps> {
        Ok(Steps::new(Self::run(own, prompt, asked)?))
    }

    fn forget_texts(&self) -> PyResult<()> {
        if let Some(many) = &self.many {
            many.forget();
        }
        self.with(|cascade| {
            cascade.forget_texts();
            Ok(())
        })
    }
}
