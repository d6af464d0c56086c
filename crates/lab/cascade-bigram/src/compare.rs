//! How far two tables agree.

use std::collections::BTreeSet;

use cascade_core::TokenId;
use cascade_ngram::{Error, NgramTable};

/// How far the first successors of two tables agree.
#[derive(Clone, Debug, PartialEq)]
pub struct Agreement {
    /// All tokens.
    pub all: Band,
    /// By how often tokens occur in the text of the first table: never, 1 to 9 times, 10 to 99
    /// times, and so on. Without bands that have no token.
    pub bands: Vec<Band>,
}

/// Tokens that occur about equally often.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Band {
    /// The least count of the band.
    pub from: u64,
    /// The number of tokens.
    pub tokens: u64,
    /// Tokens with a successor in the first table only.
    pub only_first: u64,
    /// Tokens with a successor in the second table only.
    pub only_second: u64,
    /// Tokens with a successor in both tables.
    pub both: u64,
    /// Tokens in `both` with the same first successor.
    pub agree: u64,
    /// Occurrences of the tokens in `both`.
    pub weight: u64,
    /// Occurrences of the tokens in `agree`.
    pub agree_weight: u64,
}

impl Band {
    /// Share of the tokens in [`both`](Self::both) whose first successors agree; `None` without
    /// any.
    pub fn share(&self) -> Option<f64> {
        (self.both > 0).then(|| self.agree as f64 / self.both as f64)
    }

    /// The share of [`share`](Self::share), each token counted as often as it occurs.
    pub fn weighted_share(&self) -> Option<f64> {
        (self.weight > 0).then(|| self.agree_weight as f64 / self.weight as f64)
    }

    fn add(&mut self, count: u64, first: Option<u32>, second: Option<u32>) {
        self.tokens += 1;
        match (first, second) {
            (None, None) => {}
            (Some(_), None) => self.only_first += 1,
            (None, Some(_)) => self.only_second += 1,
            (Some(first), Some(second)) => {
                let agree = u64::from(first == second);
                self.both += 1;
                self.agree += agree;
                self.weight = self.weight.saturating_add(count);
                self.agree_weight = self.agree_weight.saturating_add(agree * count);
            }
        }
    }
}

/// Compares what most often follows contexts of `length` tokens in two tables, weighted by how
/// often the first table's text continues them. Contexts that neither table knows are left out,
/// except tokens.
///
/// # Errors
/// [`Error::Tokenizer`] if the tables are for different tokenizers.
pub fn compare(first: &NgramTable, second: &NgramTable, length: usize) -> Result<Agreement, Error> {
    second.check_tokenizer(&first.metadata().provenance.tokenizer)?;
    let known = [first, second].map(|table| table.contexts().map(|(context, _)| context));
    let tokens = (0..first.vocab_size() as TokenId).map(|token| vec![token]);
    let contexts: BTreeSet<Vec<TokenId>> = known
        .into_iter()
        .flatten()
        .chain(tokens)
        .filter(|of| of.len() == length)
        .collect();
    Ok(Agreement::of(contexts.iter().map(|context| {
        let best = |table: &NgramTable| Some(table.after(context)?.next()?.0);
        let count = first.after(context).map_or(0, |after| after.total());
        (count, best(first), best(second))
    })))
}

impl Agreement {
    /// The agreement on contexts, each given with its count in the first table and the best
    /// successor in both tables.
    fn of(contexts: impl Iterator<Item = (u64, Option<TokenId>, Option<TokenId>)>) -> Self {
        let mut all = Band::default();
        // Of 0, of 1 to 9, …: a count of 64 bits has 20 digits.
        let mut bands = vec![Band::default(); 21];
        for (count, first, second) in contexts {
            let digits = count.checked_ilog10().map_or(0, |log| log + 1);
            let band = &mut bands[digits as usize];
            band.from = digits.checked_sub(1).map_or(0, |log| 10u64.pow(log));
            for band in [band, &mut all] {
                band.add(count, first, second);
            }
        }
        bands.retain(|band| band.tokens > 0);
        Self { all, bands }
    }
}
