//! The target's distributions after drafted tokens, rejected ones included.

use cascade_core::TokenId;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

/// Contexts of 1 to this many tokens are remembered.
pub(super) const HINT_ORDERS: usize = 3;
/// Most tokens of one distribution that are remembered.
pub(super) const MOST_HINTS: usize = 8;
/// Contexts that are kept at least, if there were as many; twice as many at most.
const KEPT: usize = 1 << 16;

/// A token, and how probable it was.
pub(super) type Choice = (TokenId, f32);

/// The target's latest distribution after each context that it was asked about, as far as it told
/// it. The latest contexts are kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Hints {
    recent: Generation,
    /// What was recent before.
    former: Generation,
}

type Generation = HashMap<u64, Hint, FxBuildHasher>;

/// The distribution of one context.
#[derive(Clone, Debug)]
pub(super) struct Hint {
    /// How often the target was asked.
    pub(super) times: u32,
    count: u32,
    choices: [Choice; MOST_HINTS],
}

impl Hint {
    /// The most probable tokens, the best first.
    pub(super) fn choices(&self) -> &[Choice] {
        &self.choices[..self.count as usize]
    }
}

impl Hints {
    pub(super) fn get(&self, key: u64) -> Option<&Hint> {
        self.recent.get(&key).or_else(|| self.former.get(&key))
    }

    /// Remembers the target's best tokens after a context, as many as there is room for.
    pub(super) fn set(&mut self, key: u64, choices: &[Choice]) {
        let times = 1 + self.get(key).map_or(0, |hint| hint.times);
        if self.recent.len() >= KEPT {
            self.former = std::mem::take(&mut self.recent);
        }
        let count = choices.len().min(MOST_HINTS);
        let mut hint = Hint {
            times,
            count: count as u32,
            choices: [(0, 0.0); MOST_HINTS],
        };
        hint.choices[..count].copy_from_slice(&choices[..count]);
        self.recent.insert(key, hint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_is_kept_and_the_oldest_forgotten() {
        // Hashes, which keys are, use all bits.
        let key = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut hints = Hints::default();
        hints.set(key(1), &[(5, 0.75), (6, 0.25)]);
        hints.set(key(1), &[(6, 1.0)]);
        let hint = hints.get(key(1)).unwrap();
        assert_eq!((hint.times, hint.choices()), (2, &[(6, 1.0)][..]));
        let many: Vec<Choice> = (0..20).map(|token| (token, 0.05)).collect();
        hints.set(key(2), &many);
        assert_eq!(hints.get(key(2)).unwrap().choices(), &many[..MOST_HINTS]);
        for n in 3..KEPT as u64 + 3 {
            hints.set(key(n), &[(1, 1.0)]);
        }
        assert!(hints.get(key(1)).is_some());
        for n in 0..KEPT as u64 {
            hints.set(key(1_000_000 + n), &[(1, 1.0)]);
        }
        assert!(hints.get(key(1)).is_none());
        let kept = hints.recent.len() + hints.former.len();
        assert!((KEPT..=2 * KEPT).contains(&kept), "{kept}");
    }
}
