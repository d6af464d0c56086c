//! How many tokens an oracle drafts (DISCO, §2 and Table 2).

use super::super::data::{Data, INTERVALS, Sheet};
use super::super::notes;
use super::group::Group;
use crate::record::Run;
use crate::report::{Evidence, Figure, Figures, Table};
use crate::{Metric, PaperFigure, PaperRow, Result, Variant};

/// One dataset, or one category of it.
struct LengthsLine<'a> {
    name: String,
    of_paper: &'a str,
    sheet: Option<Sheet<'a>>,
}

/// `None` without an oracle.
pub(super) fn table(data: &Data, groups: &[Group<'_>]) -> Result<Option<Table>> {
    let Some(oracle) = variant(data) else {
        return Ok(None);
    };
    let row = &data.definition.rows[data.variants[oracle].row];
    let mut parts: Vec<LengthsLine<'_>> = groups.iter().flat_map(parts).collect();
    parts.extend(of_paper_alone(row, groups));
    let steps = parts.iter().map(|part| {
        part.sheet
            .as_ref()
            .map_or("-".to_owned(), |sheet| steps(sheet, oracle).to_string())
    });
    let mut table = Table::new(format!("{}: lengths of the oracle", notes::title(data)))
        .labels("Dataset", parts.iter().map(|part| part.name.clone()))?
        .labels("Steps", steps)?;
    for metric in [Metric::OracleLength, Metric::OracleDeviation] {
        let paper =
            |part: &LengthsLine<'_>| Some(Figure::new(row.figure(part.of_paper, metric)?.value));
        let papers = Figures::new(metric.title(), Evidence::Paper, parts.iter().map(paper));
        table = table
            .figures_if_any(papers.decimals(1))?
            .figures(our_column(data, oracle, &parts, metric))?;
    }
    Ok(Some(table.note(
        "The oracle drafts exactly the tokens that the target keeps, at most 64 in a step, and none beyond the longest answer.",
    )))
}

/// Datasets that the paper has lengths of and that did not run.
fn of_paper_alone<'a>(row: &'a PaperRow, groups: &[Group<'_>]) -> Vec<LengthsLine<'a>> {
    let ran = |dataset: &str| groups.iter().any(|group| group.of_paper() == dataset);
    let alone = row
        .paper
        .iter()
        .filter(|figure| figure.metric == Metric::OracleLength && !ran(&figure.dataset));
    let part = |figure: &'a PaperFigure| LengthsLine {
        name: figure.dataset.clone(),
        of_paper: &figure.dataset,
        sheet: None,
    };
    alone.map(part).collect()
}

fn our_column(data: &Data, oracle: usize, parts: &[LengthsLine<'_>], metric: Metric) -> Figures {
    let right = data.failure(oracle).is_none();
    let ours = parts.iter().map(|part| {
        let sheet = part.sheet.as_ref().filter(|_| right)?;
        if metric == Metric::OracleDeviation {
            let longer = sheet.runs(oracle).map(|run| &run.drafted_at[..]);
            return deviation(longer, steps(sheet, oracle)).map(Figure::new);
        }
        let lengths = sheet.ratio(oracle, |run| run.drafted as f64, |run| run.steps as f64);
        lengths.figure()
    });
    Figures::new(metric.title(), data.plan.evidence, ours).intervals(INTERVALS)
}

/// The variant that knows the answer.
pub(super) fn variant(data: &Data) -> Option<usize> {
    data.variants.iter().position(Variant::is_oracle)
}

/// A dataset, and its categories if it has several.
fn parts<'a>(group: &'a Group<'a>) -> Vec<LengthsLine<'a>> {
    let categories = group.all.runs(0).filter_map(|run| run.category.clone());
    let categories = notes::distinct(categories);
    let mut parts = vec![LengthsLine {
        name: group.dataset.to_owned(),
        of_paper: group.of_paper(),
        sheet: Some(group.all.clone()),
    }];
    if categories.len() > 1 {
        parts.extend(categories.into_iter().map(|category| {
            let own = |run: &Run| run.category.as_ref() == Some(&category);
            LengthsLine {
                name: format!("{}, {category}", group.dataset),
                of_paper: "",
                sheet: Some(group.all.only(own)),
            }
        }));
    }
    parts
}

fn steps(sheet: &Sheet<'_>, variant: usize) -> u64 {
    sheet.runs(variant).map(|run| run.steps).sum()
}

/// Standard deviation of draft lengths over steps, from how many were longer than 0, 1, 2, …
fn deviation<'r>(longer: impl Iterator<Item = &'r [u64]>, steps: u64) -> Option<f64> {
    let (mut sum, mut squares) = (0.0, 0.0);
    for counts in longer {
        for (at, &count) in counts.iter().enumerate() {
            // (n + 1)² − n² = 2n + 1.
            sum += count as f64;
            squares += count as f64 * (2 * at + 1) as f64;
        }
    }
    let mean = sum / steps as f64;
    let variance = squares / steps as f64 - mean * mean;
    (steps > 0).then(|| variance.max(0.0).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviation_is_that_of_the_lengths() {
        // Lengths 3, 0, 1 and 4, 2: mean 2, variance (1 + 4 + 1 + 4 + 0) / 5 = 2.
        let longer: [&[u64]; 2] = [&[2, 1, 1], &[2, 2, 1, 1]];
        let found = deviation(longer.into_iter(), 5).unwrap();
        assert!((found - 2.0f64.sqrt()).abs() < 1e-12, "{found}");
        assert_eq!(deviation(std::iter::empty(), 0), None);
    }
}
