//! Settings that would change the distribution of the output.

use cascade_core::LevelId;
use cascade_verify::ReviewRule;

use crate::{Branching, Error, Result, Schedule, Siblings};

/// What of a neural model decides whether reviews are exact.
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
/// [`CascadeBuilder::build`](crate::CascadeBuilder::build) does the same; this is for those who
/// want to know before they load models.
///
/// # Errors
/// [`Error::InexactOrder`]: a rule that looks at draws in another order than theirs must not meet
/// draws that depend on those before.
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
