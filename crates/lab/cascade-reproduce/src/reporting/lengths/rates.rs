//! Discard and verification rates of every variant, where its time goes, and the front of the two
//! (SpecDec++, §5.1, Lemma 3.1, Figure 3).

use crate::report::{Axis, Evidence, Figure, Figures, Line, Plot, Table};

use super::super::data::{Data, Ratio, INTERVALS};
use super::super::notes;
use super::group::Group;
use crate::regression::Decomposition;
use crate::Result;

/// N_discarded / N.
fn discard(group: &Group<'_>, variant: usize) -> Ratio {
    let tokens = |run: &crate::Run| run.tokens as f64;
    group
        .all
        .ratio(variant, |run| run.discarded() as f64, tokens)
}

/// N_target / N.
fn verification(group: &Group<'_>, variant: usize) -> Ratio {
    let tokens = |run: &crate::Run| run.tokens as f64;
    group.all.ratio(variant, |run| run.steps as f64, tokens)
}

fn decomposition(group: &Group<'_>, variant: usize) -> Option<Decomposition> {
    let (discarded, verified) = (discard(group, variant), verification(group, variant));
    let scale = group.times.scale();
    Some(Decomposition::of(
        discarded.value()?,
        verified.value()?,
        group.times.drafter * scale,
        group.times.target * scale,
    ))
}

/// A variant that drafts, on a dataset.
type Drafting<'a> = (&'a Group<'a>, usize);

pub(super) fn table(data: &Data, groups: &[Group<'_>]) -> Result<Table> {
    // Plain decoding drafts nothing: the lemma has no forward of a drafter for each of its tokens.
    let drafting = |variant: &usize| !data.variants[*variant].is_plain();
    let variants = || (0..data.variants.len()).filter(drafting);
    let lines: Vec<Drafting<'_>> = groups
        .iter()
        .flat_map(|group| variants().map(move |variant| (group, variant)))
        .collect();
    let variants = || lines.iter().map(|&(_, variant)| &data.variants[variant]);
    let rows = variants().map(|variant| &data.definition.rows[variant.row]);
    let table = Table::new(format!("{}: rates and times", notes::title(data)))
        .labels("Dataset", lines.iter().map(|(group, _)| group.dataset))?
        .labels("Algorithm", rows.map(|row| row.algorithm.clone()))?
        .labels("Variant", variants().map(|variant| variant.id.clone()))?
        .figures(rate_column(data, &lines, "discard rate", discard))?
        .figures(rate_column(data, &lines, "verification rate", verification))?;
    let table = time_columns(table, &lines, groups[0].times.unit())?;
    Ok(table
        .note(
            "Of all prompts, as nothing is chosen by these. Discard rate: forwards of the drafter whose token was not kept, by \
             token; verification rate: forwards of the target by token.",
        )
        .note(
            "Lemma 3.1: the time of a token is t_draft + t_draft · discard rate + (t_target − t_draft) · verification rate.",
        ))
}

fn rate_column(
    data: &Data,
    lines: &[Drafting<'_>],
    header: &str,
    of: fn(&Group<'_>, usize) -> Ratio,
) -> Figures {
    let bootstrap = data.bootstrap();
    let figures = figures(lines, |group, variant| of(group, variant).figure(bootstrap));
    Figures::new(header, data.plan.evidence, figures)
        .decimals(3)
        .intervals(INTERVALS)
}

/// Where the time of a token goes.
fn time_columns(table: Table, lines: &[Drafting<'_>], unit: &str) -> Result<Table> {
    let part = |header: &str, of: fn(Decomposition) -> f64| {
        let figures = figures(lines, |group, variant| {
            Some(Figure::new(of(decomposition(group, variant)?)))
        });
        Figures::new(header, Evidence::Modelled, figures)
            .decimals(3)
            .unit(unit)
    };
    Ok(table
        .figures(part("t_draft", |time| time.base))?
        .figures(part("discarded", |time| time.discarded))?
        .figures(part("verified", |time| time.verified))?
        .figures(part("per token", |time| time.total()))?)
}

/// None for variants whose output is wrong.
fn figures(
    lines: &[Drafting<'_>],
    of: impl Fn(&Group<'_>, usize) -> Option<Figure>,
) -> Vec<Option<Figure>> {
    let right = |&(group, variant): &Drafting<'_>| group.data.failure(variant).is_none();
    let figure = |line: &Drafting<'_>| of(line.0, line.1).filter(|_| right(line));
    lines.iter().map(figure).collect()
}

/// Of each row, the variants that no other of the row beats in both rates.
pub(super) fn plot(data: &Data, group: &Group<'_>) -> Result<(Plot, String)> {
    let mut lines = Vec::new();
    for row in data
        .definition
        .rows
        .iter()
        .filter(|row| !row.drafters.is_empty())
    {
        let variants = group.variants_of(row).into_iter();
        let points = variants.filter_map(|variant| {
            let right = data.failure(variant).is_none();
            let point = (
                verification(group, variant).value()?,
                discard(group, variant).value()?,
            );
            right.then_some(point)
        });
        let front = front(points.collect());
        if !front.is_empty() {
            let points = front.into_iter().map(|(x, y)| (x, Figure::new(y)));
            lines.push(Line::new(&row.algorithm, data.plan.evidence, points));
        }
    }
    let title = format!(
        "{}, {}: discarded against verified",
        notes::title(data),
        group.dataset
    );
    let plot = Plot::lines(
        title,
        Axis::new("verification rate, N_target / N"),
        Axis::new("discard rate, N_discarded / N").from_zero(),
        lines,
    )?;
    let caption = "Nearer to the lower left is better whatever forwards cost. Of each row those variants are shown that no other \
                   of it beats in both.";
    Ok((plot, caption.to_owned()))
}

/// The points that no other is at least as small as in both coordinates, by the first.
fn front(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut front: Vec<(f64, f64)> = Vec::new();
    for point in points {
        if front.last().is_none_or(|last| point.1 < last.1) {
            front.push(point);
        }
    }
    front
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_has_what_nothing_beats() {
        let points = vec![
            (0.5, 0.2),
            (0.3, 0.9),
            (0.4, 0.4),
            (0.45, 0.5),
            (0.3, 1.0),
            (0.6, 0.2),
        ];
        assert_eq!(front(points), [(0.3, 0.9), (0.4, 0.4), (0.5, 0.2)]);
        assert!(front(Vec::new()).is_empty());
    }
}
