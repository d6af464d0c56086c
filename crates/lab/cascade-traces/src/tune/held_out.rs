//! What settings are worth on texts that they were not chosen by: replays of the real engine, whose
//! forwards take the times by which was searched.

use cascade_config::{Assembly, Config, Drafter, ScheduleConfig};
use cascade_engine::{Clock, GenerationOutput, Placement, VirtualClock};
use serde::Serialize;

use super::{best_alone, Prediction, Recordings, Setting, Space, Tuner};
use crate::trace::{replay, Record, TraceScorer};
use crate::Result;
use cascade_eval::Bootstrap;

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
    /// What drafts.
    #[serde(skip)]
    pub name: String,
}

/// Replays both halves.
pub(super) struct HeldOut<'a> {
    tuner: &'a Tuner,
    training: &'a [&'a Record],
    held_out: &'a [&'a Record],
}

/// Counts of one half, and of each record its tokens and seconds.
struct Replayed {
    counted: Prediction,
    records: Vec<(f64, f64)>,
}

impl Replayed {
    fn new(models: usize) -> Self {
        Self {
            counted: Prediction {
                tokens: 0,
                calls: vec![0; models],
                seconds: 0.0,
            },
            records: Vec::new(),
        }
    }

    fn add(&mut self, generation: &GenerationOutput, seconds: f64) {
        let tokens = generation.tokens.len();
        self.records.push((tokens as f64, seconds));
        let counted = &mut self.counted;
        counted.tokens += tokens as u64;
        counted.seconds += seconds;
        for (sum, model) in counted.calls.iter_mut().zip(&generation.models) {
            *sum += model.usage.calls;
        }
    }

    /// Times as fast as plain decoding on these records, with the target's time of one row.
    fn speedup(&self, one: f64, records: impl IntoIterator<Item = usize>) -> f64 {
        let sum =
            |sum: (f64, f64), at: usize| (sum.0 + self.records[at].0, sum.1 + self.records[at].1);
        let (tokens, seconds) = records.into_iter().fold((0.0, 0.0), sum);
        tokens * one / seconds
    }
}

impl<'a> HeldOut<'a> {
    pub(super) fn new(
        tuner: &'a Tuner,
        training: &'a [&'a Record],
        held_out: &'a [&'a Record],
    ) -> Self {
        Self {
            tuner,
            training,
            held_out,
        }
    }

    pub(super) fn of_setting(&self, setting: &Setting) -> Result<Outcome> {
        let mut config = self.tuner.config.clone().with_schedule(setting.k.clone())?;
        config.lenience = setting.lenience;
        self.outcome(format!("k {:?}", setting.k.rows()), &config)
    }

    /// What every setting must be compared with: plain decoding, each statistical drafter alone
    /// with its best length on the training half, the configuration as it is, and the online
    /// schedule.
    pub(super) fn always(&self, recordings: &Recordings, space: &Space) -> Result<Vec<Outcome>> {
        let config = &self.tuner.config;
        let mut outcomes = vec![Outcome {
            name: "plain decoding".to_owned(),
            searched_swi: 1.0,
            searched_speedup: 1.0,
            swi: 1.0,
            speedup: 1.0,
            interval: Some((1.0, 1.0)),
        }];
        let names = config.drafters().iter().map(Drafter::name);
        for (drafter, name) in names.enumerate() {
            if recordings.is_neural(drafter) {
                continue;
            }
            let times = &self.tuner.times;
            if let Some(best) = best_alone(recordings, drafter, &space.statistical, times)? {
                let tokens = best.setting.k.rows()[0][drafter];
                let outcome = self.of_setting(&best.setting)?;
                outcomes.push(Outcome {
                    name: format!("{name} alone, {tokens} tokens"),
                    ..outcome
                });
            }
        }
        if config.k().is_some() {
            outcomes.push(self.outcome("the configuration".to_owned(), config)?);
        }
        let mut online = config.clone().with_schedule(ScheduleConfig::Online)?;
        online.placement = Placement::Sequential;
        outcomes.push(self.outcome("schedule: online".to_owned(), &online)?);
        Ok(outcomes)
    }

    fn outcome(&self, name: String, config: &Config) -> Result<Outcome> {
        let costs = self.tuner.times.of_one_row();
        let one = costs[0];
        let training = self.replay(config, self.training)?;
        let held_out = self.replay(config, self.held_out)?;
        let records = held_out.records.len();
        Ok(Outcome {
            name,
            searched_swi: training.counted.swi(&costs),
            searched_speedup: training.speedup(one, 0..training.records.len()),
            swi: held_out.counted.swi(&costs),
            speedup: held_out.speedup(one, 0..records),
            interval: Bootstrap::default().interval(records, |chosen| {
                held_out.speedup(one, chosen.iter().copied())
            }),
        })
    }

    fn replay(&self, config: &Config, records: &[&Record]) -> Result<Replayed> {
        let Tuner { trace, times, .. } = self.tuner;
        let clock = VirtualClock::default();
        let target = TraceScorer::target(trace)?.with_times(times.assumed(&clock, None));
        let assembled = self
            .tuner
            .pool
            .assemble(Assembly::of(config).target(target))?;
        let mut cascade = assembled.cascade;
        let options = config.generation.options();
        let mut replayed = Replayed::new(1 + config.drafters().len());
        for record in records {
            let before = clock.now();
            let generation = replay(&mut cascade, record, &options)?;
            let seconds = clock.now().saturating_sub(before).as_secs_f64();
            replayed.add(&generation, seconds);
        }
        Ok(replayed)
    }
}
