//! `cascade-lab theory rejections`: Theorem 1.

use anyhow::Result;
use cascade_reproduce::report::{Axis, Evidence, Line, Plot, Table};
use cascade_reproduce::theory::rejection::{expected_rejections, Algorithm, Player, Rejections};
use cascade_reproduce::theory::Estimate;
use clap::Args;
use serde_json::json;

use super::chains::{ChainsArgs, Named};
use super::findings::{
    computed, deviation, figure, largest, off, record, simulated, Captioned, Findings, OutputArgs,
    NORMAL,
};

#[derive(Debug, Args)]
pub(crate) struct RejectionsArgs {
    #[command(flatten)]
    chains: ChainsArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

struct Row {
    name: String,
    computed: Rejections,
    simulated: Estimate,
    /// The mean after the first runs.
    course: Vec<Estimate>,
}

impl Row {
    fn new(named: &Named, runs: u64) -> Result<Self> {
        let player = Player::new(&named.chain, Algorithm::Speculative)?;
        let (simulated, course) = player.rejections(runs, named.seed)?;
        Ok(Self {
            name: named.name.clone(),
            computed: expected_rejections(&named.chain, named.chain.positions()),
            simulated,
            course,
        })
    }

    fn deviation(&self) -> Option<f64> {
        deviation(&self.simulated, self.computed.expected)
    }

    fn acceleration(&self) -> Option<f64> {
        Some(self.computed.acceleration()).filter(|ratio| ratio.is_finite())
    }
}

impl RejectionsArgs {
    pub(super) fn run(&self) -> Result<Findings> {
        self.output.check()?;
        let chains = self.chains.chains()?;
        let described = self.chains.described(&chains);
        let rows = chains
            .iter()
            .map(|named| Row::new(named, self.chains.runs))
            .collect::<Result<Vec<_>>>()?;
        let table = Table::new(format!("Rejections of speculative sampling: {described}"))
            .labels("Chain", rows.iter().map(|row| row.name.clone()))?
            .figures(computed("Rejections", &rows, |row| Some(row.computed.expected)).decimals(4))?
            .figures(simulated("Rejections", &rows, |row| Some(figure(&row.simulated))).decimals(4))?
            .figures(off(&rows, Row::deviation))?
            .figures(computed("Tokens per rejection", &rows, Row::acceleration))?
            .note("Theorem 1: the sum over the positions of the expected distance of target and drafter. No rule that \
                   leaves the target's distribution unchanged has fewer (Theorem 2).");
        let plots = rows.iter().take(1).map(Row::plot);
        Ok(Findings {
            title: "Rejections of speculative sampling".to_owned(),
            summary: largest(rows.iter().map(Row::deviation)),
            plots: plots.collect::<Result<_>>()?,
            records: rows.iter().map(Row::record).collect(),
            table,
        })
    }
}

impl Row {
    fn plot(&self) -> Result<Captioned> {
        let course = self
            .course
            .iter()
            .map(|so_far| (so_far.runs as f64, figure(so_far)));
        let lines = vec![Line::new(
            "mean of the first runs",
            Evidence::Simulated,
            course,
        )];
        let plot = Plot::lines(
            format!("Rejections, {}", self.name),
            Axis::new("runs").log(),
            Axis::new("rejections of a sequence"),
            if self.course.is_empty() {
                vec![Line::new(
                    "mean of the runs",
                    Evidence::Simulated,
                    [(self.simulated.runs as f64, figure(&self.simulated))],
                )]
            } else {
                lines
            },
        )?
        .reference("Theorem 1", Evidence::Computed, self.computed.expected)?;
        Ok((plot, format!("Intervals: {NORMAL}.")))
    }

    fn record(&self) -> serde_json::Value {
        json!({
            "chain": self.name,
            "tokens": self.computed.tokens,
            "computed": { "rejections": self.computed.expected, "tokens_per_rejection": self.acceleration() },
            "simulated": record(&self.simulated),
            "deviation": self.deviation(),
        })
    }
}
