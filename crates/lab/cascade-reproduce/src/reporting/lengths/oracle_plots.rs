//! The lengths of the oracle over an answer, and how often each is (DISCO, Figures 3 to 6).

use super::super::data::Data;
use super::super::notes;
use super::group::Group;
use super::oracle;
use crate::Result;
use crate::record::Run;
use crate::report::{Axis, Bars, Figure, Line, Plot};

/// Parts of an answer. The paper has 10,000, of more prompts.
const PARTS: usize = 10;
/// Lengths of their own in the histogram; longer ones are together.
const LENGTHS: u32 = 20;

/// None without an oracle, and none of records that have no lengths.
pub(super) fn plots(data: &Data, group: &Group<'_>) -> Result<Vec<(Plot, String)>> {
    let right = |oracle: &usize| data.failure(*oracle).is_none();
    let Some(oracle) = oracle::variant(data).filter(right) else {
        return Ok(Vec::new());
    };
    if group.all.runs(oracle).all(|run| run.lengths.is_empty()) {
        return Ok(Vec::new());
    }
    let mut plots = vec![
        by_part(data, group, oracle)?,
        histogram(data, group, oracle)?,
    ];
    plots.extend(example(data, group, oracle)?);
    Ok(plots)
}

fn title(data: &Data, group: &Group<'_>, what: &str) -> String {
    format!("{}, {}: {what}", notes::title(data), group.dataset)
}

/// The part of an answer of `steps` steps that a step is in.
fn part(step: usize, steps: usize) -> usize {
    match steps {
        0 | 1 => 0,
        // Of the normalized index, step / (steps - 1), the last belongs to the last part.
        steps => (step * PARTS / (steps - 1)).min(PARTS - 1),
    }
}

/// The lengths of a run's steps in one part of the answer.
fn in_part(run: &Run, wanted: usize) -> impl Iterator<Item = u32> + '_ {
    let lengths = run.lengths.iter().enumerate();
    let own = lengths.filter(move |&(step, _)| part(step, run.lengths.len()) == wanted);
    own.map(|(_, &length)| length)
}

fn by_part(data: &Data, group: &Group<'_>, oracle: usize) -> Result<(Plot, String)> {
    let mean = |wanted: usize| {
        let sum = move |run: &Run| in_part(run, wanted).map(f64::from).sum::<f64>();
        let count = move |run: &Run| in_part(run, wanted).count() as f64;
        group.all.ratio(oracle, sum, count).figure()
    };
    let means: Vec<Option<Figure>> = (0..PARTS).map(mean).collect();
    let names = (0..PARTS).map(|at| format!("{:.1}", at as f64 / PARTS as f64));
    let plot = Plot::bars(
        title(data, group, "oracle by iteration"),
        names,
        Axis::new("mean length of the oracle's drafts"),
        vec![Bars::new("oracle", data.plan.evidence, means)],
    )?;
    let caption = "By the iteration's place in its answer, from 0 for the first to 1 for the last, in tenths (DISCO, Figures 4 and 6).";
    Ok((plot, caption.to_owned()))
}

fn histogram(data: &Data, group: &Group<'_>, oracle: usize) -> Result<(Plot, String)> {
    let all = group.all.runs(oracle).flat_map(|run| &run.lengths);
    let longest = all.copied().max().unwrap_or_default().min(LENGTHS);
    let share = |wanted: u32| {
        let is = move |length: &&u32| (**length).min(LENGTHS) == wanted;
        let count = move |run: &Run| run.lengths.iter().filter(is).count() as f64;
        let all = |run: &Run| run.lengths.len() as f64;
        group.all.ratio(oracle, count, all).figure()
    };
    let shares: Vec<Option<Figure>> = (0..=longest).map(share).collect();
    let names = (0..=longest).map(|length| match length {
        LENGTHS => format!("{LENGTHS}+"),
        length => length.to_string(),
    });
    let plot = Plot::bars(
        title(data, group, "oracle lengths"),
        names,
        Axis::new("share of the iterations"),
        vec![Bars::new("oracle", data.plan.evidence, shares)],
    )?;
    let caption = "How many tokens the oracle drafts in an iteration (DISCO, Figure 5).";
    Ok((plot, caption.to_owned()))
}

/// The answer of most iterations, drafted by the oracle and by the best fixed length.
fn example(data: &Data, group: &Group<'_>, oracle: usize) -> Result<Option<(Plot, String)>> {
    let runs = group.all.runs(oracle).enumerate();
    // Of equally long ones the first.
    let longest = runs.max_by_key(|(at, run)| (run.lengths.len(), usize::MAX - at));
    let Some((prompt, run)) = longest else {
        return Ok(None);
    };
    let line = |name: String, run: &Run| {
        let steps = run.lengths.iter().enumerate();
        let points = steps.map(|(step, &length)| (step as f64 + 1.0, Figure::new(length.into())));
        Line::new(name, data.plan.evidence, points)
    };
    let mut lines = vec![line("oracle".to_owned(), run)];
    let mut counts = forwards("the oracle", run);
    let fixed = group.best_static();
    if let Some((variant, run)) =
        fixed.and_then(|v| Some((&data.variants[v], group.all.runs(v).nth(prompt)?)))
    {
        lines.push(line(variant.describe(), run));
        counts = format!("{counts}, {}", forwards(&variant.describe(), run));
    }
    let plot = Plot::lines(
        title(data, group, "oracle in one answer"),
        Axis::new("iteration"),
        Axis::new("tokens drafted").from_zero(),
        lines,
    )?;
    let caption = format!(
        "{}, the answer of most iterations, and the best fixed length: {counts} (DISCO, Figure 3).",
        run.prompt
    );
    Ok(Some((plot, caption)))
}

fn forwards(name: &str, run: &Run) -> String {
    format!(
        "{name} {} forwards of the target and {} of the drafter",
        run.steps,
        run.draft_forwards()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normalized_index_is_the_papers() {
        // Its example: five iterations are at 0, 0.25, 0.5, 0.75 and 1.
        let parts: Vec<usize> = (0..5).map(|step| part(step, 5)).collect();
        assert_eq!(parts, [0, 2, 5, 7, 9]);
        assert_eq!((part(0, 1), part(0, 2), part(1, 2)), (0, 0, 9));
    }
}
