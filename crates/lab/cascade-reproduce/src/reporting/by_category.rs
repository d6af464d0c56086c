//! Drafters side by side, by category: tokens per forward, and walltime where the target ran.

use super::data::{Data, INTERVALS, Sheet};
use super::{Made, notes};
use crate::Result;
use crate::record::Run;
use crate::report::{Axis, Bars, Evidence, Figure, Figures, Plot, Table};

/// What drafters are compared by.
struct Measure {
    title: &'static str,
    unit: &'static str,
    of: fn(&Sheet<'_>, usize) -> Option<Figure>,
}

const TOKENS: Measure = Measure {
    title: "tokens per forward of the target",
    unit: "tokens per forward",
    of: |sheet, variant| sheet.acceptance_length(variant).figure(),
};

const WALLTIME: Measure = Measure {
    title: "walltime × plain",
    unit: "× plain decoding",
    of: |sheet, variant| sheet.speedup(variant),
};

pub(super) fn made(data: &Data) -> Result<Made> {
    let mut made = Made::default();
    let measures = match data.plan.evidence {
        Evidence::Measured => vec![TOKENS, WALLTIME],
        _ => vec![TOKENS],
    };
    let mut sentences = Vec::new();
    for measure in &measures {
        sentences.extend(add(&mut made, data, measure)?);
    }
    made.summary = sentences.join("\n");
    Ok(made)
}

/// A table and a plot; a sentence about all prompts.
fn add(made: &mut Made, data: &Data, measure: &Measure) -> Result<Option<String>> {
    let (names, sheets): (Vec<String>, Vec<Sheet<'_>>) = groups(data).into_iter().unzip();
    let prompts = sheets.iter().map(|sheet| sheet.prompts().to_string());
    let title = format!("{}: {}", data.definition.title, measure.title);
    let mut table = Table::new(&title)
        .labels("Category", names.clone())?
        .labels("Turns", prompts)?;
    let (mut bars, mut found) = (Vec::new(), Vec::new());
    for (variant, of) in data.variants.iter().enumerate() {
        let name = &data.definition.rows[of.row].algorithm;
        let right = data.failure(variant).is_none();
        let figure = |sheet: &Sheet<'_>| (measure.of)(sheet, variant).filter(|_| right);
        let figures: Vec<Option<Figure>> = sheets.iter().map(figure).collect();
        if let Some(all) = figures.last().copied().flatten() {
            found.push(format!("{name} {:.3}", all.value));
        }
        let column = Figures::new(name, data.plan.evidence, figures.clone());
        table = table.figures(column.decimals(3).unit(measure.unit).intervals(INTERVALS))?;
        bars.push(Bars::new(name, data.plan.evidence, figures));
    }
    made.tables.push(table.notes(all_notes(data)));
    let plot = Plot::bars(&title, names, Axis::new(measure.unit), bars)?;
    made.plots.push((plot, caption(data)));
    let found = found.join(", ");
    let sentence = || format!("{}, all prompts: {found}.", capital(measure.title));
    Ok((!found.is_empty()).then(sentence))
}

/// The prompts of each category, and all.
fn groups(data: &Data) -> Vec<(String, Sheet<'_>)> {
    let of = |category: String| {
        let is = |run: &Run| *run.category.as_ref().unwrap_or(&run.dataset) == category;
        let sheet = data.sheet(is);
        (category, sheet)
    };
    let all = ("all".to_owned(), data.sheet(|_| true));
    categories(data).into_iter().map(of).chain([all]).collect()
}

fn all_notes(data: &Data) -> Vec<String> {
    let mut said = vec![notes::endings(&data.sheet(|_| true))];
    said.extend(left_out(data));
    said.extend(notes::all(data));
    said
}

fn caption(data: &Data) -> String {
    let how = match data.plan.evidence {
        Evidence::Replayed => "Replayed from",
        _ => "Measured with",
    };
    format!("{how} {}.", notes::models(data))
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

/// Rows that are left out since the models lack a drafter.
fn left_out(data: &Data) -> Option<String> {
    let lacking: Vec<String> = data
        .definition
        .rows
        .iter()
        .filter_map(|row| {
            let lacks = data.plan.lacks(&row.drafters)?;
            Some(format!("{} ({})", row.algorithm, lacks.name()))
        })
        .collect();
    (!lacking.is_empty()).then(|| {
        format!(
            "Left out, since these models have not the drafter in brackets: {}.",
            lacking.join(", ")
        )
    })
}

/// In the order in which they come up; a dataset without categories is one.
fn categories(data: &Data) -> Vec<String> {
    let all = data.plan.suites.iter().flat_map(|suite| {
        let prompts = suite.prompts.iter();
        prompts.map(|asked| asked.category.as_ref().unwrap_or(&suite.dataset))
    });
    notes::distinct(all.cloned())
}
