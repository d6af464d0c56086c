//! `cascade-lab theory rejections` and `batch`: Theorems 1 and 3.

use std::num::NonZeroUsize;

use anyhow::Result;
use cascade_reproduce::report::{Axis, Evidence, Figure, Line, Plot, Table};
use cascade_reproduce::theory::Estimate;
use cascade_reproduce::theory::rejection::{
    AcceptMore, Player, Rejections, expected_batch_limit, expected_batch_rejections,
    expected_rejections,
};
use clap::Args;
use serde_json::{Value, json};

use super::chains::{ChainsArgs, Named};
use super::findings::{
    Captioned, ChainRow, NORMAL, OutputArgs, Study, compared, figure, figures, record,
};

#[derive(Debug, Args)]
pub(crate) struct RejectionsArgs {
    #[command(flatten)]
    pub(super) chains: ChainsArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Expectations, and the means after the first runs.
type Course = (Rejections, Vec<Estimate>);

impl Study for RejectionsArgs {
    type Details = Course;

    const TITLE: &'static str = "Rejections of speculative sampling";

    fn rows(&self, named: &Named, runs: u64) -> Result<Vec<ChainRow<Course>>> {
        let player = Player::new(&named.chain, AcceptMore::NOTHING_MORE)?;
        let (simulated, course) = player.rejections(runs, named.seed)?;
        let computed = expected_rejections(&named.chain);
        Ok(vec![ChainRow {
            chain: named.name.clone(),
            rule: String::new(),
            computed: Some(computed.expected),
            simulated: Some(simulated),
            details: (computed, course),
        }])
    }

    fn table(&self, described: &str, rows: &[ChainRow<Course>]) -> Result<Table> {
        let title = format!("{}: {described}", Self::TITLE);
        let per_rejection = figures(
            "Tokens per rejection",
            Evidence::Computed,
            rows,
            acceleration,
        );
        Ok(compared(title, None, ("Rejections", 4), rows)?
            .figures(per_rejection)?
            .note("Theorem 1: the sum over the positions of the expected distance of target and drafter. No rule that \
                   leaves the target's distribution unchanged has fewer (Theorem 2)."))
    }

    fn plot(&self, named: &Named, rows: &[ChainRow<Course>]) -> Result<Captioned> {
        let (computed, course) = &rows[0].details;
        let (name, course) = match rows[0].simulated {
            Some(all) if course.is_empty() => ("mean of the runs", vec![all]),
            _ => ("mean of the first runs", course.clone()),
        };
        let points = course
            .iter()
            .map(|so_far| (so_far.runs as f64, figure(so_far)));
        let plot = Plot::lines(
            format!("Rejections, {}", named.name),
            Axis::new("runs"),
            Axis::new("rejections of a sequence"),
            vec![Line::new(name, Evidence::Simulated, points)],
        )?
        .log()?
        .reference("Theorem 1", Evidence::Computed, computed.expected)?;
        Ok((plot, format!("Intervals: {NORMAL}.")))
    }

    fn record(row: &ChainRow<Course>) -> Value {
        json!({
            "chain": row.chain,
            "tokens": row.details.0.tokens,
            "computed": { "rejections": row.computed, "tokens_per_rejection": acceleration(row) },
            "simulated": row.simulated.as_ref().map(record),
            "deviation": row.deviation(),
        })
    }
}

fn acceleration(row: &ChainRow<Course>) -> Option<f64> {
    Some(row.details.0.acceleration()).filter(|ratio| ratio.is_finite())
}

#[derive(Debug, Args)]
pub(crate) struct BatchArgs {
    #[command(flatten)]
    pub(super) chains: ChainsArgs,

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

/// Numbers of drafts; none for the limit, which is not simulated.
type Drafts = Option<NonZeroUsize>;

impl Study for BatchArgs {
    type Details = Drafts;

    const TITLE: &'static str = "Rejections of batch speculative sampling";

    fn rows(&self, named: &Named, runs: u64) -> Result<Vec<ChainRow<Drafts>>> {
        let row = |drafts: Drafts, computed: Rejections, simulated| ChainRow {
            chain: named.name.clone(),
            rule: drafts.map_or("∞".to_owned(), |drafts| drafts.to_string()),
            computed: Some(computed.expected),
            simulated,
            details: drafts,
        };
        let finite = self.drafts.iter().map(|&drafts| {
            let (simulated, _) =
                Player::batch(&named.chain, drafts)?.rejections(runs, named.seed)?;
            let computed = expected_batch_rejections(&named.chain, drafts);
            Ok(row(Some(drafts), computed, Some(simulated)))
        });
        let limit = row(None, expected_batch_limit(&named.chain), None);
        finite.chain([Ok(limit)]).collect()
    }

    fn table(&self, described: &str, rows: &[ChainRow<Drafts>]) -> Result<Table> {
        let title = format!("{}: {described}", Self::TITLE);
        Ok(compared(title, Some("Drafts"), ("Rejections", 4), rows)?
            .note("Theorem 3. More drafts help only where drafting begins, so that rejections do not go to 0: the last \
                   row is what they go to."))
    }

    fn plot(&self, named: &Named, rows: &[ChainRow<Drafts>]) -> Result<Captioned> {
        let line = |name: &str, evidence, of: fn(&ChainRow<Drafts>) -> Option<Figure>| {
            let at = |row: &ChainRow<Drafts>| Some((row.details?.get() as f64, of(row)?));
            let mut points: Vec<_> = rows.iter().filter_map(at).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Line::new(name, evidence, points)
        };
        let lines = vec![
            line("Theorem 3", Evidence::Computed, |row| {
                row.computed.map(Figure::new)
            }),
            line("runs", Evidence::Simulated, ChainRow::simulated),
        ];
        let plot = Plot::lines(
            format!("Rejections with several drafts, {}", named.name),
            Axis::new("drafts"),
            Axis::new("rejections of a sequence"),
            lines,
        )?;
        let limit = rows.last().and_then(|row| row.computed);
        let plot = plot
            .log()?
            .reference("limit", Evidence::Computed, limit.unwrap_or(0.0))?;
        Ok((plot, format!("Intervals: {NORMAL}.")))
    }

    fn record(row: &ChainRow<Drafts>) -> Value {
        json!({
            "chain": row.chain,
            // Absent for the limit.
            "drafts": row.details,
            "computed": { "rejections": row.computed },
            "simulated": row.simulated.as_ref().map(record),
            "deviation": row.deviation(),
        })
    }
}
