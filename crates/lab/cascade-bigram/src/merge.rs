//! K-way merge of sorted counts.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::grams::{Gram, Grams};
use crate::pairs::Count;
use crate::{Error, ErrorKind, Result};

/// At most this many lists are merged at once: each takes a buffer and an open file.
pub(crate) const FAN_IN: usize = 64;

/// Counts by rising key.
pub(crate) type Counts = Box<dyn Iterator<Item = Result<Count>> + Send>;

/// The sums of sorted lists, in order. They do not depend on how the counts are divided into lists.
pub(crate) struct Merge {
    grams: Grams,
    lists: Vec<Counts>,
    /// The next count of each list that is not at its end.
    heads: BinaryHeap<Reverse<(Count, usize)>>,
    failed: bool,
}

impl Merge {
    pub(crate) fn new(grams: Grams, lists: Vec<Counts>) -> Result<Self> {
        let mut merge = Self {
            grams,
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
        while let Some(Reverse(((next, count), list))) = self.heads.peek().copied() {
            if next != key {
                break;
            }
            self.heads.pop();
            sum = sum
                .checked_add(count)
                .ok_or_else(|| overflow(self.grams.gram(key)))?;
            self.advance(list)?;
        }
        Ok(Some((key, sum)))
    }
}

fn overflow(gram: Gram) -> Error {
    let (token, successor) = match gram {
        Gram::Token(token) => (token, token),
        Gram::Pair(token, successor) | Gram::Triple([_, token], successor) => (token, successor),
    };
    let message =
        format!("the count of token {successor} after token {token} does not fit into 64 bits");
    Error::new(ErrorKind::Input, message)
}

impl Iterator for Merge {
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

    fn list(counts: &BTreeMap<u64, u64>) -> Counts {
        let counts: Vec<Count> = counts.iter().map(|(&key, &count)| (key, count)).collect();
        Box::new(counts.into_iter().map(Ok))
    }

    proptest! {
        #[test]
        fn sums_whatever_the_division(lists in prop::collection::vec(
            prop::collection::btree_map(0..20u64, 1..9u64, 0..20), 0..6))
        {
            let mut sums = BTreeMap::new();
            for (key, count) in lists.iter().flatten() {
                *sums.entry(*key).or_insert(0) += count;
            }
            let merge = Merge::new(Grams::Pairs, lists.iter().map(list).collect()).unwrap();
            let merged: Result<Vec<Count>> = merge.collect();
            prop_assert_eq!(merged.unwrap(), sums.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn says_what_does_not_fit() {
        let full = BTreeMap::from([(1 << 32 | 2, u64::MAX)]);
        let mut merge = Merge::new(Grams::Pairs, vec![list(&full), list(&full)]).unwrap();
        let error = merge.next().unwrap().unwrap_err();
        let expected = "the count of token 2 after token 1 does not fit into 64 bits";
        assert_eq!(error.to_string(), expected);
        assert!(merge.next().is_none());
    }
}
