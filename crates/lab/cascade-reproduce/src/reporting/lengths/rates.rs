//! Discard and verification rates of every variant, where its time goes, and the front of the two
//! (SpecDec++, §5.1, Lemma 3.1, Figure 3).

use super::super::data::{Data, Ratio};
use super::super::notes;
use super::group::Group;
use super::lines::{FigureOf, Lines, Measure};
use crate::Result;
use crate::record::Run;
use crate::regression::Decomposition;
use crate::report::{Axis, Evidence, Figure, Line, Plot, Table};

/// N_discarded / N.
fn discard(group: &Group<'_>, variant: usize) -> Ratio {
    let tokens = |run: &Run| run.tokens as f64;
    group
        .all
        .ratio(variant, |run| run.discarded() as f64, tokens)
}

/// N_target / N.
fn verification(group: &Group<'_>, variant: usize) -> Ratio {
    let tokens = |run: &Run| run.tokens as f64;
    group.all.ratio(variant, |run| run.steps as f64, tokens)
}

fn part(group: &Group<'_>, variant: usize, of: impl Fn(Decomposition) -> f64) -> Option<Figure> {
    let (discarded, verified) = (discard(group, variant), verification(group, variant));
    let scale = group.times.scale();
    let parts = Decomposition::of(
        discarded.value()?,
        verified.value()?,
        group.times.drafter * scale,
        group.times.target * scale,
    );
    Some(Figure::new(of(parts)))
}

/// Rates, and where the time of a token goes.
fn measures(unit: &'static str) -> [Measure; 6] {
    let rate = |header, of| measure(header, "", None, of);
    let time = |header, of| measure(header, unit, Some(Evidence::Modelled), of);
    [
        rate("discard rate", |group, v| discard(group, v).figure()),
        rate("verification rate", |group, v| {
            verification(group, v).figure()
        }),
        time("t_draft", |group, v| part(group, v, |time| time.base)),
        time("discarded", |group, v| {
            part(group, v, |time| time.discarded)
        }),
        time("verified", |group, v| part(group, v, |time| time.verified)),
        time("per token", |group, v| part(group, v, |time| time.total())),
    ]
}

fn measure(
    header: &'static str,
    unit: &'static str,
    evidence: Option<Evidence>,
    of: FigureOf,
) -> Measure {
    Measure {
        header,
        unit,
        decimals: 3,
        evidence,
        of,
    }
}

pub(super) fn table(data: &Data, groups: &[Group<'_>]) -> Result<Table> {
    // Plain decoding drafts nothing: the lemma has no forward of a drafter for each of its tokens.
    let drafting = data.variants_that(|variant| !variant.is_plain());
    let lines = Lines::of_variants(data, groups, &drafting);
    let table = lines.table("rates and times")?;
    let table = lines.labels(table, "Variant", |line| {
        let variant = line
            .variant
            .map(|variant| data.variants[variant].id.clone());
        variant.unwrap_or_default()
    })?;
    let table = lines.ours(table, &measures(groups[0].times.unit()))?;
    Ok(table
        .note(
            "Of all prompts, as nothing is chosen by these. Discard rate: forwards of the drafter whose token was not kept, by \
             token; verification rate: forwards of the target by token.",
        )
        .note(
            "Lemma 3.1: the time of a token is t_draft + t_draft · discard rate + (t_target − t_draft) · verification rate.",
        ))
}

/// A line for each row: its variants that no other of the row beats in both rates.
pub(super) fn plot(data: &Data, group: &Group<'_>) -> Result<(Plot, String)> {
    let mut lines = Vec::new();
    let rows = data.definition.rows.iter();
    for row in rows.filter(|row| !row.drafters.is_empty()) {
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
