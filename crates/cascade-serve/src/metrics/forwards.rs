//! What the forwards of all answers together compute.

use std::sync::{Arc, OnceLock, Weak};

use cascade_core::SharedForward;
use cascade_models::{Batcher, Model};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::{Labels, times};
use crate::faults::{Faults, Stage};

/// Histograms of shared forwards, by the role of the model. Clones are the same ones.
#[derive(Clone)]
pub(crate) struct Forwards {
    target: Arc<OnceLock<Weak<Model>>>,
    /// The histograms that [`NAMES`] lists.
    histograms: [Histograms; 3],
    /// What happens in forwards beside their work.
    pub(crate) faults: Arc<OnceLock<Faults>>,
}

type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// What is measured of a forward, and what it means.
const NAMES: [(&str, &str); 3] = [
    (
        "cascade:forward_rows",
        "Rows of a forward: tokens of prompts and answers, and drafted ones",
    ),
    ("cascade:forward_texts", "Texts that share a forward"),
    (
        "cascade:forward_seconds",
        "Time of a forward, for all of its texts",
    ),
];

impl Forwards {
    pub(crate) fn new() -> Self {
        let buckets: [fn() -> Histogram; 3] = [counts, counts, times];
        Self {
            target: Arc::default(),
            histograms: buckets.map(Family::new_with_constructor),
            faults: Arc::default(),
        }
    }

    /// What gathers the calls of all answers, and counts the forwards that it computes.
    pub(crate) fn batcher(&self) -> Batcher {
        let forwards = self.clone();
        Batcher::of_streams(move |model, forward| forwards.observe(model, forward))
    }

    /// Counts from now on, with the forwards of `target` apart from those of drafters.
    pub(crate) fn begin(&self, target: &Arc<Model>) {
        self.target.get_or_init(|| Arc::downgrade(target));
        self.histograms.iter().for_each(Histograms::clear);
    }

    fn observe(&self, model: &Arc<Model>, forward: &SharedForward) {
        if let Some(faults) = self.faults.get() {
            faults.at(Stage::Forward);
        }
        let target = self.target.get();
        let role = if target.is_some_and(|target| target.as_ptr() == Arc::as_ptr(model)) {
            "target"
        } else {
            "drafter"
        };
        let labels = vec![("role", role.to_owned())];
        let (rows, texts) = (forward.rows as f64, forward.texts as f64);
        let measured = [rows, texts, forward.time.as_secs_f64()];
        for (histograms, value) in self.histograms.iter().zip(measured) {
            histograms.get_or_create(&labels).observe(value);
        }
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        for ((name, help), histograms) in NAMES.into_iter().zip(&self.histograms) {
            registry.register(name, help, histograms.clone());
        }
    }
}

fn counts() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 2.0, 11))
}
