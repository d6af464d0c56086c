//! What a training gave.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use cascade_config::DeviceSpec;
use cascade_reproduce::report::{
    Axis, Evidence, Figure, Figures, Line, Manifest, Plot, Report, Table,
};
use cascade_traces::train::{Epoch, Prediction, Quality};
use jiff::Timestamp;
use serde_json::{json, Value};

use crate::fold::{self, folded};
use crate::{reproduce, terminal};

/// How tokens per time were found.
const PREDICTED: &str = "Drafting is walked along the recorded outputs, held out from training and choice. A forward of the \
    drafter is taken to cost what --cost says, one of the target 1 whatever its rows. The static length is the best of 1 to 20 \
    on the outputs to choose by; the oracle knows what will be rejected.";

/// What decides whether a token is accepted.
const RECORDED: &str = "A token is accepted if the recorded output has it.";
const DRAWN: &str = "Whether a token is accepted was drawn at random, with the probability min(1, p/q) that speculative \
    sampling accepts it behind the recorded text.";

pub(super) struct Found<'a> {
    /// `classifier` or `head`.
    pub(super) what: &'static str,
    pub(super) drafter: &'a str,
    /// Whether the recorded outputs say what is accepted, or random numbers do.
    pub(super) evidence: Evidence,
    pub(super) cost: f64,
    /// When a draft stops, as a sentence.
    pub(super) stops: String,
    /// What was chosen.
    pub(super) settings: Value,
    /// Outputs to train on, to choose by, and held out.
    pub(super) outputs: [usize; 3],
    pub(super) history: Vec<Epoch>,
    pub(super) best_epoch: usize,
    pub(super) held_out: Quality,
    /// Ways to stop, on the held-out outputs.
    pub(super) rows: Vec<(String, Prediction)>,
}

impl Found<'_> {
    /// The ways to stop, from drafts of 0, 1, 2, … tokens on the outputs to choose by and on those
    /// that are held out, what was trained, and an oracle.
    pub(super) fn rows(
        on_choice: &[Prediction],
        fixed: &[Prediction],
        (what, trained): (&str, Prediction),
        oracle: Prediction,
    ) -> Vec<(String, Prediction)> {
        let best = (1..on_choice.len()).fold(1, |best, length| {
            if on_choice[length].speedup > on_choice[best].speedup {
                length
            } else {
                best
            }
        });
        vec![
            ("plain decoding".to_owned(), fixed[0]),
            (
                format!("{best} tokens, the best static length"),
                fixed[best],
            ),
            (what.to_owned(), trained),
            ("oracle".to_owned(), oracle),
        ]
    }

    /// Writes the report and a JSON file, and prints what they say.
    pub(super) fn tell(
        &self,
        folder: &Path,
        started: Timestamp,
        device: Option<DeviceSpec>,
    ) -> Result<()> {
        let manifest = reproduce::finished(reproduce::manifest(started, device));
        let (table, summary) = self.write(folder, manifest)?;
        let mut out = terminal::stdout();
        writeln!(out, "{table}\n{summary}\nwritten to {}", folder.display())?;
        Ok(())
    }

    /// Writes the report and a JSON file; returns the table and a summary to print.
    fn write(&self, folder: &Path, manifest: Manifest) -> Result<(String, String)> {
        let table = self.table()?;
        let rows = self
            .rows
            .iter()
            .map(|(name, row)| json!({"policy": name, "on_held_out": row}));
        let summary = self.summary();
        let [training, choice, held_out] = self.outputs;
        let mut record = json!({
            "drafter": self.drafter,
            "cost": self.cost,
            "best_epoch": self.best_epoch,
            "outputs": { "training": training, "choice": choice, "held_out": held_out },
            "held_out": self.held_out,
            "predicted": rows.collect::<Value>(),
        });
        if let (Value::Object(record), Value::Object(settings)) = (&mut record, &self.settings) {
            record.extend(settings.clone());
        }
        let text = serde_json::to_string_pretty(&record)? + "\n";
        let name = format!("{}.json", self.what);
        cascade_core::fs::write(folder.join(name), text.as_bytes())?;
        let printed = folded(&table.to_markdown(), fold::width());
        let title = format!("A {} for {}", self.what, self.drafter);
        let report = Report::new(title, summary.clone(), manifest)
            .table(table)
            .plot(
                losses(&self.history, self.evidence, "cross-entropy, nats")?,
                "Loss by epoch; the weights of the least one on the outputs to choose by are kept.",
            )
            .plot(
                self.calibration()?,
                "Of held-out tokens with a prediction, how many are accepted.",
            );
        report.write(folder)?;
        Ok((printed, summary))
    }

    fn summary(&self) -> String {
        let Quality {
            tokens,
            loss,
            f1,
            calibration_error,
            ..
        } = self.held_out;
        format!(
            "Held out, {tokens} tokens: loss {loss:.4}, F1 {f1:.3}, calibration error {calibration_error:.3}; epoch {} of {}. \
             {}",
            self.best_epoch,
            self.history.len(),
            self.stops
        )
    }

    /// The ways to stop, on the held-out outputs.
    fn table(&self) -> Result<Table> {
        let column = |header: &str, of: &dyn Fn(&Prediction) -> f64| {
            let figures = self.rows.iter().map(|(_, row)| Figure::new(of(row)));
            Figures::new(header, self.evidence, figures.collect::<Vec<_>>()).decimals(3)
        };
        Ok(Table::new(format!("When {} stops", self.drafter))
            .labels("Policy", self.rows.iter().map(|(name, _)| name.clone()))?
            .figures(column("Speedup", &|row| row.speedup))?
            .figures(column("Tokens per review", &|row| row.tokens_per_review))?
            .figures(column("Discard rate", &|row| row.discard_rate))?
            .figures(column("Verification rate", &|row| row.verification_rate))?
            .note(PREDICTED)
            .note(match self.evidence {
                Evidence::Simulated => DRAWN,
                _ => RECORDED,
            }))
    }

    fn calibration(&self) -> Result<Plot> {
        let bins = self.held_out.bins.iter().filter(|bin| bin.tokens > 0);
        let points = bins.map(|bin| (bin.predicted, Figure::new(bin.accepted)));
        let exact = [0.0, 1.0].map(|p| (p, Figure::new(p)));
        let lines = vec![
            Line::new(self.what, self.evidence, points.collect::<Vec<_>>()),
            Line::new("calibrated", Evidence::Computed, exact),
        ];
        let x = Axis::new("predicted probability of acceptance").from_zero();
        let y = Axis::new("share of accepted tokens").from_zero();
        Ok(Plot::lines("Calibration, held out", x, y, lines)?)
    }
}

/// Loss by epoch.
pub(super) fn losses(history: &[Epoch], evidence: Evidence, axis: &str) -> Result<Plot> {
    let line = |name: &str, of: &dyn Fn(&Epoch) -> f64| {
        let points = history
            .iter()
            .map(|epoch| (epoch.epoch as f64, Figure::new(of(epoch))));
        Line::new(name, evidence, points.collect::<Vec<_>>())
    };
    let lines = vec![
        line("training", &|epoch| epoch.training_loss),
        line("outputs to choose by", &|epoch| epoch.choice_loss),
    ];
    Ok(Plot::lines(
        "Loss",
        Axis::new("epoch"),
        Axis::new(axis),
        lines,
    )?)
}
