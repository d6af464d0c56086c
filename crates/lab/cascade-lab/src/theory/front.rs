//! `cascade-lab theory front`: Theorems 4 and 5.

use anyhow::Result;
use cascade_reproduce::report::{Axis, Evidence, Figure, Line, Plot, Table};
use cascade_reproduce::theory::rejection::{
    AcceptMore, OverAcceptance, Player, expected_over_acceptance,
};
use clap::Args;
use serde_json::{Value, json};

use super::chains::{ChainsArgs, Named};
use super::findings::{Captioned, ChainRow, OutputArgs, Study, compared, figures, largest, record};

#[derive(Debug, Args)]
pub(crate) struct FrontArgs {
    #[command(flatten)]
    pub(super) chains: ChainsArgs,

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

/// A rule, and what it costs and gains by formula.
type Over = (AcceptMore, OverAcceptance);

const NOTE: &str = "ε: a token x is accepted with min(1, (target(x) + ε)/drafter(x)); δ: with so much more than in \
     speculative sampling that the bias of no token is above δ. Rejected tokens are replaced in the best way (Theorem \
     4: Decoding-OPT), or by the target's own distribution (UNO), which is off the front. What is emitted is not the \
     target's distribution: the bias is their distance. P(reject) + bias = TV: the front (Theorem 5).";

impl FrontArgs {
    /// Decoding-OPT with all over-acceptances, then Decoding-UNO, then the budgets.
    fn rules(&self) -> impl Iterator<Item = AcceptMore> + '_ {
        let uno = self.epsilon.iter().filter(|_| self.uno);
        let extra = self.epsilon.iter().copied().map(AcceptMore::Extra);
        extra
            .chain(uno.copied().map(AcceptMore::ExtraUnoptimized))
            .chain(self.budget.iter().copied().map(AcceptMore::Budget))
    }
}

impl Study for FrontArgs {
    type Details = Over;

    const TITLE: &'static str = "Rejections against bias";

    fn rows(&self, named: &Named, runs: u64) -> Result<Vec<ChainRow<Over>>> {
        let row = |rule| {
            let (simulated, _) = Player::new(&named.chain, rule)?.rejections(runs, named.seed)?;
            let computed = expected_over_acceptance(&named.chain, rule)?;
            Ok(ChainRow {
                chain: named.name.clone(),
                rule: called(rule),
                computed: Some(computed.rejections),
                simulated: Some(simulated),
                details: (rule, computed),
            })
        };
        self.rules().map(row).collect()
    }

    fn table(&self, described: &str, rows: &[ChainRow<Over>]) -> Result<Table> {
        let per_token = |header: &str, of: fn(&OverAcceptance) -> f64| {
            let figure = |row: &ChainRow<Over>| Some(of(&row.details.1) / row.details.1.tokens);
            figures(header, Evidence::Computed, rows, figure).decimals(4)
        };
        let title = format!("{}: {described}", Self::TITLE);
        Ok(compared(title, Some("Rule"), ("Rejections", 4), rows)?
            .figures(per_token("P(reject) of a token", |sums| sums.rejections))?
            .figures(per_token("Bias of a token", |sums| sums.bias))?
            .figures(per_token("TV of the models", |sums| sums.distance))?
            .note(NOTE))
    }

    /// The front of the chain's first position, and where the over-acceptances are on it.
    fn plot(&self, named: &Named, rows: &[ChainRow<Over>]) -> Result<Captioned> {
        let pair = &named.chain.pairs()[0];
        let line = |name: &str, optimal: bool| {
            let rules = rows.iter().map(|row| row.details.0);
            let rules = rules.filter(|rule| rule.is_optimal() == optimal);
            let at = rules.map(|rule| rule.at(pair));
            let mut points: Vec<_> = at.map(|at| (at.rejection, Figure::new(at.bias))).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Line::new(name, Evidence::Computed, points)
        };
        let distance = pair.rejection();
        let front = [(0.0, Figure::new(distance)), (distance, Figure::new(0.0))];
        let mut lines = vec![
            Line::new("front (Theorem 5)", Evidence::Computed, front),
            line("over-acceptance (Theorem 4)", true),
        ];
        if rows.iter().any(|row| !row.details.0.is_optimal()) {
            lines.push(line("Decoding-UNO", false));
        }
        let plot = Plot::lines(
            format!("The front of the first position, {}", named.name),
            Axis::new("probability of a rejection").from_zero(),
            Axis::new("distance from the target's distribution").from_zero(),
            lines,
        )?;
        Ok((plot, "Below the line nothing is possible.".to_owned()))
    }

    fn record(row: &ChainRow<Over>) -> Value {
        let OverAcceptance {
            rejections,
            bias,
            distance,
            tokens,
            off_front,
        } = row.details.1;
        json!({
            "chain": row.chain,
            "rule": row.rule,
            "tokens": tokens,
            "computed": { "rejections": rejections, "bias": bias, "distance": distance, "off_front": off_front },
            "simulated": row.simulated.as_ref().map(record),
            "deviation": row.deviation(),
        })
    }

    fn summary(&self, rows: &[ChainRow<Over>]) -> String {
        let optimal = rows.iter().filter(|row| row.details.0.is_optimal());
        let off_front = optimal
            .map(|row| row.details.1.off_front)
            .fold(0.0, f64::max);
        let optimal = if self.uno { " of Decoding-OPT" } else { "" };
        format!(
            "{} No position{optimal} is off the front by more than {off_front:.1e}.",
            largest(rows)
        )
    }
}

fn called(rule: AcceptMore) -> String {
    match rule {
        AcceptMore::Extra(extra) => format!("ε = {extra}"),
        AcceptMore::ExtraUnoptimized(extra) => format!("ε = {extra}, UNO"),
        AcceptMore::Budget(budget) => format!("δ = {budget}"),
    }
}
