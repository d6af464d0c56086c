//! What a template draws, and a record of it.

use std::ops::RangeInclusive;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::world::{Person, Thing, PEOPLE};

/// Draws numbers, people, things and wordings, the same for a seed on every machine and in every
/// release, and keeps a record of what must not be shared between splits.
#[derive(Debug)]
pub(super) struct Draw {
    rng: ChaCha8Rng,
    people: Vec<usize>,
    things: Vec<&'static str>,
    pub(super) drawn: Drawn,
}

/// What distinguishes one problem of a template from another.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Drawn {
    /// All numbers, in the order that they were drawn.
    pub(super) numbers: Vec<u32>,
    /// Whom it is about: the place of the first person among all.
    pub(super) person: usize,
    /// Which combination of wordings, of as many as there are.
    pub(super) wording: usize,
    pub(super) wordings: usize,
}

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            people: Vec::new(),
            things: Vec::new(),
            drawn: Drawn {
                numbers: Vec::new(),
                person: 0,
                wording: 0,
                wordings: 1,
            },
        }
    }

    /// A number of the problem.
    pub(super) fn number(&mut self, range: RangeInclusive<u32>) -> u32 {
        let number = self.rng.random_range(range);
        self.drawn.numbers.push(number);
        number
    }

    /// A number of the problem that is a multiple of `step`.
    pub(super) fn multiple(&mut self, step: u32, times: RangeInclusive<u32>) -> u32 {
        step * self.number(times)
    }

    /// One of the numbers that a problem may have.
    pub(super) fn number_of(&mut self, numbers: &[u32]) -> u32 {
        let number = self.one_of(numbers);
        self.drawn.numbers.push(number);
        number
    }

    /// Somebody who is not in the problem yet.
    pub(super) fn person(&mut self) -> Person {
        loop {
            let place = self.place(PEOPLE.len());
            if !self.people.contains(&place) {
                self.people.push(place);
                self.drawn.person = self.people[0];
                return PEOPLE[place];
            }
        }
    }

    /// Something of that kind which is not in the problem yet.
    pub(super) fn thing(&mut self, kind: &[Thing]) -> Thing {
        loop {
            let thing = self.one_of(kind);
            if !self.things.contains(&thing.many) {
                self.things.push(thing.many);
                return thing;
            }
        }
    }

    /// Any of `items`; splits may share it.
    pub(super) fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.rng.random_range(0..items.len())]
    }

    /// Which of so many wordings a sentence has.
    pub(super) fn wording(&mut self, count: usize) -> usize {
        let wording = self.place(count);
        self.drawn.wording += wording * self.drawn.wordings;
        self.drawn.wordings *= count;
        wording
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

/// One of several wordings of a sentence.
macro_rules! say {
    ($draw:expr; $($wording:literal),+ $(,)?) => {{
        let wordings: &[&dyn Fn() -> String] = &[$(&|| format!($wording)),+];
        let chosen = $draw.wording(wordings.len());
        wordings[chosen]()
    }};
}
pub(super) use say;
