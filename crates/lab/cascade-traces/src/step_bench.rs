//! Walltime and engine overhead of recorded answers, with forwards that are timed.
//!
//! A live model computes every forward of the target and a recorded trace answers in its place, so
//! acceptance is that of the recording whatever the weights. Drafters draft as usual, or are
//! simulated: a shape with random weights that is right as often as a drafter that was measured
//! elsewhere.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use cascade_config::{AssembleOptions, Assembled, Assembly, Config, Drafter, StandIn, Target};
use cascade_engine::{Cascade, GenerationOutput, Role};
use cascade_models::Model;
use serde::Serialize;

use crate::trace::{
    LookupLog, Record, Simulation, StepCost, TimedReplayScorer, Trace, TraceScorer, replay_timed,
};
use cascade_eval::median;

use crate::{Error, Result, error};

/// A neural drafter of a shape, which is right as often as one that was measured elsewhere.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DrafterShape {
    /// The drafter of the configurations that it stands for.
    pub name: String,
    /// The shape of its model.
    pub shape: String,
    /// The probability with which it drafts the recorded token.
    pub acceptance: f64,
    /// What it computes in, if that is not the target's type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtype: Option<String>,
}

/// A drafter to simulate, and the model whose forwards take its time.
#[derive(Clone)]
pub struct SimulatedModel {
    /// What is simulated.
    pub drafter: DrafterShape,
    /// The model whose forwards take its time, with any weights.
    pub model: Arc<Model>,
}

/// The model whose forwards are timed.
#[derive(Clone)]
pub struct TimedTarget {
    /// Its name in reports.
    pub name: String,
    /// Where it computes.
    pub device: String,
    /// What it computes in.
    pub dtype: String,
    /// Its weights.
    pub model: Arc<Model>,
}

/// All measurements.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepTimes {
    /// Always true: the forwards and the tokens come from different models.
    pub simulated: bool,
    /// Neural drafters that are simulated.
    pub simulated_drafters: Vec<DrafterShape>,
    /// The model whose forwards are timed.
    pub target: String,
    /// Where they are computed.
    pub device: String,
    /// What they are computed in.
    pub dtype: String,
    /// The trace whose tokens are emitted.
    pub trace: String,
    /// Records that were replayed.
    pub records: usize,
    /// Bytes of weights that a forward reads.
    pub bytes_per_forward: usize,
    /// Read bandwidth of the device's memory.
    pub memory_bytes_per_second: f64,
    /// Tokens a second at which memory delivers all weights for each token: the bound of plain
    /// decoding.
    pub memory_bound: f64,
    /// Plain decoding of the same records.
    pub plain: Walltime,
    /// In the order of the configurations.
    pub cascades: Vec<MeasuredCascade>,
}

/// Speed over all timed steps together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Walltime {
    /// Tokens that were emitted.
    pub tokens: usize,
    /// The time that passed.
    pub seconds: f64,
    /// Their ratio.
    pub tokens_per_second: f64,
}

/// One cascade on the records.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredCascade {
    /// Its configuration.
    pub config: String,
    /// Steps that were timed.
    pub steps: usize,
    /// Over timed steps.
    pub drafted_per_step: f64,
    /// Over all steps.
    pub tokens_per_step: f64,
    /// Over timed steps.
    pub walltime: Walltime,
    /// Tokens a second relative to plain decoding, of the same tokens in the same run.
    pub speedup: f64,
    /// Where the time of a step goes.
    pub median_seconds: StepParts,
    /// Median of everything but the target's forward, divided by that of the forward.
    pub overhead_share: f64,
    /// Largest first.
    pub drafters: Vec<DrafterTime>,
}

/// Medians over steps.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepParts {
    /// The target's forward.
    pub forward: f64,
    /// All drafters.
    pub drafting: f64,
    /// Verification.
    pub review: f64,
    /// What is done with accepted tokens.
    pub emission: f64,
    /// Everything but the target's forward.
    pub overhead: f64,
}

/// A drafter's own time according to the ledger, part of drafting: the forwards of a neural one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DrafterTime {
    /// Its name.
    pub name: String,
    /// Whether it is a model.
    pub neural: bool,
    /// Over all steps, including the first of each record: the ledger has totals only.
    pub mean_seconds: f64,
}

/// Cascades around one target, on recorded answers.
pub struct StepBench<'a> {
    /// The cascades; their own targets are not loaded.
    pub configs: &'a [Config],
    /// How their drafters are loaded.
    pub options: &'a AssembleOptions,
    /// The answers.
    pub trace: &'a Arc<Trace>,
    /// What is timed in the target's place.
    pub target: &'a TimedTarget,
    /// Drafters that are simulated.
    pub simulated: &'a [SimulatedModel],
    /// Records to replay at most, spread evenly over the trace.
    pub limit: usize,
    /// Read bandwidth of the device's memory, in bytes per second.
    pub memory: f64,
}

/// Speeds over the records so far.
pub struct SoFar<'a> {
    /// Records that were replayed, of all.
    pub done: usize,
    /// All records.
    pub all: usize,
    /// Id of the last one.
    pub record: &'a str,
    /// Tokens a second of plain decoding, if a step was timed.
    pub plain: Option<f64>,
    /// Configurations and their speedups.
    pub cascades: Vec<(&'a str, f64)>,
}

impl StepBench<'_> {
    /// Assembles the cascades, and times them and plain decoding, which take turns record by
    /// record, so that what else the machine does meets all of them. The first step of each record,
    /// which reads the prompt, is excluded. `on_assembled` sees each cascade; `on_record` gets
    /// the speeds after each record, and may end it there.
    ///
    /// # Errors
    /// A simulated drafter that no configuration has, or whose model cannot stand for it; a target
    /// that cannot stand for the recorded one; records of a single step; errors of
    /// [`replay_timed`].
    pub fn run(
        &self,
        mut on_assembled: impl FnMut(&Assembled),
        on_record: impl FnMut(&SoFar<'_>) -> ControlFlow<()>,
    ) -> Result<StepTimes> {
        let stand_ins = self.stand_ins()?;
        let Some(first) = self.configs.first() else {
            return Err(self.too_short());
        };
        let mut decoder = |config: &Config, stand_ins: &[(String, StandIn)]| {
            self.decoder(config.clone(), stand_ins, &mut on_assembled)
        };
        let mut plain = decoder(&first.plain(), &[])?;
        let mut cascades = self
            .configs
            .iter()
            .map(|config| decoder(config, &stand_ins))
            .collect::<Result<Vec<_>>>()?;
        let records = self.replay_all(&mut plain, &mut cascades, on_record)?;
        let plain = plain.run.walltime().ok_or_else(|| self.too_short())?;
        let measured = cascades.iter().map(|cascade| cascade.measured(&plain));
        let bytes = self.target.model.bytes_per_forward(1);
        Ok(StepTimes {
            simulated: true,
            simulated_drafters: self.simulated.iter().map(|of| of.drafter.clone()).collect(),
            target: self.target.name.clone(),
            device: self.target.device.clone(),
            dtype: self.target.dtype.clone(),
            trace: self.trace.label.clone(),
            records,
            bytes_per_forward: bytes,
            memory_bytes_per_second: self.memory,
            memory_bound: self.memory / bytes as f64,
            cascades: measured
                .collect::<Option<_>>()
                .ok_or_else(|| self.too_short())?,
            plain,
        })
    }

    fn too_short(&self) -> Error {
        let problem = "no record has two steps, and the first step, which reads the prompt, is \
                       excluded; use longer records";
        error::unusable(&self.trace.label, problem)
    }

    /// What stands for neural drafters, by their names.
    fn stand_ins(&self) -> Result<Vec<(String, StandIn)>> {
        let simulated = self.simulated.iter();
        simulated
            .map(|simulated| {
                let name = &simulated.drafter.name;
                let is_meant =
                    |own: &Drafter| matches!(own, Drafter::Neural { .. }) && own.name() == name;
                let mut all = self.configs.iter().flat_map(Config::drafters);
                if all.any(is_meant) {
                    Ok((name.clone(), self.stand_in(simulated)?))
                } else {
                    let problem = "no configuration has a neural drafter of this name";
                    Err(error::unusable(name, problem))
                }
            })
            .collect()
    }

    fn stand_in(&self, simulated: &SimulatedModel) -> Result<StandIn> {
        let DrafterShape {
            name,
            shape,
            acceptance,
            ..
        } = &simulated.drafter;
        let source = format!("{shape} with random weights, acceptance {acceptance}");
        let recorded = TraceScorer::new(Arc::clone(self.trace))?;
        let model = Arc::clone(&simulated.model);
        let simulation = Simulation::new(&model.session(), recorded, *acceptance);
        let at = || format!("{name}: {source} for {}", self.trace.label);
        let simulation = simulation.map_err(|error| error.at(at()))?;
        Ok(StandIn {
            source,
            parameters: model.num_parameters(),
            session: Arc::new(move || Box::new(simulation.drafter(model.session()))),
        })
    }

    fn decoder(
        &self,
        config: Config,
        stand_ins: &[(String, StandIn)],
        on_assembled: &mut impl FnMut(&Assembled),
    ) -> Result<Decoder> {
        let log = LookupLog::default();
        let recorded = TraceScorer::new(Arc::clone(self.trace))?;
        let scorer = TimedReplayScorer::new(self.target.model.session(), recorded, log.clone());
        let at = || format!("{} for {}", self.target.name, self.trace.label);
        let scorer = scorer.map_err(|error| error.at(at()))?;
        let header = &self.trace.header;
        let target = Target::new(scorer, &self.trace.label, header.tokenizer())
            .with_eos(header.eos.iter().copied())
            .with_model(Arc::clone(&self.target.model));
        let pool = config.pool(self.options);
        let pool = stand_ins.iter().fold(pool, |pool, (name, stand_in)| {
            pool.with_stand_in(name, stand_in.clone())
        });
        let assembled = pool.assemble(Assembly::of(&config).target(target))?;
        on_assembled(&assembled);
        Ok(Decoder {
            cascade: assembled.cascade,
            config,
            log,
            run: Run::default(),
        })
    }

    /// Returns how many records were replayed.
    fn replay_all(
        &self,
        plain: &mut Decoder,
        cascades: &mut [Decoder],
        mut on_record: impl FnMut(&SoFar<'_>) -> ControlFlow<()>,
    ) -> Result<usize> {
        let records = self.trace.spread(self.limit);
        let all = records.len();
        for (done, record) in (1..).zip(records) {
            plain.replay(record)?;
            for cascade in cascades.iter_mut() {
                cascade.replay(record)?;
            }
            let plain = plain.run.walltime().map(|plain| plain.tokens_per_second);
            let speedup =
                |cascade: &Decoder| Some(cascade.run.walltime()?.tokens_per_second / plain?);
            let so_far = SoFar {
                done,
                all,
                record: &record.id,
                plain,
                cascades: cascades
                    .iter()
                    .filter_map(|cascade| Some((cascade.config.label.as_str(), speedup(cascade)?)))
                    .collect(),
            };
            if on_record(&so_far).is_break() {
                return Ok(done);
            }
        }
        Ok(all)
    }
}

/// A cascade, or plain decoding, around the target.
struct Decoder {
    config: Config,
    cascade: Cascade,
    log: LookupLog,
    run: Run,
}

impl Decoder {
    fn replay(&mut self, record: &Record) -> Result<()> {
        let options = self.config.generation.options();
        let (generation, costs) = replay_timed(&mut self.cascade, record, &options, &self.log)?;
        self.run.generations.push(generation);
        self.run.costs.extend(costs);
        Ok(())
    }

    /// `None` if there are no steps.
    fn measured(&self, plain: &Walltime) -> Option<MeasuredCascade> {
        let (run, parts, walltime) = (&self.run, self.run.medians()?, self.run.walltime()?);
        Some(MeasuredCascade {
            config: self.config.label.clone(),
            steps: run.costs.len(),
            drafted_per_step: run.drafted_per_step(),
            tokens_per_step: run.tokens_per_step(),
            speedup: walltime.tokens_per_second / plain.tokens_per_second,
            walltime,
            overhead_share: parts.overhead / parts.forward,
            median_seconds: parts,
            drafters: run.drafters(),
        })
    }
}

/// Timed steps and their generations.
#[derive(Default)]
struct Run {
    generations: Vec<GenerationOutput>,
    costs: Vec<StepCost>,
}

impl Run {
    /// `None` if there are no steps.
    fn walltime(&self) -> Option<Walltime> {
        let tokens: usize = self.costs.iter().map(|cost| cost.step.accepted + 1).sum();
        let seconds: Duration = self.costs.iter().map(|cost| cost.timings.total()).sum();
        let seconds = seconds.as_secs_f64();
        (tokens > 0).then(|| Walltime {
            tokens,
            seconds,
            tokens_per_second: tokens as f64 / seconds,
        })
    }

    /// Over timed steps.
    fn drafted_per_step(&self) -> f64 {
        let drafted: usize = self.costs.iter().map(|cost| cost.step.drafted).sum();
        drafted as f64 / self.costs.len() as f64
    }

    /// Over all steps: emitted tokens are known per record, not per step.
    fn tokens_per_step(&self) -> f64 {
        let tokens: usize = self.generations.iter().map(|g| g.tokens.len()).sum();
        tokens as f64 / self.steps() as f64
    }

    fn steps(&self) -> usize {
        self.generations.iter().map(|g| g.steps.len()).sum()
    }

    /// `None` if there are no steps.
    fn medians(&self) -> Option<StepParts> {
        let of = |part: fn(&StepCost) -> Duration| {
            let seconds = self.costs.iter().map(|cost| part(cost).as_secs_f64());
            median(seconds.collect())
        };
        Some(StepParts {
            forward: of(|cost| cost.timings.forward)?,
            drafting: of(|cost| cost.timings.drafting)?,
            review: of(|cost| cost.timings.verification)?,
            emission: of(|cost| cost.timings.emission)?,
            overhead: of(|cost| cost.timings.overhead())?,
        })
    }

    /// Means over all steps, including the first of each record: the ledger has totals only.
    fn drafters(&self) -> Vec<DrafterTime> {
        let models = self.generations.first().map_or(&[][..], |g| &g.models);
        let drafters = models
            .iter()
            .enumerate()
            .filter(|(_, model)| model.role != Role::Target);
        let time = |index: usize| -> Duration {
            let times = self.generations.iter().map(|g| g.models[index].usage.time);
            times.sum()
        };
        drafters
            .map(|(index, model)| DrafterTime {
                name: model.name.clone(),
                neural: model.role == Role::Drafter,
                mean_seconds: time(index).as_secs_f64() / self.steps() as f64,
            })
            .collect()
    }
}
