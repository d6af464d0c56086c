//! Settings that would change the distribution of the output.

use cascade_verify::ReviewRule;

use crate::{Branching, Error, KMatrix, Result, Siblings};

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

/// Checks that every rule is exact for what it will review. `levels` are the target and the drafters, largest first;
/// statistical ones are `None`. [`CascadeBuilder::build`](crate::CascadeBuilder::build) does the same; this is for those who
/// want to know before they load models.
///
/// # Errors
/// [`Error::InexactOrder`]: a rule that looks at draws in another order than theirs must not meet draws that depend on those
/// before.
///
/// # Panics
/// If the matrix has fewer rows than there are drafters.
pub fn check_exact(levels: &[Option<Reviewer<'_>>], k: &KMatrix) -> Result<()> {
    let drafters = levels.get(1..).unwrap_or_default();
    for (row, reviewer) in levels.iter().enumerate().take(drafters.len()) {
        let Some(reviewer) = reviewer.filter(|reviewer| reviewer.rule.reorders()) else {
            continue;
        };
        for (j, drafter) in drafters.iter().enumerate().skip(row) {
            match drafter {
                Some(drafter) if k.added(row, j) > 0 && depends_on_siblings(drafter.branching) => {
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
