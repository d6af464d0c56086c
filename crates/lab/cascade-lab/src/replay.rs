//! `cascade-lab replay`: runs a cascade against a recorded target.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use cascade_config::{
    AssembleOptions, Assembled, Assembly, Config, DeviceSpec, Overrides, ScheduleConfig,
    ScheduleName, StopRuleConfig,
};
use cascade_engine::{Cascade, Options};
use cascade_traces::trace::{
    FirstPicks, Record, RecordedDrafters, Tallies, Tally, Trace, recorded_target, replay,
    replay_options, replay_warnings, replayed_json, totals_json,
};
use clap::Args;

use crate::args::ScheduleArg;
use crate::columns::{row, table};
use crate::exit::ExitCode;
use crate::progress::Progress;
use crate::terminal::{Out, grouped};
use crate::{interrupt, job, terminal};

mod assumed;

use assumed::AssumedArgs;

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The trace, plain or gzip.
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,

    /// Configuration of the cascade, whose target is not loaded unless a head reads it [default:
    /// embedded:demo-t5].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// How much is drafted, overriding the configuration: `online`, which wants assumed costs, or
    /// `static`.
    #[arg(long, value_name = "SCHEDULE")]
    schedule: Option<ScheduleArg>,

    /// Stop rule of all drafters, by which a draft ends early, as in `cascade run`.
    #[arg(long, value_name = "RULE")]
    stop_rule: Option<StopRuleConfig>,

    #[command(flatten)]
    assumed: AssumedArgs,

    /// Maximum number of records [default: all].
    #[arg(long, value_name = "N", value_parser = crate::at_most(1 << 30))]
    limit: Option<usize>,

    /// Number of records to skip first.
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: usize,

    /// Print one JSON object per record and a final one with the totals, and nothing else.
    #[arg(long)]
    json: bool,

    /// Device of the drafters, overriding the configuration: auto, cpu, cuda:N or metal:N.
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceSpec>,
}

pub(crate) fn run(args: &ReplayArgs) -> Result<ExitCode> {
    let config = match &args.config {
        Some(file) => Config::open(file)?,
        None => Config::open("embedded:demo-t5")?,
    };
    let config = config.with(&Overrides {
        schedule: args.schedule.map(ScheduleName::from),
        stop_rule: args.stop_rule.clone(),
        ..Overrides::default()
    })?;
    args.assumed.check()?;
    let trace = Arc::new(Trace::open_any(&args.trace)?);
    let options = replay_options(&config, &trace)?;
    if args.assumed.is_asked_for() {
        return assumed::run(args, &config, &trace);
    }
    if config.schedule() == &ScheduleConfig::Online && !config.drafters().is_empty() {
        bail!(
            "{}: the online schedule drafts what pays, and forwards take no time in a replay: say \
             what they cost, by --row-cost and --drafter-cost, by --row-times or by --costs, or fix \
             drafts by a K matrix in a configuration (k: {{ matrix: … }})",
            config.label
        );
    }
    let assembled = assemble(args, &config, &trace)?;
    job::say(&assembled);
    for warning in &replay_warnings(&config, &trace) {
        terminal::warn(warning);
    }
    let replay = Replay {
        args,
        config: &config,
        trace: &trace,
        options,
    };
    replay.all(assembled.cascade)?;
    Ok(if interrupt::requested() {
        interrupt::status()
    } else {
        ExitCode::SUCCESS
    })
}

fn assemble(args: &ReplayArgs, config: &Config, trace: &Arc<Trace>) -> Result<Assembled> {
    let header = &trace.header;
    let pool = config.pool(&AssembleOptions::default().with_device(args.device));
    let target = recorded_target(config, &pool, trace)?;
    let assembled = pool.assemble(Assembly::of(config).target(target));
    assembled.with_context(|| format!("{} is a trace of {}", trace.label, header.model))
}

struct Replay<'a> {
    args: &'a ReplayArgs,
    config: &'a Config,
    trace: &'a Trace,
    options: Options,
}

impl Replay<'_> {
    fn all(&self, mut cascade: Cascade) -> Result<()> {
        let records: Vec<_> = self
            .trace
            .records
            .iter()
            .skip(self.args.offset)
            .take(self.args.limit.unwrap_or(usize::MAX))
            .collect();
        let mut out = terminal::stdout();
        let (tallies, picks) = self.records(&mut cascade, &records, &mut out)?;
        let beside = RecordedDrafters::of(
            records.iter().take(tallies.total.records).copied(),
            self.options.max_new_tokens,
        );
        if self.args.json {
            let mut totals = totals_json(self.config, self.trace, &tallies, &picks);
            if !beside.is_empty() {
                totals["recorded_drafters"] = serde_json::to_value(&beside)?;
            }
            return Ok(terminal::write_json(&mut out, &totals)?);
        }
        self.table(&mut out, &tallies)?;
        show_beside(&mut out, &beside)?;
        show_expected(&mut out, &picks)
    }

    /// Replays records one by one, until it is interrupted.
    fn records(
        &self,
        cascade: &mut Cascade,
        records: &[&Record],
        out: &mut Out,
    ) -> Result<(Tallies, FirstPicks)> {
        let mut tallies = Tallies::default();
        let mut picks = FirstPicks::default();
        let top = self
            .trace
            .header
            .sampling()
            .and_then(|sampling| sampling.top_probabilities);
        let mut progress = Progress::new(records.len(), "records");
        let (mut done, all) = (0, records.len());
        interrupt::cooperate();
        for record in records {
            if interrupt::requested() {
                break;
            }
            let generation = match top {
                None => replay(cascade, record, &self.options)?,
                Some(most) => picks.add(cascade, record, (&self.options, most))?,
            };
            tallies.add(record.category.as_deref(), &generation);
            done += 1;
            progress.step();
            if self.args.json {
                terminal::write_json(out, &replayed_json(record, &generation))?;
            }
        }
        drop(progress);
        if done < all {
            terminal::note(format_args!(
                "interrupted: {done} of {all} records; go on with --offset {}, or begin anew",
                self.args.offset + done
            ));
        }
        Ok((tallies, picks))
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
        let mut head = row(["", "records", "tokens", "drafted", "accepted", "length"]);
        let calls = tallies.total.calls.iter();
        head.extend(calls.map(|model| format!("calls of {}", model.name)));
        let mut rows = vec![head];
        let categories = tallies
            .categories
            .iter()
            .map(|(name, tally)| (name.as_str(), tally));
        let all = categories.chain([("total", &tallies.total)]);
        rows.extend(all.map(|(name, tally)| cells(name, tally)));
        writeln!(
            out,
            "{}\nlength: tokens per target forward (mean acceptance length); \
             accepted: share of drafted tokens accepted by the target",
            table("<>", &rows)
        )?;
        Ok(())
    }
}

/// What the drafters yield that were recorded with the answers, if some were.
fn show_beside(out: &mut impl Write, beside: &RecordedDrafters) -> Result<()> {
    if beside.is_empty() {
        return Ok(());
    }
    let head = [
        "recorded drafters",
        "records",
        "tokens",
        "forwards",
        "tokens per forward",
        "answers of another length",
    ];
    let mut rows = vec![row(head)];
    for (name, of) in beside.iter() {
        let numbers = [of.records, of.tokens, of.forwards].map(|number| grouped(number as u64));
        let mut cells = vec![name.to_owned()];
        cells.extend(numbers);
        cells.push(format!("{:.3}", of.mean_acceptance_length()));
        cells.push(grouped(of.other_lengths as u64));
        rows.push(cells);
    }
    write!(out, "\n{}", table("<>", &rows))?;
    Ok(())
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

fn cells(name: &str, tally: &Tally) -> Vec<String> {
    let mut cells = vec![
        name.to_owned(),
        grouped(tally.records as u64),
        grouped(tally.tokens as u64),
        grouped(tally.drafted as u64),
        format!("{:.1}%", 100.0 * tally.draft_acceptance_rate()),
        format!("{:.3}", tally.mean_acceptance_length()),
    ];
    cells.extend(tally.calls.iter().map(|model| grouped(model.calls)));
    cells
}
