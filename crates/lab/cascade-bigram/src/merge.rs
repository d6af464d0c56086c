//! K-way merge of sorted counts.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Result;
use crate::grams::Count;

/// At most this many lists are merged at once: each takes a buffer and an open file.
pub(crate) const FAN_IN: usize = 64;

/// The sums of sorted lists, in order. They do not depend on how the counts are divided into lists.
pub(crate) struct Merge<L> {
    lists: Vec<L>,
    /// The next count of each list that is not at its end.
    heads: BinaryHeap<Reverse<(Count, usize)>>,
    failed: bool,
}

impl<L: Iterator<Item = Result<Count>>> Merge<L> {
    pub(crate) fn new(lists: Vec<L>) -> Result<Self> {
        let mut merge = Self {
            lists,
            heads: BinaryHeap::new(),
            failed: false,
        };
        for list in 0..merge.lists.len() {
            merge.advance(list)?;
        }
        Ok(merge)
    }

    fn advance(&mut self, list: usize) -> Result<()> {
        if let Some(head) = self.lists[list].next() {
            self.heads.push(Reverse((head?, list)));
        }
        Ok(())
    }

    fn sum(&mut self) -> Result<Option<Count>> {
        let Some(Reverse(((key, mut sum), list))) = self.heads.pop() else {
            return Ok(None);
        };
        self.advance(list)?;
        while let Some(&Reverse(((next, count), list))) = self.heads.peek() {
            if next != key {
                break;
            }
            self.heads.pop();
            sum = sum.saturating_add(count);
            self.advance(list)?;
        }
        Ok(Some((key, sum)))
    }
}

impl<L: Iterator<Item = Result<Count>>> Iterator for Merge<L> {
    type Item = Result<Count>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let sum = self.sum();
        self.failed = sum.is_err();
        sum.transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sums_whatever_the_division(lists in prop::collection::vec(
            prop::collection::btree_map(0..20u64, 1..9u64, 0..20), 0..6))
        {
            let mut sums = BTreeMap::new();
            for (key, count) in lists.iter().flatten() {
                *sums.entry(*key).or_insert(0) += count;
            }
            let lists = lists.into_iter().map(|list| list.into_iter().map(Ok)).collect();
            let merged: Result<Vec<Count>> = Merge::new(lists).unwrap().collect();
            prop_assert_eq!(merged.unwrap(), sums.into_iter().collect::<Vec<_>>());
        }
    }
}
