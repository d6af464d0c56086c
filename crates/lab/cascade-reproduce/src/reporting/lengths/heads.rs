//! Heads by depth and weight of rejections (SpecDec++, Table 3).

use std::collections::BTreeSet;

use super::super::data::{Data, INTERVALS};
use super::super::notes;
use super::group::Group;
use crate::draft_rule::{Network, TrainedName};
use crate::report::{Evidence, Figure, Figures, Table};
use crate::{HeldOut, PaperHead, Result, trained};

/// `None` for an experiment that names no heads of the paper.
pub(super) fn table(data: &Data, groups: &[Group<'_>]) -> Result<Option<Table>> {
    let heads = &data.definition.heads;
    if heads.is_empty() || data.plan.evidence != Evidence::Measured {
        return Ok(None);
    }
    let table = Table::new(format!("{}: heads", notes::title(data)))
        .labels(
            "w_rej",
            heads.iter().map(|head| head.reject_weight.to_string()),
        )?
        .labels("D", heads.iter().map(|head| head.depth.to_string()))?;
    let mut table = speeds_of_paper(quality(table, data)?, heads)?;
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

/// How well heads predict: the paper's divergences, and ours on held-out outputs.
fn quality(table: Table, data: &Data) -> Result<Table> {
    let heads = &data.definition.heads;
    let paper = |header: &str, of: fn(&PaperHead) -> f64| {
        let figures = heads.iter().map(|head| Figure::new(of(head)));
        Figures::new(header, Evidence::Paper, figures).decimals(3)
    };
    let ours = |header: &str, of: fn(HeldOut) -> f64| {
        let held_out = |head: &PaperHead| trained::held_out(&data.plan.rules, &named(&head.name));
        let figures = heads
            .iter()
            .map(|head| held_out(head).map(|held_out| Figure::new(of(held_out))));
        Figures::new(header, Evidence::Replayed, figures).decimals(3)
    };
    table
        .figures(paper("train/KL", |head| head.train_kl))?
        .figures(paper("eval/KL", |head| head.eval_kl))?
        .figures(ours("held-out loss", |held_out| held_out.loss))?
        .figures(ours("held-out F1", |held_out| held_out.f1))
}

/// The paper's best speed of each head on each dataset, with its threshold.
fn speeds_of_paper(mut table: Table, heads: &[PaperHead]) -> Result<Table> {
    let datasets: BTreeSet<&String> = heads.iter().flat_map(|head| head.best.keys()).collect();
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
    Ok(table)
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
    let speed = |variant: usize| group.speed(&group.reported, variant).figure();
    let speeds: Vec<Option<Figure>> = best.iter().map(|best| best.and_then(speed)).collect();
    let threshold = |variant: usize| {
        let trained = data.variants[variant].setting.trained()?;
        trained.threshold.map(|h| h.to_string())
    };
    let thresholds = best
        .iter()
        .map(|best| best.and_then(threshold).unwrap_or_else(|| "-".to_owned()));
    let column = Figures::new(
        format!("{}, speed × plain", group.dataset),
        Evidence::Modelled,
        speeds,
    );
    table
        .figures(column.intervals(INTERVALS))?
        .labels(format!("{}, h", group.dataset), thresholds)
}

fn of_head(data: &Data, name: &str) -> Vec<usize> {
    let folder = named(name).folder();
    data.variants_that(|variant| {
        let trained = variant.setting.trained();
        trained.is_some_and(|trained| trained.folder() == folder)
    })
}
