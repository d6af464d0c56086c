//! What a template draws, and a record of it.

use std::ops::RangeInclusive;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::templates::{self, List, Value};

/// Draws numbers, people, things and wordings, the same for a seed on every machine and in every
/// release, and keeps a record of what must not be shared between splits.
#[derive(Debug)]
pub(super) struct Draw {
    rng: ChaCha8Rng,
    /// The first forms of all entries that are in the problem.
    entries: Vec<Value>,
    pub(super) record: Record,
}

/// What distinguishes one problem of a template from another.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// All numbers, in the order that they were drawn.
    pub(super) numbers: Vec<u32>,
    /// Whom it is about: the place of the first person among all.
    pub(super) person: Option<usize>,
    /// Which combination of wordings, of as many as there are.
    pub(super) wording: usize,
    pub(super) wordings: usize,
}

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            entries: Vec::new(),
            record: Record {
                numbers: Vec::new(),
                person: None,
                wording: 0,
                wordings: 1,
            },
        }
    }

    /// A number of the problem.
    pub(super) fn number(&mut self, range: RangeInclusive<u32>) -> u32 {
        let number = self.rng.random_range(range);
        self.record.numbers.push(number);
        number
    }

    /// An entry that is not in the problem yet.
    pub(super) fn entry<'l>(&mut self, list: &'l List) -> &'l [Value] {
        loop {
            let place = self.place(list.entries.len());
            let entry = &list.entries[place];
            if !self.entries.contains(&entry[0]) {
                self.entries.push(entry[0]);
                if list.people {
                    self.record.person.get_or_insert(place);
                }
                return entry;
            }
        }
    }

    /// The first form of an entry, not in the problem yet, of the list of that name.
    pub(super) fn word(&mut self, list: &str) -> Value {
        self.entry(templates::list(list))[0]
    }

    /// Which of so many wordings a sentence has.
    pub(super) fn wording(&mut self, count: usize) -> usize {
        let wording = self.place(count);
        self.record.wording += wording * self.record.wordings;
        self.record.wordings *= count;
        wording
    }

    /// One of several wordings of a sentence.
    pub(super) fn say<const N: usize>(&mut self, mut wordings: [String; N]) -> String {
        std::mem::take(&mut wordings[self.wording(N)])
    }

    /// True in one of so many cases.
    pub(super) fn once_in(&mut self, cases: u32) -> bool {
        self.rng.random_ratio(1, cases)
    }

    /// An index below `count`, of which no record is kept.
    pub(super) fn place(&mut self, count: usize) -> usize {
        self.rng.random_range(0..count)
    }
}
