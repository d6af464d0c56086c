//! `cascade-lab train head`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use cascade_config::trained::HeadFolder;
use cascade_config::{AssembleOptions, DeviceSpec, ModelPool};
use cascade_core::Sampling;
use cascade_models::DType;
use cascade_reproduce::report::Evidence;
use cascade_traces::trace::{RecordedSampling, Trace, check_family};
use cascade_traces::train::{
    HeadChoice, HeadExamples, HeadPass, HeadSettings, HeadTraining, Plan, Teacher, baselines,
};
use clap::Args;
use jiff::Timestamp;

use super::folder::TrainingFolder;
use super::report::TrainedStopRule;
use super::{check_cost, inputs, model};
use crate::job::say_notes;
use crate::progress::Progress;

#[derive(Debug, Args)]
pub(crate) struct HeadArgs {
    /// Recorded outputs of the target. Of samples with probabilities (`cascade-lab trace record
    /// --top-probabilities`) those decide what is accepted of tokens that the drafter draws; in a
    /// greedy recording the tokens do.
    #[arg(long, value_name = "TRACE")]
    trace: PathBuf,

    /// The drafter: a folder, a hub id or embedded:NAME.
    #[arg(long, short, value_name = "MODEL")]
    drafter: String,

    /// The target, whose probabilities decide what is accepted of tokens that the drafter draws, as
    /// the recording was sampled or, if it is greedy, at temperature 1: for sampling [default: what
    /// was recorded decides].
    #[arg(long, value_name = "MODEL")]
    target: Option<String>,

    /// Folder for model.safetensors, config.json, training.jsonl, the checkpoint and the report.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,

    /// Time of a forward of the drafter, in forwards of the target, such as 0.1, to choose the
    /// threshold by. `cascade bench model` measures both.
    #[arg(long, value_name = "RATIO", allow_negative_numbers = true)]
    cost: f64,

    /// Data type of the models' weights [default: stored for GGUF files, else f32].
    #[arg(long, value_name = "DTYPE")]
    dtype: Option<DType>,

    /// Recorded outputs to read at most, spread evenly over the trace.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,

    /// Residual layers: D of the paper.
    #[arg(long, value_name = "D", default_value_t = HeadSettings::default().depth)]
    depth: usize,

    /// Weight of rejected tokens in the loss; that of accepted ones is 1. The paper tries 1, 3, 6
    /// and 12.
    #[arg(long, value_name = "WEIGHT", default_value_t = HeadSettings::default().reject_weight, allow_negative_numbers = true)]
    reject_weight: f64,

    /// Share of the tokens of an output that remain the target's while the head learns; the others
    /// are the drafter's.
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.15,
        allow_negative_numbers = true
    )]
    mix: f64,

    /// Epochs at most.
    #[arg(long, value_name = "N", default_value_t = HeadSettings::default().plan.epochs)]
    epochs: usize,

    /// Outputs of a step.
    #[arg(long, value_name = "N", default_value_t = HeadSettings::default().plan.batch)]
    batch: usize,

    /// Learning rate of the first step; it falls along a cosine.
    #[arg(long, value_name = "RATE", default_value_t = HeadSettings::default().plan.learning_rate, allow_negative_numbers = true)]
    learning_rate: f64,

    /// Epochs without progress after which training stops.
    #[arg(long, value_name = "N", default_value_t = HeadSettings::default().plan.patience)]
    patience: usize,

    /// Seed of the split, of what is drawn, of the first weights and of the order of outputs.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,

    /// Go on where an interrupted training stopped; the result is the same to the bit.
    #[arg(long)]
    resume: bool,

    /// Device of the models: auto, cpu, cuda:N or metal:N. The head is trained on the CPU.
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceSpec>,
}

impl HeadArgs {
    pub(super) fn run(&self, started: Timestamp) -> Result<()> {
        check_cost(self.cost)?;
        let folder = TrainingFolder(&self.out);
        folder.check(
            self.resume,
            &["model.safetensors", "config.json", "training.jsonl"],
            inputs(
                &self.trace,
                std::iter::once(&self.drafter).chain(&self.target),
            ),
        )?;
        let trace = Trace::open_any(&self.trace)?;
        let (drafter, examples) = self.examples(&trace)?;
        let training = HeadTraining::new(&examples, self.settings())?;
        let training = folder.train(training, self.resume)?;
        let drawn = self.target.is_some() || trace.header.sampling().is_some();
        self.finish((drafter.as_str(), drawn), &examples, &training, started)
    }

    fn settings(&self) -> HeadSettings {
        HeadSettings {
            depth: self.depth,
            reject_weight: self.reject_weight,
            plan: Plan {
                epochs: self.epochs,
                batch: self.batch,
                learning_rate: self.learning_rate,
                patience: self.patience,
                seed: self.seed,
                ..HeadSettings::default().plan
            },
        }
    }

    /// The drafter's name, and what there is to learn.
    fn examples(&self, trace: &Trace) -> Result<(String, HeadExamples)> {
        let options = AssembleOptions::default().with_device(self.device);
        let pool = ModelPool::new(DeviceSpec::default(), &options);
        let drafter = model(&pool, &self.drafter, self.dtype).context("--drafter")?;
        let target = self.target.as_deref();
        let target = target
            .map(|target| model(&pool, target, self.dtype))
            .transpose()
            .context("--target")?;
        say_notes(&pool.notes());
        check_family("--drafter", &drafter, trace)?;
        if let Some(target) = &target {
            check_family("--target", target, trace)?;
        }
        let records = trace.spread(self.limit.unwrap_or(usize::MAX));
        let mut progress = Progress::new(records.len(), "outputs");
        let mut session = target.as_ref().map(|target| target.session());
        let sampling = trace.header.sampling();
        let sampling = sampling.map(RecordedSampling::sampling).transpose()?;
        let teacher = match (&mut session, sampling) {
            (None, None) => Teacher::Recorded,
            (None, Some(sampling)) => Teacher::Probabilities(sampling),
            (Some(session), sampling) => {
                Teacher::Target(session, sampling.unwrap_or(Sampling::PLAIN))
            }
        };
        let pass = HeadPass {
            mix: self.mix,
            seed: self.seed,
        };
        let examples = pass.read(&mut drafter.session(), teacher, records, || progress.step())?;
        Ok((drafter.name.clone(), examples))
    }

    fn finish(
        &self,
        (drafter, drawn): (&str, bool),
        examples: &HeadExamples,
        training: &HeadTraining<'_>,
        started: Timestamp,
    ) -> Result<()> {
        let weights = training.weights()?;
        let split = &examples.split;
        let choice = HeadChoice::best(&weights, &split.choice, self.cost)?;
        let predicted = choice.predicted(&weights, &split.held_out, self.cost)?;
        let (on_choice, _) = baselines(&split.choice, self.cost)?;
        let (fixed, oracle) = baselines(&split.held_out, self.cost)?;
        let settings = cascade_config::trained::HeadSettings::new(drafter, choice.threshold);
        let found = TrainedStopRule {
            what: "head",
            drafter,
            // With a target's probabilities, acceptances are drawn by them along the recorded text.
            evidence: if drawn {
                Evidence::Simulated
            } else {
                Evidence::Replayed
            },
            cost: self.cost,
            stops: format!(
                "A draft stops where a token of it is rejected with more than {:.1}, after {} to {} tokens.",
                settings.threshold, settings.shortest, settings.longest
            ),
            settings: self.chosen(settings.threshold),
            outputs: split.sizes(),
            history: training.history(),
            best_epoch: training.best_epoch(),
            held_out: training.held_out()?,
            rows: TrainedStopRule::rows(&on_choice, (&fixed, oracle), ("head", predicted)),
        };
        let folder = TrainingFolder(&self.out);
        let head = HeadFolder {
            weights,
            settings: Some(settings),
        };
        for (name, bytes) in head.to_files()? {
            folder.write(name, &bytes)?;
        }
        found.tell(&self.out, started, self.device)
    }

    /// What was chosen, for the JSON file.
    fn chosen(&self, threshold: f32) -> serde_json::Value {
        serde_json::json!({
            "threshold": threshold, "depth": self.depth, "reject_weight": self.reject_weight,
            "mix": self.mix, "target": self.target,
        })
    }
}
