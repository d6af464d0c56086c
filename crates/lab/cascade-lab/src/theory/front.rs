//! `cascade-lab theory front`: Theorems 4 and 5.

use anyhow::Result;
use cascade_reproduce::report::{Axis, Evidence, Figure, Line, Plot, Table};
use cascade_reproduce::theory::rejection::{
    expected_over_acceptance, AcceptMore, Algorithm, OverAcceptance, Player,
};
use cascade_reproduce::theory::Estimate;
use clap::Args;
use serde_json::json;

use super::chains::{ChainsArgs, Named};
use super::findings::{
    computed, deviation, figure, largest, off, record, simulated, Captioned, Findings, OutputArgs,
};

#[derive(Debug, Args)]
pub(crate) struct FrontArgs {
    #[command(flatten)]
    chains: ChainsArgs,

    /// Over-acceptances: a token x is accepted with min(1, (target(x) + ε)/drafter(x)).
    #[arg(
        long,
        value_name = "EPSILON,…",
        value_delimiter = ',',
        default_value = "0,0.1,0.2,0.4,0.8",
        allow_negative_numbers = true
    )]
    epsilon: Vec<f64>,

    /// Budgets of total variation to add: a token's distribution is at most this far from the
    /// target's.
    #[arg(
        long,
        value_name = "DISTANCE,…",
        value_delimiter = ',',
        allow_negative_numbers = true
    )]
    budget: Vec<f64>,

    /// Also replace rejected tokens by the target's own distribution instead of the best one:
    /// Decoding-UNO, which the paper compares its rule, Decoding-OPT, with.
    #[arg(long)]
    uno: bool,

    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// One chain with one over-acceptance.
struct Row {
    name: String,
    rule: AcceptMore,
    computed: OverAcceptance,
    simulated: Estimate,
}

impl Row {
    fn new(named: &Named, rule: AcceptMore, runs: u64) -> Result<Self> {
        let player = Player::new(&named.chain, Algorithm::OverAcceptance(rule))?;
        let positions = named.chain.positions();
        Ok(Self {
            name: named.name.clone(),
            rule,
            computed: expected_over_acceptance(&named.chain, rule, positions)?,
            simulated: player.rejections(runs, named.seed)?.0,
        })
    }

    fn deviation(&self) -> Option<f64> {
        deviation(&self.simulated, self.computed.rejections)
    }

    fn called(&self) -> String {
        match self.rule {
            AcceptMore::Extra(extra) => format!("ε = {extra}"),
            AcceptMore::ExtraUnoptimized(extra) => format!("ε = {extra}, UNO"),
            AcceptMore::Budget(budget) => format!("δ = {budget}"),
        }
    }

    fn record(&self) -> serde_json::Value {
        let OverAcceptance {
            rejections,
            bias,
            distance,
            tokens,
            off_front,
        } = self.computed;
        json!({
            "chain": self.name,
            "rule": self.called(),
            "tokens": tokens,
            "computed": { "rejections": rejections, "bias": bias, "distance": distance, "off_front": off_front },
            "simulated": record(&self.simulated),
            "deviation": self.deviation(),
        })
    }
}

impl FrontArgs {
    pub(super) fn run(&self) -> Result<Findings> {
        self.output.check()?;
        let chains = self.chains.chains()?;
        let described = self.chains.described(&chains);
        let (rows, plots) = ChainsArgs::rows(&chains, |named| self.rows(named), plot)?;
        Ok(Findings {
            title: "Rejections against bias".to_owned(),
            summary: self.summary(&rows),
            records: rows.iter().map(Row::record).collect(),
            table: table(&described, &rows)?,
            plots,
        })
    }

    /// A chain with all over-acceptances.
    fn rows(&self, named: &Named) -> Result<Vec<Row>> {
        let extra = self.epsilon.iter().copied().map(AcceptMore::Extra);
        let budgets = self.budget.iter().copied().map(AcceptMore::Budget);
        let uno = self
            .epsilon
            .iter()
            .filter(|_| self.uno)
            .copied()
            .map(AcceptMore::ExtraUnoptimized);
        let rules = extra.chain(uno).chain(budgets);
        rules
            .map(|rule| Row::new(named, rule, self.chains.runs))
            .collect()
    }

    fn summary(&self, rows: &[Row]) -> String {
        let off_front = rows
            .iter()
            .filter(|row| row.rule.is_optimal())
            .map(|row| row.computed.off_front)
            .fold(0.0, f64::max);
        let optimal = if self.uno { " of Decoding-OPT" } else { "" };
        format!(
            "{} No position{optimal} is off the front by more than {off_front:.1e}.",
            largest(rows.iter().map(Row::deviation))
        )
    }
}

const NOTE: &str = "ε: a token x is accepted with min(1, (target(x) + ε)/drafter(x)); δ: with so much more than in \
     speculative sampling that the bias of no token is above δ. Rejected tokens are replaced in the best way (Theorem \
     4: Decoding-OPT), or by the target's own distribution (UNO), which is off the front. What is emitted is not the \
     target's distribution: the bias is their distance. P(reject) + bias = TV: the front (Theorem 5).";

fn table(described: &str, rows: &[Row]) -> Result<Table> {
    let per_token = |header: &str, of: fn(&OverAcceptance) -> f64| {
        let figure = |row: &Row| Some(of(&row.computed) / row.computed.tokens);
        computed(header, rows, figure).decimals(4)
    };
    let rejections = |row: &Row| Some(row.computed.rejections);
    let table = Table::new(format!("Rejections against bias: {described}"))
        .labels("Chain", rows.iter().map(|row| row.name.clone()))?
        .labels("Rule", rows.iter().map(Row::called))?
        .figures(computed("Rejections", rows, rejections).decimals(4))?
        .figures(simulated("Rejections", rows, |row| Some(figure(&row.simulated))).decimals(4))?
        .figures(off(rows, Row::deviation))?
        .figures(per_token("P(reject) of a token", |sums| sums.rejections))?
        .figures(per_token("Bias of a token", |sums| sums.bias))?
        .figures(per_token("TV of the models", |sums| sums.distance))?;
    Ok(table.note(NOTE))
}

/// The front of the chain's first position, and where the over-acceptances are on it.
fn plot(named: &Named, rows: &[Row]) -> Result<Captioned> {
    let pair = named.chain.pairs().next();
    let points = |optimal: bool| -> Result<Vec<(f64, Figure)>> {
        let mut points = Vec::new();
        for row in rows.iter().filter(|row| row.rule.is_optimal() == optimal) {
            if let Some(pair) = pair {
                let accept = row.rule.accept(pair)?;
                let bias = row.rule.bias(pair)?;
                points.push((pair.rejection_by(&accept)?, Figure::new(bias)));
            }
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Ok(points)
    };
    let distance = pair.map_or(0.0, |pair| pair.rejection());
    let front = [(0.0, Figure::new(distance)), (distance, Figure::new(0.0))];
    let mut lines = vec![
        Line::new("front (Theorem 5)", Evidence::Computed, front),
        Line::new(
            "over-acceptance (Theorem 4)",
            Evidence::Computed,
            points(true)?,
        ),
    ];
    let uno = points(false)?;
    if !uno.is_empty() {
        lines.push(Line::new("Decoding-UNO", Evidence::Computed, uno));
    }
    let plot = Plot::lines(
        format!("The front of the first position, {}", named.name),
        Axis::new("probability of a rejection").from_zero(),
        Axis::new("distance from the target's distribution").from_zero(),
        lines,
    )?;
    Ok((plot, "Below the line nothing is possible.".to_owned()))
}
