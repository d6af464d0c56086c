//! Models and tables, each opened once.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cascade_core::{Fingerprint, ForwardTimes, Scorer};
use cascade_models::{
    CacheType, DType, Head, HubOptions, LoadOptions, LoadedModel, MemoryEstimate, Model,
    ModelFiles, ModelSource, OpenDevice, Overcommit, Tokenizer, check_head, compute_threads,
    load_files, load_head, locate,
};
use cascade_ngram::{NgramTable, Resources, TableLocator};

use crate::assemble::neural_levels;
use crate::forward_times::{MeasuredTimes, forward_times};
use crate::{Config, CostFile, DeviceSpec, Error, Measured, Neural, Notices, Result, locator};

/// How models are loaded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AssembleOptions {
    /// A device for all models, in place of those that the configuration names.
    pub device: Option<DeviceSpec>,
    /// Where models of the hub come from.
    pub hub: HubOptions,
    /// Whether downloads show a progress bar on standard error.
    pub progress: bool,
    /// Where notices go that cannot wait until models are loaded, and those about single prompts.
    pub notices: Notices,
    /// What happens to models that are larger together than the memory that can be had.
    pub overcommit: Overcommit,
    /// What forwards cost, measured before: what the online schedule begins with. The name of each
    /// is for errors.
    pub costs: Vec<(String, CostFile)>,
    /// Whether the online schedule keeps these costs, whatever forwards take.
    pub fixed_costs: bool,
}

/// The configuration's device, the hub and [`Overcommit`] as the environment says, progress on
/// standard error.
impl Default for AssembleOptions {
    fn default() -> Self {
        Self {
            device: None,
            hub: HubOptions::from_env(),
            progress: true,
            notices: Notices::default(),
            overcommit: Overcommit::from_env(),
            costs: Vec::new(),
            fixed_costs: false,
        }
    }
}

impl AssembleOptions {
    /// Sets where notices go.
    pub fn with_notices(self, notices: Notices) -> Self {
        Self { notices, ..self }
    }

    /// Sets the device of all models; the configuration's own if there is none.
    pub fn with_device(self, device: Option<DeviceSpec>) -> Self {
        Self { device, ..self }
    }

    /// Sets what happens to models that are too large.
    pub fn with_overcommit(self, overcommit: Overcommit) -> Self {
        Self { overcommit, ..self }
    }

    /// Sets costs that were measured before, which the online schedule keeps if they are
    /// `fixed`.
    pub fn with_costs(self, costs: Vec<(String, CostFile)>, fixed: bool) -> Self {
        Self {
            costs,
            fixed_costs: fixed,
            ..self
        }
    }

    /// Sets where models of the hub come from.
    pub fn with_hub(self, hub: HubOptions) -> Self {
        Self { hub, ..self }
    }
}

/// The models and tables of configurations, each loaded when it is first needed and then shared by
/// all cascades that are [assembled](Self::assemble) from the pool.
pub struct ModelPool {
    /// Where models without a device of their own compute.
    spec: DeviceSpec,
    /// With the device that all models compute on whatever they say, if there is one.
    pub(crate) options: AssembleOptions,
    /// What cascades have said, each once for all of them.
    said: Arc<Mutex<BTreeSet<String>>>,
    devices: Mutex<HashMap<DeviceSpec, OpenDevice>>,
    models: Cache<ModelKey, Arc<LoadedModel>>,
    heads: Cache<HeadKey, Arc<Head>>,
    /// What forwards of a model cost that texts share, as a target or as a drafter.
    /// What forwards of a model cost on this machine, where one thread computes or several.
    times: Cache<(ModelKey, bool), Option<MeasuredTimes>>,
    /// Files of models that have been looked for, so that the hub is asked once.
    located: Cache<ModelKey, ModelFiles>,
    tables: Cache<TableLocator, Arc<NgramTable>>,
    /// By the name of the drafter.
    stand_ins: HashMap<String, StandIn>,
}

/// What drafts in place of the model that a configuration names: a simulation of one.
#[derive(Clone)]
pub struct StandIn {
    /// What it is, for reports.
    pub source: String,
    /// Parameters of the model that it stands for.
    pub parameters: usize,
    /// Makes a session of it.
    pub session: Arc<dyn Fn() -> Box<dyn Scorer + Send> + Send + Sync>,
}

/// What is made for each key, and then shared. Threads that ask for the same new key at the same
/// time each make it, and all get that of the first.
struct Cache<K, T>(Mutex<Vec<(K, T)>>);

impl<K: PartialEq, T: Clone> Cache<K, T> {
    fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    fn find(&self, is_it: impl Fn(&K) -> bool) -> Option<T> {
        let known = lock(&self.0);
        let found = known.iter().find(|(key, _)| is_it(key));
        found.map(|(_, value)| value.clone())
    }

    fn get<E>(
        &self,
        key: K,
        make: impl FnOnce() -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        if let Some(value) = self.find(|known| *known == key) {
            return Ok(value);
        }
        // Without the lock: a thread pool packs the weights, and a thread of it that waits may be
        // given another task, which asks this cache.
        let value = make()?;
        let mut known = lock(&self.0);
        if let Some((_, first)) = known.iter().find(|(known, _)| *known == key) {
            return Ok(first.clone());
        }
        known.push((key, value.clone()));
        Ok(value)
    }
}

/// A head, and the model that it reads.
struct HeadKey {
    own: ModelKey,
    target: Arc<Model>,
}

impl PartialEq for HeadKey {
    fn eq(&self, other: &Self) -> bool {
        self.own == other.own && Arc::ptr_eq(&self.target, &other.target)
    }
}

/// What two models must share to be one.
#[derive(Clone, PartialEq)]
pub(crate) struct ModelKey {
    source: ModelSource,
    tokenizer: Option<ModelSource>,
    dtype: DType,
    cache_dtype: Option<CacheType>,
    device: DeviceSpec,
}

impl ModelPool {
    /// A pool on a device. Nothing is opened yet.
    pub fn new(device: DeviceSpec, options: &AssembleOptions) -> Self {
        Self {
            spec: device,
            options: options.clone(),
            said: Arc::default(),
            devices: Mutex::default(),
            models: Cache::new(),
            heads: Cache::new(),
            times: Cache::new(),
            located: Cache::new(),
            tables: Cache::new(),
            stand_ins: HashMap::new(),
        }
    }

    /// Puts something else in the place of the neural drafter of this name, whose model is neither
    /// loaded nor looked for.
    pub fn with_stand_in(mut self, drafter: impl Into<String>, stand_in: StandIn) -> Self {
        self.stand_ins.insert(drafter.into(), stand_in);
        self
    }

    pub(crate) fn stand_in(&self, drafter: &str) -> Option<&StandIn> {
        self.stand_ins.get(drafter)
    }

    /// Where a model computes: on its own device if it has one, else on the pool's. The device is
    /// opened.
    ///
    /// # Errors
    /// A device that is not there.
    pub fn device(&self, neural: &Neural) -> cascade_models::Result<OpenDevice> {
        let spec = self.options.device.or(neural.device).unwrap_or(self.spec);
        let mut devices = lock(&self.devices);
        if let Some(device) = devices.get(&spec) {
            return Ok(device.clone());
        }
        let opened = spec.resolve()?;
        // `auto` and the device it stands for are one.
        let opened = devices.entry(opened.spec).or_insert(opened).clone();
        Ok(devices.entry(spec).or_insert(opened).clone())
    }

    /// What was decided in the user's place when devices were opened, in sentences.
    pub fn notes(&self) -> Vec<String> {
        let devices = lock(&self.devices);
        let auto = devices.get(&DeviceSpec::Auto);
        let no_gpu = auto.and_then(|opened| opened.no_gpu.as_ref());
        no_gpu
            .map(|reason| format!("models compute on the CPU: {reason}"))
            .into_iter()
            .collect()
    }

    /// What costs must be of to be those of a model. Nothing is loaded.
    ///
    /// # Errors
    /// A device that is not there.
    pub fn measured(&self, neural: &Neural) -> cascade_models::Result<Measured> {
        let device = self.device(neural)?.device;
        let dtype = neural.dtype_on(!device.is_gpu());
        let model = neural.source.to_string();
        Ok(Measured::new(model, dtype, neural.cache_dtype, &device))
    }

    /// What forwards of these models cost, as far as the user has given files of them.
    ///
    /// # Errors
    /// A file that is of none of them, or of one in another type, on another device or by another
    /// number of threads; a device that is not there.
    pub(crate) fn known_costs<'n>(
        &self,
        neural: impl Iterator<Item = Option<&'n Neural>>,
    ) -> Result<Vec<Option<ForwardTimes>>> {
        let used: Vec<Option<Measured>> = neural
            .map(|neural| neural.map(|neural| self.measured(neural)).transpose())
            .collect::<cascade_models::Result<_>>()
            .map_err(Error::Device)?;
        for (name, file) in &self.options.costs {
            let same = used
                .iter()
                .flatten()
                .find(|used| used.model == file.of.model);
            let first = used.iter().flatten().next();
            if let Some(expected) = same.or(first) {
                file.check(name, expected).map_err(Error::Costs)?;
            }
        }
        let of = |used: Option<Measured>| {
            let found = self
                .options
                .costs
                .iter()
                .find(|(_, file)| Some(&file.of) == used.as_ref());
            found.and_then(|(_, file)| file.forward_times())
        };
        Ok(used.into_iter().map(of).collect())
    }

    /// What forwards of a loaded model cost on this machine: see [`forward_times`].
    pub(crate) fn own_times(&self, neural: &Neural, is_alone: bool) -> Option<ForwardTimes> {
        let key = (self.key(neural).ok()?, is_alone);
        let model = self.loaded(neural)?;
        let of = self.measured(neural).ok()?;
        let measured = || Ok::<_, ()>(forward_times(&model.model, of, is_alone));
        let measured = self.times.get(key, measured).ok()??;
        if let Some(note) = measured.impossible {
            self.once()(&format!("{}: {note}", neural.name));
        }
        Some(measured.times)
    }

    /// Which costs a cascade begins with, if its forwards are `live`.
    pub(crate) fn notes_on_costs(&self, live: bool) -> impl Iterator<Item = String> + '_ {
        let costs = self.options.costs.iter().filter(move |_| live);
        costs.map(|(name, file)| file.describe(name))
    }

    /// Whether the thread that generates computes all models of a configuration alone.
    pub(crate) fn is_alone(&self, config: &Config) -> bool {
        let on_cpu = |neural| {
            let opened = self.device(neural);
            opened.is_ok_and(|opened| opened.device.is_cpu())
        };
        compute_threads() == 1 && neural_levels(config).flatten().all(on_cpu)
    }

    /// A model: loaded if it is new, shared if it has been loaded.
    ///
    /// # Errors
    /// A device that is not there; a model that cannot be loaded.
    pub fn model(&self, neural: &Neural) -> cascade_models::Result<Arc<LoadedModel>> {
        let key = self.key(neural)?;
        let files = self.files(neural)?;
        self.models.get(key, || {
            load_files(files, &self.load_options(neural)?).map(Arc::new)
        })
    }

    /// A head over `target`: loaded if it is new, shared if it has been loaded.
    ///
    /// # Errors
    /// As [`load_head`]; a device that is not there.
    pub fn head_of(
        &self,
        neural: &Neural,
        target: &Arc<Model>,
    ) -> cascade_models::Result<Arc<Head>> {
        let files = self.files(neural)?;
        let key = HeadKey {
            own: self.key(neural)?,
            target: Arc::clone(target),
        };
        self.heads.get(key, || {
            load_head(files, target, &self.load_options(neural)?).map(Arc::new)
        })
    }

    /// Refuses a head that does not fit its target, before either is loaded.
    ///
    /// # Errors
    /// As [`check_head`]; files that are missing.
    pub(crate) fn check_head(
        &self,
        neural: &Neural,
        target: &Neural,
    ) -> cascade_models::Result<()> {
        check_head(&self.files(neural)?, &self.files(target)?)
    }

    /// Where notices go.
    pub(crate) fn notices(&self) -> Notices {
        self.options.notices.clone()
    }

    /// Says what a cascade has to say, unless another has said it.
    pub(crate) fn once(&self) -> impl Fn(&str) + Send + Sync + 'static {
        let (notices, said) = (self.notices(), Arc::clone(&self.said));
        move |notice| {
            if lock(&said).insert(notice.to_owned()) {
                notices.say(notice);
            }
        }
    }

    /// A model that has been loaded.
    pub(crate) fn loaded(&self, neural: &Neural) -> Option<Arc<LoadedModel>> {
        let key = self.key(neural).ok()?;
        self.models.find(|known| *known == key)
    }

    /// The tokenizer of a configuration's target, whether that has been loaded or not; `None` if it
    /// is not to be had, or of another vocabulary than what answers.
    pub(crate) fn target_tokenizer(
        &self,
        target: &Neural,
        vocabulary: &Fingerprint,
    ) -> Option<Tokenizer> {
        let tokenizer = match self.loaded(target) {
            Some(model) => model.tokenizer.clone(),
            None => target.load_tokenizer(&self.options).ok()?,
        };
        (tokenizer.fingerprint() == *vocabulary).then_some(tokenizer)
    }

    /// What a model would take of its device's memory.
    pub(crate) fn estimate(
        &self,
        neural: &Neural,
        tokens: usize,
        nodes: usize,
    ) -> cascade_models::Result<MemoryEstimate> {
        let device = self.device(neural)?.device;
        let dtype = neural.dtype_on(!device.is_gpu());
        let (files, cache) = (self.files(neural)?, neural.cache_dtype);
        if neural.is_head {
            return MemoryEstimate::of_head(&files, dtype, cache, tokens, nodes);
        }
        MemoryEstimate::of(&files, &device, dtype, cache, tokens, nodes)
    }

    pub(crate) fn is_loaded(&self, key: &ModelKey) -> bool {
        let head = self.heads.find(|known| known.own == *key);
        head.is_some() || self.models.find(|known| known == key).is_some()
    }

    pub(crate) fn key(&self, neural: &Neural) -> cascade_models::Result<ModelKey> {
        let opened = self.device(neural)?;
        Ok(ModelKey {
            source: neural.source.clone(),
            tokenizer: neural.tokenizer.clone(),
            dtype: neural.dtype_on(!opened.device.is_gpu()),
            cache_dtype: neural.cache_dtype,
            device: opened.spec,
        })
    }

    fn files(&self, neural: &Neural) -> cascade_models::Result<ModelFiles> {
        let key = self.key(neural)?;
        self.located
            .get(key, || locate(&neural.source, &self.load_options(neural)?))
    }

    fn load_options(&self, neural: &Neural) -> cascade_models::Result<LoadOptions> {
        let device = self.device(neural)?.device;
        Ok(LoadOptions {
            dtype: neural.dtype_on(!device.is_gpu()),
            cache_dtype: neural.cache_dtype,
            device,
            hub: self.options.hub.clone(),
            progress: self.options.progress,
            tokenizer: neural.tokenizer.clone(),
            // What there is to say has been said of all models together.
            overcommit: match self.options.overcommit {
                Overcommit::Refuse => Overcommit::Refuse,
                _ => Overcommit::Allow,
            },
        })
    }

    /// A table for a vocabulary: opened if it is new, shared if it has been opened.
    ///
    /// # Errors
    /// A table that is not there, is damaged, or has another vocabulary.
    pub fn table(
        &self,
        locator: &TableLocator,
        vocabulary: &Fingerprint,
    ) -> cascade_ngram::Result<Arc<NgramTable>> {
        let open = || open_table(locator, vocabulary).map(Arc::new);
        let table = self.tables.get(locator.clone(), open)?;
        table.check_tokenizer(vocabulary)?;
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
) -> cascade_ngram::Result<NgramTable> {
    match locator {
        TableLocator::File(path) => NgramTable::open(path, vocabulary),
        TableLocator::Embedded(name) => {
            NgramTable::from_static(locator.to_string(), embedded(locator, name)?, vocabulary)
        }
    }
}

fn embedded(locator: &TableLocator, name: &str) -> cascade_ngram::Result<&'static [u8]> {
    locator::embedded_table(name).map_err(|(problem, cure)| {
        let problem = format!("{problem}; {cure}");
        cascade_ngram::Error::Read {
            file: locator.to_string().into(),
            source: io::Error::new(io::ErrorKind::NotFound, problem),
        }
    })
}

/// The tables of a pool that are of one vocabulary.
pub(crate) struct Tables<'a> {
    pub(crate) pool: &'a ModelPool,
    pub(crate) vocabulary: &'a Fingerprint,
}

impl Resources for Tables<'_> {
    fn table(&self, locator: &TableLocator) -> cascade_ngram::Result<Arc<NgramTable>> {
        self.pool.table(locator, self.vocabulary)
    }
}

#[cfg(test)]
mod tests {
    use super::Cache;

    #[test]
    fn what_is_being_made_may_ask_its_own_cache() {
        let cache = Cache::new();
        let value = |value: i32| move || Ok::<_, ()>(value);
        let made = cache.get("head", || cache.get("target", value(1)).map(|one| one + 1));
        assert_eq!(made, Ok(2));
        // The first value of a key stays, also if it was made meanwhile.
        let late = cache.get("drafter", || cache.get("drafter", value(3)).map(|_| 4));
        assert_eq!([late, cache.get("drafter", value(5))], [Ok(3), Ok(3)]);
    }
}
