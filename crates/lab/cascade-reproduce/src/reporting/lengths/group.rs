//! The prompts of one dataset, and what is chosen on half of them.

use super::super::data::{Data, Ratio, Sheet};
use super::super::notes;
use crate::draft_rule::DraftRule;
use crate::record::Run;
use crate::regression::{ForwardCounts, ForwardTimes};
use crate::{Criterion, PaperRow, Variant};

/// R² below which a regression has found something else than the times of forwards: a busy machine.
const EXPLAINED: f64 = 0.9;

/// One dataset. What is best is chosen on one half of its prompts, and the figures of what was
/// chosen are of the other.
pub(super) struct Group<'a> {
    pub(super) data: &'a Data,
    pub(super) dataset: &'a str,
    /// All prompts: for figures that nothing is chosen by.
    pub(super) all: Sheet<'a>,
    choosing: Sheet<'a>,
    pub(super) reported: Sheet<'a>,
    halved: bool,
    pub(super) times: Times,
}

/// What forwards cost.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Times {
    /// A forward of the drafter, or what a token of a statistical drafter adds to the target's.
    pub(super) drafter: f64,
    /// A forward of the target.
    pub(super) target: f64,
    /// Whether they are seconds, and not forwards of the target.
    pub(super) are_seconds: bool,
    /// Where they come from.
    pub(super) how: String,
}

impl Times {
    /// By regression over all runs that draft, if it explains them; else by the bench of single
    /// forwards; in a replay as the experiment assumes.
    fn of(data: &Data, sheet: &Sheet<'_>) -> Self {
        let drafting = data
            .variants_that(|variant| !variant.is_plain())
            .into_iter();
        let counted: Vec<ForwardCounts> = drafting.flat_map(|v| counted(sheet, v)).collect();
        let fit = ForwardTimes::fit(&counted);
        fit.and_then(Self::of_regression)
            .or_else(|| Self::of_single_forwards(data, fit))
            .unwrap_or_else(|| Self::assumed(data))
    }

    /// `None` if it does not explain the times of runs.
    fn of_regression(fit: ForwardTimes) -> Option<Self> {
        let (drafter, target) = fit.of_both().filter(|_| fit.r2 >= EXPLAINED)?;
        Some(Self {
            drafter,
            target,
            are_seconds: true,
            how: format!(
                "by regression over {} generations, R² {:.3}",
                fit.generations, fit.r2
            ),
        })
    }

    /// `None` where they were not measured.
    fn of_single_forwards(data: &Data, fit: Option<ForwardTimes>) -> Option<Self> {
        let mut drafters = data.variants.iter().flat_map(|variant| &variant.drafters);
        let forward = |place: &str| data.forward_seconds.get(place).copied();
        let (drafter, target) = (forward(drafters.next()?.name())?, forward("target")?);
        let row = data.definition.assumed.map_or(0.0, |costs| costs.row);
        let bench_or_files = if data.plan.costs.is_empty() {
            "a bench"
        } else {
            "the files with costs"
        };
        let why = fit.map_or_else(
            || "the runs do not determine any".to_owned(),
            |fit| format!("a regression over the runs has R² {:.3}", fit.r2),
        );
        Some(Self {
            drafter: drafter + row * target,
            target,
            are_seconds: true,
            how: format!(
                "of single forwards in {bench_or_files}, as {why}; a further row is assumed to take {row} of a forward"
            ),
        })
    }

    fn assumed(data: &Data) -> Self {
        let costs = data.definition.assumed;
        Self {
            drafter: costs.map_or(0.0, |costs| costs.drafter.unwrap_or(0.0) + costs.row),
            target: 1.0,
            are_seconds: false,
            how: "assumed, in forwards of the target".to_owned(),
        }
    }

    /// Milliseconds, or forwards of the target.
    pub(super) const fn unit(&self) -> &'static str {
        if self.are_seconds { "ms" } else { "forwards" }
    }

    /// In that unit.
    pub(super) fn scale(&self) -> f64 {
        if self.are_seconds { 1e3 } else { 1.0 }
    }

    /// The time of a run by its counted forwards (SpecDec++, equation 3.1).
    pub(super) fn of_run(&self, run: &Run) -> f64 {
        self.target * run.steps as f64 + self.drafter * run.draft_forwards() as f64
    }
}

/// What the runs of a variant counted and took.
pub(super) fn counted(sheet: &Sheet<'_>, variant: usize) -> Vec<ForwardCounts> {
    let of = |(run, seconds): (&Run, f64)| ForwardCounts {
        drafter: run.draft_forwards() as f64,
        target: run.steps as f64,
        seconds,
    };
    sheet.timed(variant).map(of).collect()
}

impl<'a> Group<'a> {
    /// `None` for a dataset without a prompt that is answered.
    pub(super) fn new(data: &'a Data, dataset: &'a str) -> Option<Self> {
        let all = data.of_dataset(dataset);
        let times = Times::of(data, &all);
        let (choosing, reported, halved) = match all.halves() {
            Some((choosing, reported)) => (choosing, reported, true),
            None => (all.clone(), all.clone(), false),
        };
        (all.prompts() > 0).then_some(Self {
            data,
            dataset,
            all,
            choosing,
            reported,
            halved,
            times,
        })
    }

    /// The dataset of the paper's figures that these prompts are compared with.
    pub(super) fn of_paper(&self) -> &'a str {
        self.data.definition.of_paper(self.dataset)
    }

    /// The variants of a row that ran, whether other rows have them too.
    pub(super) fn variants_of(&self, row: &PaperRow) -> Vec<usize> {
        // The definition was checked when it was read.
        let ids = row.variants(0).unwrap_or_default().into_iter();
        let mut found = Vec::new();
        for Variant { id, .. } in ids.filter(|_| row.absent.is_none()) {
            found.extend(self.data.variants.iter().position(|known| known.id == id));
        }
        found
    }

    /// Tokens by time, in plain decoding's, from counted forwards.
    pub(super) fn speed(&self, sheet: &Sheet<'_>, variant: usize) -> Ratio {
        sheet.ratio(
            variant,
            |run| self.times.target * run.tokens as f64,
            |run| self.times.of_run(run),
        )
    }

    /// The best setting of a row, by what the row says, on the half that chooses.
    pub(super) fn best_of(&self, row: &PaperRow) -> Option<usize> {
        self.best_by(row.chosen_by, &self.variants_of(row))
    }

    /// The fastest of some variants by modelled speed.
    pub(super) fn best(&self, variants: &[usize]) -> Option<usize> {
        self.best_by(Criterion::Speed, variants)
    }

    /// The fastest of some variants with right output, on the half that chooses.
    fn best_by(&self, criterion: Criterion, variants: &[usize]) -> Option<usize> {
        let mut best: Option<(f64, usize)> = None;
        for &variant in variants {
            let right = self.data.failure(variant).is_none();
            let speed = match criterion {
                Criterion::Speed => self.speed(&self.choosing, variant),
                Criterion::Latency => self.choosing.rate(variant),
            };
            let speed = speed.value().filter(|_| right);
            // Of equally good ones the first.
            if let Some(speed) = speed.filter(|&speed| best.is_none_or(|(most, _)| speed > most)) {
                best = Some((speed, variant));
            }
        }
        best.map(|(_, variant)| variant)
    }

    /// The best fixed length.
    pub(super) fn best_static(&self) -> Option<usize> {
        let fixed = |variant: &Variant| variant.setting.rule.is_none() && !variant.is_plain();
        self.best(&self.data.variants_that(fixed))
    }

    /// The best variant of the row that gains; if none is named, of all rules but oracles.
    pub(super) fn subject(&self) -> Option<usize> {
        let row = self.data.definition.gaining();
        let of_row = row.and_then(|row| self.best_of(row));
        of_row.or_else(|| {
            let rules = |rule: &DraftRule| *rule != DraftRule::Oracle;
            let ruled = |v: &Variant| v.setting.rule.as_ref().is_some_and(rules);
            self.best(&self.data.variants_that(ruled))
        })
    }

    /// Whether there are enough prompts to conclude anything.
    pub(super) fn is_enough(&self) -> bool {
        self.reported.prompts() >= notes::FEWEST
    }

    /// How many prompts, which chose, and by what times.
    pub(super) fn note(&self) -> String {
        let prompts = self.reported.prompts();
        let chosen = if self.halved {
            format!(
                "{prompts} prompts; what is best is chosen on {} others",
                self.choosing.prompts()
            )
        } else {
            format!("{prompts} prompt, on which the best is chosen too")
        };
        let few = notes::few(prompts);
        let Times {
            drafter,
            target,
            how,
            ..
        } = &self.times;
        let scale = self.times.scale();
        format!(
            "{}: {chosen}.{few} Times of forwards are {how}: t_draft {:.4} {unit}, t_target {:.4} {unit}.",
            self.dataset,
            drafter * scale,
            target * scale,
            unit = self.times.unit(),
        )
    }
}
