//! Arguments of expected speedups.

use std::num::NonZeroU64;

use anyhow::Result;
use cascade_reproduce::theory::{
    AcceptanceRate, Best, CostCoefficient, Drafter, Simulated, System, simulate,
};
use clap::Args;

use super::report::SearchRecord;

/// The drafter that the target reviews.
#[derive(Debug, Args)]
pub(super) struct DrafterArgs {
    /// Acceptance rate of the drafter's tokens by the target, from 0 to 1.
    #[arg(long, value_name = "RATE", value_parser = acceptance, allow_negative_numbers = true)]
    alpha: AcceptanceRate,

    /// Cost of a drafter forward relative to a target forward.
    #[arg(long, value_name = "RATIO", value_parser = cost, allow_negative_numbers = true)]
    cost: CostCoefficient,
}

impl DrafterArgs {
    pub(super) fn drafter(&self) -> Drafter {
        Drafter {
            acceptance: self.alpha,
            cost: self.cost,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct SpeculativeArgs {
    #[command(flatten)]
    pub(super) drafter: DrafterArgs,

    /// Tokens to draft [default: the best number].
    #[arg(long, value_name = "TOKENS", value_parser = length())]
    pub(super) k: Option<u16>,

    #[command(flatten)]
    pub(super) search: SearchArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct VerticalArgs {
    #[command(flatten)]
    pub(super) drafter: DrafterArgs,

    /// Acceptance rate of the lower drafter's tokens by the drafter, from 0 to 1.
    #[arg(long, value_name = "RATE", value_parser = acceptance, allow_negative_numbers = true)]
    pub(super) alpha_below: AcceptanceRate,

    /// Cost of a forward of the lower drafter relative to a target forward; 0 if statistical.
    #[arg(long, value_name = "RATIO", value_parser = cost, allow_negative_numbers = true)]
    pub(super) cost_below: CostCoefficient,

    /// Reviews by the drafter per target step [default: the best n and k].
    #[arg(long, value_name = "REVIEWS", value_parser = length(), requires = "k")]
    pub(super) n: Option<u16>,

    /// Tokens drafted by the lower drafter per review.
    #[arg(long, value_name = "TOKENS", value_parser = length(), requires = "n")]
    pub(super) k: Option<u16>,

    #[command(flatten)]
    pub(super) search: SearchArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct HorizontalArgs {
    /// Acceptance rate of a drafter's tokens by the target, from 0 to 1.
    #[arg(long, value_name = "RATE", value_parser = acceptance, allow_negative_numbers = true, required = true)]
    pub(super) alpha: Vec<AcceptanceRate>,

    /// Cost of a drafter forward relative to a target forward.
    #[arg(long, value_name = "RATIO", value_parser = cost, allow_negative_numbers = true, required = true)]
    pub(super) cost: Vec<CostCoefficient>,

    /// Tokens to draft.
    #[arg(long, value_name = "TOKENS", value_parser = length())]
    pub(super) k: Vec<u16>,

    #[command(flatten)]
    pub(super) search: SearchArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Table1Args {
    /// Parameter count of the target, which determines the costs, such as 11.3e9.
    #[arg(long, value_name = "N", value_parser = parameters, allow_negative_numbers = true)]
    pub(super) target_parameters: Option<NonZeroU64>,

    #[command(flatten)]
    pub(super) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(super) struct SearchArgs {
    /// Longest length to try when searching for the best.
    #[arg(long, value_name = "TOKENS", value_parser = length(), default_value = "64", conflicts_with = "k")]
    max_k: u16,
}

impl SearchArgs {
    /// The given system, or the best that is found, with how it was searched for.
    pub(super) fn or_best<S>(
        &self,
        given: Option<S>,
        best: impl FnOnce(usize) -> Best<S>,
    ) -> (S, Option<SearchRecord>) {
        if let Some(system) = given {
            return (system, None);
        }
        let max_k = self.max_k.into();
        let Best {
            system, at_limit, ..
        } = best(max_k);
        (system, Some(SearchRecord { max_k, at_limit }))
    }
}

#[derive(Debug, Args)]
pub(super) struct OutputArgs {
    /// Also simulate this many steps, token by token.
    #[arg(long, value_name = "STEPS", value_parser = clap::value_parser!(u64).range(2..))]
    simulate: Option<u64>,

    /// Seed of the simulation.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "simulate")]
    seed: u64,

    /// Print one JSON object per system and nothing else.
    #[arg(long)]
    pub(super) json: bool,
}

impl OutputArgs {
    pub(super) fn simulated(&self, system: &impl System) -> Result<Option<Simulated>> {
        let run = |steps| simulate(system, steps, self.seed);
        Ok(self.simulate.map(run).transpose()?)
    }
}

fn acceptance(text: &str) -> Result<AcceptanceRate> {
    Ok(AcceptanceRate::new(text.parse()?)?)
}

fn cost(text: &str) -> Result<CostCoefficient> {
    Ok(CostCoefficient::new(text.parse()?)?)
}

fn length() -> clap::builder::RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(0..=1000)
}

fn parameters(text: &str) -> Result<NonZeroU64> {
    let number: f64 = text.parse()?;
    // The conversion saturates at the largest u64, and gives 0 below 1.
    let whole = NonZeroU64::new(number as u64).filter(|_| number.is_finite());
    whole.ok_or_else(|| anyhow::anyhow!("a parameter count is at least 1, not {text}"))
}
