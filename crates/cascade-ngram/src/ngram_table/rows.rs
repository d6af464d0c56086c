//! Builds tables from sorted counts.

use std::cmp::Reverse;

use cascade_core::TokenId;

use super::layout::{check_vocabulary, is_narrow};
use super::{BLOCK, LONGEST, NgramMetadata, NgramTable, UNIGRAMS, check_tokens, codes, tensor};
use crate::container::{self, Tensor};
use crate::{Error, Provenance, Result};

/// What a table keeps of the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NgramLimits {
    /// Continuations of each context, at most; 1 to 255.
    pub top_k: usize,
    /// Continuations that occur less often after their context are dropped.
    pub min_count: u64,
    /// Contexts of two tokens that are continued less often are dropped.
    pub min_context: u64,
}

impl Default for NgramLimits {
    /// Limits that make drafts fastest: 16 continuations however rare, after contexts that occur
    /// twice.
    fn default() -> Self {
        Self {
            top_k: 16,
            min_count: 1,
            min_context: 2,
        }
    }
}

/// Makes a table of counts that come sorted: in memory are the table and the continuations of two
/// contexts.
#[derive(Clone, Debug)]
pub struct NgramRows {
    order: usize,
    limits: NgramLimits,
    unigrams: Vec<u64>,
    /// The lists of contexts of one token, and of two.
    ones: Lists,
    twos: Lists,
    /// The contexts in `twos`.
    firsts: Vec<u32>,
    seconds: Vec<TokenId>,
    one: ContinuationRow<1>,
    two: ContinuationRow<2>,
}

impl NgramRows {
    /// A table with contexts of 1 to `order` tokens.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a vocabulary, an order or a `top_k` that tables cannot have.
    pub fn new(order: usize, vocab_size: usize, limits: NgramLimits) -> Result<Self> {
        let refuse = |reason| Err(Error::invalid(NEW, reason));
        check_vocabulary(NEW, vocab_size)?;
        if !(1..=LONGEST).contains(&order) {
            return refuse(format!("contexts of {order} tokens; give 1 or {LONGEST}"));
        }
        if !(1..=usize::from(u8::MAX)).contains(&limits.top_k) {
            let top_k = limits.top_k;
            return refuse(format!("{top_k} continuations of a context; give 1 to 255"));
        }
        Ok(Self {
            order,
            limits,
            unigrams: vec![0; vocab_size],
            ones: Lists::default(),
            twos: Lists::default(),
            firsts: Vec::new(),
            seconds: Vec::new(),
            one: ContinuationRow::default(),
            two: ContinuationRow::default(),
        })
    }

    /// Sets how often a token occurs; a token without a call never occurs. In tables of order 1 it
    /// is the total of what follows the token, so it must come before the pairs of the next token.
    ///
    /// # Errors
    /// A token outside the vocabulary.
    pub fn add_token(&mut self, token: TokenId, count: u64) -> Result<()> {
        check_tokens("the counts", &[token], self.unigrams.len())?;
        self.unigrams[token as usize] = count;
        Ok(())
    }

    /// Adds how often `next` follows the token `last`.
    ///
    /// # Errors
    /// A token outside the vocabulary, a pair that does not come after the one before, counts that
    /// do not fit.
    pub fn add_pair(&mut self, last: TokenId, next: TokenId, count: u64) -> Result<()> {
        check_tokens("the counts", &[last, next], self.unigrams.len())?;
        if self.one.context != Some([last]) {
            self.close_one()?;
        }
        self.one.add([last], next, count)
    }

    /// Adds how often `next` follows the tokens `context`. For tables of order 2.
    ///
    /// # Errors
    /// As [`add_pair`](Self::add_pair).
    pub fn add_triple(&mut self, context: [TokenId; 2], next: TokenId, count: u64) -> Result<()> {
        let [first, second] = context;
        check_tokens("the counts", &[first, second, next], self.unigrams.len())?;
        if self.order < 2 {
            let reason = "counts of three tokens for a table of order 1";
            return Err(Error::invalid(NEW, reason));
        }
        if self.two.context != Some(context) {
            self.close_two()?;
        }
        self.two.add(context, next, count)
    }

    /// The table.
    ///
    /// # Errors
    /// [`Error::Invalid`] for more than the format can hold.
    pub fn finish(self, documents: u64, provenance: Provenance) -> Result<NgramTable> {
        let metadata = self.metadata(documents, provenance);
        self.encode(NEW, &metadata)
    }

    pub(super) fn metadata(&self, documents: u64, provenance: Provenance) -> NgramMetadata {
        let tokens = self.unigrams.iter();
        NgramMetadata {
            provenance,
            order: self.order,
            vocab_size: self.unigrams.len(),
            top_k: self.limits.top_k as u64,
            min_count: self.limits.min_count,
            min_context: self.limits.min_context,
            documents,
            total_tokens: tokens.fold(0u64, |sum, &n| sum.saturating_add(n)),
            total_bigrams: self.one.sum,
            total_trigrams: self.two.sum,
        }
    }

    fn close(&mut self) -> Result<()> {
        self.close_one()?;
        self.close_two()?;
        let vocab_size = self.unigrams.len();
        self.ones.skip_to(vocab_size);
        self.firsts
            .resize(vocab_size + 1, self.seconds.len() as u32);
        Ok(())
    }

    /// The table with this metadata, under a name for errors.
    pub(super) fn encode(mut self, name: &str, metadata: &NgramMetadata) -> Result<NgramTable> {
        self.close()?;
        let (tokens, counts) = most_frequent(&self.unigrams);
        let lists = self.ones.followed_by(self.twos);
        let seconds = if is_narrow(metadata.vocab_size) {
            let narrow: Vec<u16> = self.seconds.iter().map(|&token| token as u16).collect();
            Tensor::u16(tensor::SECONDS, &narrow)
        } else {
            Tensor::u32(tensor::SECONDS, &self.seconds)
        };
        let mut tensors = vec![
            Tensor::u64(tensor::UNIGRAM_COUNTS, &counts),
            Tensor::u32(tensor::BLOCKS, &lists.blocks()?),
            Tensor::u32(tensor::ENTRIES, &lists.entries),
            Tensor::u32(tensor::FIRSTS, &self.firsts),
            Tensor::u32(tensor::UNIGRAMS, &tokens),
            Tensor::u16(tensor::TOTALS, &lists.totals),
            Tensor::u8(tensor::LENGTHS, &lists.lengths),
        ];
        // By falling width.
        tensors.insert(5, seconds);
        let entries = metadata.to_entries(tensors.iter().map(|tensor| tensor.bytes.as_slice()));
        NgramTable::from_bytes(name, container::encode(entries, tensors))
    }

    fn close_one(&mut self) -> Result<()> {
        let Some([token]) = self.one.context else {
            return Ok(());
        };
        self.ones.skip_to(token as usize);
        if self.order == 1 {
            let frequency = self.unigrams[token as usize];
            self.one.total = self.one.total.max(frequency);
        }
        let (total, kept) = self.one.close(&self.limits)?;
        self.ones.push(total, kept);
        Ok(())
    }

    fn close_two(&mut self) -> Result<()> {
        let Some([first, second]) = self.two.context else {
            return Ok(());
        };
        let (total, kept) = self.two.close(&self.limits)?;
        if total >= self.limits.min_context && !kept.is_empty() {
            let before = u32::try_from(self.seconds.len())
                .map_err(|_| Error::invalid(NEW, "more than 2³² contexts; raise min_context"))?;
            self.firsts
                .resize(self.firsts.len().max(first as usize + 1), before);
            self.seconds.push(second);
            self.twos.push(total, kept);
        }
        Ok(())
    }
}

/// What tables are called that have no name yet.
const NEW: &str = "a new table";

/// The most frequent tokens, and how often they occur; of equally frequent ones the lower.
fn most_frequent(unigrams: &[u64]) -> (Vec<TokenId>, Vec<u64>) {
    let mut tokens: Vec<(Reverse<u64>, TokenId)> = unigrams
        .iter()
        .zip(0..)
        .filter(|(count, _)| **count > 0)
        .map(|(count, token)| (Reverse(*count), token))
        .collect();
    tokens.sort_unstable();
    tokens.truncate(UNIGRAMS);
    tokens
        .into_iter()
        .map(|(Reverse(n), token)| (token, n))
        .unzip()
}

/// The continuations of the context that is being read, by rising token.
#[derive(Clone, Debug)]
struct ContinuationRow<const N: usize> {
    context: Option<[TokenId; N]>,
    next: Vec<(TokenId, u64)>,
    total: u64,
    /// The total of all rows so far.
    sum: u64,
}

impl<const N: usize> Default for ContinuationRow<N> {
    fn default() -> Self {
        Self {
            context: None,
            next: Vec::new(),
            total: 0,
            sum: 0,
        }
    }
}

impl<const N: usize> ContinuationRow<N> {
    /// Adds a count; the row of another context must have been closed.
    fn add(&mut self, context: [TokenId; N], next: TokenId, count: u64) -> Result<()> {
        let last = self.next.last().map(|pair| pair.0);
        let falls = self.context.is_some_and(|before| before > context);
        if falls || self.context == Some(context) && last >= Some(next) {
            return Err(Error::Unsorted {
                token: context[N - 1],
                successor: next,
            });
        }
        self.context = Some(context);
        self.next.push((next, count));
        self.total = self.total.saturating_add(count);
        self.sum = self.sum.saturating_add(count);
        Ok(())
    }

    /// The total of the context, and what is kept of its continuations, as entries. The row is
    /// empty after that, and remembers its context, after which the next one comes.
    fn close(&mut self, limits: &NgramLimits) -> Result<(u64, Vec<u32>)> {
        let total = std::mem::take(&mut self.total);
        if total > codes::LARGEST_TOTAL {
            let most = codes::LARGEST_TOTAL;
            let reason = format!("a context occurs {total} times; tables hold up to {most}");
            return Err(Error::invalid(NEW, reason));
        }
        let mut next = std::mem::take(&mut self.next);
        next.retain(|pair| pair.1 >= limits.min_count.max(1));
        next.sort_unstable_by_key(|&(token, count)| (Reverse(count), token));
        next.truncate(limits.top_k);
        let entry = |(token, count)| codes::entry(token, count, total);
        Ok((total, next.into_iter().map(entry).collect()))
    }
}

/// Lists of continuations, one for each context.
#[derive(Clone, Debug, Default)]
struct Lists {
    totals: Vec<u16>,
    lengths: Vec<u8>,
    entries: Vec<u32>,
}

impl Lists {
    /// Adds empty lists until there are `contexts`.
    fn skip_to(&mut self, contexts: usize) {
        self.totals.resize(self.totals.len().max(contexts), 0);
        self.lengths.resize(self.totals.len(), 0);
    }

    /// Adds a list. One that is empty has no total.
    fn push(&mut self, total: u64, entries: Vec<u32>) {
        let total = if entries.is_empty() { 0 } else { total };
        self.totals.push(codes::total_code(total));
        self.lengths.push(entries.len() as u8);
        self.entries.extend(entries);
    }

    fn followed_by(mut self, mut other: Self) -> Self {
        self.totals.append(&mut other.totals);
        self.lengths.append(&mut other.lengths);
        self.entries.append(&mut other.entries);
        self
    }

    /// How many entries come before each block of contexts, and how many there are.
    fn blocks(&self) -> Result<Vec<u32>> {
        let too_many = |_| {
            Error::invalid(
                NEW,
                "more than 2³² continuations; lower top_k or raise min_count",
            )
        };
        u32::try_from(self.entries.len()).map_err(too_many)?;
        let mut before = 0;
        let mut blocks = vec![0];
        for lengths in self.lengths.chunks(BLOCK) {
            before += lengths.iter().map(|&length| u32::from(length)).sum::<u32>();
            blocks.push(before);
        }
        Ok(blocks)
    }
}
