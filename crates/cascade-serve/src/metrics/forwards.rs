//! What the forwards of all answers together compute.

use std::sync::{Arc, OnceLock, Weak};

use cascade_core::SharedForward;
use cascade_models::{Batcher, Model};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{exponential_buckets, Histogram};
use prometheus_client::registry::Registry;

use super::{times, Labels};

/// Histograms of shared forwards, by the role of the model. Clones are the same ones.
#[derive(Clone)]
pub(crate) struct Forwards {
    target: Arc<OnceLock<Weak<Model>>>,
    rows: Histograms,
    texts: Histograms,
    time: Histograms,
}

type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

impl Forwards {
    pub(crate) fn new() -> Self {
        Self {
            target: Arc::default(),
            rows: Family::new_with_constructor(counts),
            texts: Family::new_with_constructor(counts),
            time: Family::new_with_constructor(times),
        }
    }

    /// What gathers the calls of all answers, and counts the forwards that it computes.
    pub(crate) fn batcher(&self) -> Batcher {
        let forwards = self.clone();
        Batcher::with_observer(move |model, forward| forwards.observe(model, forward))
    }

    /// Counts from now on, with the forwards of `target` apart from those of drafters.
    pub(crate) fn begin(&self, target: &Arc<Model>) {
        self.target.get_or_init(|| Arc::downgrade(target));
        let all = [&self.rows, &self.texts, &self.time];
        all.into_iter().for_each(Histograms::clear);
    }

    fn observe(&self, model: &Arc<Model>, forward: &SharedForward) {
        let target = self.target.get();
        let role = if target.is_some_and(|target| target.as_ptr() == Arc::as_ptr(model)) {
            "target"
        } else {
            "drafter"
        };
        let labels = vec![("role", role.to_owned())];
        let observe = |histograms: &Histograms, value| {
            histograms.get_or_create(&labels).observe(value);
        };
        observe(&self.rows, forward.rows as f64);
        observe(&self.texts, forward.texts as f64);
        observe(&self.time, forward.time.as_secs_f64());
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        let mut register = |name: &str, help: &str, histograms: &Histograms| {
            registry.register(name, help, histograms.clone());
        };
        register(
            "cascade:forward_rows",
            "Rows of a forward: tokens of prompts and answers, and drafted ones",
            &self.rows,
        );
        register(
            "cascade:forward_texts",
            "Texts that share a forward",
            &self.texts,
        );
        register(
            "cascade:forward_seconds",
            "Time of a forward, for all of its texts",
            &self.time,
        );
    }
}

fn counts() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 2.0, 11))
}
