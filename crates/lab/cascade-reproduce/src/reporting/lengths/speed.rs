//! Speed of the best of each row (SpecDec++, Tables 1 and 4; DISCO, Table 1).

use super::super::data::Data;
use super::super::notes;
use super::group::Group;
use super::lines::{FigureOf, Line, Lines, Measure};
use crate::draft_rule::{DraftRule, Network, TrainedName};
use crate::report::{Evidence, Table};
use crate::{Metric, Result};

/// What was measured.
fn measured(metric: Metric) -> Measure {
    let (unit, decimals, of): (_, _, FigureOf) = match metric {
        Metric::Walltime => ("tokens/s", 2, |group, variant| {
            group.reported.tokens_per_second(variant)
        }),
        Metric::Latency => ("ms per token", 3, |group, variant| {
            let seconds = group.reported.latency(variant).figure()?;
            Some(seconds.map(|seconds| 1e3 * seconds))
        }),
        _ => ("", 2, |group, variant| group.reported.speedup(variant)),
    };
    Measure {
        header: metric.title(),
        unit,
        decimals,
        evidence: None,
        of,
    }
}

/// By counted forwards and their times, which leaves the noise of the machine out.
const MODELLED: [Measure; 3] = [
    counted("speed × plain", 2, Some(Evidence::Modelled), |group, v| {
        group.speed(&group.reported, v).figure()
    }),
    counted("× best static", 3, Some(Evidence::Modelled), |group, v| {
        let best = group.speed(&group.reported, group.best_static()?);
        group.speed(&group.reported, v).over(&best)
    }),
    counted("tokens per target forward", 2, None, |group, v| {
        group.reported.acceptance_length(v).figure()
    }),
];

const fn counted(
    header: &'static str,
    decimals: usize,
    evidence: Option<Evidence>,
    of: FigureOf,
) -> Measure {
    Measure {
        header,
        unit: "",
        decimals,
        evidence,
        of,
    }
}

pub(super) fn table(data: &Data, groups: &[Group<'_>]) -> Result<Table> {
    let metrics = &data.definition.metrics;
    let lines = Lines::best(data, groups, metrics, |_| true);
    let mut table = lines.table("speed")?;
    table = lines.labels(table, "Setting", Line::setting)?;
    table = lines.labels(table, "Chosen", |line| line.chosen.clone())?;
    for &metric in metrics {
        let measure = measured(metric);
        table = lines.paper(table, metric, measure.header, (measure.unit, 2))?;
        if data.plan.evidence == Evidence::Measured {
            table = lines.ours(table, &[measure])?;
        }
    }
    let table = lines.ours(table, &MODELLED)?;
    Ok(table.notes(all_notes(data, groups)))
}

fn all_notes(data: &Data, groups: &[Group<'_>]) -> Vec<String> {
    let mut said: Vec<String> = groups.iter().map(Group::note).collect();
    let others = groups.iter().map(|group| (group.dataset, group.of_paper()));
    let others = others.filter(|(own, paper)| own != paper);
    said.extend(
        others.map(|(own, paper)| format!("Beside {own} stand the paper's figures of {paper}.")),
    );
    said.extend(data.definition.notes.iter().cloned());
    said.push(
        "Speed is modelled as T = t_target · N_target + t_draft · N_draft with counted forwards; each rule begins anew with \
         each prompt."
            .to_owned(),
    );
    said.extend(costs(data));
    said.extend(absent(data));
    said.extend(of_others(data));
    said.extend(
        groups
            .iter()
            .map(|group| format!("{}: {}", group.dataset, notes::endings(&group.all))),
    );
    said.extend(notes::all(data));
    said
}

/// What rules were told that forwards cost.
fn costs(data: &Data) -> Option<String> {
    let costs = data.definition.assumed?;
    let rules = data
        .variants
        .iter()
        .filter_map(|variant| variant.setting.rule.as_ref());
    let weighing: Vec<String> = rules
        .filter(|rule| rule.weighs_times())
        .map(DraftRule::to_string)
        .collect();
    (!weighing.is_empty()).then(|| {
        format!(
            "What weighs costs ({}) decides by assumed ones, so that results do not depend on the machine: a forward of the \
             drafter takes {}, and a further row {}, of a forward of the target.",
            weighing.join(", "),
            costs.drafter.unwrap_or(0.0),
            costs.row
        )
    })
}

/// Trained rules that were not there, with the commands that make them.
fn absent(data: &Data) -> Option<String> {
    let has = |name: &TrainedName| crate::trained::find(&data.plan.rules, name).is_some();
    let names = data.definition.trained();
    let missing: Vec<&TrainedName> = names.iter().filter(|name| !has(name)).collect();
    let folders: Vec<String> = missing.iter().map(|name| name.folder()).collect();
    let first = missing.first()?;
    let more = match first.network {
        Network::Head => " --depth D --reject-weight W",
        Network::Classifier => "",
    };
    Some(format!(
        "Absent, as no --rules FOLDER has them: {}. `cascade-lab train {} --trace TRACE --drafter MODEL --cost RATIO{more} --out \
         FOLDER/{}` makes the first of these.",
        folders.join(", "),
        first.network.word(),
        first.folder()
    ))
}

/// Rules that were trained for another drafter than the one that drafts.
fn of_others(data: &Data) -> Option<String> {
    let neural = |place: &str| crate::Role::NEURAL.iter().any(|role| role.name() == place);
    let models = data.plan.models.iter();
    let own: Vec<&str> = models
        .filter(|model| neural(&model.place))
        .map(|model| model.weights.source.as_str())
        .collect();
    let rules: Vec<String> = data
        .plan
        .rules
        .iter()
        .filter_map(|rule| {
            let drafter = &rule.training.as_ref()?.drafter;
            let other = !own.contains(&drafter.as_str());
            other.then(|| format!("{} for {drafter}", rule.folder))
        })
        .collect();
    (!rules.is_empty()).then(|| {
        format!(
            "Trained for another drafter than {}, so that their drafts may be too short or too long: {}.",
            own.join(", "),
            rules.join(", ")
        )
    })
}

/// The best of each row, and the gain of the one that is looked at.
pub(super) fn summary(data: &Data, groups: &[Group<'_>]) -> String {
    let all: Vec<String> = groups.iter().map(|group| of_group(data, group)).collect();
    all.join("\n")
}

fn of_group(data: &Data, group: &Group<'_>) -> String {
    let speed = |variant: usize| group.speed(&group.reported, variant);
    let rows: Vec<String> = data
        .definition
        .rows
        .iter()
        .filter_map(|row| {
            let best = group.best_of(row)?;
            Some(format!("{} {:.2}", row.algorithm, speed(best).value()?))
        })
        .collect();
    let mut said = format!(
        "{}, speed × plain by counted forwards: {}.",
        group.dataset,
        rows.join(", ")
    );
    let pair = group.subject().zip(group.best_static());
    if let Some((subject, fixed)) = pair {
        let (subject_id, fixed_id) = (&data.variants[subject].id, &data.variants[fixed].id);
        let gain = speed(subject).over(&speed(fixed));
        match gain.and_then(|gain| gain.interval.map(|interval| (gain.value, interval))) {
            Some((value, interval)) if group.is_enough() => {
                let verdict = notes::verdict(interval);
                said += &format!(
                    " {subject_id} {verdict} the best fixed length ({fixed_id}): {value:.3}, 95 % interval {:.3} to {:.3}.",
                    interval.low, interval.high
                );
            }
            _ => {
                said += &format!(
                    " No verdict on {subject_id} from {} prompts.",
                    group.reported.prompts()
                );
            }
        }
    }
    said
}
