//! `cascade-lab theory mdp`: when to stop drafting.

use anyhow::Result;
use cascade_reproduce::report::{Axis, Evidence, Figure, Figures, Line, Plot, Table};
use cascade_reproduce::theory::mdp::{
    expected_time, simulate_policy, Costs, Played, Policy, Solution,
};
use cascade_reproduce::theory::CostCoefficient;
use clap::Args;
use serde_json::json;

use super::chains::{ChainsArgs, Named};
use super::findings::{
    computed, deviation, figure, largest, off, record, simulated, Captioned, Findings, OutputArgs,
};

#[derive(Debug, Args)]
pub(crate) struct LengthsArgs {
    #[command(flatten)]
    chains: ChainsArgs,

    /// Time of a forward of the drafter, in forwards of the target.
    #[arg(
        long,
        value_name = "RATIO",
        default_value_t = 0.1,
        allow_negative_numbers = true
    )]
    cost: f64,

    /// Fixed draft lengths to compare.
    #[arg(
        long,
        value_name = "K,…",
        value_delimiter = ',',
        default_value = "1,2,3,4,6,8,12"
    )]
    lengths: Vec<usize>,

    /// Thresholds on the probability that a drafted token is rejected.
    #[arg(
        long,
        value_name = "H,…",
        value_delimiter = ',',
        default_value = "0.1,0.3,0.5,0.7,0.9",
        allow_negative_numbers = true
    )]
    thresholds: Vec<f64>,

    /// Tokens of a draft at most, whatever the policy.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = crate::bounded(1, 200))]
    longest: usize,

    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// One chain under one policy.
struct Row {
    name: String,
    policy: String,
    kind: Kind,
    /// Time by formula, where there is one.
    computed: Option<f64>,
    played: Played,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Length,
    Threshold,
    Best,
    Oracle,
}

impl Row {
    fn deviation(&self) -> Option<f64> {
        deviation(&self.played.time, self.computed?)
    }

    fn speedup(&self) -> Figure {
        let (speedup, (low, high)) = self.played.speedup();
        Figure::with_interval(speedup, low, high)
    }

    fn record(&self) -> serde_json::Value {
        let (speedup, (low, high)) = self.played.speedup();
        json!({
            "chain": self.name,
            "policy": self.policy,
            "tokens": self.played.tokens,
            "computed": self.computed.map(|time| json!({ "time": time })),
            "simulated": {
                "time": record(&self.played.time),
                "discarded": record(&self.played.discarded),
                "reviews": record(&self.played.reviews),
                "speedup": speedup,
                "speedup_interval": [low, high],
                "discard_rate": self.played.discard_rate(),
                "verification_rate": self.played.verification_rate(),
            },
            "deviation": self.deviation(),
        })
    }
}

impl LengthsArgs {
    pub(super) fn run(&self) -> Result<Findings> {
        self.output.check()?;
        let costs = Costs::new(CostCoefficient::new(self.cost)?, self.longest)?;
        for &threshold in &self.thresholds {
            Policy::Threshold(threshold).check()?;
        }
        let chains = self.chains.chains()?;
        let described = self.chains.described(&chains);
        let mut thresholds = None;
        let of_chain = |named: &Named| {
            let solution = Solution::best(&named.chain, costs);
            thresholds.get_or_insert_with(|| said_thresholds(&named.name, &solution));
            self.play(named, costs, &solution)
        };
        let (rows, plots) = ChainsArgs::rows(&chains, of_chain, plot)?;
        let deviation = largest(rows.iter().map(Row::deviation));
        let summary = std::iter::once(deviation).chain(thresholds.flatten());
        Ok(Findings {
            title: "When to stop drafting".to_owned(),
            summary: summary.collect::<Vec<_>>().join(" "),
            records: rows.iter().map(Row::record).collect(),
            table: self.table(&described, &rows)?,
            plots,
        })
    }

    fn table(&self, described: &str, rows: &[Row]) -> Result<Table> {
        let rate = |header: &str, of: fn(&Played) -> f64| {
            let figures = rows.iter().map(|row| Figure::new(of(&row.played)));
            Figures::new(header, Evidence::Simulated, figures).decimals(3)
        };
        let table = Table::new(format!(
            "When to stop drafting: {described}, a draft forward takes {} of a target forward",
            self.cost
        ))
        .labels("Chain", rows.iter().map(|row| row.name.clone()))?
        .labels("Policy", rows.iter().map(|row| row.policy.clone()))?
        .figures(computed("Time", rows, |row| row.computed).decimals(3))?
        .figures(simulated("Time", rows, |row| Some(figure(&row.played.time))).decimals(3))?
        .figures(off(rows, Row::deviation))?
        .figures(simulated("Speedup", rows, |row| Some(row.speedup())).decimals(3))?
        .figures(rate("Discard rate", Played::discard_rate))?
        .figures(rate("Verification rate", Played::verification_rate))?;
        Ok(table.note(
            "Time: of a sequence, in forwards of the target. Thresholds know the probability that a drafted token is \
             rejected, as a perfect head would. The best policy is that of dynamic programming; the oracle knows what \
             will be rejected, which no policy can.",
        ))
    }

    /// Plays all policies on a chain.
    fn play(&self, named: &Named, costs: Costs, solution: &Solution) -> Result<Vec<Row>> {
        let played = |(policy, kind, rule, computed)| {
            Ok(Row {
                name: named.name.clone(),
                policy,
                kind,
                computed,
                played: simulate_policy(&named.chain, costs, rule, self.chains.runs, named.seed)?,
            })
        };
        let policies = self.policies(named, costs, solution);
        policies.into_iter().map(played).collect()
    }

    /// All policies: what they are called, and the time by formula, where there is one.
    fn policies<'s>(
        &self,
        named: &Named,
        costs: Costs,
        solution: &'s Solution,
    ) -> Vec<(String, Kind, Policy<'s>, Option<f64>)> {
        let length = |name: String, policy, length| {
            let time = expected_time(&named.chain, costs, length);
            (name, Kind::Length, policy, Some(time))
        };
        let plain = length("plain decoding".to_owned(), Policy::Plain, 0);
        let lengths = self
            .lengths
            .iter()
            .map(|&k| length(format!("{k} tokens"), Policy::Length(k), k));
        let thresholds = self.thresholds.iter().map(|&threshold| {
            let policy = Policy::Threshold(threshold);
            (format!("h = {threshold}"), Kind::Threshold, policy, None)
        });
        let (best, time) = (Policy::Best(solution), Some(solution.time()));
        let best = ("the best".to_owned(), Kind::Best, best, time);
        let oracle = ("oracle".to_owned(), Kind::Oracle, Policy::Oracle, None);
        let fixed = std::iter::once(plain).chain(lengths).chain(thresholds);
        fixed.chain([best, oracle]).collect()
    }
}

fn said_thresholds(name: &str, solution: &Solution) -> Option<String> {
    let (low, high) = solution.thresholds()?;
    Some(format!(
        "On {name} the best policy stops from a probability of a rejection on that is between {low:.3} and {high:.3}, \
         depending on the state."
    ))
}

/// Discarded tokens against reviews.
fn plot(named: &Named, rows: &[Row]) -> Result<Captioned> {
    let series = |title: &str, kind: Kind| {
        let of_kind = rows.iter().filter(|row| row.kind == kind);
        let points = of_kind.map(|row| {
            let rate = Figure::new(row.played.verification_rate());
            (row.played.discard_rate(), rate)
        });
        Line::new(title, Evidence::Simulated, points.collect::<Vec<_>>())
    };
    let lines = vec![
        series("fixed lengths", Kind::Length),
        series("thresholds", Kind::Threshold),
        series("the best", Kind::Best),
        series("oracle", Kind::Oracle),
    ];
    let plot = Plot::lines(
        format!("Discarded tokens against reviews, {}", named.name),
        Axis::new("discard rate").from_zero(),
        Axis::new("verification rate").from_zero(),
        lines,
    )?;
    let caption = "T = T₀ + t_draft·N_discarded + (t_target − t_draft)·N_target: nearer to the origin is faster.";
    Ok((plot, caption.to_owned()))
}
