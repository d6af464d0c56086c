//! A few answers in which every token shows who drafted it.

use std::path::Path;

use cascade_core::LevelId;

use super::data::Data;
use crate::Result;
use crate::report::{Report, Sample};
use crate::samples::{Sampled, Samples};

/// Adds the samples that a folder keeps of one variant: the given one, or that of most drafters. A
/// variant with wrong outputs has none.
pub(super) fn add(
    report: Report,
    data: &Data,
    folder: &Path,
    variant: Option<usize>,
) -> Result<Report> {
    let variant = variant.or_else(|| most_drafters(data));
    let samples = Samples::open(folder)?;
    let right = variant.filter(|&variant| data.failure(variant).is_none());
    let Some(variant) = right.filter(|_| samples.iter().next().is_some()) else {
        return Ok(report);
    };
    let mut report = report.heading("Who drafted what").text(format!(
        "Answers of the cascade “{}” to a few of the prompts. A token has the colour of the model that proposed it \
         first; those of the target itself have none.",
        data.variants[variant].id
    ));
    for sampled in samples.iter() {
        if let Some(sample) = sample(data, sampled, variant)? {
            report = report.sample(sample);
        }
    }
    Ok(report)
}

/// The last of them, so that of several rows the paper's own is shown.
fn most_drafters(data: &Data) -> Option<usize> {
    let drafters = |&variant: &usize| data.variants[variant].drafters.len();
    (0..data.variants.len()).max_by_key(drafters)
}

/// `None` for what is not of this plan.
fn sample(data: &Data, sampled: &Sampled, variant: usize) -> Result<Option<Sample>> {
    let known = sampled.prompt < data.plan.prompts();
    let Some(drafted) = sampled.variants.get(variant).filter(|_| known) else {
        return Ok(None);
    };
    let (suite, asked) = data.plan.asked(sampled.prompt);
    let category = asked.category.as_ref();
    let category = category.map_or_else(String::new, |category| format!(" ({category})"));
    let mut pieces = drafted.pieces.as_ref().unwrap_or(&sampled.pieces).iter();
    let steps = drafted.steps.iter().map(|levels| {
        let tokens = levels.iter().zip(pieces.by_ref());
        tokens
            .map(|(&level, piece)| (piece.clone(), LevelId(level)))
            .collect()
    });
    let drafters = &data.variants[variant].drafters;
    let levels = std::iter::once("target").chain(drafters.iter().map(|role| role.name()));
    Ok(Some(Sample::new(
        format!("{} {}{category}", suite.dataset, asked.id),
        data.plan.evidence,
        sampled.text.clone(),
        levels.map(str::to_owned).collect(),
        steps.collect(),
    )?))
}
