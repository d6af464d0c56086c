//! Samples by what they were for (DISCO, Table 3).

use cascade_report::Table;

use super::super::data::Data;
use super::super::notes;
use super::group::Group;
use crate::Result;

/// `None` for an experiment whose paper reports none.
pub(super) fn table(data: &Data, groups: &[Group<'_>]) -> Result<Option<Table>> {
    let splits = &data.definition.splits;
    if splits.is_empty() {
        return Ok(None);
    }
    let number = |number: Option<usize>| number.map_or("-".to_owned(), |number| number.to_string());
    let mut rows: Vec<[String; 4]> = Vec::new();
    for split in splits {
        rows.push([
            format!("{}, the paper's", split.dataset),
            number(split.training),
            number(split.validation),
            split.test.to_string(),
        ]);
    }
    for rule in &data.plan.rules {
        let outputs = rule.training.as_ref().map(|training| training.outputs);
        let part =
            |of: fn(crate::TrainingOutputs) -> u64| number(outputs.map(|all| of(all) as usize));
        rows.push([
            format!("{}, its training", rule.folder),
            part(|all| all.training),
            part(|all| all.choice),
            part(|all| all.held_out),
        ]);
    }
    for group in groups {
        let reported = group.reported.prompts();
        rows.push([
            format!("{}, here", group.dataset),
            "-".to_owned(),
            (group.all.prompts() - reported).to_string(),
            reported.to_string(),
        ]);
    }
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
