//! `cascade-lab theory batch`: Theorem 3.

use std::num::NonZeroUsize;

use anyhow::Result;
use cascade_reproduce::report::{Axis, Evidence, Figure, Line, Plot, Table};
use cascade_reproduce::theory::rejection::{
    expected_batch_limit, expected_batch_rejections, Algorithm, Player,
};
use cascade_reproduce::theory::Estimate;
use clap::Args;
use serde_json::json;

use super::chains::{ChainsArgs, Named};
use super::findings::{
    computed, deviation, figure, largest, off, record, simulated, Captioned, Findings, OutputArgs,
    NORMAL,
};

#[derive(Debug, Args)]
pub(crate) struct BatchArgs {
    #[command(flatten)]
    chains: ChainsArgs,

    /// Drafts at a time.
    #[arg(
        long,
        value_name = "M,…",
        value_delimiter = ',',
        default_value = "1,2,3,4,5,8,16,32"
    )]
    drafts: Vec<NonZeroUsize>,

    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// One chain with one number of drafts; the limit is not simulated.
struct Row {
    name: String,
    drafts: Option<NonZeroUsize>,
    computed: f64,
    simulated: Option<Estimate>,
}

impl Row {
    fn finite(named: &Named, drafts: NonZeroUsize, runs: u64) -> Result<Self> {
        let player = Player::new(&named.chain, Algorithm::Batch(drafts))?;
        let positions = named.chain.positions();
        Ok(Self {
            name: named.name.clone(),
            drafts: Some(drafts),
            computed: expected_batch_rejections(&named.chain, drafts, positions).expected,
            simulated: Some(player.rejections(runs, named.seed)?.0),
        })
    }

    fn limit(named: &Named) -> Self {
        Self {
            name: named.name.clone(),
            drafts: None,
            computed: expected_batch_limit(&named.chain, named.chain.positions()).expected,
            simulated: None,
        }
    }

    fn deviation(&self) -> Option<f64> {
        deviation(self.simulated.as_ref()?, self.computed)
    }

    fn drafts(&self) -> String {
        match self.drafts {
            Some(drafts) => drafts.to_string(),
            None => "∞".to_owned(),
        }
    }

    fn rejections(&self) -> Option<Figure> {
        self.simulated.as_ref().map(figure)
    }

    fn record(&self) -> serde_json::Value {
        json!({
            "chain": self.name,
            // Absent for the limit.
            "drafts": self.drafts,
            "computed": { "rejections": self.computed },
            "simulated": self.simulated.as_ref().map(record),
            "deviation": self.deviation(),
        })
    }
}

impl BatchArgs {
    pub(super) fn run(&self) -> Result<Findings> {
        self.output.check()?;
        let chains = self.chains.chains()?;
        let described = self.chains.described(&chains);
        let (rows, plots) = ChainsArgs::rows(&chains, |named| self.rows(named), plot)?;
        let table = Table::new(format!("Rejections of batch speculative sampling: {described}"))
            .labels("Chain", rows.iter().map(|row| row.name.clone()))?
            .labels("Drafts", rows.iter().map(Row::drafts))?
            .figures(computed("Rejections", &rows, |row| Some(row.computed)).decimals(4))?
            .figures(simulated("Rejections", &rows, Row::rejections).decimals(4))?
            .figures(off(&rows, Row::deviation))?
            .note("Theorem 3. More drafts help only where drafting begins, so that rejections do not go to 0: the last \
                   row is what they go to.");
        Ok(Findings {
            title: "Rejections of batch speculative sampling".to_owned(),
            summary: largest(rows.iter().map(Row::deviation)),
            records: rows.iter().map(Row::record).collect(),
            table,
            plots,
        })
    }

    fn rows(&self, named: &Named) -> Result<Vec<Row>> {
        let finite = self.drafts.iter();
        let finite = finite.map(|&drafts| Row::finite(named, drafts, self.chains.runs));
        finite.chain([Ok(Row::limit(named))]).collect()
    }
}

fn plot(named: &Named, rows: &[Row]) -> Result<Captioned> {
    let points = |of: &dyn Fn(&Row) -> Option<Figure>| -> Vec<(f64, Figure)> {
        let at = |row: &Row| Some((row.drafts?.get() as f64, of(row)?));
        let mut points: Vec<_> = rows.iter().filter_map(at).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    };
    let lines = vec![
        Line::new(
            "Theorem 3",
            Evidence::Computed,
            points(&|row| Some(Figure::new(row.computed))),
        ),
        Line::new("runs", Evidence::Simulated, points(&Row::rejections)),
    ];
    let plot = Plot::lines(
        format!("Rejections with several drafts, {}", named.name),
        Axis::new("drafts").log(),
        Axis::new("rejections of a sequence"),
        lines,
    )?;
    let limit = rows.last().map_or(0.0, |row| row.computed);
    let plot = plot.reference("limit", Evidence::Computed, limit)?;
    Ok((plot, format!("Intervals: {NORMAL}.")))
}
