//! `cascade train`: networks that decide when a drafter stops.

mod report;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{bail, ensure, Context, Result};
use cascade_config::{
    model_source, AssembleOptions, ClassifierFile, ClassifierSettings, DeviceSpec, ModelPool,
    Neural,
};
use cascade_eval::trace::Trace;
use cascade_models::DType;
use cascade_train::{examples, Choice, Epoch, Output, Quality, Settings, Split, Training};
use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::json;

use self::report::Found;
use crate::job::say_notes;
use crate::progress::Progress;
use crate::{interrupt, reproduce, terminal};

#[derive(Debug, Subcommand)]
pub(crate) enum TrainCommand {
    /// Train DISCO's classifier: whether a drafted token will be accepted, from the drafter's ten
    /// greatest probabilities, their entropy and the position.
    ///
    /// Record outputs first: `cascade trace record`. 70% of them are trained on; 15% decide when
    /// training stops, and choose the threshold and the longest draft; the last 15% are reported
    /// on. A configuration uses the result as `classifier: { file: … }` of the drafter.
    Classifier(ClassifierArgs),
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

    /// Time of a forward of the drafter, in forwards of the target, to choose the threshold by.
    /// `cascade bench model` measures both.
    #[arg(long, value_name = "RATIO", allow_negative_numbers = true)]
    cost: f64,

    /// Data type of the drafter's weights [default: stored for GGUF files, else f32].
    #[arg(long, value_name = "DTYPE")]
    dtype: Option<DType>,

    /// Units of the hidden layer.
    #[arg(long, value_name = "N", default_value_t = Settings::default().units)]
    units: usize,

    /// Epochs at most.
    #[arg(long, value_name = "N", default_value_t = Settings::default().epochs)]
    epochs: usize,

    /// Learning rate of the first step.
    #[arg(long, value_name = "RATE", default_value_t = Settings::default().learning_rate, allow_negative_numbers = true)]
    learning_rate: f64,

    /// Weight of rejected tokens in the loss; that of accepted ones is 1.
    #[arg(long, value_name = "WEIGHT", default_value_t = Settings::default().reject_weight, allow_negative_numbers = true)]
    reject_weight: f64,

    /// Epochs without progress after which training stops.
    #[arg(long, value_name = "N", default_value_t = Settings::default().patience)]
    patience: usize,

    /// Seed of the split, of the first weights and of the order of examples.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,

    /// Go on where an interrupted training stopped; the result is the same to the bit.
    #[arg(long)]
    resume: bool,

    /// Device of the drafter: auto, cpu or cuda:N. The training itself takes seconds on a CPU.
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceSpec>,
}

pub(crate) fn run(command: &TrainCommand) -> Result<ExitCode> {
    let TrainCommand::Classifier(args) = command;
    args.run(Timestamp::now())?;
    Ok(ExitCode::SUCCESS)
}

impl ClassifierArgs {
    fn run(&self, started: Timestamp) -> Result<()> {
        ensure!(
            self.cost.is_finite() && self.cost >= 0.0,
            "--cost {} is no ratio of times; give 0 or more",
            self.cost
        );
        let checkpoint = self.out.join("checkpoint.safetensors");
        self.check_folder(&checkpoint)?;
        let trace = Trace::open(&self.trace)?;
        let (drafter, outputs) = self.outputs(&trace)?;
        let split = Split::new(outputs, self.seed)?;
        let settings = self.settings();
        let mut training = match self.resume {
            true => Training::resume(&split, settings, &checkpoint)?,
            false => Training::new(&split, settings)?,
        };
        std::fs::create_dir_all(&self.out).with_context(|| self.out.display().to_string())?;
        self.say_if_interrupted();
        self.train(&mut training, &checkpoint)?;
        self.finish(&drafter, &split, &training, started)
    }

    fn settings(&self) -> Settings {
        Settings {
            units: self.units,
            epochs: self.epochs,
            learning_rate: self.learning_rate,
            reject_weight: self.reject_weight,
            patience: self.patience,
            seed: self.seed,
            ..Settings::default()
        }
    }

    /// Refuses to replace a training that was not to be resumed, and files of anything else.
    fn check_folder(&self, checkpoint: &Path) -> Result<()> {
        let trained = checkpoint.exists();
        if trained && !self.resume {
            bail!(
                "{} has a training; --resume goes on with it, or give another folder",
                self.out.display()
            );
        }
        if !trained {
            cascade_report::refuse_foreign(
                &self.out,
                &["classifier.safetensors", "training.jsonl"],
            )?;
        }
        Ok(())
    }

    /// The drafter's name, and what it says after each prefix of the recorded outputs.
    fn outputs(&self, trace: &Trace) -> Result<(String, Vec<Output>)> {
        let mut neural = Neural::new(model_source(&self.drafter)?);
        neural.dtype = self.dtype;
        let options = AssembleOptions::default().with_device(self.device);
        let pool = ModelPool::new(DeviceSpec::default(), &options);
        let model = pool.model(&neural).context("--drafter")?;
        say_notes(&pool.notes());
        let (own, recorded) = (model.tokenizer.fingerprint(), trace.header.tokenizer());
        ensure!(
            own == recorded,
            "the drafter {} has another tokenizer than the target of {}: give a drafter of its family",
            model.name,
            self.trace.display()
        );
        let mut session = model.session();
        let mut progress = Progress::new(trace.records.len(), "outputs");
        let mut outputs = Vec::with_capacity(trace.records.len());
        for record in &trace.records {
            outputs.push(examples(&mut session, record)?);
            progress.step();
        }
        Ok((model.name.clone(), outputs))
    }

    fn train(&self, training: &mut Training<'_>, checkpoint: &Path) -> Result<()> {
        while let Some(epoch) = training.epoch()? {
            training.save(checkpoint)?;
            self.write_history(&training.history())?;
            terminal::note(format_args!(
                "epoch {:>3}: loss {:.4}, {:.4} on the outputs to choose by{}",
                epoch.epoch,
                epoch.training_loss,
                epoch.choice_loss,
                if epoch.best { ", the least so far" } else { "" }
            ));
        }
        // A resumed training may have had no epoch left.
        self.write_history(&training.history())
    }

    /// training.jsonl: a line for each epoch.
    fn write_history(&self, history: &[Epoch]) -> Result<()> {
        let lines = history.iter().map(|epoch| {
            let record = json!({
                "epoch": epoch.epoch,
                "training_loss": epoch.training_loss,
                "choice_loss": epoch.choice_loss,
                "best": epoch.best,
            });
            format!("{record}\n")
        });
        let path = self.out.join("training.jsonl");
        let text: String = lines.collect();
        cascade_fs::write(&path, text.as_bytes()).with_context(|| path.display().to_string())
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
        let found = Found {
            drafter,
            cost: self.cost,
            choice,
            split,
            history: training.history(),
            best_epoch: training.best_epoch(),
            held_out: Quality::of(&weights, &split.held_out),
            weights: &weights,
        };
        let settings = ClassifierSettings::new(drafter, choice.threshold, choice.longest);
        let file = ClassifierFile {
            weights: weights.clone(),
            settings,
        };
        let path = self.out.join("classifier.safetensors");
        cascade_fs::write(&path, &file.to_bytes()?).with_context(|| path.display().to_string())?;
        let manifest = reproduce::finished(reproduce::manifest(started, self.device));
        let (table, summary) = found.write(&self.out, manifest)?;
        let mut out = terminal::stdout();
        writeln!(out, "{table}\n{summary}\nwritten to {}", self.out.display())?;
        Ok(())
    }

    fn say_if_interrupted(&self) {
        let folder = self.out.display().to_string();
        interrupt::on_interrupt(move || {
            format!("{folder} has the epochs so far; go on with the same command and --resume")
        });
    }
}
