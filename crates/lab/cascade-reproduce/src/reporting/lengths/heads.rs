//! Heads by depth and weight of rejections (SpecDec++, Table 3).

use cascade_report::{Evidence, Figure, Figures, Table};

use super::super::data::{Data, INTERVALS};
use super::super::notes;
use super::group::Group;
use crate::draft_rule::{DraftRule, Network, TrainedName};
use crate::trained::PlannedRule;
use crate::{PaperHead, Result};

/// `None` for an experiment that names no heads of the paper.
pub(super) fn table(data: &Data, groups: &[Group<'_>]) -> Result<Option<Table>> {
    let heads = &data.definition.heads;
    if heads.is_empty() || data.plan.evidence != Evidence::Measured {
        return Ok(None);
    }
    let ours = |head: &PaperHead| {
        let folder = named(&head.name).folder();
        data.plan.rules.iter().find(|rule| rule.folder == folder)
    };
    let trained = |of: &dyn Fn(&PlannedRule) -> Option<f64>| -> Vec<Option<Figure>> {
        let values = heads.iter().map(|head| ours(head).and_then(of));
        values.map(|value| value.map(Figure::new)).collect()
    };
    let paper = |of: &dyn Fn(&PaperHead) -> f64| -> Vec<Option<Figure>> {
        heads
            .iter()
            .map(|head| Some(Figure::new(of(head))))
            .collect()
    };
    let loss = trained(&|rule| Some(rule.training.as_ref()?.held_out.loss));
    let f1 = trained(&|rule| Some(rule.training.as_ref()?.held_out.f1));
    let mut table = Table::new(format!("{}: heads", notes::title(data)))
        .labels(
            "w_rej",
            heads.iter().map(|head| head.reject_weight.to_string()),
        )?
        .labels("D", heads.iter().map(|head| head.depth.to_string()))?
        .figures(
            Figures::new("train/KL", Evidence::Paper, paper(&|head| head.train_kl)).decimals(3),
        )?
        .figures(Figures::new("eval/KL", Evidence::Paper, paper(&|head| head.eval_kl)).decimals(3))?
        .figures(Figures::new("held-out loss", Evidence::Replayed, loss).decimals(3))?
        .figures(Figures::new("held-out F1", Evidence::Replayed, f1).decimals(3))?;
    let mut datasets: Vec<&String> = heads.iter().flat_map(|head| head.best.keys()).collect();
    datasets.sort();
    datasets.dedup();
    for dataset in datasets {
        let best = heads.iter().map(|head| head.best.get(dataset));
        let (speeds, thresholds): (Vec<Option<Figure>>, Vec<String>) = best
            .map(|best| match best {
                Some((speed, h)) => (Some(Figure::new(*speed)), h.to_string()),
                None => (None, "-".to_owned()),
            })
            .unzip();
        table = table
            .figures(Figures::new(dataset.as_str(), Evidence::Paper, speeds).unit("tokens/s"))?
            .labels(format!("{dataset}, h of the paper"), thresholds)?;
    }
    for group in groups {
        table = of_group(table, data, group)?;
    }
    table = table.note(
        "The speed of each head is that of its best threshold, chosen on half of the prompts and reported on the others. The \
         held-out loss is the mean cross-entropy on outputs that its training kept back; where the target decodes greedily it is \
         the divergence that the paper reports. Heads that were not there have the paper's figures alone.",
    );
    Ok(Some(table))
}

fn named(name: &str) -> TrainedName {
    TrainedName {
        network: Network::Head,
        name: name.to_owned(),
        threshold: None,
    }
}

/// The best threshold of each head on a dataset, with its speed by counted forwards.
fn of_group(table: Table, data: &Data, group: &Group<'_>) -> Result<Table> {
    let best = |head: &PaperHead| group.best(&of_head(data, &head.name));
    let best: Vec<Option<usize>> = data.definition.heads.iter().map(best).collect();
    let speed = |variant: usize| {
        group
            .speed(&group.reported, variant)
            .figure(data.bootstrap())
    };
    let speeds: Vec<Option<Figure>> = best.iter().map(|best| best.and_then(speed)).collect();
    let threshold = |variant: usize| {
        let rule = data.variants[variant].setting.rule.as_ref();
        rule.and_then(DraftRule::trained)?
            .threshold
            .map(|h| h.to_string())
    };
    let thresholds = best
        .iter()
        .map(|best| best.and_then(threshold).unwrap_or_else(|| "-".to_owned()));
    let column = Figures::new(
        format!("{}, speed × plain", group.dataset),
        Evidence::Modelled,
        speeds,
    );
    Ok(table
        .figures(column.intervals(INTERVALS))?
        .labels(format!("{}, h", group.dataset), thresholds)?)
}

fn of_head(data: &Data, name: &str) -> Vec<usize> {
    let folder = named(name).folder();
    let is = |variant: &usize| {
        let rule = data.variants[*variant].setting.rule.as_ref();
        let trained = rule.and_then(DraftRule::trained);
        trained.is_some_and(|trained| trained.folder() == folder)
    };
    (0..data.variants.len()).filter(is).collect()
}
