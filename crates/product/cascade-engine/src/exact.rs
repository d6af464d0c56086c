//! Rejects settings that would change the distribution of the output.

use cascade_core::LevelId;
use cascade_verify::ReviewRule;

use crate::{Branching, Error, Result, Schedule, Siblings};

/// The properties of a neural model that determine whether reviews are exact.
#[derive(Clone, Copy, Debug)]
pub struct Reviewer<'a> {
    /// Its name.
    pub name: &'a str,
    /// The rule of its reviews.
    pub rule: &'a dyn ReviewRule,
    /// How its own drafts branch.
    pub branching: &'a Branching,
}

/// Checks that every rule is exact for what it will review. `levels` are the target and the
/// drafters, largest first; statistical ones are `None`.
/// [`CascadeBuilder::build`](crate::CascadeBuilder::build) does the same; this function allows the
/// check before models are loaded.
///
/// # Errors
/// [`Error::InexactOrder`]: a rule that considers draws in another order than they were drawn in
/// must not be used for draws that depend on earlier ones.
pub fn check_exact(levels: &[Option<Reviewer<'_>>], schedule: &dyn Schedule) -> Result<()> {
    for (r, reviewer) in levels.iter().enumerate() {
        let Some(reviewer) = reviewer.filter(|reviewer| reviewer.rule.reorders()) else {
            continue;
        };
        for (d, drafter) in levels.iter().enumerate().skip(r + 1) {
            let pair = || schedule.may_pair(LevelId(r), LevelId(d));
            match drafter {
                Some(drafter) if depends_on_siblings(drafter.branching) && pair() => {
                    return Err(Error::InexactOrder {
                        rule: reviewer.rule.name().to_owned(),
                        reviewer: reviewer.name.to_owned(),
                        drafter: drafter.name.to_owned(),
                    });
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn depends_on_siblings(branching: &Branching) -> bool {
    branching.siblings == Siblings::WithoutReplacement && branching.widest() > 1
}
