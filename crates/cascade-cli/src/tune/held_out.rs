//! What settings are worth on texts that they were not chosen by: replays of the real engine, whose
//! forwards take the times by which was searched.

use std::sync::Arc;

use anyhow::Result;
use cascade_config::{AssumedTimes, Config, ScheduleConfig, Target};
use cascade_engine::{Clock, Placement, VirtualClock};
use cascade_eval::trace::{replay, Record, TraceScorer};
use cascade_eval::tune::{best_alone, Prediction, Recordings, Setting, Space};
use cascade_eval::Bootstrap;

use super::Tuner;

/// What a way of drafting did on each half.
pub(super) struct Outcome {
    pub(super) name: String,
    /// SWI on the half that was searched on, to compare with the prediction.
    pub(super) training_swi: f64,
    /// Times as fast as plain decoding on the half that was searched on.
    pub(super) training_speedup: f64,
    /// SWI on the other half.
    pub(super) swi: f64,
    /// Times as fast as plain decoding, on the other half.
    pub(super) speedup: f64,
    /// Its 95% interval over records.
    pub(super) interval: Option<(f64, f64)>,
}

/// Replays both halves.
pub(super) struct HeldOut<'a> {
    tuner: &'a Tuner<'a>,
    training: &'a [&'a Record],
    held_out: &'a [&'a Record],
}

/// Counts of one half, and of each record its tokens and seconds.
struct Replayed {
    counted: Prediction,
    records: Vec<(f64, f64)>,
}

impl Replayed {
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
        tuner: &'a Tuner<'a>,
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
        let mut config = self.tuner.config.clone().with_k(setting.k.clone())?;
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
            training_swi: 1.0,
            training_speedup: 1.0,
            swi: 1.0,
            speedup: 1.0,
            interval: Some((1.0, 1.0)),
        }];
        let names = config.drafters().iter().map(cascade_config::Drafter::name);
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
            training_swi: training.counted.swi(&costs),
            training_speedup: training.speedup(one, 0..training.records.len()),
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
        let assumed = AssumedTimes {
            clock: clock.clone(),
            target: times.target.clone(),
            drafters: times.drafters.iter().flatten().cloned().collect(),
        };
        let header = &trace.header;
        let scorer = TraceScorer::new(Arc::clone(trace))?;
        let target = Target::new(scorer, &trace.label, header.tokenizer())
            .with_eos(header.eos.iter().copied())
            .with_times(assumed);
        let assembled = self.tuner.pool.assemble_with_target(config, target)?;
        let mut cascade = assembled.cascade;
        let options = config.generation.options();
        let mut replayed = Replayed {
            counted: Prediction {
                tokens: 0,
                calls: vec![0; 1 + config.drafters().len()],
                seconds: 0.0,
            },
            records: Vec::with_capacity(records.len()),
        };
        for record in records {
            let before = clock.now();
            let generation = replay(&mut cascade, record, &options)?;
            let seconds = clock.now().saturating_sub(before).as_secs_f64();
            let tokens = generation.tokens.len();
            replayed.records.push((tokens as f64, seconds));
            let counted = &mut replayed.counted;
            counted.tokens += tokens as u64;
            counted.seconds += seconds;
            for (sum, model) in counted.calls.iter_mut().zip(&generation.models) {
                *sum += model.usage.calls;
            }
        }
        Ok(replayed)
    }
}
