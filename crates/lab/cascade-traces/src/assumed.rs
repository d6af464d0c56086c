//! Replays in which forwards take an assumed time: what a schedule is worth where rows of a forward
//! have these costs.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;

use cascade_config::{Assembled, Assembly, Config, ModelPool, ScheduleConfig, Target};
use cascade_core::RowTimes;
use cascade_engine::{Clock, Convention, KMatrix, Statement, VirtualBatch, VirtualText};
use serde::{Serialize, Serializer};

use crate::ratio::ByRecord;
use crate::trace::{
    Oracle, OracleText, Provenance, Record, Trace, recorded_target, replay, replay_options,
};
use crate::tune::Times;
use crate::{Result, error};

/// Seconds of a forward of one row of the target; only ratios are reported.
const FORWARD: f64 = 1e-3;

/// What forwards take in a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct AssumedCosts {
    /// Its name in tables.
    pub name: String,
    /// What each further row adds, as a share of a forward of one row, if that is all that is
    /// assumed.
    pub row_cost: Option<f64>,
    /// The times. Those of drafters are in the order of the configuration's neural drafters.
    pub times: Times,
}

impl AssumedCosts {
    /// A forward of so many rows takes so long, in any unit; linear between them and beyond. `None`
    /// without any. Neural drafters take so many forwards of the target.
    pub fn by_rows(times: &[(usize, f64)], drafters: &[f64]) -> Option<Self> {
        let of =
            |cost: f64| RowTimes::measured(times.iter().map(|&(rows, time)| (rows, cost * time)));
        let shown = times.iter().map(|(rows, time)| format!("{rows}:{time}"));
        Some(Self {
            name: shown.collect::<Vec<_>>().join(","),
            row_cost: None,
            times: Times {
                target: of(FORWARD)?,
                drafters: drafters.iter().map(|&cost| of(cost * FORWARD)).collect(),
            },
        })
    }

    /// Each further row adds the share `row_cost` of a forward of one row; a forward of each neural
    /// drafter takes so many forwards of the target.
    pub fn linear(row_cost: f64, drafters: &[f64]) -> Self {
        let of = |cost: f64| RowTimes::linear(cost * FORWARD, row_cost);
        Self {
            name: row_cost.to_string(),
            row_cost: Some(row_cost),
            times: Times {
                target: of(1.0),
                drafters: drafters.iter().map(|&cost| Some(of(cost))).collect(),
            },
        }
    }
}

/// How a cascade drafts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drafts {
    /// Drafts as the configuration says.
    Configured,
    /// A fixed number of tokens. The cascade must have one drafter.
    Length(usize),
    /// Exactly what will be accepted.
    Oracle,
}

/// What one cascade did with one cost of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct AssumedOutcome {
    /// The name of the costs.
    pub name: String,
    /// As in [`AssumedCosts`].
    pub row_cost: Option<f64>,
    /// Texts at a time.
    pub texts: usize,
    /// Tokens, and times in forwards of one row of the target, of each record.
    records: ByRecord,
    forwards: usize,
    drafted: usize,
}

impl AssumedOutcome {
    /// Tokens per time of a forward of one row: plain decoding of one text has 1.
    pub fn speedup(&self) -> f64 {
        self.records.ratio()
    }

    /// Its 95% interval, by resampling records.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.records.interval(|tokens, time| tokens / time)
    }

    /// Tokens per forward of the target.
    pub fn mean_acceptance_length(&self) -> f64 {
        self.tokens() / self.forwards as f64
    }

    /// Drafted tokens for each emitted one.
    pub fn drafted_per_token(&self) -> f64 {
        self.drafted as f64 / self.tokens()
    }

    /// Adds those of another text of the same replay.
    fn add(&mut self, other: Self) {
        self.records.0.extend(other.records.0);
        self.forwards += other.forwards;
        self.drafted += other.drafted;
    }

    fn tokens(&self) -> f64 {
        self.records.sums().0
    }
}

impl Serialize for AssumedOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serde_json::json!({
            "row_cost": self.row_cost,
            "texts": self.texts,
            "speedup": self.speedup(),
            "interval": self.interval(),
            "mean_acceptance_length": self.mean_acceptance_length(),
            "drafted_per_token": self.drafted_per_token(),
        })
        .serialize(serializer)
    }
}

/// One way of drafting under all costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Way {
    /// Its name.
    #[serde(rename = "drafts")]
    pub name: String,
    /// In the order of the costs.
    pub outcomes: Vec<AssumedOutcome>,
}

/// Speedups over plain decoding under assumptions: nothing is measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AssumedReport {
    /// Name of the trace.
    #[serde(rename = "replayed")]
    pub trace: String,
    /// Where its outputs come from.
    pub provenance: Provenance,
    /// The recorded model.
    pub target: String,
    /// The configuration.
    pub config: String,
    /// Always true.
    pub assumed: bool,
    /// The configuration first, then the fixed lengths, then the oracle.
    pub ways: Vec<Way>,
    /// The best of the fixed lengths for each cost, and its speedup.
    pub best_length_in_hindsight: Vec<Option<(String, f64)>>,
}

/// Replays of a trace under assumed costs.
pub struct AssumedReplays<'a> {
    /// The cascade, whose target is not loaded.
    pub config: &'a Config,
    /// What it is assembled from.
    pub pool: &'a ModelPool,
    /// The recorded target.
    pub trace: &'a Arc<Trace>,
    /// Records to skip first.
    pub offset: usize,
    /// Records to replay at most; those without output are left out.
    pub limit: usize,
    /// What forwards take: a replay for each.
    pub costs: &'a [AssumedCosts],
    /// Fixed lengths that are replayed, too.
    pub lengths: &'a [usize],
    /// Whether the oracle is replayed, too.
    pub oracle: bool,
    /// How many texts are generated at a time, in forwards that they share: a replay for each, in
    /// which every text goes through all records, each from another one on.
    pub texts: &'a [NonZeroUsize],
    /// What became of drafters' statements is sent there, as the configuration drafts: one for each
    /// token that a text reached, so receive them meanwhile.
    pub statements: Option<Sender<Statement>>,
}

impl AssumedReplays<'_> {
    /// Ways of drafting, times costs.
    pub fn count(&self) -> usize {
        self.ways().len() * self.costs.len() * self.texts.len()
    }

    /// Replays everything. `on_replay` is called before each replay and may end it; then there is
    /// no result. Cost: a run of the drafters along the trace for each replay.
    ///
    /// # Errors
    /// Fixed lengths for several drafters; a cascade that cannot be assembled; errors of
    /// [`replay`](fn@replay).
    pub fn run(
        &self,
        mut on_replay: impl FnMut() -> ControlFlow<()>,
    ) -> Result<Option<AssumedReport>> {
        self.check()?;
        let mut ways = Vec::new();
        for (name, drafts) in self.ways() {
            let mut outcomes = Vec::with_capacity(self.costs.len() * self.texts.len());
            for costs in self.costs {
                for &texts in self.texts {
                    if on_replay().is_break() {
                        return Ok(None);
                    }
                    outcomes.push(self.replay(&drafts, costs, texts)?);
                }
            }
            ways.push(Way { name, outcomes });
        }
        let header = &self.trace.header;
        Ok(Some(AssumedReport {
            trace: self.trace.label.clone(),
            provenance: header.provenance,
            target: header.model.clone(),
            config: self.config.label.clone(),
            assumed: true,
            best_length_in_hindsight: self.best_lengths(&ways),
            ways,
        }))
    }

    /// Whether fixed lengths can be replayed.
    ///
    /// # Errors
    /// If there are some, and another number of drafters than one.
    pub fn check(&self) -> Result<()> {
        let drafters = self.config.drafters().len();
        if self.lengths.is_empty() || drafters == 1 {
            Ok(())
        } else {
            let problem = format!(
                "it has {drafters} drafters, and a fixed length needs exactly one; write K \
                 matrices into configurations instead"
            );
            Err(error::unusable(&self.config.label, problem))
        }
    }

    fn ways(&self) -> Vec<(String, Drafts)> {
        let mut ways = vec![(self.config.schedule().name().to_owned(), Drafts::Configured)];
        let lengths = self.lengths.iter();
        ways.extend(lengths.map(|&n| (format!("{n} tokens"), Drafts::Length(n))));
        ways.extend(self.oracle.then(|| ("oracle".to_owned(), Drafts::Oracle)));
        ways
    }

    fn records(&self) -> impl Iterator<Item = &Record> {
        let records = self.trace.records.iter().skip(self.offset).take(self.limit);
        records.filter(|record| !record.output.is_empty())
    }

    fn replay(
        &self,
        drafts: &Drafts,
        costs: &AssumedCosts,
        texts: NonZeroUsize,
    ) -> Result<AssumedOutcome> {
        let mut outcome = AssumedOutcome {
            name: costs.name.clone(),
            row_cost: costs.row_cost,
            texts: texts.get(),
            records: ByRecord::default(),
            forwards: 0,
            drafted: 0,
        };
        if texts.get() == 1 {
            self.replay_text(drafts, costs, (0, None), &mut outcome)?;
            return Ok(outcome);
        }
        self.replay_batch(drafts, costs, outcome)
    }

    /// Replays all records once for each of the texts that are generated at a time, from records
    /// that are spread over the trace.
    fn replay_batch(
        &self,
        drafts: &Drafts,
        costs: &AssumedCosts,
        mut outcome: AssumedOutcome,
    ) -> Result<AssumedOutcome> {
        let (texts, records) = (outcome.texts, self.records().count());
        let batch = VirtualBatch::new(texts);
        let replay = |number: usize, text: VirtualText, mut own: AssumedOutcome| {
            let place = (number * records / texts, Some(&text));
            text.run(|| self.replay_text(drafts, costs, place, &mut own))?;
            Result::Ok(own)
        };
        let replay = &replay;
        let ended: Vec<_> = thread::scope(|scope| {
            let texts = batch.texts().into_iter().enumerate();
            let running: Vec<_> = texts
                .map(|(number, text)| {
                    let own = outcome.clone();
                    scope.spawn(move || replay(number, text, own))
                })
                .collect();
            running.into_iter().map(|text| text.join()).collect()
        });
        for text in ended {
            outcome.add(text.unwrap_or_else(|panic| resume_unwind(panic))?);
        }
        Ok(outcome)
    }

    /// Replays all records, from one on, beside other texts if there are any.
    fn replay_text(
        &self,
        drafts: &Drafts,
        costs: &AssumedCosts,
        (first, batch): (usize, Option<&VirtualText>),
        outcome: &mut AssumedOutcome,
    ) -> Result<()> {
        let clock = batch.map(VirtualText::clock).cloned().unwrap_or_default();
        let one = costs.times.target.seconds(1);
        let target = recorded_target(self.config, self.pool, self.trace)?
            .with_times(costs.times.assumed(&clock, batch.cloned()));
        let (assembled, text) = self.assemble(drafts, target)?;
        let mut cascade = assembled.cascade;
        let options = replay_options(self.config, self.trace)?;
        for record in self.records().skip(first).chain(self.records().take(first)) {
            if let Some(text) = &text {
                text.set(&record.output);
            }
            let before = clock.now();
            let generation = replay(&mut cascade, record, &options)?;
            let time = clock.now().saturating_sub(before).as_secs_f64() / one;
            outcome
                .records
                .0
                .push((generation.tokens.len() as f64, time));
            outcome.forwards += generation.steps.len();
            outcome.drafted += generation.num_draft_tokens();
        }
        Ok(())
    }

    /// The cascade, and the oracle's handle on the answers.
    fn assemble(&self, drafts: &Drafts, target: Target) -> Result<(Assembled, Option<OracleText>)> {
        Ok(match drafts {
            Drafts::Configured => {
                let assembly = Assembly::of(self.config)
                    .target(target)
                    .telling(self.statements.clone());
                (self.pool.assemble(assembly)?, None)
            }
            Drafts::Length(length) => {
                let k = KMatrix::new(vec![vec![*length]], Convention::Added);
                let k = ScheduleConfig::Static(k.map_err(cascade_engine::Error::from)?);
                let config = without_rules(self.config).with_schedule(k)?;
                let assembly = Assembly::of(&config).target(target);
                (self.pool.assemble(assembly)?, None)
            }
            Drafts::Oracle => {
                let (oracle, text) = Oracle::new();
                let config = without_rules(self.config);
                let assembly = Assembly::of(&config).target(target).schedule(oracle);
                (self.pool.assemble(assembly)?, Some(text))
            }
        })
    }

    fn best_lengths(&self, ways: &[Way]) -> Vec<Option<(String, f64)>> {
        let lengths = || ways.iter().skip(1).take(self.lengths.len());
        let best = |at: usize| {
            let speedups = lengths().map(|way| (way.name.clone(), way.outcomes[at].speedup()));
            speedups.max_by(|a, b| a.1.total_cmp(&b.1))
        };
        let columns = self.costs.len() * self.texts.len();
        (0..columns).map(best).collect()
    }
}

/// The configuration without stop rules: a fixed length and an oracle have their own.
fn without_rules(config: &Config) -> Config {
    let mut config = config.clone();
    for drafter in config.drafters_mut() {
        *drafter.stop_rule_mut() = None;
    }
    config
}
