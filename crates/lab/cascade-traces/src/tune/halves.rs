//! A trace in two halves: one to search on, one to report on.

use crate::trace::Record;

/// Every second conversation, and the others: the turns of a conversation stay together, and both
/// halves have all categories of a file that is sorted by them. With a single conversation, both
/// are that one.
pub(super) fn halves(records: &[Record]) -> (Vec<&Record>, Vec<&Record>) {
    let mut ids: Vec<&str> = Vec::new();
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for record in records {
        let id = record.id.as_str();
        let known = ids.iter().rposition(|&known| known == id);
        let index = known.unwrap_or(ids.len());
        if known.is_none() {
            ids.push(id);
        }
        match index % 2 {
            0 => first.push(record),
            _ => second.push(record),
        }
    }
    if second.is_empty() {
        second.clone_from(&first);
    }
    (first, second)
}
