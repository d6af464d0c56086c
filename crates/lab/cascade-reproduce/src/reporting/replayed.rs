//! Statistical drafters on recorded outputs, by category.

use cascade_report::{Axis, Bars, Figure, Figures, Plot, Table};

use super::data::{Data, INTERVALS};
use super::{notes, Made};
use crate::Result;

pub(super) fn made(data: &Data) -> Result<Made> {
    let mut groups: Vec<Option<String>> = categories(data).into_iter().map(Some).collect();
    groups.push(None);
    let names: Vec<String> = groups
        .iter()
        .map(|group| group.clone().unwrap_or_else(|| "all".to_owned()))
        .collect();
    let sheets: Vec<_> = groups
        .iter()
        .map(|group| data.sheet(|run| group.is_none() || run.category == *group))
        .collect();
    let prompts: Vec<String> = sheets
        .iter()
        .map(|sheet| sheet.prompts().to_string())
        .collect();
    let mut table = Table::new(&data.definition.title)
        .labels("Category", names.clone())?
        .labels("Turns", prompts)?;
    let (mut bars, mut summary) = (Vec::new(), Vec::new());
    for (variant, of) in data.variants.iter().enumerate() {
        let name = &data.definition.rows[of.row].algorithm;
        let right = data.failure(variant).is_none();
        let length = |sheet: &super::data::Sheet<'_>| {
            sheet
                .acceptance_length(variant)
                .figure(data.bootstrap())
                .filter(|_| right)
        };
        let figures: Vec<Option<Figure>> = sheets.iter().map(length).collect();
        if let Some(all) = figures.last().copied().flatten() {
            summary.push(format!("{name} {:.3}", all.value));
        }
        table = table.figures(
            Figures::new(name, data.plan.evidence, figures.clone())
                .decimals(3)
                .unit("tokens per forward")
                .intervals(INTERVALS),
        )?;
        bars.push(Bars::new(name, data.plan.evidence, figures));
    }
    table = table.note(notes::endings(&data.sheet(|_| true)));
    for note in notes::all(data) {
        table = table.note(note.replace("plain decoding's", "the recorded one"));
    }
    let plot = Plot::bars(
        &data.definition.title,
        names,
        Axis::new("tokens per target forward"),
        bars,
    )?;
    Ok(Made {
        summary: format!(
            "Tokens per forward of the target over all turns: {}.",
            summary.join(", ")
        ),
        tables: vec![table],
        plots: vec![(plot, format!("Replayed from {}.", notes::models(data)))],
        best: None,
        overview: None,
    })
}

/// In the order in which they come up.
fn categories(data: &Data) -> Vec<String> {
    let mut categories: Vec<String> = Vec::new();
    for suite in &data.plan.suites {
        for category in suite
            .prompts
            .iter()
            .filter_map(|asked| asked.category.as_ref())
        {
            if !categories.contains(category) {
                categories.push(category.clone());
            }
        }
    }
    categories
}
