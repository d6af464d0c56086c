//! A search from a trace to settings, and what they are worth on other texts.

use std::ops::ControlFlow;
use std::sync::Arc;

use cascade_config::{Config, DrafterModel, ModelPool};
use cascade_core::{Budget, Drafter, Scorer};
use serde::{Serialize, Serializer};

use super::halves::halves;
use super::held_out::{Compared, HeldOut, Outcome};
use super::recording::Recording;
use super::search::{Candidate, frontier, search};
use super::simulate::{Recordings, Setting};
use super::{Space, Times};
use crate::trace::{Record, Trace, check_architecture};
use crate::{Error, Result, error};

/// Draft depth recorded for statistical drafters.
const STATISTICAL_DEPTH: usize = 16;

/// A configuration and the recorded outputs that it is tuned on.
pub struct Tuner {
    /// The drafters, and the settings to compare with.
    pub config: Config,
    /// The target's outputs, none of them empty.
    pub trace: Arc<Trace>,
    /// The drafters of the configuration, largest first.
    pub drafters: Vec<DrafterModel>,
    /// What cascades are assembled from.
    pub pool: ModelPool,
    /// What forwards take, of which the tuner's results are speedups.
    pub times: Times,
}

impl Tuner {
    /// Loads the drafters, and asks for their `times`. Of the trace at most `limit` records are
    /// read, spread evenly over it; those without output say nothing and are left out.
    ///
    /// # Errors
    /// A trace without output; drafters that cannot be loaded, or of another family than the
    /// recorded target; errors of `times`.
    pub fn new<E: From<Error>>(
        config: Config,
        mut trace: Trace,
        limit: usize,
        pool: ModelPool,
        times: impl FnOnce(
            &Config,
            &Trace,
            &[DrafterModel],
            &ModelPool,
        ) -> std::result::Result<Times, E>,
    ) -> std::result::Result<Self, E> {
        trace.records.retain(|record| !record.output.is_empty());
        let records = trace.spread(limit);
        trace.records = records.cloned().collect();
        if trace.records.is_empty() {
            let problem = "the trace has no output tokens to tune on";
            return Err(E::from(error::unusable(trace.label, problem)));
        }
        let drafters = pool
            .drafters(&config, &trace.header.tokenizer())
            .map_err(Error::from)?;
        for drafter in &drafters {
            // Its tokenizer may differ: the pool pairs the vocabularies, or refuses them.
            if let DrafterModel::Neural { model, .. } = drafter {
                check_architecture(format_args!("{}: drafter", config.label), model, &trace)?;
            }
        }
        Ok(Self {
            times: times(&config, &trace, &drafters, &pool)?,
            trace: Arc::new(trace),
            config,
            drafters,
            pool,
        })
    }

    /// Searches on every second conversation, and replays the best `check` settings, and what they
    /// must be compared with, on both halves. `on_record` is called for each record that the
    /// drafters have read, of [`searched_on`](Self::searched_on); where it breaks, there is no
    /// result.
    ///
    /// Cost: the drafters' forwards along the first half, then some thousand predictions.
    ///
    /// # Errors
    /// Errors of the drafters.
    pub fn run(
        &self,
        space: &Space,
        check: usize,
        on_record: impl FnMut() -> ControlFlow<()>,
    ) -> Result<Option<Tuned>> {
        let (training, held_out) = halves(&self.trace.records);
        let Some(recordings) = self.record(&training, on_record)? else {
            return Ok(None);
        };
        let mut candidates = search(&recordings, space, &self.times)?;
        let checks = HeldOut {
            tuner: self,
            training: &training,
            held_out: &held_out,
        };
        let trees = self.trees(&checks, space, &mut candidates)?;
        let drafters = self.config.drafters();
        let found = candidates
            .into_iter()
            .enumerate()
            .map(|(place, candidate)| {
                let outcome = (place < check).then(|| checks.of_setting(&candidate.setting));
                let unused = candidate.unused().into_iter();
                Ok(FrontierSetting {
                    unused: unused
                        .map(|drafter| drafters[drafter].name().to_owned())
                        .collect(),
                    outcome: outcome.transpose()?,
                    candidate,
                })
            });
        Ok(Some(Tuned {
            target: self.trace.header.model.clone(),
            costs: self.times.of_one_row(),
            measured: false,
            training_records: training.len(),
            held_out_records: held_out.len(),
            tokens: recordings.tokens(),
            own_predicted_swi: self.own_setting(&recordings)?,
            frontier: found.collect::<Result<_>>()?,
            always: checks.always(&recordings, space, &trees)?,
        }))
    }

    /// The best tree of each drafter that grows trees. Candidates were predicted with chains, which
    /// they are now told to be; the trees, and the best candidate with a tree, are added.
    fn trees(
        &self,
        checks: &HeldOut<'_>,
        space: &Space,
        candidates: &mut Vec<Candidate>,
    ) -> Result<Vec<(usize, Candidate)>> {
        let mut trees = Vec::new();
        for drafter in
            (0..self.drafters.len()).filter(|&drafter| self.branches(drafter, checks.training))
        {
            trees.extend(
                checks
                    .best_tree(drafter, space)?
                    .map(|tree| (drafter, tree)),
            );
        }
        if trees.is_empty() {
            return Ok(trees);
        }
        for Candidate { setting, .. } in candidates.iter_mut() {
            setting.nodes = Some(setting.k.rows()[0].iter().sum::<usize>().max(1));
        }
        let asks = |candidate: &&Candidate| {
            let unused = candidate.unused();
            unused.len() + 1 < self.drafters.len()
                && trees.iter().any(|(tree, _)| !unused.contains(tree))
        };
        if let Some(best) = candidates.first().filter(asks) {
            candidates.extend(checks.best_size(&best.setting.clone(), space)?);
        }
        candidates.extend(trees.iter().map(|(_, tree)| tree.clone()));
        *candidates = frontier(std::mem::take(candidates), &self.times);
        Ok(trees)
    }

    /// Whether a statistical drafter proposes two tokens for one place, anywhere along the first
    /// records.
    fn branches(&self, drafter: usize, records: &[&Record]) -> bool {
        /// Records that show it.
        const SEEN: usize = 4;
        let DrafterModel::Statistical(factory) = &self.drafters[drafter] else {
            return false;
        };
        let mut drafter = factory.drafter();
        records.iter().take(SEEN).any(|record| {
            let prompt = record.prompt();
            drafter.set_source(&prompt.source);
            (0..record.output.len()).any(|said| {
                let context = [&prompt.context[..], &record.output[..said]].concat();
                let nodes = Budget { depth: 2, nodes: 8 };
                let tree = drafter.propose(&context, nodes).into_tree();
                (0..tree.len())
                    .filter(|&node| tree.depth(node) == 0)
                    .nth(1)
                    .is_some()
            })
        })
    }

    /// Records of the half that is searched on.
    pub fn searched_on(&self) -> usize {
        halves(&self.trace.records).0.len()
    }

    /// Each drafter's predictions along the target's texts, smallest drafter first.
    fn record(
        &self,
        records: &[&Record],
        mut on_record: impl FnMut() -> ControlFlow<()>,
    ) -> Result<Option<Recordings>> {
        let rows = self.trace.header.vocab_size;
        let mut models: Vec<_> = self
            .drafters
            .iter()
            .map(|model| Recorded::new(model, rows))
            .collect();
        let mut recordings = Vec::with_capacity(records.len());
        for record in records {
            let prompt = record.prompt();
            let mut recording = Recording::new(record.output.clone());
            for model in models.iter_mut().rev() {
                match model {
                    Recorded::Neural(session) => {
                        recording.add_neural(&mut **session, &prompt)?;
                    }
                    Recorded::Statistical(drafter) => {
                        recording.add_statistical(&mut **drafter, &prompt, STATISTICAL_DEPTH);
                    }
                }
            }
            recordings.push(recording);
            if on_record().is_break() {
                return Ok(None);
            }
        }
        Ok(Some(Recordings::new(recordings)))
    }

    /// The prediction for the configuration's own setting, if it has a K matrix.
    fn own_setting(&self, recordings: &Recordings) -> Result<Option<f64>> {
        let Some(k) = self.config.k() else {
            return Ok(None);
        };
        let setting = Setting {
            k: k.clone(),
            lenience: self.config.lenience,
            nodes: None,
        };
        let prediction = recordings.predict(&setting, &self.times)?;
        Ok(Some(prediction.swi(&self.times.of_one_row())))
    }
}

/// A drafter while it is recorded.
enum Recorded {
    Neural(Box<dyn Scorer + Send>),
    Statistical(Box<dyn Drafter + Send>),
}

impl Recorded {
    /// A session over the `rows` of the target, whose tokens alone a drafter drafts.
    fn new(model: &DrafterModel, rows: usize) -> Self {
        match model {
            DrafterModel::Neural {
                model, vocabulary, ..
            } => Self::Neural(vocabulary.restrict(Box::new(model.session()), rows)),
            DrafterModel::Statistical(factory) => Self::Statistical(factory.drafter()),
        }
    }
}

/// What a search found. Speedups and SWI are replayed, not measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tuned {
    /// The recorded target.
    pub target: String,
    /// Costs of a forward of one row, the target's first; 0 of statistical drafters.
    pub costs: Vec<f64>,
    /// Whether they were measured on this machine: for the caller to say.
    pub measured: bool,
    /// Records that were searched on.
    pub training_records: usize,
    /// Records that were not.
    pub held_out_records: usize,
    /// Tokens of the records that were searched on.
    #[serde(skip)]
    pub tokens: usize,
    /// Predicted SWI of the configuration's own setting, if it has a K matrix.
    pub own_predicted_swi: Option<f64>,
    /// The promising settings, the best first.
    pub frontier: Vec<FrontierSetting>,
    /// What every setting must be compared with: plain decoding, each statistical drafter alone,
    /// the configuration as it is, and the online schedule.
    pub always: Vec<Compared>,
}

/// A promising setting that a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct FrontierSetting {
    /// The setting and what the search went by.
    pub candidate: Candidate,
    /// Names of drafters that never draft in it.
    pub unused: Vec<String>,
    /// What it did on both halves, if it is among the first.
    pub outcome: Option<Outcome>,
}

impl Serialize for FrontierSetting {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let Candidate {
            setting,
            prediction,
            speedup,
            swi,
        } = &self.candidate;
        let outcome = self.outcome.as_ref();
        serde_json::json!({
            "k": setting.k.rows(),
            "lenience": setting.lenience.get(),
            "nodes": setting.nodes,
            "unused": self.unused,
            // What the search went by, on the half that it searched on; `searched_speedup` of
            // `held_out` is the replay of the same half.
            "predicted": {
                "speedup": speedup,
                "seconds": prediction.seconds,
                "swi": swi,
                "calls": prediction.calls,
            },
            "replayed_swi": outcome.map(|outcome| outcome.searched_swi),
            "tokens": prediction.tokens,
            "held_out": outcome,
        })
        .serialize(serializer)
    }
}
