//! `cascade-lab reproduce`: the papers' tables and figures.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use anyhow::{Context, Result, bail};
use cascade_config::{AssembleOptions, Config, DeviceSpec};
use cascade_eval::DataSource;
use cascade_reproduce::report::{Machine, Manifest};
use cascade_reproduce::{
    Choice, Definition, Error, Experiment, ExperimentKind, Reported, Shard, check_folder, claim,
    merge, report, report_ewif,
};
use cascade_traces::trace::Trace;
use clap::{Args, Subcommand};
use jiff::Timestamp;

use crate::args::batch_size;
use crate::exit::ExitCode;
use crate::progress::Progress;
use crate::tokenizer;
use crate::{costs, given, interrupt, outputs, room, terminal};

mod screen;

const T5_XXL: &str = include_str!("../configs/t5-xxl.yaml");
const VICUNA_7B: &str = include_str!("../configs/vicuna-7b.yaml");

/// `cascade-lab reproduce list` lists the experiments.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct ReproduceArgs {
    #[command(subcommand)]
    command: Option<ReproduceCommand>,

    #[command(flatten)]
    run: RunExperiment,
}

#[derive(Debug, Subcommand)]
enum ReproduceCommand {
    /// List the experiments.
    List,
    /// Merge the results of shards and write the report.
    Merge {
        /// Folders of the shards.
        #[arg(value_name = "FOLDER", required = true)]
        shards: Vec<PathBuf>,
        /// Folder to write.
        #[arg(long, value_name = "FOLDER")]
        into: PathBuf,
    },
    /// Write the report of a results folder again.
    Report {
        /// The results folder.
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
}

#[derive(Debug, Args)]
struct RunExperiment {
    /// Name of the experiment; see `list`.
    #[arg(value_name = "NAME", required_unless_present = "config")]
    name: Option<String>,

    /// Your own experiment, in the format of the files in configs/reproduce.
    #[arg(long, value_name = "FILE", conflicts_with = "name")]
    config: Option<PathBuf>,

    /// The models: demo, paper, demo-t5, demo-llama, t5-xxl, vicuna-7b, or a configuration file, of
    /// which the target, the largest and the smallest neural drafter, heads and Max-Gram are used.
    #[arg(long, value_name = "demo|paper|CONFIG", default_value = "demo")]
    models: String,

    /// Prompts of each dataset, in place of the experiment's own number, drawn at random by --seed;
    /// with --trace, records of it.
    #[arg(long, value_name = "N", value_parser = crate::at_most(1 << 30))]
    limit: Option<usize>,

    /// Sample as the experiment's paper does, in place of greedy decoding: specdec at temperature 1
    /// with top-k 50. Every answer still equals that of plain decoding, which draws with the same
    /// seed.
    #[arg(long, conflicts_with = "trace")]
    sampled: bool,

    /// Seed for the selection of prompts, for the problems that the program makes, for samples, and
    /// for the bootstrap.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,

    /// Use only this dataset; may be repeated [default: those that --data gives, or else the word
    /// problems that the program makes].
    #[arg(long, value_name = "NAME")]
    dataset: Vec<String>,

    /// Location of a dataset that the program does not make, such as mmlu=FOLDER or mmlu=hub; may
    /// be repeated.
    #[arg(long, value_name = "NAME=WHERE", value_parser = named_source)]
    data: Vec<(String, DataSource)>,

    /// Recorded outputs of the target, greedy or sampled. Some experiments always replay such
    /// outputs; spec-bench, specdec and disco do if this is given, and else run the target.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Folder of trained rules for specdec and disco: what `cascade-lab train head` and
    /// `cascade-lab train classifier` wrote to head, head-wW-dD and classifier in it. What is not
    /// there is left out, and named.
    #[arg(long, value_name = "FOLDER")]
    rules: Option<PathBuf>,

    /// Files with costs of forwards that `cascade bench model --save` wrote, one of the target and
    /// of each neural drafter, by commas: in place of assumed costs and of a bench.
    #[arg(long, value_name = "FILE,…", value_delimiter = ',')]
    costs: Vec<PathBuf>,

    /// Tokenizer of the recorded target, to show samples in the report as text instead of token
    /// ids: a tokenizer.json, a folder or hub model that has one, or `embedded:NAME`.
    #[arg(long, value_name = "TOKENIZER", requires = "trace")]
    tokenizer: Option<String>,

    /// Prompts to answer at a time, in forwards that they share on a CPU: faster, with the same
    /// results, but without walltimes, which are those of single answers.
    #[arg(long, value_name = "N", value_parser = batch_size, default_value = "1")]
    batch: NonZeroUsize,

    /// Run only part i of n of the prompts, in a separate folder.
    #[arg(long, value_name = "i/n")]
    shard: Option<String>,

    /// Resume an interrupted run; the results equal those of an uninterrupted one.
    #[arg(long)]
    resume: bool,

    /// Results folder [default: results/NAME, or results/NAME-i-of-n for a shard].
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,

    /// Device, overriding the models' configuration: auto, cpu, cuda:N or metal:N.
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceSpec>,
}

fn named_source(text: &str) -> Result<(String, DataSource), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => {
            Ok((name.into(), OsString::from(path).into()))
        }
        _ => Err("give NAME=WHERE, such as mmlu=data/mmlu/test or mmlu=hub".to_owned()),
    }
}

pub(crate) fn run(args: &ReproduceArgs) -> Result<ExitCode> {
    let started = Timestamp::now();
    match &args.command {
        Some(ReproduceCommand::List) => list(),
        Some(ReproduceCommand::Merge { shards, into }) => {
            merge(shards, into)?;
            finish(report(into, finished(manifest(started, None)))?, into)
        }
        Some(ReproduceCommand::Report { folder }) => {
            // The manifest of the run still applies; an interrupted run left none.
            let of_run = Manifest::of_folder(folder)?;
            let manifest = of_run.unwrap_or_else(|| manifest(started, None));
            finish(report(folder, manifest)?, folder)
        }
        None => args.run.run(started),
    }
}

fn list() -> Result<ExitCode> {
    let mut out = terminal::stdout();
    for definition in Definition::all()? {
        let source = &definition.source;
        writeln!(
            out,
            "{:<12} {}  [{source}]",
            definition.name, definition.title
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

impl RunExperiment {
    fn run(&self, started: Timestamp) -> Result<ExitCode> {
        let definition = self.definition()?;
        let (shard, folder) = self.place(&definition)?;
        outputs::check_folder(&folder, self.inputs(), cascade_reproduce::is_written)?;
        if definition.kind == ExperimentKind::Ewif {
            claim(&folder, &definition)?;
            let manifest = finished(manifest(started, None));
            return finish(report_ewif(&definition, manifest)?, &folder);
        }
        check_folder(&folder, &definition, self.resume)?;
        let experiment = self.prepare(&definition)?;
        let prompts = experiment.prompts(shard);
        let mut progress = Progress::new(prompts, "prompts");
        let done = say_if_interrupted(&folder, prompts);
        experiment.run(&folder, shard, self.resume, self.batch, || {
            progress.step();
            done.fetch_add(1, Relaxed);
        })?;
        drop(progress);
        let manifest = finished(manifest(started, self.device));
        finish(report(&folder, manifest)?, &folder)
    }

    fn definition(&self) -> Result<Definition> {
        match (&self.config, &self.name) {
            (Some(file), _) => Ok(Definition::open(file)?),
            (None, Some(name)) => Ok(Definition::named(name)?),
            (None, None) => bail!("name an experiment; `cascade-lab reproduce list` lists them"),
        }
    }

    /// The files that it reads, which no result may replace.
    fn inputs(&self) -> impl Iterator<Item = PathBuf> + '_ {
        let data = self.data.iter().filter_map(|(_, source)| match source {
            DataSource::Local(path) => Some(path.clone()),
            DataSource::Hub(_) => None,
        });
        let tokenizer = self
            .tokenizer
            .iter()
            .flat_map(|text| tokenizer::files(text));
        let models = Path::new(&self.models);
        let models = models.is_file().then(|| models.to_owned());
        let named = [&self.config, &self.trace, &self.rules]
            .into_iter()
            .flatten()
            .chain(&self.costs)
            .cloned();
        named.chain(models).chain(data).chain(tokenizer)
    }

    fn place(&self, definition: &Definition) -> Result<(Shard, PathBuf)> {
        let shard = match &self.shard {
            Some(text) => text.parse()?,
            None => Shard::default(),
        };
        let suffix = match &self.shard {
            Some(text) => format!("-{}", text.replace('/', "-of-")),
            None => String::new(),
        };
        let default = || Path::new("results").join(format!("{}{suffix}", definition.name));
        Ok((shard, self.out.clone().unwrap_or_else(default)))
    }

    fn prepare(&self, definition: &Definition) -> Result<Experiment> {
        let config = self.models(definition)?;
        let options = AssembleOptions::default().with_device(self.device);
        let choice = Choice {
            datasets: self.dataset.clone(),
            data: self.data.iter().cloned().collect::<BTreeMap<_, _>>(),
            limit: self.limit,
            seed: self.seed,
            sampled: self.sampled,
            rules: self.rules.clone(),
            costs: costs::open(&self.costs)?,
        };
        let experiment = &definition.name;
        match (definition.kind, &self.trace) {
            (ExperimentKind::Replay, None) => Err(Error::no_trace(experiment).into()),
            (
                ExperimentKind::Replay | ExperimentKind::Drafters | ExperimentKind::Lengths,
                Some(trace),
            ) => {
                let trace = Arc::new(Trace::open_any(trace)?);
                let tokenizer = self.tokenizer.as_deref().map(tokenizer::load).transpose()?;
                let recorded = (trace, tokenizer);
                Ok(Experiment::prepare_replay(
                    definition, &config, &options, &choice, recorded,
                )?)
            }
            (_, Some(_)) => Err(Error::needless_trace(experiment).into()),
            (_, None) => Ok(Experiment::prepare(definition, &config, &options, &choice)?),
        }
    }

    fn models(&self, definition: &Definition) -> Result<Config> {
        let recorded = self.trace.is_some();
        let on_recording = recorded.then(|| definition.clone().on_recording());
        let names = on_recording.as_ref().unwrap_or(definition).models.as_ref();
        let name = match (self.models.as_str(), names) {
            ("demo", Some(names)) => &names.demo,
            ("paper", Some(names)) => &names.paper,
            ("demo" | "paper", None) => bail!("{}: `models` is missing", definition.name),
            (other, _) => other,
        };
        let parse = |text: &str| Config::parse(text, name, "");
        let config = match name {
            "demo-t5" | "demo-llama" => Config::open(format!("embedded:{name}")),
            "t5-xxl" => parse(T5_XXL),
            "vicuna-7b" => parse(VICUNA_7B),
            file => Config::open(file),
        };
        config.context("--models")
    }
}

/// What was done, and how to go on, for Ctrl-C. Returns where to count prompts.
fn say_if_interrupted(folder: &Path, prompts: usize) -> Arc<AtomicUsize> {
    let done = Arc::new(AtomicUsize::new(0));
    let (folder, counted) = (folder.display().to_string(), done.clone());
    interrupt::on_interrupt(move || {
        format!(
            "{folder} has {} of {prompts} prompts; go on with the same command and --resume, or see \
             them with `cascade-lab reproduce report {folder}`",
            counted.load(Relaxed)
        )
    });
    done
}

pub(crate) fn manifest(started: Timestamp, device: Option<DeviceSpec>) -> Manifest {
    let mut machine = Machine::this();
    // A device that cannot be opened fails when a model is loaded, if any is.
    let opened = device.unwrap_or_default().resolve().ok();
    let gpu = opened.filter(|opened| !opened.device.is_cpu());
    machine
        .accelerators
        .extend(gpu.map(|opened| opened.spec.to_string()));
    let mut manifest = Manifest::new(given::arguments(), machine, started);
    manifest.commit = option_env!("CASCADE_COMMIT").map(str::to_owned);
    let version = env!("CARGO_PKG_VERSION").to_owned();
    manifest.versions = [("cascade".to_owned(), version)].into();
    manifest
}

/// The manifest of a run that has just ended.
pub(crate) fn finished(manifest: Manifest) -> Manifest {
    Manifest {
        finished: Some(Timestamp::now()),
        ..manifest
    }
}

/// Writes the report, prints a screen of it, and fails if an output was wrong.
fn finish(reported: Reported, folder: &Path) -> Result<ExitCode> {
    reported.report.write(folder)?;
    let screen = screen::of(&reported, folder, room::columns());
    write!(terminal::stdout(), "{screen}")?;
    match reported.unequal {
        0 => Ok(ExitCode::SUCCESS),
        unequal => {
            terminal::error(format_args!(
                "error: {unequal} outputs differ from plain decoding; see {}",
                folder.join("report.html").display()
            ));
            Ok(ExitCode::FAILURE)
        }
    }
}
