//! The folder of a training.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use cascade_reproduce::report::is_result_file;
use cascade_traces::train::{Epoch, Fit, Network};
use serde_json::json;

use crate::{interrupt, outputs, terminal};

const CHECKPOINT: &str = "checkpoint.safetensors";

/// Where a training keeps its checkpoint and its history.
pub(super) struct TrainingFolder<'a>(pub(super) &'a Path);

impl TrainingFolder<'_> {
    fn checkpoint(&self) -> PathBuf {
        self.0.join(CHECKPOINT)
    }

    /// Refuses to replace a training that was not to be resumed, files of anything else, and what
    /// is read.
    pub(super) fn check(
        &self,
        resume: bool,
        files: &[&str],
        inputs: impl IntoIterator<Item = PathBuf>,
    ) -> Result<()> {
        outputs::check_folder(self.0, inputs, |name| {
            files.contains(&name) || name == CHECKPOINT || is_result_file(name)
        })?;
        outputs::prepare(self.0);
        let trained = self.checkpoint().exists();
        if trained && !resume {
            bail!(
                "{} has a training; --resume goes on with it, or give another folder",
                self.0.display()
            );
        }
        if !trained {
            cascade_reproduce::report::refuse_foreign(self.0, files)?;
        }
        Ok(())
    }

    /// Trains to the end, with a checkpoint after each epoch; goes on where one was saved if this
    /// is to be resumed.
    pub(super) fn train<N: Network>(&self, begun: Fit<N>, resume: bool) -> Result<Fit<N>> {
        let mut training = if resume {
            begun.resumed(&self.checkpoint())?
        } else {
            begun
        };
        std::fs::create_dir_all(self.0).with_context(|| self.0.display().to_string())?;
        self.say_if_interrupted();
        while let Some(epoch) = training.epoch()? {
            training.save(&self.checkpoint())?;
            self.write_history(&training.history())?;
            say(&epoch);
        }
        // A resumed training may have had no epoch left.
        self.write_history(&training.history())?;
        Ok(training)
    }

    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.0.join(name);
        cascade_core::fs::write(&path, bytes).with_context(|| path.display().to_string())
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
        self.write("training.jsonl", lines.collect::<String>().as_bytes())
    }

    fn say_if_interrupted(&self) {
        let folder = self.0.display().to_string();
        interrupt::on_interrupt(move || {
            format!("{folder} has the epochs so far; go on with the same command and --resume")
        });
    }
}

/// Says what an epoch gave.
fn say(epoch: &Epoch) {
    terminal::note(format_args!(
        "epoch {:>3}: loss {:.4}, {:.4} on the outputs to choose by{}",
        epoch.epoch,
        epoch.training_loss,
        epoch.choice_loss,
        if epoch.best { ", the least so far" } else { "" }
    ));
}
