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
    let arms: Vec<usize> = (0..data.arms.len())
        .filter(|&arm| !data.arms[arm].is_plain() && data.failure(arm).is_none())
        .collect();
    let figure =
        |arm: usize, position: usize| sheet.accepted_at(arm, position).figure(data.bootstrap());
    let longest = |arm: usize| {
        (0..)
            .take_while(|&position| figure(arm, position).is_some())
            .count()
    };
    let lengths: Vec<usize> = arms.iter().map(|&arm| longest(arm)).collect();
    let rows = lengths.iter().copied().max().unwrap_or(0);
    let title = format!("{}, {dataset}", notes::title(data));
    let mut table =
        Table::new(&title).labels("Position", (1..=rows).map(|position| position.to_string()))?;
    let mut lines = Vec::new();
    for (&arm, &length) in arms.iter().zip(&lengths) {
        let name = &data.arms[arm].id;
        let column = (0..rows).map(|position| figure(arm, position));
        table = table.figures(
            Figures::new(name, data.plan.evidence, column.collect::<Vec<_>>())
                .decimals(3)
                .intervals(INTERVALS),
        )?;
        let points = (0..length)
            .filter_map(|position| Some(((position + 1) as f64, figure(arm, position)?)));
        lines.push(Line::new(
            name,
            data.plan.evidence,
            points.collect::<Vec<_>>(),
        ));
        if let (Some(first), Some(last)) = (
            figure(arm, 0),
            figure(arm, length.min(10).saturating_sub(1)),
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
