//! F1 of the decisions to go on (DISCO, Table 4).

use crate::report::{Evidence, Figure, Figures, Table};

use super::super::data::Data;
use super::super::notes;
use super::group::Group;
use super::lines::{begin, lines, our_column, paper_column, scaled, Line};
use crate::draft_rule::DraftRule;
use crate::record::Run;
use crate::{trained, Metric, Result, Row};

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

pub(super) fn table(data: &Data, groups: &[Group<'_>]) -> Result<Table> {
    let drafts = |row: &Row| !row.drafters.is_empty();
    let lines = lines(data, groups, &[Metric::F1], drafts);
    let mut table = begin(
        format!("{}: decisions to go on", notes::title(data)),
        &lines,
    )?
    .labels("Setting", lines.iter().map(Line::setting))?;
    if let Some(paper) = paper_column(&lines, Metric::F1, "F1") {
        table = table.figures(paper.unit("%").decimals(0))?;
    }
    table = shares(table, data, &lines)?;
    let trained: Vec<Option<Figure>> = lines.iter().map(|line| held_out(data, line)).collect();
    if trained.iter().any(Option::is_some) {
        let column = Figures::new("F1 of its training", Evidence::Replayed, trained);
        table = table.figures(column.unit("%").decimals(1))?;
    }
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

/// Precision, recall and F1 of a rule's decisions.
fn shares(table: Table, data: &Data, lines: &[Line<'_>]) -> Result<Table> {
    type Count = fn(Decisions) -> u64;
    let share = |header: &str, right: Count, all: Count| {
        our_column(lines, header, data.plan.evidence, |group, variant| {
            let share = group.reported.ratio(
                variant,
                |run| right(Decisions::of(run)) as f64,
                |run| all(Decisions::of(run)) as f64,
            );
            Some(scaled(share.figure(data.bootstrap())?, 100.0))
        })
        .unit("%")
        .decimals(1)
    };
    // F1 = 2 · right / (went on + kept).
    Ok(table
        .figures(share("precision", |d| d.right, |d| d.went_on))?
        .figures(share("recall", |d| d.right, |d| d.kept))?
        .figures(share("F1", |d| 2 * d.right, |d| d.went_on + d.kept))?)
}

fn held_out(data: &Data, line: &Line<'_>) -> Option<Figure> {
    let rule = data.variants[line.variant?].setting.rule.as_ref();
    let name = rule.and_then(DraftRule::trained)?;
    let held_out = trained::held_out(&data.plan.rules, name)?;
    Some(Figure::new(100.0 * held_out.f1))
}
