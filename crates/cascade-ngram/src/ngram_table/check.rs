//! Validation of a table's content.

use super::{BLOCK, NgramTable, codes};
use crate::Result;

impl NgramTable {
    /// Refuses a table that its own builder could not have written.
    pub(super) fn check(&self) -> Result<()> {
        self.check_unigrams()?;
        self.check_pairs()?;
        self.check_blocks()?;
        let mut seen = vec![0; self.layout.vocab_size];
        let mut start = 0;
        for index in 0..self.layout.vocab_size + self.layout.pairs {
            self.check_entries(index, start, &mut seen)?;
            start += self.length(index);
        }
        Ok(())
    }

    fn check_unigrams(&self) -> Result<()> {
        let unigrams = self.unigrams();
        let vocab_size = self.layout.vocab_size;
        let inside = unigrams
            .iter()
            .all(|u| (u.0 as usize) < vocab_size && u.1 > 0);
        let falling = unigrams
            .windows(2)
            .all(|pair| pair[0].1 > pair[1].1 || pair[0].1 == pair[1].1 && pair[0].0 < pair[1].0);
        let mut tokens: Vec<_> = unigrams.iter().map(|unigram| unigram.0).collect();
        tokens.sort_unstable();
        let distinct = tokens.windows(2).all(|pair| pair[0] != pair[1]);
        let sum = unigrams
            .iter()
            .try_fold(0u64, |sum, u| sum.checked_add(u.1));
        let known = sum.is_some_and(|sum| sum <= self.metadata().total_tokens);
        if inside && falling && distinct && known {
            return Ok(());
        }
        Err(self.invalid(format!(
            "the frequencies of tokens are not in order; each token below {vocab_size} stands at most once, by \
             falling count, equal counts by rising token, and no more than all {} tokens together",
            self.metadata().total_tokens
        )))
    }

    fn check_pairs(&self) -> Result<()> {
        let (vocab_size, pairs) = (self.layout.vocab_size, self.layout.pairs);
        if self.order() < 2 && pairs > 0 {
            return Err(self.invalid(format!("a table of order 1 with {pairs} pairs of tokens")));
        }
        for token in 0..vocab_size {
            let (start, end) = (self.first(token), self.first(token + 1));
            let begins = token > 0 || start == 0;
            let ends = token + 1 < vocab_size || end == pairs;
            if !begins || !ends || start > end || end > pairs {
                return Err(self.invalid(format!(
                    "the pairs that begin with token {token} are {start}..{end} of {pairs}; \
                     `firsts` begins at 0, never falls, and ends at the number of pairs"
                )));
            }
            let rising = (start..end)
                .skip(1)
                .all(|i| self.second(i - 1) < self.second(i));
            if !rising || end > start && self.second(end - 1) as usize >= vocab_size {
                return Err(self.invalid(format!(
                    "the second tokens after token {token} do not rise, or are outside the vocabulary of \
                     {vocab_size}"
                )));
            }
        }
        Ok(())
    }

    fn check_blocks(&self) -> Result<()> {
        let contexts = self.layout.vocab_size + self.layout.pairs;
        let mut before = 0;
        for block in 0..contexts.div_ceil(BLOCK) {
            let found = self.block(block);
            if found != before {
                return Err(self.invalid(format!(
                    "block {block} of contexts begins at entry {found}, and {before} come before it"
                )));
            }
            let end = contexts.min((block + 1) * BLOCK);
            before += (block * BLOCK..end)
                .map(|index| self.length(index))
                .sum::<usize>();
        }
        let (last, entries) = (
            self.block(contexts.div_ceil(BLOCK)),
            self.layout.continuations,
        );
        if before != entries || last != entries {
            return Err(self.invalid(format!(
                "the lengths of all contexts sum up to {before}, and `blocks` ends with {last}, for {entries} entries"
            )));
        }
        Ok(())
    }

    /// `seen` holds for each token the last context that it continued, counted from 1.
    fn check_entries(&self, index: usize, start: usize, seen: &mut [usize]) -> Result<()> {
        let (length, total) = (self.length(index), self.total(index));
        let pair = index >= self.layout.vocab_size;
        let mut codes = codes::ALL;
        let mut left = total;
        let mut sound = (length > 0) == (total > 0) && (length > 0 || !pair);
        for entry in (start..start + length).map(|i| self.entry(i)) {
            let count = codes::count(entry, total);
            let times = seen.get_mut(codes::token(entry) as usize);
            let new = times.is_some_and(|last| std::mem::replace(last, index + 1) != index + 1);
            sound &= new && count > 0 && count <= left && codes::code(entry) <= codes;
            codes = codes::code(entry);
            left = left.saturating_sub(count);
        }
        if sound {
            return Ok(());
        }
        Err(self.invalid(format!(
            "the continuations of context {index} are not in order; each token below {} stands at most once, by \
             falling count of at least 1, and together they do not exceed the context's total of {total}",
            self.layout.vocab_size
        )))
    }
}
