//! `cascade theory rejections`: Theorem 1.

use anyhow::Result;
use cascade_report::{Axis, Evidence, Figure, Figures, Line, Plot, Table};
use cascade_theory::rejection::{expected_rejections, Algorithm, Player, Rejections};
use cascade_theory::Estimate;
use clap::Args;
use serde_json::json;

use super::chains::{ChainsArgs, Named};
use super::findings::{deviation, figure, largest, record, Findings, OutputArgs, NORMAL};

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
        let rows = chains.iter().map(|named| Row::new(named, self.chains.runs));
        let rows = rows.collect::<Result<Vec<_>>>()?;
        let all = |of: &dyn Fn(&Row) -> Option<Figure>| rows.iter().map(of).collect::<Vec<_>>();
        let computed = all(&|row| Some(Figure::new(row.computed.expected)));
        let simulated = all(&|row| Some(figure(&row.simulated)));
        let off = all(&|row| row.deviation().map(Figure::new));
        let faster = all(&|row| row.acceleration().map(Figure::new));
        let table = Table::new(format!("Rejections of speculative sampling: {described}"))
            .labels("Chain", rows.iter().map(|row| row.name.clone()))?
            .figures(Figures::new("Rejections", Evidence::Computed, computed).decimals(4))?
            .figures(
                Figures::new("Rejections", Evidence::Simulated, simulated)
                    .decimals(4)
                    .intervals(NORMAL),
            )?
            .figures(Figures::new("Off", Evidence::Simulated, off).unit("standard errors"))?
            .figures(Figures::new("Tokens per rejection", Evidence::Computed, faster))?
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
    fn plot(&self) -> Result<(Plot, String)> {
        let course = self.course.iter();
        let course = course.map(|so_far| (so_far.runs as f64, figure(so_far)));
        let lines = vec![Line::new(
            "mean of the first runs",
            Evidence::Simulated,
            course,
        )];
        let plot = Plot::lines(
            format!("Rejections, {}", self.name),
            Axis::new("runs").log(),
            Axis::new("rejections of a sequence"),
            match self.course.is_empty() {
                false => lines,
                true => vec![Line::new(
                    "mean of the runs",
                    Evidence::Simulated,
                    [(self.simulated.runs as f64, figure(&self.simulated))],
                )],
            },
        )?;
        let plot = plot.reference("Theorem 1", Evidence::Computed, self.computed.expected)?;
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
