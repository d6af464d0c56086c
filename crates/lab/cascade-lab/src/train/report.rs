//! What a training gave.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use cascade_config::DeviceSpec;
use cascade_reproduce::report::{Axis, Evidence, Figure, Figures, Line, Plot, Report, Table};
use cascade_traces::train::{Epoch, Prediction, Quality};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::room;
use crate::{reproduce, terminal};

/// How tokens per time were found.
const PREDICTED: &str = "Drafting is walked along the recorded outputs, held out from training and choice. A forward of the \
    drafter is taken to cost what --cost says, one of the target 1 whatever its rows. The static length is the best of 1 to 20 \
    on the outputs to choose by; the oracle knows what will be rejected.";

/// What decides whether a token is accepted.
const RECORDED: &str = "A token is accepted if the recorded output has it.";
const DRAWN: &str = "Whether a token is accepted was drawn at random, with the probability min(1, p/q) that speculative \
    sampling accepts it behind the recorded text.";

/// The report of a training: what its page shows, and the JSON file beside the weights.
pub(super) struct Told {
    pub(super) title: String,
    pub(super) summary: String,
    pub(super) table: Table,
    /// Plots, each with what is written below it.
    pub(super) plots: Vec<(Plot, &'static str)>,
    /// A JSON file beside the weights.
    pub(super) file: String,
    pub(super) record: Value,
}

impl Told {
    /// Writes the report and the JSON file, and prints what they say.
    pub(super) fn tell(
        self,
        folder: &Path,
        started: Timestamp,
        device: Option<DeviceSpec>,
    ) -> Result<()> {
        let manifest = reproduce::finished(reproduce::manifest(started, device));
        let printed = self.table.to_text(room::columns());
        let text = serde_json::to_string_pretty(&self.record)? + "\n";
        cascade_core::fs::write(folder.join(self.file), text.as_bytes())?;
        let report = Report::new(self.title, self.summary.clone(), manifest).table(self.table);
        let plots = self.plots.into_iter();
        let report = plots.fold(report, |report, (plot, caption)| report.plot(plot, caption));
        report.write(folder)?;
        writeln!(
            terminal::stdout(),
            "{printed}\n{}\nwritten to {}",
            self.summary,
            folder.display()
        )?;
        Ok(())
    }
}

/// What the training of a stop rule gave: of a classifier, or of a head beside the drafter.
pub(super) struct TrainedStopRule<'a> {
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

impl TrainedStopRule<'_> {
    /// The ways to stop, from drafts of 0, 1, 2, … tokens on the outputs to choose by and on those
    /// that are held out, beside what an oracle gives, and what was trained.
    pub(super) fn rows(
        on_choice: &[Prediction],
        (fixed, oracle): (&[Prediction], Prediction),
        (what, trained): (&str, Prediction),
    ) -> Vec<(String, Prediction)> {
        let best = (1..on_choice.len()).fold(1, |best, length| {
            if on_choice[length].speedup > on_choice[best].speedup {
                length
            } else {
                best
            }
        });
        let static_length = format!("{best} tokens, the best static length");
        vec![
            ("plain decoding".to_owned(), fixed[0]),
            (static_length, fixed[best]),
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
        let told = Told {
            title: format!("A {} for {}", self.what, self.drafter),
            summary: self.summary(),
            table: self.table()?,
            plots: vec![
                losses(&self.history, self.evidence, "cross-entropy, nats")?,
                (
                    self.calibration()?,
                    "Of held-out tokens with a prediction, how many are accepted.",
                ),
            ],
            file: format!("{}.json", self.what),
            record: self.record(),
        };
        told.tell(folder, started, device)
    }

    fn record(&self) -> Value {
        let rows = self
            .rows
            .iter()
            .map(|(name, row)| json!({"policy": name, "on_held_out": row}));
        let mut record = json!({
            "drafter": self.drafter,
            "cost": self.cost,
            "best_epoch": self.best_epoch,
            "outputs": outputs(self.outputs),
            "held_out": self.held_out,
            "predicted": rows.collect::<Value>(),
        });
        if let (Value::Object(record), Value::Object(settings)) = (&mut record, &self.settings) {
            record.extend(settings.clone());
        }
        record
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

/// How many outputs were trained on, chosen by, and held out.
pub(super) fn outputs([training, choice, held_out]: [usize; 3]) -> Value {
    json!({ "training": training, "choice": choice, "held_out": held_out })
}

/// Loss by epoch.
pub(super) fn losses(
    history: &[Epoch],
    evidence: Evidence,
    axis: &str,
) -> Result<(Plot, &'static str)> {
    let line = |name: &str, of: fn(&Epoch) -> f64| {
        let points = history
            .iter()
            .map(|epoch| (epoch.epoch as f64, Figure::new(of(epoch))));
        Line::new(name, evidence, points.collect::<Vec<_>>())
    };
    let lines = vec![
        line("training", |epoch| epoch.training_loss),
        line("outputs to choose by", |epoch| epoch.choice_loss),
    ];
    let plot = Plot::lines("Loss", Axis::new("epoch"), Axis::new(axis), lines)?;
    let caption =
        "Loss by epoch; the weights of the least one on the outputs to choose by are kept.";
    Ok((plot, caption))
}
