//! `cascade theory mdp`: when to stop drafting.

use anyhow::Result;
use cascade_report::{Axis, Evidence, Figure, Figures, Line, Plot, Table};
use cascade_theory::mdp::{expected_time, simulate_policy, Costs, Played, Policy, Solution};
use cascade_theory::CostCoefficient;
use clap::Args;
use serde_json::json;

use super::chains::{ChainsArgs, Named};
use super::findings::{deviation, figure, largest, record, Findings, OutputArgs, NORMAL};

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
        let mut rows = Vec::new();
        let mut plots = Vec::new();
        let mut summary = Vec::new();
        for named in &chains {
            let first = rows.len();
            let solution = Solution::best(&named.chain, costs);
            self.play(named, costs, &solution, &mut rows)?;
            if plots.is_empty() {
                plots.push(plot(&named.name, &rows[first..])?);
                summary.extend(thresholds(&named.name, &solution));
            }
        }
        summary.insert(0, largest(rows.iter().map(Row::deviation)));
        let all = |of: &dyn Fn(&Row) -> Option<Figure>| rows.iter().map(of).collect::<Vec<_>>();
        let computed = all(&|row| row.computed.map(Figure::new));
        let simulated = all(&|row| Some(figure(&row.played.time)));
        let off = all(&|row| row.deviation().map(Figure::new));
        let speedup = all(&|row| Some(row.speedup()));
        let discarded = all(&|row| Some(Figure::new(row.played.discard_rate())));
        let verified = all(&|row| Some(Figure::new(row.played.verification_rate())));
        let table = Table::new(format!(
            "When to stop drafting: {described}, a draft forward takes {} of a target forward",
            self.cost
        ))
        .labels("Chain", rows.iter().map(|row| row.name.clone()))?
        .labels("Policy", rows.iter().map(|row| row.policy.clone()))?
        .figures(Figures::new("Time", Evidence::Computed, computed).decimals(3))?
        .figures(
            Figures::new("Time", Evidence::Simulated, simulated)
                .decimals(3)
                .intervals(NORMAL),
        )?
        .figures(Figures::new("Off", Evidence::Simulated, off).unit("standard errors"))?
        .figures(
            Figures::new("Speedup", Evidence::Simulated, speedup)
                .decimals(3)
                .intervals(NORMAL),
        )?
        .figures(Figures::new("Discard rate", Evidence::Simulated, discarded).decimals(3))?
        .figures(Figures::new("Verification rate", Evidence::Simulated, verified).decimals(3))?
        .note("Time: of a sequence, in forwards of the target. Thresholds know the probability that a drafted token is \
               rejected, as a perfect head would. The best policy is that of dynamic programming; the oracle knows what \
               will be rejected, which no policy can.");
        Ok(Findings {
            title: "When to stop drafting".to_owned(),
            summary: summary.join(" "),
            records: rows.iter().map(Row::record).collect(),
            table,
            plots,
        })
    }

    /// Plays all policies on a chain.
    fn play(
        &self,
        named: &Named,
        costs: Costs,
        solution: &Solution,
        rows: &mut Vec<Row>,
    ) -> Result<()> {
        let time = |length| Some(expected_time(&named.chain, costs, length));
        let plain = (
            "plain decoding".to_owned(),
            Kind::Length,
            Policy::Plain,
            time(0),
        );
        let lengths = self.lengths.iter().map(|&length| {
            let policy = Policy::Length(length);
            (
                format!("{length} tokens"),
                Kind::Length,
                policy,
                time(length),
            )
        });
        let thresholds = self.thresholds.iter().map(|&threshold| {
            let policy = Policy::Threshold(threshold);
            (format!("h = {threshold}"), Kind::Threshold, policy, None)
        });
        let best = Policy::Best(solution);
        let best = (
            "the best".to_owned(),
            Kind::Best,
            best,
            Some(solution.time()),
        );
        let oracle = ("oracle".to_owned(), Kind::Oracle, Policy::Oracle, None);
        let policies = std::iter::once(plain).chain(lengths).chain(thresholds);
        for (policy, kind, rule, computed) in policies.chain([best, oracle]) {
            let played = simulate_policy(&named.chain, costs, rule, self.chains.runs, named.seed)?;
            rows.push(Row {
                name: named.name.clone(),
                policy,
                kind,
                computed,
                played,
            });
        }
        Ok(())
    }
}

fn thresholds(name: &str, solution: &Solution) -> Option<String> {
    let (low, high) = solution.thresholds()?;
    Some(format!(
        "On {name} the best policy stops from a probability of a rejection on that is between {low:.3} and {high:.3}, \
         depending on the state."
    ))
}

/// Discarded tokens against reviews.
fn plot(name: &str, rows: &[Row]) -> Result<(Plot, String)> {
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
        format!("Discarded tokens against reviews, {name}"),
        Axis::new("discard rate").from_zero(),
        Axis::new("verification rate").from_zero(),
        lines,
    )?;
    let caption = "T = T₀ + t_draft·N_discarded + (t_target − t_draft)·N_target: nearer to the origin is faster.";
    Ok((plot, caption.to_owned()))
}
