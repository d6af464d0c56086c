//! What settings are worth on texts that they were not chosen by: replays of the real engine, whose
//! forwards take the times by which was searched.

use cascade_config::{Assembly, Config, Drafter, ScheduleConfig};
use cascade_engine::{Clock, Placement, VirtualClock};
use serde::Serialize;

use super::search::{Candidate, alone, best_alone};
use super::simulate::{Prediction, Recordings, Setting};
use super::{Space, Tuner};
use crate::Result;
use crate::ratio::ByRecord;
use crate::trace::{Record, TraceScorer, replay};

/// What a way of drafting did on each half: replayed, not measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// SWI on the half that was searched on, to compare with the prediction.
    #[serde(skip)]
    pub searched_swi: f64,
    /// Speedup over plain decoding on the half that was searched on.
    pub searched_speedup: f64,
    /// Speedup over plain decoding on the other half.
    pub speedup: f64,
    /// Its 95% interval over records.
    pub interval: Option<(f64, f64)>,
    /// SWI on the other half.
    pub swi: f64,
}

impl Outcome {
    /// Plain decoding, to which speedups are relative.
    const PLAIN: Self = Self {
        searched_swi: 1.0,
        searched_speedup: 1.0,
        speedup: 1.0,
        interval: Some((1.0, 1.0)),
        swi: 1.0,
    };
}

/// What settings are compared with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// What it did on each half.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// What drafts.
    #[serde(rename = "drafts")]
    pub name: String,
}

/// Replays both halves.
pub(super) struct HeldOut<'a> {
    pub(super) tuner: &'a Tuner,
    pub(super) training: &'a [&'a Record],
    pub(super) held_out: &'a [&'a Record],
}

impl HeldOut<'_> {
    pub(super) fn of_setting(&self, setting: &Setting) -> Result<Outcome> {
        self.outcome(&self.config(setting)?)
    }

    fn config(&self, setting: &Setting) -> Result<Config> {
        let mut config = self.tuner.config.clone().with_schedule(setting.k.clone())?;
        config.lenience = setting.lenience;
        config.max_nodes = setting.nodes.unwrap_or(config.max_nodes);
        Ok(config)
    }

    /// The fastest tree of a drafter that drafts alone, on the half that is searched on: of all
    /// sizes as deep as they grow, then of all depths in the best size.
    pub(super) fn best_tree(&self, drafter: usize, space: &Space) -> Result<Option<Candidate>> {
        let drafters = self.tuner.drafters.len();
        let tree = |depth: usize, nodes: usize| -> Result<Setting> {
            let chain = alone(drafters, drafter, depth)?;
            Ok(Setting {
                nodes: Some(nodes),
                ..chain
            })
        };
        let most = |nodes: usize| {
            space
                .statistical
                .iter()
                .copied()
                .filter(move |&depth| depth < nodes)
        };
        let sizes = space
            .nodes
            .iter()
            .map(|&nodes| tree(most(nodes).max().unwrap_or(1), nodes));
        let Some(best) = self.fastest(sizes)? else {
            return Ok(None);
        };
        let nodes = best.setting.nodes.unwrap_or(1);
        let depths = most(nodes).filter(|&depth| depth > 0);
        let deep = self.fastest(depths.map(|depth| tree(depth, nodes)))?;
        Ok(deep
            .filter(|deep| deep.speedup > best.speedup)
            .or(Some(best)))
    }

    /// A setting with the best number of nodes beyond the chain that it asks for.
    pub(super) fn best_size(&self, chain: &Setting, space: &Space) -> Result<Option<Candidate>> {
        let larger = space
            .nodes
            .iter()
            .filter(|&&nodes| Some(nodes) > chain.nodes);
        let sized = |&nodes: &usize| Setting {
            nodes: Some(nodes),
            ..chain.clone()
        };
        self.fastest(larger.map(|nodes| Ok(sized(nodes))))
    }

    /// The fastest on the half that is searched on.
    fn fastest(
        &self,
        settings: impl Iterator<Item = Result<Setting>>,
    ) -> Result<Option<Candidate>> {
        let mut best: Option<Candidate> = None;
        for setting in settings {
            let setting = setting?;
            let (replayed, _) = self.replay(&self.config(&setting)?, self.training)?;
            let candidate = Candidate::new(setting, replayed, &self.tuner.times);
            if best
                .as_ref()
                .is_none_or(|best| candidate.speedup > best.speedup)
            {
                best = Some(candidate);
            }
        }
        Ok(best)
    }

    /// What every setting must be compared with: plain decoding, each statistical drafter alone
    /// with its best length on the training half, or with the best of its `trees`, the
    /// configuration as it is, and the online schedule.
    pub(super) fn always(
        &self,
        recordings: &Recordings,
        space: &Space,
        trees: &[(usize, Candidate)],
    ) -> Result<Vec<Compared>> {
        let config = &self.tuner.config;
        let named = |name: String, outcome| Compared { outcome, name };
        let mut compared = vec![named("plain decoding".to_owned(), Outcome::PLAIN)];
        let names = config.drafters().iter().map(Drafter::name);
        for (drafter, name) in names.enumerate() {
            if recordings.is_neural(drafter) {
                continue;
            }
            let times = &self.tuner.times;
            if let Some((_, tree)) = trees.iter().find(|(of, _)| *of == drafter) {
                let (depth, nodes) = (tree.setting.k.rows()[0][drafter], tree.setting.nodes);
                let name = format!(
                    "{name} alone, {} nodes, {depth} deep",
                    nodes.unwrap_or(depth)
                );
                compared.push(named(name, self.of_setting(&tree.setting)?));
            } else if let Some(best) = best_alone(recordings, drafter, &space.statistical, times)? {
                let tokens = best.setting.k.rows()[0][drafter];
                let outcome = self.of_setting(&best.setting)?;
                compared.push(named(format!("{name} alone, {tokens} tokens"), outcome));
            }
        }
        if config.k().is_some() {
            compared.push(named("the configuration".to_owned(), self.outcome(config)?));
        }
        let mut online = config.clone().with_schedule(ScheduleConfig::Online)?;
        online.placement = Placement::Sequential;
        compared.push(named("schedule: online".to_owned(), self.outcome(&online)?));
        Ok(compared)
    }

    fn outcome(&self, config: &Config) -> Result<Outcome> {
        let times = &self.tuner.times;
        let (costs, one) = (times.of_one_row(), times.target.seconds(1));
        let (training, _) = self.replay(config, self.training)?;
        let (held_out, records) = self.replay(config, self.held_out)?;
        Ok(Outcome {
            searched_swi: training.swi(&costs),
            searched_speedup: training.speedup(times),
            swi: held_out.swi(&costs),
            speedup: held_out.speedup(times),
            interval: records.interval(|tokens, seconds| tokens * one / seconds),
        })
    }

    /// Counts of a half, and the tokens and seconds of each of its records.
    fn replay(&self, config: &Config, records: &[&Record]) -> Result<(Prediction, ByRecord)> {
        let Tuner { trace, times, .. } = self.tuner;
        let clock = VirtualClock::default();
        let target = TraceScorer::target(trace)?.with_times(times.assumed(&clock, None));
        let assembled = self
            .tuner
            .pool
            .assemble(Assembly::of(config).target(target))?;
        let mut cascade = assembled.cascade;
        let options = config.generation.options();
        let mut counted = Prediction::none(1 + config.drafters().len());
        let mut by_record = ByRecord::default();
        for record in records {
            let before = clock.now();
            let generation = replay(&mut cascade, record, &options)?;
            let seconds = clock.now().saturating_sub(before).as_secs_f64();
            counted.add(&generation);
            counted.seconds += seconds;
            by_record.0.push((generation.tokens.len() as f64, seconds));
        }
        Ok((counted, by_record))
    }
}
