//! Who never drafts.

use cascade_core::LevelId;

/// Drafters that never take part in a draft for the target, directly or through a drafter that
/// reviews them. `reviews` returns whether a level reviews drafts; statistical ones do not.
pub(crate) fn idle_drafters(
    drafters: usize,
    may_pair: impl Fn(LevelId, LevelId) -> bool,
    reviews: impl Fn(LevelId) -> bool,
) -> Vec<LevelId> {
    let mut drafts = vec![false; drafters + 1];
    let mut reviewing = vec![false; drafters + 1];
    reviewing[0] = true;
    for reviewer in 0..=drafters {
        for drafter in reviewer + 1..=drafters {
            if reviewing[reviewer] && may_pair(LevelId(reviewer), LevelId(drafter)) {
                drafts[drafter] = true;
                reviewing[drafter] |= reviews(LevelId(drafter));
            }
        }
    }
    (1..=drafters)
        .filter(|&level| !drafts[level])
        .map(LevelId)
        .collect()
}
