//! Acceptance by position in the draft (Figure 2).

use super::data::{Data, INTERVALS, Sheet};
use super::{Made, notes};
use crate::Result;
use crate::report::{Axis, Figure, Figures, Line, Plot, Table};

pub(super) fn made(data: &Data) -> Result<Made> {
    let mut made = Made::default();
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
    let drafting = data.variants_that(|variant| !variant.is_plain());
    let variants = drafting.into_iter().filter(|&v| data.failure(v).is_none());
    let curves: Vec<Curve<'_>> = variants
        .map(|variant| Curve::of(data, sheet, variant))
        .collect();
    let title = format!("{}, {dataset}", notes::title(data));
    let table = table(data, &title, &curves)?.note(notes::endings(sheet));
    made.tables.push(table.notes(notes::all(data)));
    for found in curves.iter().filter_map(Curve::finding) {
        made.summary += &format!("\n{dataset}, {found}");
    }
    let plot = plot(data, title, &curves)?;
    made.plots
        .push((plot, format!("Models of {}.", notes::models(data))));
    Ok(())
}

/// How much of a variant's drafts is accepted at each position that they reach.
struct Curve<'a> {
    name: &'a str,
    accepted: Vec<Figure>,
}

impl<'a> Curve<'a> {
    fn of(data: &'a Data, sheet: &Sheet<'_>, variant: usize) -> Self {
        let accepted = |position: usize| sheet.accepted_at(variant, position).figure();
        Self {
            name: &data.variants[variant].id,
            accepted: (0..).map_while(accepted).collect(),
        }
    }

    /// The shares accepted at the first position and at the tenth, or the last.
    fn finding(&self) -> Option<String> {
        let length = self.accepted.len().min(10);
        let (first, last) = (self.accepted.first()?, self.accepted[..length].last()?);
        Some(format!(
            "{}: {:.0}% at position 1, {:.0}% at position {length}.",
            self.name,
            100.0 * first.value,
            100.0 * last.value
        ))
    }
}

fn table(data: &Data, title: &str, curves: &[Curve<'_>]) -> Result<Table> {
    let lengths = curves.iter().map(|curve| curve.accepted.len());
    let rows = lengths.max().unwrap_or(0);
    let positions = (1..=rows).map(|position| position.to_string());
    let mut table = Table::new(title).labels("Position", positions)?;
    for curve in curves {
        let column = (0..rows).map(|position| curve.accepted.get(position).copied());
        table = table.figures(
            Figures::new(curve.name, data.plan.evidence, column)
                .decimals(3)
                .intervals(INTERVALS),
        )?;
    }
    table = table.note("Of the steps whose draft reached a position, the share in which the target kept the token there, and so all tokens before it.");
    Ok(table.note(
        "The paper prints the figure without numbers: there is nothing to stand beside ours.",
    ))
}

fn plot(data: &Data, title: String, curves: &[Curve<'_>]) -> Result<Plot> {
    let lines = curves.iter().map(|curve| {
        let points = (1_u32..)
            .zip(&curve.accepted)
            .map(|(position, &accepted)| (f64::from(position), accepted));
        Line::new(curve.name, data.plan.evidence, points)
    });
    Plot::lines(
        title,
        Axis::new("position in the draft"),
        Axis::new("share accepted").from_zero(),
        lines.collect(),
    )
}
