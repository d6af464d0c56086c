//! `cascade-lab train`: networks that decide when a drafter stops, and heads that draft.

mod drafter;
mod folder;
mod head;
mod report;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use cascade_config::trained::{ClassifierFile, ClassifierSettings};
use cascade_config::{AssembleOptions, DeviceSpec, ModelPool, Neural, model_source};
use cascade_models::{DType, HubOptions, LoadedModel};
use cascade_reproduce::report::Evidence;
use cascade_traces::trace::{Trace, check_family};
use cascade_traces::train::{
    Choice, Output, Plan, Quality, Settings, Split, Training, baselines, examples,
};
use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::json;

use self::drafter::DrafterArgs;
use self::folder::TrainingFolder;
use self::head::HeadArgs;
use self::report::TrainedStopRule;
use crate::exit::ExitCode;
use crate::job::say_notes;
use crate::progress::Progress;

#[derive(Debug, Subcommand)]
pub(crate) enum TrainCommand {
    /// Train DISCO's classifier: whether a drafted token will be accepted, from the drafter's ten
    /// greatest probabilities, their entropy and the position.
    ///
    /// Record outputs first: `cascade-lab trace record`. 70% of them are trained on; 15% decide
    /// when training stops, and choose the threshold and the longest draft; the last 15% are
    /// reported on. A configuration uses the result as the drafter's
    /// `stop_rule: { classifier: { file: … } }`.
    Classifier(ClassifierArgs),
    /// Train SpecDec++'s acceptance head: whether a drafted token will be accepted, from the
    /// drafter's hidden state.
    ///
    /// Record outputs first: `cascade-lab trace record`. 70% of them are trained on; 15% decide
    /// when training stops, and choose the threshold; the last 15% are reported on. A configuration
    /// uses the result as the drafter's `stop_rule: { head: { folder: … } }`.
    Head(HeadArgs),
    /// Train a head that drafts, EAGLE's or Medusa's: what the target says next, from its hidden
    /// states.
    ///
    /// Record outputs first: `cascade-lab trace record`. The target reads each of them once, and
    /// its states are kept in files. 70% of the outputs are trained on; 15% decide when training
    /// stops; the last 15% are reported on. A configuration uses the result as a drafter,
    /// `{ head: … }`, a command line as `-d head:FOLDER`.
    Drafter(DrafterArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ClassifierArgs {
    /// Recorded outputs of the target.
    #[arg(long, value_name = "TRACE")]
    trace: PathBuf,

    /// The drafter: a folder, a hub id or embedded:NAME.
    #[arg(long, short, value_name = "MODEL")]
    drafter: String,

    /// Folder for classifier.safetensors, training.jsonl, the checkpoint and the report.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,

    /// Time of a forward of the drafter, in forwards of the target, such as 0.1, to choose the
    /// threshold by. `cascade bench model` measures both.
    #[arg(long, value_name = "RATIO", allow_negative_numbers = true)]
    cost: f64,

    /// Data type of the drafter's weights [default: stored for GGUF files, else f32].
    #[arg(long, value_name = "DTYPE")]
    dtype: Option<DType>,

    /// Units of the hidden layer.
    #[arg(long, value_name = "N", default_value_t = Settings::default().units)]
    units: usize,

    /// Epochs at most.
    #[arg(long, value_name = "N", default_value_t = Settings::default().plan.epochs)]
    epochs: usize,

    /// Learning rate of the first step.
    #[arg(long, value_name = "RATE", default_value_t = Settings::default().plan.learning_rate, allow_negative_numbers = true)]
    learning_rate: f64,

    /// Weight of rejected tokens in the loss; that of accepted ones is 1.
    #[arg(long, value_name = "WEIGHT", default_value_t = Settings::default().reject_weight, allow_negative_numbers = true)]
    reject_weight: f64,

    /// Epochs without progress after which training stops.
    #[arg(long, value_name = "N", default_value_t = Settings::default().plan.patience)]
    patience: usize,

    /// Seed of the split, of the first weights and of the order of examples.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,

    /// Go on where an interrupted training stopped; the result is the same to the bit.
    #[arg(long)]
    resume: bool,

    /// Device of the drafter: auto, cpu, cuda:N or metal:N. The training itself takes seconds on a
    /// CPU.
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceSpec>,
}

pub(crate) fn run(command: &TrainCommand) -> Result<ExitCode> {
    match command {
        TrainCommand::Classifier(args) => args.run(Timestamp::now())?,
        TrainCommand::Head(args) => args.run(Timestamp::now())?,
        TrainCommand::Drafter(args) => args.run(Timestamp::now())?,
    }
    Ok(ExitCode::SUCCESS)
}

impl ClassifierArgs {
    fn run(&self, started: Timestamp) -> Result<()> {
        check_cost(self.cost)?;
        let folder = TrainingFolder(&self.out);
        let inputs = inputs(&self.trace, [&self.drafter]);
        let files = ["classifier.safetensors", "training.jsonl"];
        folder.check(self.resume, &files, inputs)?;
        let trace = Trace::open(&self.trace)?;
        let (drafter, outputs) = self.outputs(&trace)?;
        let split = Split::new(outputs, self.seed)?;
        let training = folder.train(Training::new(&split, self.settings())?, self.resume)?;
        self.finish(&drafter, &split, &training, started)
    }

    fn settings(&self) -> Settings {
        let usual = Settings::default();
        Settings {
            units: self.units,
            reject_weight: self.reject_weight,
            plan: Plan {
                epochs: self.epochs,
                learning_rate: self.learning_rate,
                patience: self.patience,
                seed: self.seed,
                ..usual.plan
            },
        }
    }

    /// The drafter's name, and what it says after each prefix of the recorded outputs.
    fn outputs(&self, trace: &Trace) -> Result<(String, Vec<Output>)> {
        let options = AssembleOptions::default().with_device(self.device);
        let pool = ModelPool::new(DeviceSpec::default(), &options);
        let model = model(&pool, &self.drafter, self.dtype).context("--drafter")?;
        say_notes(&pool.notes());
        check_family("--drafter", &model, trace)?;
        let mut session = model.session();
        let mut progress = Progress::new(trace.records.len(), "outputs");
        let mut outputs = Vec::with_capacity(trace.records.len());
        for record in &trace.records {
            outputs.push(examples(&mut session, record)?);
            progress.step();
        }
        Ok((model.name.clone(), outputs))
    }

    fn finish(
        &self,
        drafter: &str,
        split: &Split,
        training: &Training<'_>,
        started: Timestamp,
    ) -> Result<()> {
        let weights = training.weights()?;
        let choice = Choice::best(&weights, &split.choice, self.cost)?;
        let (on_choice, _) = baselines(&split.choice, self.cost)?;
        let (fixed, oracle) = baselines(&split.held_out, self.cost)?;
        let predicted = choice.predicted(&weights, &split.held_out, self.cost)?;
        let found = TrainedStopRule {
            what: "classifier",
            drafter,
            evidence: Evidence::Replayed,
            cost: self.cost,
            stops: format!(
                "A draft stops below {:.2}, and after {} tokens.",
                choice.threshold, choice.longest
            ),
            settings: json!({ "threshold": choice.threshold, "longest": choice.longest }),
            outputs: split.sizes(),
            history: training.history(),
            best_epoch: training.best_epoch(),
            held_out: Quality::of(&weights, &split.held_out),
            rows: TrainedStopRule::rows(&on_choice, (&fixed, oracle), ("classifier", predicted)),
        };
        let settings = ClassifierSettings::new(drafter, choice.threshold, choice.longest);
        let file = ClassifierFile {
            weights: weights.clone(),
            settings,
        };
        TrainingFolder(&self.out).write("classifier.safetensors", &file.to_bytes()?)?;
        found.tell(&self.out, started, self.device)
    }
}

/// The files that a training reads: the trace, and those of models.
fn inputs<'m>(
    trace: &Path,
    models: impl IntoIterator<Item = &'m String>,
) -> impl Iterator<Item = PathBuf> {
    let hub = HubOptions::from_env();
    let models: Vec<_> = models
        .into_iter()
        .filter_map(|model| model_source(model).ok())
        .flat_map(|model| model.present_files(&hub))
        .collect();
    std::iter::once(trace.to_owned()).chain(models)
}

fn check_cost(cost: f64) -> Result<()> {
    ensure!(
        cost.is_finite() && cost >= 0.0,
        "--cost {cost} is no ratio of times; give 0 or more"
    );
    Ok(())
}

fn model(pool: &ModelPool, source: &str, dtype: Option<DType>) -> Result<Arc<LoadedModel>> {
    let mut neural = Neural::new(model_source(source)?);
    neural.dtype = dtype;
    Ok(pool.model(&neural)?)
}
