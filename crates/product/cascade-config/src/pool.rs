//! Models and tables, each opened once.

use std::collections::HashMap;
use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cascade_core::Fingerprint;
use cascade_models::{load, DType, Device, HubOptions, LoadOptions, LoadedModel, ModelSource};
use cascade_ngram::{BigramTable, Resources, TableLocator};

use crate::{locator, DeviceSpec, Neural};

/// How models are loaded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AssembleOptions {
    /// A device in place of the configuration's.
    pub device: Option<DeviceSpec>,
    /// Where models of the hub come from.
    pub hub: HubOptions,
    /// Whether downloads show a progress bar on standard error.
    pub progress: bool,
}

/// The configuration's device, the hub as the environment says, a progress bar if standard error is
/// a terminal.
impl Default for AssembleOptions {
    fn default() -> Self {
        Self {
            device: None,
            hub: HubOptions::from_env(),
            progress: io::stderr().is_terminal(),
        }
    }
}

impl AssembleOptions {
    /// The same on `device`, or on the configuration's if there is none.
    pub fn with_device(self, device: Option<DeviceSpec>) -> Self {
        Self { device, ..self }
    }

    /// The same with another hub.
    pub fn with_hub(self, hub: HubOptions) -> Self {
        Self { hub, ..self }
    }
}

/// The models and tables of configurations, each loaded when it is first needed and then shared by
/// all cascades that are [assembled](Self::assemble) from the pool.
pub struct ModelPool {
    spec: DeviceSpec,
    hub: HubOptions,
    progress: bool,
    device: Mutex<Option<Device>>,
    models: Mutex<Vec<(ModelKey, Arc<LoadedModel>)>>,
    tables: Mutex<HashMap<TableLocator, Arc<BigramTable>>>,
}

/// What two models must share to be one.
#[derive(PartialEq)]
struct ModelKey {
    source: ModelSource,
    tokenizer: Option<ModelSource>,
    dtype: DType,
}

impl ModelPool {
    /// A pool on a device. Nothing is opened yet.
    pub fn new(device: DeviceSpec, options: &AssembleOptions) -> Self {
        Self {
            spec: options.device.unwrap_or(device),
            hub: options.hub.clone(),
            progress: options.progress,
            device: Mutex::default(),
            models: Mutex::default(),
            tables: Mutex::default(),
        }
    }

    /// Where the models compute.
    pub fn device(&self) -> DeviceSpec {
        self.spec
    }

    /// A model: loaded if it is new, shared if it has been loaded.
    ///
    /// # Errors
    /// A device that is not there; a model that cannot be loaded.
    pub fn model(&self, neural: &Neural) -> cascade_models::Result<Arc<LoadedModel>> {
        let key = ModelKey {
            source: neural.source.clone(),
            tokenizer: neural.tokenizer.clone(),
            dtype: neural.dtype,
        };
        let mut models = lock(&self.models);
        if let Some((_, model)) = models.iter().find(|(known, _)| *known == key) {
            return Ok(Arc::clone(model));
        }
        let options = LoadOptions {
            device: self.open_device()?,
            dtype: neural.dtype,
            hub: self.hub.clone(),
            progress: self.progress,
            tokenizer: neural.tokenizer.clone(),
        };
        let model = Arc::new(load(&neural.source, &options)?);
        models.push((key, Arc::clone(&model)));
        Ok(model)
    }

    fn open_device(&self) -> cascade_models::Result<Device> {
        let mut device = lock(&self.device);
        if let Some(device) = &*device {
            return Ok(device.clone());
        }
        let opened = self.spec.open()?;
        Ok(device.insert(opened).clone())
    }

    /// A bigram table for a vocabulary: opened if it is new, shared if it has been opened.
    ///
    /// # Errors
    /// A table that is not there, is damaged, or has another vocabulary.
    pub fn table(
        &self,
        locator: &TableLocator,
        vocabulary: &Fingerprint,
    ) -> cascade_ngram::Result<Arc<BigramTable>> {
        let mut tables = lock(&self.tables);
        if let Some(table) = tables.get(locator) {
            table.check_tokenizer(vocabulary)?;
            return Ok(Arc::clone(table));
        }
        let table = Arc::new(open_table(locator, vocabulary)?);
        tables.insert(locator.clone(), Arc::clone(&table));
        Ok(table)
    }
}

/// A thread that panicked while it loaded has added nothing.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open_table(
    locator: &TableLocator,
    vocabulary: &Fingerprint,
) -> cascade_ngram::Result<BigramTable> {
    match locator {
        TableLocator::File(path) => BigramTable::open(path, vocabulary),
        TableLocator::Embedded(name) => {
            let bytes = locator::embedded_table(name).map_err(|(problem, cure)| {
                let problem = format!("{problem}; {cure}");
                cascade_ngram::Error::Read {
                    file: locator.to_string().into(),
                    source: io::Error::new(io::ErrorKind::NotFound, problem),
                }
            })?;
            BigramTable::from_static(locator.to_string(), bytes, vocabulary)
        }
    }
}

/// The tables of a pool that are of one vocabulary.
pub(crate) struct Tables<'a> {
    pub(crate) pool: &'a ModelPool,
    pub(crate) vocabulary: &'a Fingerprint,
}

impl Resources for Tables<'_> {
    fn table(&self, locator: &TableLocator) -> cascade_ngram::Result<Arc<BigramTable>> {
        self.pool.table(locator, self.vocabulary)
    }
}
