//! F1 of the decisions to go on (DISCO, Table 4).

use super::super::data::Data;
use super::group::Group;
use super::lines::{FigureOf, Line, Lines, Measure};
use crate::record::Run;
use crate::report::{Evidence, Figure, Figures, Table};
use crate::{Metric, PaperRow, Result, trained};

/// Decisions of a run: after each drafted token but the last of a draft, to go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Decisions {
    /// Tokens after which more was drafted, and that were kept.
    right: u64,
    /// Tokens after which more was drafted.
    went_on: u64,
    /// Tokens that were kept.
    kept: u64,
}

impl Decisions {
    fn of(run: &Run) -> Self {
        let drafts = run.drafted_at.first().copied().unwrap_or(0);
        Self {
            // Of a draft that is kept as a whole, the last token is not gone on after.
            right: run.accepted.saturating_sub(run.whole.unwrap_or(0)),
            went_on: run.drafted.saturating_sub(drafts),
            kept: run.accepted,
        }
    }
}

/// Precision, recall and F1 of a rule's decisions: F1 = 2 · right / (went on + kept).
const SHARES: [Measure; 3] = [
    share("precision", |group, variant| {
        percent(group, variant, |d| d.right, |d| d.went_on)
    }),
    share("recall", |group, variant| {
        percent(group, variant, |d| d.right, |d| d.kept)
    }),
    share("F1", |group, variant| {
        percent(group, variant, |d| 2 * d.right, |d| d.went_on + d.kept)
    }),
];

const fn share(header: &'static str, of: FigureOf) -> Measure {
    Measure {
        header,
        unit: "%",
        decimals: 1,
        evidence: None,
        of,
    }
}

type Count = fn(Decisions) -> u64;

fn percent(group: &Group<'_>, variant: usize, right: Count, all: Count) -> Option<Figure> {
    let count = |count: Count| move |run: &Run| count(Decisions::of(run)) as f64;
    let share = group.reported.ratio(variant, count(right), count(all));
    Some(share.figure()?.map(|share| 100.0 * share))
}

pub(super) fn table(data: &Data, groups: &[Group<'_>]) -> Result<Table> {
    let drafts = |row: &PaperRow| !row.drafters.is_empty();
    let lines = Lines::best(data, groups, &[Metric::F1], drafts);
    let mut table = lines.table("decisions to go on")?;
    table = lines.labels(table, "Setting", Line::setting)?;
    table = lines.paper(table, Metric::F1, "F1", ("%", 0))?;
    table = lines.ours(table, &SHARES)?;
    let trained = lines.lines.iter().map(|line| held_out(data, line));
    let column = Figures::new("F1 of its training", Evidence::Replayed, trained);
    table = table.figures_if_any(column.unit("%").decimals(1))?;
    Ok(table
        .note(
            "Of the drafted tokens: a rule goes on after those that it takes to be accepted, and right are those that the target \
             keeps. The last token of a draft is one after which the rule stopped.",
        )
        .note(
            "F1 of its training is of predictions above ½ on outputs that the training kept back, each token after the target's \
             own; the paper's is of such predictions.",
        ))
}

fn held_out(data: &Data, line: &Line<'_>) -> Option<Figure> {
    let name = data.variants[line.variant?].setting.trained()?;
    let held_out = trained::held_out(&data.plan.rules, name)?;
    Some(Figure::new(100.0 * held_out.f1))
}
