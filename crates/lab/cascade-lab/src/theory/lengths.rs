//! `cascade-lab theory mdp`: when to stop drafting.

use anyhow::Result;
use cascade_reproduce::report::{Axis, Evidence, Figure, Line, Plot, Table};
use cascade_reproduce::theory::CostCoefficient;
use cascade_reproduce::theory::mdp::{
    Costs, Played, Policy, Solution, expected_time, simulate_policy,
};
use clap::Args;
use serde_json::{Value, json};

use super::chains::{ChainsArgs, Named};
use super::findings::{
    Captioned, ChainRow, OutputArgs, Study, compared, figures, largest, record, simulated,
};

#[derive(Debug, Args)]
pub(crate) struct LengthsArgs {
    #[command(flatten)]
    pub(super) chains: ChainsArgs,

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

/// What a policy did on a chain.
pub(super) struct PolicyRun {
    kind: PolicyKind,
    played: Played,
    /// The probabilities of a rejection between which the best policy stops.
    thresholds: Option<(f64, f64)>,
}

#[derive(Clone, Copy, PartialEq)]
enum PolicyKind {
    Length,
    Threshold,
    Best,
    Oracle,
}

impl LengthsArgs {
    fn costs(&self) -> Result<Costs> {
        Ok(Costs::new(CostCoefficient::new(self.cost)?, self.longest)?)
    }

    /// All policies: what they are called, and the time by formula, where there is one.
    fn policies<'s>(
        &self,
        time: impl Fn(usize) -> f64,
        solution: &'s Solution,
    ) -> Vec<(String, PolicyKind, Policy<'s>, Option<f64>)> {
        let plain = (
            "plain decoding".to_owned(),
            PolicyKind::Length,
            Policy::Plain,
            Some(time(0)),
        );
        let lengths = self.lengths.iter().map(|&k| {
            let policy = Policy::Length(k);
            (
                format!("{k} tokens"),
                PolicyKind::Length,
                policy,
                Some(time(k)),
            )
        });
        let thresholds = self.thresholds.iter().map(|&threshold| {
            let policy = Policy::Threshold(threshold);
            (
                format!("h = {threshold}"),
                PolicyKind::Threshold,
                policy,
                None,
            )
        });
        let (best, time) = (Policy::Best(solution), Some(solution.time()));
        let best = ("the best".to_owned(), PolicyKind::Best, best, time);
        let oracle = (
            "oracle".to_owned(),
            PolicyKind::Oracle,
            Policy::Oracle,
            None,
        );
        let fixed = std::iter::once(plain).chain(lengths).chain(thresholds);
        fixed.chain([best, oracle]).collect()
    }
}

impl Study for LengthsArgs {
    type Details = PolicyRun;

    const TITLE: &'static str = "When to stop drafting";

    fn check(&self) -> Result<()> {
        self.costs()?;
        let mut policies = self.thresholds.iter().copied().map(Policy::Threshold);
        Ok(policies.try_for_each(Policy::check)?)
    }

    fn rows(&self, named: &Named, runs: u64) -> Result<Vec<ChainRow<PolicyRun>>> {
        let costs = self.costs()?;
        let solution = Solution::best(&named.chain, costs);
        let time = |length| expected_time(&named.chain, costs, length);
        let row = |(rule, kind, policy, computed)| {
            let played = simulate_policy(&named.chain, costs, policy, runs, named.seed)?;
            let best = kind == PolicyKind::Best;
            Ok(ChainRow {
                chain: named.name.clone(),
                rule,
                computed,
                simulated: Some(played.time),
                details: PolicyRun {
                    kind,
                    played,
                    thresholds: solution.thresholds().filter(|_| best),
                },
            })
        };
        self.policies(time, &solution)
            .into_iter()
            .map(row)
            .collect()
    }

    fn table(&self, described: &str, rows: &[ChainRow<PolicyRun>]) -> Result<Table> {
        let rate = |header: &str, of: fn(&Played) -> f64| {
            let rate = |row: &ChainRow<PolicyRun>| Some(of(&row.details.played));
            figures(header, Evidence::Simulated, rows, rate).decimals(3)
        };
        let title = format!(
            "{}: {described}, a draft forward takes {} of a target forward",
            Self::TITLE,
            self.cost
        );
        let speedup = simulated("Speedup", rows, |row| {
            let (speedup, (low, high)) = row.details.played.speedup();
            Some(Figure::with_interval(speedup, low, high))
        });
        let table = compared(title, Some("Policy"), ("Time", 3), rows)?
            .figures(speedup.decimals(3))?
            .figures(rate("Discard rate", Played::discard_rate))?
            .figures(rate("Verification rate", Played::verification_rate))?;
        Ok(table.note(
            "Time: of a sequence, in forwards of the target. Thresholds know the probability that a drafted token is \
             rejected, as a perfect head would. The best policy is that of dynamic programming; the oracle knows what \
             will be rejected, which no policy can.",
        ))
    }

    /// Discarded tokens against reviews.
    fn plot(&self, named: &Named, rows: &[ChainRow<PolicyRun>]) -> Result<Captioned> {
        let series = |title: &str, kind: PolicyKind| {
            let runs = rows.iter().map(|row| &row.details);
            let points = runs
                .filter(|run| run.kind == kind)
                .map(|PolicyRun { played, .. }| {
                    let rate = Figure::new(played.verification_rate());
                    (played.discard_rate(), rate)
                });
            Line::new(title, Evidence::Simulated, points.collect::<Vec<_>>())
        };
        let lines = vec![
            series("fixed lengths", PolicyKind::Length),
            series("thresholds", PolicyKind::Threshold),
            series("the best", PolicyKind::Best),
            series("oracle", PolicyKind::Oracle),
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

    fn record(row: &ChainRow<PolicyRun>) -> Value {
        let played = &row.details.played;
        let (speedup, (low, high)) = played.speedup();
        json!({
            "chain": row.chain,
            "policy": row.rule,
            "tokens": played.tokens,
            "computed": row.computed.map(|time| json!({ "time": time })),
            "simulated": {
                "time": record(&played.time),
                "discarded": record(&played.discarded),
                "reviews": record(&played.reviews),
                "speedup": speedup,
                "speedup_interval": [low, high],
                "discard_rate": played.discard_rate(),
                "verification_rate": played.verification_rate(),
            },
            "deviation": row.deviation(),
        })
    }

    fn summary(&self, rows: &[ChainRow<PolicyRun>]) -> String {
        let mut known = rows
            .iter()
            .filter_map(|row| Some((row, row.details.thresholds?)));
        let said = known.next().map_or_else(String::new, |(row, (low, high))| {
            format!(
                " On {} the best policy stops from a probability of a rejection on that is between {low:.3} and \
                 {high:.3}, depending on the state.",
                row.chain
            )
        });
        largest(rows) + &said
    }
}
