//! From sorted sums to the rows of an n-gram table.

use cascade_core::TokenId;
use cascade_ngram::NgramRows;

use crate::grams::Gram;
use crate::job::Summary;
use crate::Result;

/// Makes rows of sorted sums. Where triples are counted, a pair occurs as often as it is continued
/// and as it ends a document.
pub(crate) struct GramRows {
    rows: NgramRows,
    /// The pair that is being read, and how often it occurs so far.
    pair: Option<((TokenId, TokenId), u64)>,
}

impl GramRows {
    pub(crate) fn new(rows: NgramRows) -> Self {
        Self { rows, pair: None }
    }

    /// Adds a sum, which comes after the one before, to the table and to the totals.
    pub(crate) fn add(&mut self, gram: Gram, count: u64, summary: &mut Summary) -> Result<()> {
        match gram {
            Gram::Token(token) => {
                summary.add(gram, count);
                self.rows.add_token(token, count)?;
            }
            Gram::Pair(first, second) => self.add_pair((first, second), count, summary)?,
            Gram::Triple(context @ [first, second], third) => {
                summary.add(gram, count);
                self.rows.add_triple(context, third, count)?;
                self.add_pair((first, second), count, summary)?;
            }
        }
        Ok(())
    }

    fn add_pair(
        &mut self,
        pair: (TokenId, TokenId),
        count: u64,
        summary: &mut Summary,
    ) -> Result<()> {
        match &mut self.pair {
            Some((open, sum)) if *open == pair => *sum = sum.saturating_add(count),
            _ => {
                self.close_pair(summary)?;
                self.pair = Some((pair, count));
            }
        }
        Ok(())
    }

    fn close_pair(&mut self, summary: &mut Summary) -> Result<()> {
        if let Some(((token, successor), count)) = self.pair.take() {
            summary.add(Gram::Pair(token, successor), count);
            self.rows.add_pair(token, successor, count)?;
        }
        Ok(())
    }

    pub(crate) fn finish(mut self, summary: &mut Summary) -> Result<NgramRows> {
        self.close_pair(summary)?;
        Ok(self.rows)
    }
}
