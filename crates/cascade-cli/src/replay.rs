//! `cascade replay`: runs a cascade against a recorded target.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use cascade_config::{AssembleOptions, Assembled, Config, DeviceSpec, StopRuleConfig};
use cascade_engine::{Cascade, GenerationOutput, Options, Rule};
use cascade_eval::trace::{replay, FirstPicks, Record, Tallies, Tally, Trace, TraceScorer};
use cascade_eval::Error;
use cascade_models::ModelSource;
use clap::Args;
use serde_json::{json, Value};

use crate::args::ScheduleName;
use crate::models::{set_stop_rule, with_schedule};
use crate::progress::Progress;
use crate::terminal::grouped;
use crate::{interrupt, job, terminal};

mod assumed;

use assumed::AssumedArgs;

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The trace, plain or gzip.
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,

    /// Configuration of the cascade, whose target is not loaded [default: embedded:demo-t5].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// How much is drafted, overriding the configuration: `online` or `static`.
    #[arg(long, value_name = "SCHEDULE")]
    schedule: Option<ScheduleName>,

    /// Stop rule of all drafters, by which a draft ends early, as in `cascade run`.
    #[arg(long, value_name = "RULE")]
    stop_rule: Option<StopRuleConfig>,

    #[command(flatten)]
    assumed: AssumedArgs,

    /// Maximum number of records.
    #[arg(long, value_name = "N", value_parser = crate::at_most(1 << 30))]
    limit: Option<usize>,

    /// Number of records to skip first.
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: usize,

    /// Print one JSON object per record and a final one with the totals, and nothing else.
    #[arg(long)]
    json: bool,

    /// Device of the drafters, overriding the configuration: auto, cpu or cuda:N.
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceSpec>,
}

pub(crate) fn run(args: &ReplayArgs) -> Result<ExitCode> {
    let config = match &args.config {
        Some(file) => Config::open(file)?,
        None => Config::open("embedded:demo-t5")?,
    };
    let mut config = with_schedule(config, args.schedule)?;
    set_stop_rule(&mut config, args.stop_rule.clone());
    args.assumed.check()?;
    let trace = Arc::new(match args.assumed.is_asked_for() {
        true => Trace::open(&args.trace)?,
        false => Trace::open_any(&args.trace)?,
    });
    let options = options(&config, &trace)?;
    if args.assumed.is_asked_for() {
        return assumed::run(args, &config, &trace);
    }
    let assembled = assemble(args, &config, &trace)?;
    job::say(&assembled);
    for warning in &warnings(&config, &trace) {
        terminal::warn(warning);
    }
    let replay = Replay {
        args,
        config: &config,
        trace: &trace,
        options,
    };
    replay.all(assembled.cascade)?;
    Ok(match interrupt::requested() {
        true => interrupt::status(),
        false => ExitCode::SUCCESS,
    })
}

/// The options of the replay: those of the configuration, which may not sample otherwise than the
/// recording did.
fn options(config: &Config, trace: &Trace) -> Result<Options> {
    let named = || format!("{}: generation", config.label);
    let options = config.generation.options();
    if trace.header.sampling().is_none() && !options.decoding.is_greedy() {
        return Err(Error::NotGreedy).with_context(named);
    }
    let options = trace.header.replay_options(options).with_context(named)?;
    if !options.decoding.is_greedy() && config.target.rule != Rule::Coupled {
        let rule = config.target.rule.to_string();
        return Err(Error::NotCoupled { rule }).with_context(|| config.label.clone());
    }
    Ok(options)
}

fn assemble(args: &ReplayArgs, config: &Config, trace: &Arc<Trace>) -> Result<Assembled> {
    let header = &trace.header;
    let target = TraceScorer::target(trace)?;
    let options = AssembleOptions::default().with_device(args.device);
    let assembled = config.pool(&options).assemble_with_target(config, target);
    assembled.with_context(|| format!("{} is a trace of {}", trace.label, header.model))
}

/// What is valid but probably unintended.
fn warnings(config: &Config, trace: &Trace) -> Vec<String> {
    let mut warnings = Vec::new();
    let (found, named) = (&trace.header.model, model(&config.target.source));
    if *found != named {
        warnings.push(format!(
            "the trace is of {found}, and the target of {} is {named}; the trace is used",
            config.label
        ));
    }
    let wanted = config.generation.max_new_tokens;
    let longer = trace
        .records
        .iter()
        .filter(|record| record.output.len() > wanted);
    match longer.count() {
        0 => {}
        longer => warnings.push(format!(
            "{longer} of {} records are longer than generation.max_new_tokens ({wanted}); they are \
             replayed up to that length",
            trace.records.len()
        )),
    }
    if config.generation.ignore_eos && !trace.header.eos.is_empty() {
        warnings.push(
            "generation.ignore_eos: recordings end at EOS, so the replay does too".to_owned(),
        );
    }
    if config.generation.stop.is_some() {
        warnings.push(
            "stop sequences are ignored in a replay; records end where recording ended".to_owned(),
        );
    }
    warnings
}

/// The model name that a trace of this source would have.
fn model(source: &ModelSource) -> String {
    match source {
        ModelSource::Hub { id, .. } => id.clone(),
        ModelSource::Folder(folder) | ModelSource::File(folder) => folder.file_name().map_or_else(
            || folder.display().to_string(),
            |name| name.to_string_lossy().into_owned(),
        ),
        other => other.to_string(),
    }
}

struct Replay<'a> {
    args: &'a ReplayArgs,
    config: &'a Config,
    trace: &'a Trace,
    options: Options,
}

impl Replay<'_> {
    fn all(&self, mut cascade: Cascade) -> Result<()> {
        let records = self.trace.records.iter().skip(self.args.offset);
        let records: Vec<_> = records
            .take(self.args.limit.unwrap_or(usize::MAX))
            .collect();
        let mut out = terminal::stdout();
        let mut tallies = Tallies::default();
        let mut picks = FirstPicks::default();
        let top = self.trace.header.sampling();
        let top = top.and_then(|sampling| sampling.top_probabilities);
        let mut progress = Progress::new(records.len(), "records");
        let (mut done, all) = (0, records.len());
        interrupt::cooperate();
        for record in records {
            if interrupt::requested() {
                break;
            }
            let generation = match top {
                None => replay(&mut cascade, record, &self.options)?,
                Some(most) => picks.add(&mut cascade, record, (&self.options, most))?,
            };
            tallies.add(record.category.as_deref(), &generation);
            done += 1;
            progress.step();
            if self.args.json {
                terminal::write_json(&mut out, &object(record, &generation))?;
            }
        }
        drop(progress);
        if done < all {
            terminal::note(format_args!(
                "interrupted: {done} of {all} records; go on with --offset {}, or begin anew",
                self.args.offset + done
            ));
        }
        match self.args.json {
            true => terminal::write_json(&mut out, &self.sums(&tallies, &picks))?,
            false => {
                self.table(&mut out, &tallies)?;
                show_expected(&mut out, &picks)?;
            }
        }
        Ok(())
    }

    fn sums(&self, tallies: &Tallies, picks: &FirstPicks) -> Value {
        let categories = tallies
            .categories
            .iter()
            .map(|(name, tally)| (name.clone(), sum(tally)));
        json!({
            "replayed": self.trace.label,
            "provenance": self.trace.header.provenance,
            "target": self.trace.header.model,
            "config": self.config.label,
            "categories": categories.collect::<Value>(),
            "total": sum(&tallies.total),
            "expected_first_token": picks.expected().map(|expected| json!({
                "drafts": picks.drafts,
                "kept": picks.kept,
                "at_least": expected.low,
                "at_most": expected.high,
            })),
        })
    }

    fn table(&self, out: &mut impl Write, tallies: &Tallies) -> Result<()> {
        let header = &self.trace.header;
        writeln!(
            out,
            "replayed from {} ({} outputs of {}) with the drafters of {}; times are not measured\n",
            self.trace.label,
            header.provenance.as_str(),
            header.model,
            self.config.label
        )?;
        let calls: String = tallies
            .total
            .calls
            .iter()
            .map(|model| column(&model.name, &model.name))
            .collect();
        writeln!(
            out,
            "{:<18}{:>8}{:>9}{:>9}{:>9}{:>7}   calls:{calls}",
            "", "records", "tokens", "drafted", "accepted", "length"
        )?;
        let categories = tallies
            .categories
            .iter()
            .map(|(name, tally)| (name.as_str(), tally));
        for (name, tally) in categories.chain([("total", &tallies.total)]) {
            writeln!(out, "{}", row(name, tally))?;
        }
        writeln!(
            out,
            "\nlength: tokens per target forward (mean acceptance length); \
             accepted: share of drafted tokens accepted by the target"
        )?;
        Ok(())
    }
}

/// How often first tokens are kept by the recorded probabilities, and in this sample.
fn show_expected(out: &mut impl Write, picks: &FirstPicks) -> Result<()> {
    let Some(expected) = picks.expected() else {
        return Ok(());
    };
    writeln!(
        out,
        "expected: the first token of the {} drafts that statistical drafters begin is kept with probability {} by the \
         recorded probabilities; in these samples {:.4} of them were",
        grouped(picks.drafts as u64),
        expected,
        picks.kept as f64 / picks.drafts as f64
    )?;
    Ok(())
}

fn row(name: &str, tally: &Tally) -> String {
    let calls = tally
        .calls
        .iter()
        .map(|model| column(&grouped(model.calls), &model.name));
    format!(
        "{name:<18}{:>8}{:>9}{:>9}{:>8.1}%{:>7.3}         {}",
        grouped(tally.records as u64),
        grouped(tally.tokens as u64),
        grouped(tally.drafted as u64),
        100.0 * tally.draft_acceptance_rate(),
        tally.mean_acceptance_length(),
        calls.collect::<String>()
    )
}

/// A number of calls under the name of its model.
fn column(text: &str, name: &str) -> String {
    format!("  {text:>width$}", width = name.chars().count().max(7))
}

/// The record of `cascade run --json`, without what a replay cannot know.
fn object(record: &Record, generation: &GenerationOutput) -> Value {
    let mut tally = Tally::default();
    tally.add(generation);
    let whole = generation.tokens.len() == record.output.len();
    let finish = if whole {
        record.finish.as_str()
    } else {
        "length"
    };
    json!({
        "replayed": true,
        "id": record.id,
        "category": record.category,
        "turn": record.turn,
        "token_ids": generation.tokens,
        "token_origins": generation.proposers.iter().map(|level| level.0).collect::<Vec<_>>(),
        "finish_reason": finish,
        "num_tokens": tally.tokens,
        "mean_acceptance_length": tally.mean_acceptance_length(),
        "draft_acceptance_rate": tally.draft_acceptance_rate(),
        "num_spec_steps": tally.steps,
        "num_draft_tokens": tally.drafted,
        "num_accepted_draft_tokens": tally.accepted,
        "acceptance_histogram": generation.acceptance_histogram(),
        "per_step_accepted": generation.steps.iter().map(|step| step.accepted).collect::<Vec<_>>(),
        "per_step_drafted": generation.steps.iter().map(|step| step.drafted).collect::<Vec<_>>(),
        "models": tally.calls,
    })
}

fn sum(tally: &Tally) -> Value {
    json!({
        "records": tally.records,
        "num_tokens": tally.tokens,
        "mean_acceptance_length": tally.mean_acceptance_length(),
        "draft_acceptance_rate": tally.draft_acceptance_rate(),
        "num_spec_steps": tally.steps,
        "num_draft_tokens": tally.drafted,
        "num_accepted_draft_tokens": tally.accepted,
        "models": tally.calls,
    })
}
