//! Validation of a table's rows.

use cascade_core::TokenId;

use super::{layout::Layout, BigramTable};
use crate::{Error, Result};

impl BigramTable {
    /// Refuses offsets that do not divide the pairs into rows, and rows that are not in order.
    pub(super) fn check_rows(&self) -> Result<()> {
        let Layout {
            vocab_size, pairs, ..
        } = self.layout;
        for token in 0..vocab_size {
            let (start, end) = (self.offset(token), self.offset(token + 1));
            let begins = token > 0 || start == 0;
            let ends = token + 1 < vocab_size || end == pairs as u64;
            if !begins || !ends || start > end || end > pairs as u64 {
                return Err(self.invalid(format!(
                    "the offsets of token {token} are {start}..{end}, which is not a row of {pairs} \
                     pairs; offsets begin at 0, never fall, and end at the number of pairs"
                )));
            }
            self.check_row(token)?;
        }
        Ok(())
    }

    fn check_row(&self, token: usize) -> Result<()> {
        let row: Vec<(TokenId, u64)> = self.successors(token as TokenId).collect();
        let vocab_size = self.layout.vocab_size;
        if let Some(&(successor, _)) = row.iter().find(|(s, _)| *s as usize >= vocab_size) {
            return Err(self.invalid(format!(
                "successor {successor} of token {token} is outside the vocabulary of {vocab_size}"
            )));
        }
        let falling = row
            .windows(2)
            .all(|pair| pair[0].1 > pair[1].1 || pair[0].1 == pair[1].1 && pair[0].0 < pair[1].0);
        let mut tokens: Vec<TokenId> = row.iter().map(|pair| pair.0).collect();
        tokens.sort_unstable();
        let distinct = tokens.windows(2).all(|pair| pair[0] != pair[1]);
        if falling && distinct && row.last().is_none_or(|pair| pair.1 > 0) {
            return Ok(());
        }
        Err(self.invalid(format!(
            "the successors of token {token} are not in order; \
             each stands once, by falling count, equal counts by rising token"
        )))
    }

    fn invalid(&self, reason: String) -> Error {
        Error::invalid(self.file(), reason)
    }
}
