//! What a training gave.

use std::path::Path;

use anyhow::Result;
use cascade_engine::ClassifierWeights;
use cascade_report::{Axis, Evidence, Figure, Figures, Line, Manifest, Plot, Report, Table};
use cascade_train::{static_lengths, Choice, Epoch, Prediction, Quality, Split};

use crate::fold::{self, folded};

/// How tokens per time were found.
const PREDICTED: &str = "Drafting is walked along the recorded outputs, held out from training and choice. A forward of the \
    drafter is taken to cost what --cost says, one of the target 1 whatever its rows. The static length is the best of 1 to 20 \
    on the outputs to choose by; the oracle knows what will be rejected.";

pub(super) struct Found<'a> {
    pub(super) drafter: &'a str,
    pub(super) cost: f64,
    pub(super) choice: Choice,
    pub(super) split: &'a Split,
    pub(super) history: Vec<Epoch>,
    pub(super) best_epoch: usize,
    pub(super) held_out: Quality,
    pub(super) weights: &'a ClassifierWeights,
}

impl Found<'_> {
    /// Writes the report and classifier.json; returns the table and a summary to print.
    pub(super) fn write(&self, folder: &Path, manifest: Manifest) -> Result<(String, String)> {
        let (table, rows) = self.table()?;
        let summary = self.summary();
        let record = serde_json::json!({
            "drafter": self.drafter,
            "cost": self.cost,
            "threshold": self.choice.threshold,
            "longest": self.choice.longest,
            "best_epoch": self.best_epoch,
            "outputs": {
                "training": self.split.training.len(),
                "choice": self.split.choice.len(),
                "held_out": self.split.held_out.len(),
            },
            "held_out": self.held_out,
            "predicted": rows,
        });
        let text = serde_json::to_string_pretty(&record)? + "\n";
        cascade_fs::write(folder.join("classifier.json"), text.as_bytes())?;
        let printed = folded(&table.to_markdown(), fold::width());
        let title = format!("A classifier for {}", self.drafter);
        let report = Report::new(title, summary.clone(), manifest)
            .table(table)
            .plot(
                self.losses()?,
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
             A draft stops below {:.2}, and after {} tokens.",
            self.best_epoch,
            self.history.len(),
            self.choice.threshold,
            self.choice.longest
        )
    }

    /// The ways to stop, on the held-out outputs.
    fn table(&self) -> Result<(Table, serde_json::Value)> {
        let held_out = &self.split.held_out;
        let on_choice = static_lengths(&self.split.choice, self.cost)?;
        let best = (1..on_choice.len()).fold(1, |best, length| {
            match on_choice[length].speedup > on_choice[best].speedup {
                true => length,
                false => best,
            }
        });
        let fixed = static_lengths(held_out, self.cost)?;
        let rows = [
            ("plain decoding".to_owned(), fixed[0]),
            (
                format!("{best} tokens, the best static length"),
                fixed[best],
            ),
            (
                "classifier".to_owned(),
                self.choice.predicted(self.weights, held_out, self.cost)?,
            ),
            (
                "oracle".to_owned(),
                Prediction::oracle(held_out, self.cost)?,
            ),
        ];
        let column = |header: &str, of: &dyn Fn(&Prediction) -> f64| {
            let figures = rows.iter().map(|(_, row)| Figure::new(of(row)));
            Figures::new(header, Evidence::Replayed, figures.collect::<Vec<_>>()).decimals(3)
        };
        let table = Table::new(format!("When {} stops", self.drafter))
            .labels("Policy", rows.iter().map(|(name, _)| name.clone()))?
            .figures(column("Speedup", &|row| row.speedup))?
            .figures(column("Tokens per review", &|row| row.tokens_per_review))?
            .figures(column("Discard rate", &|row| row.discard_rate))?
            .figures(column("Verification rate", &|row| row.verification_rate))?
            .note(PREDICTED);
        let records = rows
            .iter()
            .map(|(name, row)| serde_json::json!({"policy": name, "on_held_out": row}));
        Ok((table, records.collect()))
    }

    fn losses(&self) -> Result<Plot> {
        let line = |name: &str, of: &dyn Fn(&Epoch) -> f64| {
            let points = self.history.iter();
            let points = points.map(|epoch| (epoch.epoch as f64, Figure::new(of(epoch))));
            Line::new(name, Evidence::Replayed, points.collect::<Vec<_>>())
        };
        let lines = vec![
            line("training", &|epoch| epoch.training_loss),
            line("outputs to choose by", &|epoch| epoch.choice_loss),
        ];
        let axes = (Axis::new("epoch"), Axis::new("cross-entropy, nats"));
        Ok(Plot::lines("Loss", axes.0, axes.1, lines)?)
    }

    fn calibration(&self) -> Result<Plot> {
        let bins = self.held_out.bins.iter().filter(|bin| bin.tokens > 0);
        let points = bins.map(|bin| (bin.predicted, Figure::new(bin.accepted)));
        let exact = [0.0, 1.0].map(|p| (p, Figure::new(p)));
        let lines = vec![
            Line::new("classifier", Evidence::Replayed, points.collect::<Vec<_>>()),
            Line::new("calibrated", Evidence::Computed, exact),
        ];
        let x = Axis::new("predicted probability of acceptance").from_zero();
        let y = Axis::new("share of accepted tokens").from_zero();
        Ok(Plot::lines("Calibration, held out", x, y, lines)?)
    }
}
