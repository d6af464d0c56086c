//! Acceptance by position in the draft (Figure 2).

use cascade_report::{Axis, Figures, Line, Plot, Table};

use super::data::{Data, Sheet, INTERVALS};
use super::{notes, Made};
use crate::Result;

pub(super) fn made(data: &Data) -> Result<Made> {
    let mut made = Made {
        summary: String::new(),
        tables: Vec::new(),
        plots: Vec::new(),
        best: None,
        overview: None,
    };
    for suite in &data.plan.suites {
        let sheet = data.of_dataset(&suite.dataset);
        if sheet.prompts() > 0 {
            add(&mut made, data, &sheet, &suite.dataset)?;
        }
    }
    made.summary = made.summary.trim_start().to_owned();
    Ok(made)
}

fn add(made: &mut Made, data: &Data, sheet: &Sheet<'_>, dataset: &str) -> Result<()> {
    let variants: Vec<usize> = (0..data.variants.len())
        .filter(|&variant| !data.variants[variant].is_plain() && data.failure(variant).is_none())
        .collect();
    let figure = |variant: usize, position: usize| {
        sheet
            .accepted_at(variant, position)
            .figure(data.bootstrap())
    };
    let longest = |variant: usize| {
        (0..)
            .take_while(|&position| figure(variant, position).is_some())
            .count()
    };
    let lengths: Vec<usize> = variants.iter().map(|&variant| longest(variant)).collect();
    let rows = lengths.iter().copied().max().unwrap_or(0);
    let title = format!("{}, {dataset}", notes::title(data));
    let mut table =
        Table::new(&title).labels("Position", (1..=rows).map(|position| position.to_string()))?;
    let mut lines = Vec::new();
    for (&variant, &length) in variants.iter().zip(&lengths) {
        let name = &data.variants[variant].id;
        let column = (0..rows).map(|position| figure(variant, position));
        table = table.figures(
            Figures::new(name, data.plan.evidence, column.collect::<Vec<_>>())
                .decimals(3)
                .intervals(INTERVALS),
        )?;
        let points = (0..length)
            .filter_map(|position| Some(((position + 1) as f64, figure(variant, position)?)));
        lines.push(Line::new(
            name,
            data.plan.evidence,
            points.collect::<Vec<_>>(),
        ));
        if let (Some(first), Some(last)) = (
            figure(variant, 0),
            figure(variant, length.min(10).saturating_sub(1)),
        ) {
            made.summary += &format!(
                "\n{dataset}, {name}: {:.0}% at position 1, {:.0}% at position {}.",
                100.0 * first.value,
                100.0 * last.value,
                length.min(10)
            );
        }
    }
    table = table.note("Of the steps whose draft reached a position, the share in which the target kept the token there, and so all tokens before it.");
    table = table.note(
        "The paper prints the figure without numbers: there is nothing to stand beside ours.",
    );
    table = table.note(notes::endings(sheet));
    for note in notes::all(data) {
        table = table.note(note);
    }
    made.tables.push(table);
    let plot = Plot::lines(
        title,
        Axis::new("position in the draft"),
        Axis::new("share accepted").from_zero(),
        lines,
    )?;
    made.plots
        .push((plot, format!("Models of {}.", notes::models(data))));
    Ok(())
}
