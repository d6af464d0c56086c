//! Lengths of drafts: rules compared with fixed numbers, by what they discard, how often the target
//! verifies, and time.

mod accuracy;
mod gain;
mod group;
mod heads;
mod lines;
mod oracle;
mod oracle_plots;
mod rates;
mod regression;
mod speed;
mod splits;

use self::group::Group;
use super::Made;
use super::data::Data;
use crate::Result;

pub(super) fn made(data: &Data) -> Result<Made> {
    let suites = data.plan.suites.iter();
    let groups: Vec<Group<'_>> = suites
        .filter_map(|suite| Group::new(data, &suite.dataset))
        .collect();
    let mut made = Made {
        summary: "No prompt has been answered by all variants yet.".to_owned(),
        ..Made::default()
    };
    if groups.is_empty() {
        return Ok(made);
    }
    made.summary = speed::summary(data, &groups);
    made.best = groups[0].subject();
    made.tables.push(speed::table(data, &groups)?);
    made.tables.extend(gain::table(data, &groups)?);
    made.tables.push(rates::table(data, &groups)?);
    made.tables.extend(regression::table(data, &groups)?);
    made.tables.extend(heads::table(data, &groups)?);
    made.tables.extend(oracle::table(data, &groups)?);
    made.tables.push(accuracy::table(data, &groups)?);
    made.tables.extend(splits::table(data, &groups)?);
    for group in &groups {
        made.plots.push(rates::plot(data, group)?);
        made.plots.extend(oracle_plots::plots(data, group)?);
    }
    Ok(made)
}
