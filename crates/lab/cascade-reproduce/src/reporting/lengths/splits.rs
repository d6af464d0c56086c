//! Samples by what they were for (DISCO, Table 3).

use super::super::data::Data;
use super::super::notes;
use super::group::Group;
use crate::report::Table;
use crate::{PaperSplit, PlannedRule, Result};

/// `None` where the paper reports no samples.
pub(super) fn table(data: &Data, groups: &[Group<'_>]) -> Result<Option<Table>> {
    let splits = &data.definition.splits;
    if splits.is_empty() {
        return Ok(None);
    }
    let rows: Vec<[String; 4]> = splits
        .iter()
        .map(of_paper)
        .chain(data.plan.rules.iter().map(of_training))
        .chain(groups.iter().map(of_group))
        .collect();
    let headers = ["Samples", "Train", "Validation", "Test"];
    let mut table = Table::new(format!("{}: samples", notes::title(data)));
    for (at, header) in headers.into_iter().enumerate() {
        table = table.labels(header, rows.iter().map(|row| row[at].clone()))?;
    }
    Ok(Some(table.note(
        "Validation samples choose settings, test samples are reported on. What was trained on is up to whoever trains: take \
         other prompts than those here.",
    )))
}

/// `-` where there is none.
fn number(number: Option<impl ToString>) -> String {
    number.map_or("-".to_owned(), |number| number.to_string())
}

fn of_paper(split: &PaperSplit) -> [String; 4] {
    [
        format!("{}, the paper's", split.dataset),
        number(split.training),
        number(split.validation),
        split.test.to_string(),
    ]
}

fn of_training(rule: &PlannedRule) -> [String; 4] {
    let outputs = rule.training.as_ref().map(|training| training.outputs);
    [
        format!("{}, its training", rule.folder),
        number(outputs.map(|outputs| outputs.training)),
        number(outputs.map(|outputs| outputs.choice)),
        number(outputs.map(|outputs| outputs.held_out)),
    ]
}

fn of_group(group: &Group<'_>) -> [String; 4] {
    let reported = group.reported.prompts();
    [
        format!("{}, here", group.dataset),
        "-".to_owned(),
        (group.all.prompts() - reported).to_string(),
        reported.to_string(),
    ]
}
