//! Which tokens followed which contexts, and how often.

use hashbrown::hash_table::{Entry, HashTable};

use super::ranking::Ranking;

/// A token and how often it followed a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) token: u32,
    pub(super) count: u32,
}

/// The tokens that followed one context: by falling count, of equal counts the one that reached it
/// last first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Followers<'a> {
    /// The sum of all counts.
    pub(super) total: u32,
    pub(super) pairs: &'a [Pair],
}

/// What [`Continuations::undo`] needs to take one token back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Undo(u32);

impl Undo {
    /// The token had not followed the context before.
    const NEW: Self = Self(u32::MAX);
}

/// Followers of contexts, which are known by a hash of 64 bits.
///
/// Most contexts were followed by one token only, which is kept in the table itself: 16 bytes. Two
/// contexts of one hash would be taken for one; with a million contexts the odds are 1 in 10
/// million, and drafts would be worse, not wrong.
#[derive(Clone, Debug, Default)]
pub(super) struct Continuations {
    slots: HashTable<Slot>,
    lists: Vec<List>,
    /// Lists that belong to no context.
    free: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    key: u64,
    /// The only follower; or, with [`LIST`] in its count, the index of a list.
    pair: Pair,
}

const LIST: u32 = 1 << 31;

impl Slot {
    fn list(&self) -> Option<usize> {
        (self.pair.count & LIST != 0).then_some((self.pair.count & !LIST) as usize)
    }
}

/// Different followers that are kept in one list, which is searched from its beginning.
const SHORT: usize = 32;

/// The followers of a context that has several, or had when it got the list.
#[derive(Clone, Debug)]
enum List {
    Short { total: u32, pairs: Vec<Pair> },
    Long(Box<Ranking>),
}

impl Default for List {
    fn default() -> Self {
        Self::Short {
            total: 0,
            pairs: Vec::new(),
        }
    }
}

impl List {
    fn followers(&self) -> Followers<'_> {
        match self {
            Self::Short { total, pairs } => Followers {
                total: *total,
                pairs,
            },
            Self::Long(ranking) => ranking.followers(),
        }
    }

    fn add(&mut self, token: u32) -> Undo {
        match self {
            Self::Short { total, pairs } => match position(pairs, token) {
                Some(at) => {
                    *total += 1;
                    increment(pairs, at);
                    Undo(at as u32)
                }
                None if pairs.len() < SHORT => {
                    *total += 1;
                    pairs.push(Pair { token, count: 0 });
                    let last = pairs.len() - 1;
                    increment(pairs, last);
                    Undo::NEW
                }
                None => {
                    let mut ranking = Ranking::from_sorted(std::mem::take(pairs));
                    ranking.add(token);
                    *self = Self::Long(Box::new(ranking));
                    Undo::NEW
                }
            },
            Self::Long(ranking) => Undo(ranking.add(token)),
        }
    }

    /// Takes an [`add`](Self::add) back: the last one, if it is given how.
    fn take(&mut self, token: u32, undo: Option<Undo>) {
        match self {
            Self::Short { total, pairs } => {
                if let Some(at) = position(pairs, token) {
                    *total -= 1;
                    decrement(pairs, at, undo);
                }
            }
            Self::Long(ranking) => {
                match undo {
                    Some(Undo::NEW) => ranking.undo(token, SHORT as u32),
                    Some(Undo(at)) => ranking.undo(token, at),
                    None => ranking.remove(token),
                }
                if ranking.followers().pairs.len() <= SHORT {
                    let Followers { total, .. } = ranking.followers();
                    let pairs = std::mem::take(&mut **ranking).into_pairs();
                    *self = Self::Short { total, pairs };
                }
            }
        }
    }
}

fn position(pairs: &[Pair], token: u32) -> Option<usize> {
    pairs.iter().position(|pair| pair.token == token)
}

/// Adds one to the pair at `at`, and moves it before those whose counts are not greater.
fn increment(pairs: &mut [Pair], at: usize) {
    pairs[at].count += 1;
    let count = pairs[at].count;
    let to = pairs[..at].partition_point(|pair| pair.count > count);
    pairs[to..=at].rotate_right(1);
}

/// Takes one from the pair at `at`, and moves it back to where it was, or before the first of its
/// new count.
fn decrement(pairs: &mut Vec<Pair>, at: usize, undo: Option<Undo>) {
    pairs[at].count -= 1;
    let count = pairs[at].count;
    if count == 0 {
        pairs.remove(at);
        return;
    }
    let to = match undo {
        Some(Undo(to)) => to as usize,
        None => at + pairs[at + 1..].partition_point(|pair| pair.count > count),
    };
    pairs[at..=to].rotate_left(1);
}

impl Continuations {
    /// What followed the context.
    pub(super) fn get(&self, key: u64) -> Option<Followers<'_>> {
        let slot = self.slots.find(key, |slot| slot.key == key)?;
        Some(match slot.list() {
            None => Followers {
                total: slot.pair.count,
                pairs: std::slice::from_ref(&slot.pair),
            },
            Some(list) => self.lists[list].followers(),
        })
    }

    /// Number of contexts.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Counts `token` after the context once more.
    pub(super) fn add(&mut self, key: u64, token: u32) -> Undo {
        let entry = self
            .slots
            .entry(key, |slot| slot.key == key, |slot| slot.key);
        let slot = match entry {
            Entry::Vacant(entry) => {
                let pair = Pair { token, count: 1 };
                entry.insert(Slot { key, pair });
                return Undo::NEW;
            }
            Entry::Occupied(entry) => entry.into_mut(),
        };
        match slot.list() {
            Some(list) => self.lists[list].add(token),
            None if slot.pair.token == token => {
                slot.pair.count += 1;
                Undo(0)
            }
            None => {
                let (total, pairs) = (slot.pair.count, vec![slot.pair]);
                let mut list = List::Short { total, pairs };
                let undo = list.add(token);
                slot.pair.count = LIST | place(list, &mut self.lists, &mut self.free);
                undo
            }
        }
    }

    /// Takes back the last [`add`](Self::add) that is not taken back yet. Everything is as it was
    /// before.
    pub(super) fn undo(&mut self, key: u64, token: u32, undo: Undo) {
        self.take(key, token, Some(undo));
    }

    /// Takes back any former [`add`](Self::add) of `token` after the context. Of equal counts, the
    /// token is then the first.
    pub(super) fn remove(&mut self, key: u64, token: u32) {
        self.take(key, token, None);
    }

    fn take(&mut self, key: u64, token: u32, undo: Option<Undo>) {
        let Ok(mut entry) = self.slots.find_entry(key, |slot| slot.key == key) else {
            return;
        };
        let slot = entry.get_mut();
        let Some(index) = slot.list() else {
            match slot.pair.count {
                1 => drop(entry.remove()),
                _ => slot.pair.count -= 1,
            }
            return;
        };
        let list = &mut self.lists[index];
        list.take(token, undo);
        if let [only] = *list.followers().pairs {
            slot.pair = only;
            *list = List::default();
            self.free.push(index as u32);
        }
    }
}

/// Puts a list where there is a free place, and returns its index.
fn place(list: List, lists: &mut Vec<List>, free: &mut Vec<u32>) -> u32 {
    match free.pop() {
        Some(index) => {
            lists[index as usize] = list;
            index
        }
        None => {
            lists.push(list);
            (lists.len() - 1) as u32
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn followers(continuations: &Continuations, key: u64) -> Vec<(u32, u32)> {
        let followers = continuations.get(key).map_or(&[][..], |f| f.pairs);
        if let Some(found) = continuations.get(key) {
            let sum: u32 = found.pairs.iter().map(|pair| pair.count).sum();
            assert_eq!(sum, found.total);
        }
        followers.iter().map(|p| (p.token, p.count)).collect()
    }

    #[test]
    fn followers_are_sorted_by_count_and_then_by_age() {
        let mut continuations = Continuations::default();
        for token in [5, 6, 6, 7, 5] {
            continuations.add(1, token);
        }
        assert_eq!(followers(&continuations, 1), [(5, 2), (6, 2), (7, 1)]);
        assert_eq!(followers(&continuations, 2), []);
        continuations.remove(1, 5);
        assert_eq!(followers(&continuations, 1), [(6, 2), (5, 1), (7, 1)]);
        continuations.remove(1, 7);
        continuations.remove(1, 5);
        assert_eq!(followers(&continuations, 1), [(6, 2)]);
        assert_eq!(continuations.len(), 1);
    }

    proptest! {
        /// However many tokens are added and taken back, what is left is what fewer would have
        /// made.
        #[test]
        fn what_is_taken_back_leaves_no_trace(
            added in prop_oneof![
                prop::collection::vec((0u64..4, 0u32..5), 0..60),
                // More followers than a short list has.
                prop::collection::vec((0u64..2, 0u32..80), 0..300),
            ],
            keep in 0usize..300,
        ) {
            let keep = keep.min(added.len());
            let mut continuations = Continuations::default();
            let undos: Vec<_> = added.iter().map(|&(k, t)| continuations.add(k, t)).collect();
            for (&(key, token), undo) in added[keep..].iter().zip(&undos[keep..]).rev() {
                continuations.undo(key, token, *undo);
            }
            let mut fresh = Continuations::default();
            for &(key, token) in &added[..keep] {
                fresh.add(key, token);
            }
            for key in 0..4 {
                prop_assert_eq!(followers(&continuations, key), followers(&fresh, key));
            }
            prop_assert_eq!(continuations.len(), fresh.len());
        }
    }
}
