//! Rejects levels that would change the distribution of the output, or that do not work together.

use cascade_core::LevelId;
use cascade_verify::ReviewRule;

use crate::{Branching, Error, Expand, Plan, Result, Schedule, Siblings};

/// A level of a cascade, as far as it determines which other levels it goes with.
#[derive(Clone, Copy, Debug)]
pub enum LevelSpec<'a> {
    /// The target or a neural drafter.
    Neural(NeuralSpec<'a>),
    /// A statistical drafter.
    Statistical {
        /// Its name.
        name: &'a str,
        /// Whether it [mixes](cascade_core::Drafter::takes_advice) its probabilities with others.
        takes_advice: bool,
    },
}

/// A neural model of a [`LevelSpec`].
#[derive(Clone, Copy, Debug)]
pub struct NeuralSpec<'a> {
    /// Its name.
    pub name: &'a str,
    /// The rule of its reviews.
    pub rule: &'a dyn ReviewRule,
    /// How its own drafts branch.
    pub branching: &'a Branching,
    /// Whether it has a stop rule.
    pub stops: bool,
}

impl LevelSpec<'_> {
    /// Whether it is a model.
    pub const fn is_neural(&self) -> bool {
        matches!(self, Self::Neural(_))
    }

    /// Whether it is a model that [grows trees](Expand::MostProbable).
    pub fn grows_trees(&self) -> bool {
        matches!(self, Self::Neural(it) if it.branching.expand == Expand::MostProbable)
    }

    /// Whether it is a statistical drafter that
    /// [mixes](cascade_core::Drafter::takes_advice) its probabilities with others.
    pub const fn takes_advice(&self) -> bool {
        matches!(
            self,
            Self::Statistical {
                takes_advice: true,
                ..
            }
        )
    }

    /// Its name.
    pub const fn name(&self) -> &str {
        match self {
            Self::Neural(neural) => neural.name,
            Self::Statistical { name, .. } => name,
        }
    }

    /// Whether its reviews consider siblings in another order than they were drawn in.
    pub(crate) fn reorders(&self) -> bool {
        matches!(self, Self::Neural(neural) if neural.rule.reorders())
    }
}

/// Checks that every rule is exact for what it will review, and that drafters that draft together
/// can, and returns what the schedule does with the levels. `levels` are the target and the
/// drafters, largest first.
/// [`CascadeBuilder::build`](crate::CascadeBuilder::build) does the same; this function allows the
/// check before models are loaded.
///
/// # Errors
/// * [`Error::InexactOrder`]: a rule that considers draws in another order than they were drawn in
///   must not be used for draws that depend on earlier ones.
/// * [`Error::StopRuleOfJoint`]: a drafter that [expands the most probable
///   nodes](Expand::MostProbable) has no stop rule.
/// * What the schedule says of the levels.
pub fn check_levels(levels: &[LevelSpec<'_>], schedule: &mut dyn Schedule) -> Result<Plan> {
    let plan = schedule.prepare(levels)?;
    for (index, level) in levels.iter().enumerate() {
        if let LevelSpec::Neural(neural) = level {
            let paired = |&(below, _): &(usize, _)| plan.may_pair(LevelId(index), LevelId(below));
            let below = levels.iter().enumerate().skip(index + 1).filter(paired);
            let drafters: Vec<_> = below.map(|(_, drafter)| *drafter).collect();
            check_order(neural, &drafters)?;
            check_tree(neural)?;
        }
    }
    Ok(plan)
}

/// Checks the reviews of what `drafters` draft.
fn check_order(reviewer: &NeuralSpec<'_>, drafters: &[LevelSpec<'_>]) -> Result<()> {
    let inexact = drafters.iter().find_map(|drafter| match drafter {
        LevelSpec::Neural(drafter) if depends_on_siblings(drafter.branching) => Some(drafter.name),
        _ => None,
    });
    match inexact.filter(|_| reviewer.rule.reorders()) {
        None => Ok(()),
        Some(drafter) => Err(Error::InexactOrder {
            rule: reviewer.rule.name().to_owned(),
            reviewer: reviewer.name.to_owned(),
            drafter: drafter.to_owned(),
        }),
    }
}

fn depends_on_siblings(branching: &Branching) -> bool {
    branching.siblings == Siblings::WithoutReplacement && branching.widest() > 1
}

/// Checks a drafter of the most probable nodes.
fn check_tree(neural: &NeuralSpec<'_>) -> Result<()> {
    if neural.stops && neural.branching.expand == Expand::MostProbable {
        let drafter = neural.name.to_owned();
        return Err(Error::StopRuleOfJoint { drafter });
    }
    Ok(())
}
