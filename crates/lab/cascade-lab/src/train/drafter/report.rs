//! What the training of a head that drafts gave.

use std::path::Path;

use anyhow::Result;
use cascade_config::DeviceSpec;
use cascade_reproduce::report::{Evidence, Figure, Figures, Table};
use cascade_traces::train::{DraftAcceptance, DrafterKind, Epoch};
use jiff::Timestamp;
use serde_json::json;

use crate::train::report::{Told, losses, outputs};

/// How acceptance was found.
const REPLAYED: &str = "Drafts are chains of the head's most probable tokens behind every token of recorded outputs that are \
    held out from training and choice; a token is accepted if the recorded output has it and all before it. Tokens per forward are \
    those of drafts of one length, one after the other.";

/// What the training of a head that drafts gave.
pub(super) struct TrainedDrafter<'a> {
    pub(super) kind: DrafterKind,
    pub(super) target: &'a str,
    /// Outputs to train on, to choose by, and held out.
    pub(super) outputs: [usize; 3],
    pub(super) history: Vec<Epoch>,
    pub(super) best_epoch: usize,
    pub(super) held_out: DraftAcceptance,
}

impl TrainedDrafter<'_> {
    /// Writes the report and a JSON file, and prints what they say.
    pub(super) fn tell(&self, folder: &Path, started: Timestamp) -> Result<()> {
        let told = Told {
            title: format!("A head of {} for {}", self.kind.name(), self.target),
            summary: self.summary(),
            table: self.table()?,
            plots: vec![losses(&self.history, Evidence::Replayed, "loss")?],
            file: "drafter.json".to_owned(),
            record: self.record(),
        };
        told.tell(folder, started, Some(DeviceSpec::Cpu))
    }

    fn record(&self) -> serde_json::Value {
        let positions = self.held_out.positions.iter();
        json!({
            "target": self.target,
            "kind": self.kind,
            "best_epoch": self.best_epoch,
            "outputs": outputs(self.outputs),
            "acceptance_by_position": positions.map(|position| position.share()).collect::<Vec<_>>(),
            "held_out": self.held_out,
        })
    }

    fn summary(&self) -> String {
        let best = self.held_out.best_length();
        format!(
            "Held out, {} tokens: {:.3} tokens per forward of the target with drafts of {best}; epoch {} of {}.",
            self.held_out.tokens,
            self.held_out.tokens_per_forward(best),
            self.best_epoch,
            self.history.len(),
        )
    }

    /// Acceptance by place, and what drafts of each length are worth.
    fn table(&self) -> Result<Table> {
        let places = 1..=self.held_out.positions.len();
        let positions = self.held_out.positions.iter();
        let shares: Vec<Figure> = positions.map(|p| Figure::new(p.share())).collect();
        let tokens = |length| Figure::new(self.held_out.tokens_per_forward(length));
        let lengths: Vec<Figure> = places.clone().map(tokens).collect();
        let figures = |header: &str, all| Figures::new(header, Evidence::Replayed, all).decimals(3);
        Ok(Table::new(format!("Drafts for {}, held out", self.target))
            .labels("Token of a draft", places.map(|place| place.to_string()))?
            .figures(figures("Accepted if those before are", shares))?
            .figures(figures("Tokens per forward with so many", lengths))?
            .note(REPLAYED))
    }
}
