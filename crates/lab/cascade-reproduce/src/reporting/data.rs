//! Records in the order in which tables want them.

use std::collections::BTreeMap;
use std::path::Path;

use cascade_eval::{Bootstrap, Endings, median};
use cascade_traces::CostTable;

use crate::plan::Plan;
use crate::record::Run;
use crate::report::Figure;
use crate::results::{Results, forward_seconds, walltimes};
use crate::{Definition, Metric, Result, Variant};

/// How intervals are made, as tables say it.
pub(super) const INTERVALS: &str = "95 %, percentile bootstrap over prompts";

/// Everything that a folder holds.
pub(super) struct Data {
    pub(super) plan: Plan,
    pub(super) definition: Definition,
    pub(super) variants: Vec<Variant>,
    /// Prompts that every variant has answered: for each, the records in the order of the variants.
    answered: Vec<(usize, Vec<Run>)>,
    walltimes: BTreeMap<u64, Vec<f64>>,
    pub(super) forward_seconds: BTreeMap<String, f64>,
}

impl Data {
    pub(super) fn of_folder(folder: &Path) -> Result<Self> {
        let plan = Plan::of_folder(folder)?;
        let definition = plan.definition_as_run()?;
        let variants = plan.variants_of(&definition)?;
        let results = Results::open(folder, plan.contents())?;
        let mut by_prompt: BTreeMap<usize, Vec<Run>> = BTreeMap::new();
        for run in results.into_ordered() {
            by_prompt
                .entry(run.index as usize / variants.len())
                .or_default()
                .push(run);
        }
        by_prompt.retain(|_, runs| runs.len() == variants.len());
        Ok(Self {
            plan,
            definition,
            answered: by_prompt.into_iter().collect(),
            variants,
            walltimes: walltimes(folder),
            forward_seconds: forward_seconds(folder),
        })
    }

    /// Prompts that every variant has answered.
    pub(super) fn answered(&self) -> usize {
        self.answered.len()
    }

    fn bootstrap(&self) -> Bootstrap {
        Bootstrap {
            seed: self.plan.seed,
            ..Bootstrap::default()
        }
    }

    /// Runs that differ from plain decoding: by rounding, or by more than it explains.
    fn different(&self, near_tie: bool) -> usize {
        let runs = self.answered.iter().flat_map(|(_, runs)| runs);
        runs.filter_map(|run| run.differs)
            .filter(|differs| differs.is_near_tie() == near_tie)
            .count()
    }

    /// Runs that differ from plain decoding by more than rounding explains.
    pub(super) fn unequal(&self) -> usize {
        self.different(false)
    }

    /// Runs that differ from plain decoding by rounding.
    pub(super) fn near_ties(&self) -> usize {
        self.different(true)
    }

    /// The variants that a test chooses, by their numbers.
    pub(super) fn variants_that(&self, wanted: impl Fn(&Variant) -> bool) -> Vec<usize> {
        let all = self.variants.iter().enumerate();
        all.filter(|(_, variant)| wanted(variant))
            .map(|(number, _)| number)
            .collect()
    }

    /// The prompts of a dataset.
    pub(super) fn of_dataset<'a>(&'a self, dataset: &str) -> Sheet<'a> {
        self.sheet(|run| run.dataset == dataset)
    }

    /// The prompts that a test of their first record chooses.
    pub(super) fn sheet(&self, wanted: impl Fn(&Run) -> bool) -> Sheet<'_> {
        let chosen = self
            .answered
            .iter()
            .filter(|(_, runs)| runs.first().is_some_and(&wanted));
        Sheet {
            data: self,
            prompts: chosen
                .map(|(prompt, runs)| (*prompt, runs.as_slice()))
                .collect(),
        }
    }

    /// What is wrong with a variant, if anything: then it has no figures.
    pub(super) fn failure(&self, variant: usize) -> Option<String> {
        let runs = self.answered.iter().map(|(_, runs)| &runs[variant]);
        let bad: Vec<&Run> = runs
            .filter(|run| run.differs.is_some_and(|d| !d.is_near_tie()))
            .collect();
        let first = bad.first()?;
        let difference = first.differs?;
        Some(format!(
            "{} is NOT EQUAL to plain decoding on {} of {} prompts (first {} at token {}, gap {}): it has no figures",
            first.variant,
            bad.len(),
            self.answered(),
            first.id,
            difference.at,
            difference
                .gap
                .map_or_else(|| "unknown".to_owned(), |gap| format!("{gap}")),
        ))
    }

    /// The costs of a metric; `None` for walltime, and for times that were not measured.
    pub(super) fn costs(&self, metric: Metric) -> Result<Option<CostTable>> {
        let parameters = self.plan.models.iter().filter(|model| model.parameters > 0);
        Ok(match metric {
            Metric::ModelSize => Some(CostTable::model_size()),
            Metric::PreviousWork => Some(CostTable::previous_work()),
            Metric::Parameters => Some(CostTable::parameters(
                parameters.map(|model| (model.place.clone(), model.parameters)),
            )?),
            Metric::Measured if !self.forward_seconds.is_empty() => Some(CostTable::new(
                "measured",
                self.forward_seconds
                    .iter()
                    .map(|(place, &seconds)| (place.clone(), seconds)),
            )?),
            _ => None,
        })
    }

    /// Whether any cascade has this place.
    pub(super) fn has_place(&self, place: &str) -> bool {
        let mut drafters = self.variants.iter().flat_map(|variant| &variant.drafters);
        drafters.any(|role| role.name() == place)
    }

    /// Whether calls of a place cost anything.
    fn is_charged(&self, place: &str) -> bool {
        place == "target" || crate::Role::NEURAL.iter().any(|role| role.name() == place)
    }
}

/// Some of the prompts.
#[derive(Clone)]
pub(super) struct Sheet<'a> {
    data: &'a Data,
    prompts: Vec<(usize, &'a [Run])>,
}

/// For each prompt, what is gained and what it takes: figures are ratios of their sums.
pub(super) struct Ratio {
    gained: Vec<f64>,
    taken: Vec<f64>,
    bootstrap: Bootstrap,
}

impl Ratio {
    pub(super) fn value(&self) -> Option<f64> {
        let all: Vec<usize> = (0..self.gained.len()).collect();
        let value = self.of(&all);
        value.is_finite().then_some(value)
    }

    fn of(&self, chosen: &[usize]) -> f64 {
        let sum = |values: &[f64]| chosen.iter().map(|&i| values[i]).sum::<f64>();
        sum(&self.gained) / sum(&self.taken)
    }

    /// The ratio of the sums, with its interval.
    pub(super) fn figure(&self) -> Option<Figure> {
        self.with_interval(self.value()?, |chosen| self.of(chosen))
    }

    /// The mean of the prompts' own ratios, with its interval.
    pub(super) fn mean_figure(&self) -> Option<Figure> {
        let each = |i: &usize| self.gained[*i] / self.taken[*i];
        let mean = |chosen: &[usize]| chosen.iter().map(each).sum::<f64>() / chosen.len() as f64;
        let all: Vec<usize> = (0..self.gained.len()).collect();
        let value = Some(mean(&all)).filter(|mean| mean.is_finite())?;
        self.with_interval(value, mean)
    }

    /// How many times the other ratio this is, on the same prompts.
    pub(super) fn over(&self, other: &Self) -> Option<Figure> {
        let value = self.value()? / other.value()?;
        self.with_interval(value, |chosen| self.of(chosen) / other.of(chosen))
    }

    fn with_interval(&self, value: f64, of: impl Fn(&[usize]) -> f64) -> Option<Figure> {
        Some(with_interval(value, self.bootstrap, self.gained.len(), of))
    }
}

/// A value with the interval of what it is `of` resampled prompts, if there is one. Rounding may
/// leave the value a hair outside of an interval of no width.
fn with_interval(
    value: f64,
    bootstrap: Bootstrap,
    prompts: usize,
    of: impl Fn(&[usize]) -> f64,
) -> Figure {
    let interval = bootstrap.interval(prompts, of);
    interval.map_or(Figure::new(value), |(low, high)| {
        Figure::with_interval(value, low, high)
    })
}

impl Sheet<'_> {
    pub(super) fn prompts(&self) -> usize {
        self.prompts.len()
    }

    /// Every other prompt, from the first on and from the second on; `None` of a single prompt.
    pub(super) fn halves(&self) -> Option<(Self, Self)> {
        let half = |first: usize| Self {
            data: self.data,
            prompts: self
                .prompts
                .iter()
                .skip(first)
                .step_by(2)
                .copied()
                .collect(),
        };
        (self.prompts() > 1).then(|| (half(0), half(1)))
    }

    /// How the answers end, which are the same for all variants; `None` where records do not say.
    pub(super) fn endings(&self) -> Option<Endings> {
        self.runs(0).map(|run| run.ending).collect()
    }

    pub(super) fn runs(&self, variant: usize) -> impl Iterator<Item = &Run> {
        self.prompts.iter().map(move |(_, runs)| &runs[variant])
    }

    /// What each prompt gained and took.
    pub(super) fn ratio(
        &self,
        variant: usize,
        gained: impl Fn(&Run) -> f64,
        taken: impl Fn(&Run) -> f64,
    ) -> Ratio {
        self.ratio_of(self.runs(variant).map(|run| (gained(run), taken(run))))
    }

    fn ratio_of(&self, prompts: impl Iterator<Item = (f64, f64)>) -> Ratio {
        let (gained, taken) = prompts.unzip();
        Ratio {
            gained,
            taken,
            bootstrap: self.data.bootstrap(),
        }
    }

    /// The records of a variant that have a time, with their seconds.
    pub(super) fn timed(&self, variant: usize) -> impl Iterator<Item = (&Run, f64)> {
        self.prompts.iter().filter_map(move |(prompt, runs)| {
            let seconds = self.data.walltimes.get(&(*prompt as u64))?.get(variant)?;
            Some((&runs[variant], *seconds))
        })
    }

    /// Tokens by seconds, over the prompts with known times.
    pub(super) fn rate(&self, variant: usize) -> Ratio {
        let timed = self.timed(variant);
        self.ratio_of(timed.map(|(run, seconds)| (run.tokens as f64, seconds)))
    }

    /// Seconds by token.
    pub(super) fn latency(&self, variant: usize) -> Ratio {
        let timed = self.timed(variant);
        self.ratio_of(timed.map(|(run, seconds)| (seconds, run.tokens as f64)))
    }

    /// The prompts of this sheet that a test of their first record chooses.
    pub(super) fn only(&self, wanted: impl Fn(&Run) -> bool) -> Self {
        let mut sheet = self.clone();
        sheet
            .prompts
            .retain(|(_, runs)| runs.first().is_some_and(&wanted));
        sheet
    }

    /// SWI of a variant: tokens by cost in forwards of the target.
    pub(super) fn swi(&self, variant: usize, costs: &CostTable) -> Result<Ratio> {
        let prompts = self.runs(variant).map(|run| {
            let calls = run.calls();
            let charged = calls.filter(|(place, _)| self.data.is_charged(place));
            let taken = costs.in_target_forwards("target", charged)?;
            Ok((run.tokens as f64, taken))
        });
        let prompts = prompts.collect::<Result<Vec<_>>>()?;
        Ok(self.ratio_of(prompts.into_iter()))
    }

    /// Tokens by forwards of the target.
    pub(super) fn acceptance_length(&self, variant: usize) -> Ratio {
        self.ratio(variant, |run| run.tokens as f64, |run| run.steps as f64)
    }

    /// Steps in which more than `position` tokens were kept, by steps with a longer draft.
    pub(super) fn accepted_at(&self, variant: usize, position: usize) -> Ratio {
        let at = |counts: &[u64]| counts.get(position).copied().unwrap_or(0) as f64;
        self.ratio(
            variant,
            |run| at(&run.accepted_at),
            |run| at(&run.drafted_at),
        )
    }

    /// Tokens emitted.
    pub(super) fn tokens(&self, variant: usize) -> u64 {
        self.runs(variant).map(|run| run.tokens).sum()
    }

    /// Calls of each place.
    pub(super) fn calls(&self, variant: usize) -> Vec<(String, u64)> {
        let mut sums: Vec<(String, u64)> = Vec::new();
        for run in self.runs(variant) {
            for (place, calls) in run.calls() {
                match sums.iter_mut().find(|(known, _)| known == place) {
                    Some((_, sum)) => *sum += calls,
                    None => sums.push((place.to_owned(), calls)),
                }
            }
        }
        sums
    }

    /// How many times as fast as plain decoding: the median over prompts.
    pub(super) fn speedup(&self, variant: usize) -> Option<Figure> {
        let ratios: Vec<f64> = self
            .seconds()
            .map(|seconds| seconds[0] / seconds[variant])
            .collect();
        let value = median(ratios.clone())?;
        let of = |chosen: &[usize]| {
            median(chosen.iter().map(|&i| ratios[i]).collect()).unwrap_or(f64::NAN)
        };
        let bootstrap = self.data.bootstrap();
        Some(with_interval(value, bootstrap, ratios.len(), of))
    }

    /// Tokens per second.
    pub(super) fn tokens_per_second(&self, variant: usize) -> Option<Figure> {
        self.rate(variant).figure()
    }

    fn seconds(&self) -> impl Iterator<Item = &Vec<f64>> {
        let of = |(prompt, _): &(usize, &[Run])| self.data.walltimes.get(&(*prompt as u64));
        self.prompts
            .iter()
            .filter_map(of)
            .filter(|s| s.len() == self.data.variants.len())
    }
}
