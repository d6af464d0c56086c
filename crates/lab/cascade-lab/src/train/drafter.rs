//! `cascade-lab train drafter`.

mod report;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use cascade_config::{AssembleOptions, DeviceSpec, ModelPool};
use cascade_core::TokenId;
use cascade_models::{DType, HeadBasis, LoadedModel};
use cascade_traces::trace::{Trace, check_family};
use cascade_traces::train::{DrafterKind, DrafterSettings, DrafterTexts, DrafterTraining, Plan};
use clap::{Args, ValueEnum};
use jiff::Timestamp;

use self::report::TrainedDrafter;
use super::folder::TrainingFolder;
use super::{inputs, model};
use crate::job::say_notes;
use crate::progress::Progress;

/// Tokens of the drafts that held-out texts are drafted with.
const DEPTH: usize = 8;

/// The papers' settings.
const SETTINGS: DrafterSettings = DrafterSettings::new(DrafterKind::EAGLE);

#[derive(Debug, Args)]
pub(crate) struct DrafterArgs {
    /// Recorded outputs of the target.
    #[arg(long, value_name = "TRACE")]
    trace: PathBuf,

    /// The target: a folder, a hub id or embedded:NAME.
    #[arg(long, value_name = "MODEL")]
    target: String,

    /// Folder for config.json, the weights, training.jsonl, the checkpoint and the report: what
    /// `-d head:FOLDER` reads.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,

    /// What is trained: a layer that predicts the next state, or a head for each of the next tokens
    /// but one.
    #[arg(long, value_enum, default_value_t = HeadKind::Eagle)]
    kind: HeadKind,

    /// Folder for the target's states, which are recorded once; further trainings on the same
    /// outputs read them [default: `states` in the folder of --out].
    #[arg(long, value_name = "FOLDER")]
    states: Option<PathBuf>,

    /// Data type of the target's weights [default: stored for GGUF files, else f32].
    #[arg(long, value_name = "DTYPE")]
    dtype: Option<DType>,

    /// Recorded outputs to read at most, spread evenly over the trace.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,

    /// EAGLE: inner size of the feed-forward layer [default: 8/3 of the states', as in LLaMA].
    #[arg(long, value_name = "N")]
    inner: Option<usize>,

    /// EAGLE: steps of a draft that the loss is of. The paper's one reads states of the target
    /// alone; further ones read what the head gave, as in drafts.
    #[arg(long, value_name = "N", default_value_t = 1)]
    steps: usize,

    /// EAGLE: greatest noise on the states that are read.
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 0.1,
        allow_negative_numbers = true
    )]
    noise: f64,

    /// Medusa: number of heads, which is the longest draft.
    #[arg(long, value_name = "N", default_value_t = 5)]
    heads: usize,

    /// Epochs at most.
    #[arg(long, value_name = "N", default_value_t = SETTINGS.plan.epochs)]
    epochs: usize,

    /// Outputs of a step.
    #[arg(long, value_name = "N", default_value_t = SETTINGS.plan.batch)]
    batch: usize,

    /// Greatest learning rate; it rises in the first twentieth of the steps, and then falls.
    #[arg(long, value_name = "RATE", default_value_t = SETTINGS.plan.learning_rate, allow_negative_numbers = true)]
    learning_rate: f64,

    /// Weight decay.
    #[arg(long, value_name = "NUMBER", default_value_t = SETTINGS.plan.decay, allow_negative_numbers = true)]
    decay: f64,

    /// Epochs without progress after which training stops.
    #[arg(long, value_name = "N", default_value_t = SETTINGS.plan.patience)]
    patience: usize,

    /// Seed of the split, of the first weights, of the noise and of the order of outputs.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,

    /// Go on where an interrupted training stopped; the result is the same to the bit.
    #[arg(long)]
    resume: bool,
}

/// Which head is trained.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum HeadKind {
    Eagle,
    Medusa,
}

impl DrafterArgs {
    pub(super) fn run(&self, started: Timestamp) -> Result<()> {
        let folder = TrainingFolder(&self.out);
        folder.check(
            self.resume,
            &[
                "model.safetensors",
                "medusa_lm_head.safetensors",
                "config.json",
                "training.jsonl",
            ],
            inputs(&self.trace, [&self.target]),
        )?;
        let trace = Trace::open(&self.trace)?;
        let (target, basis) = self.target(&trace)?;
        let texts = self.texts(&trace, &target, basis.start)?;
        let training = DrafterTraining::new(&texts, &basis, self.settings())?;
        let training = folder.train(training, self.resume)?;
        self.finish(&target, &texts, &training, started)
    }

    fn settings(&self) -> DrafterSettings {
        DrafterSettings {
            kind: match self.kind {
                HeadKind::Eagle => DrafterKind::Eagle {
                    inner: self.inner,
                    steps: self.steps,
                    noise: self.noise,
                },
                HeadKind::Medusa => DrafterKind::Medusa { heads: self.heads },
            },
            plan: Plan {
                epochs: self.epochs,
                batch: self.batch,
                learning_rate: self.learning_rate,
                decay: self.decay,
                patience: self.patience,
                seed: self.seed,
                ..SETTINGS.plan
            },
        }
    }

    /// The target, and what its heads share with it.
    fn target(&self, trace: &Trace) -> Result<(Arc<LoadedModel>, HeadBasis)> {
        let options = AssembleOptions::default().with_device(Some(DeviceSpec::Cpu));
        let pool = ModelPool::new(DeviceSpec::default(), &options);
        let target = model(&pool, &self.target, self.dtype).context("--target")?;
        say_notes(&pool.notes());
        check_family("--target", &target, trace)?;
        let basis = target
            .model
            .head_basis()
            .with_context(|| format!("--target {}", self.target))?;
        Ok((target, basis))
    }

    /// The outputs, and the target's states along them.
    fn texts(
        &self,
        trace: &Trace,
        target: &LoadedModel,
        start: Option<TokenId>,
    ) -> Result<DrafterTexts> {
        let folder = match &self.states {
            Some(folder) => folder.clone(),
            None => self.out.join("states"),
        };
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        crate::outputs::prepare(&folder);
        let records = trace.spread(self.limit.unwrap_or(usize::MAX));
        let mut progress = Progress::new(records.len(), "outputs");
        let mut session = target.session();
        let step = || progress.step();
        Ok(DrafterTexts::record(
            &mut session,
            start,
            records,
            &folder,
            self.seed,
            step,
        )?)
    }

    fn finish(
        &self,
        target: &LoadedModel,
        texts: &DrafterTexts,
        training: &DrafterTraining<'_>,
        started: Timestamp,
    ) -> Result<()> {
        let found = TrainedDrafter {
            kind: self.settings().kind,
            target: &target.name,
            outputs: texts.split.sizes(),
            history: training.history(),
            best_epoch: training.best_epoch(),
            held_out: training.held_out(DEPTH)?,
        };
        for file in training.files()? {
            TrainingFolder(&self.out).write(file.name, &file.bytes)?;
        }
        found.tell(&self.out, started)
    }
}
