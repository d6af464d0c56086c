//! How far two tables agree.

use cascade_ngram::{BigramTable, Error};

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
    /// Those of `both` whose first successor is the same.
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

    /// The same, each token as often as it occurs.
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

/// Compares the first successors of two tables. Tokens are weighted by how often they occur in the
/// text of the first.
///
/// # Errors
/// [`Error::Tokenizer`] if the tables are for different tokenizers.
pub fn compare(first: &BigramTable, second: &BigramTable) -> Result<Agreement, Error> {
    second.check_tokenizer(&first.metadata().provenance.tokenizer)?;
    let mut all = Band::default();
    // Of 0, of 1 to 9, …: a count of 64 bits has 20 digits.
    let mut bands = vec![Band::default(); 21];
    for token in 0..first.vocab_size() as u32 {
        let count = first.unigram_count(token);
        let digits = count.checked_ilog10().map_or(0, |log| log + 1);
        let band = &mut bands[digits as usize];
        band.from = digits.checked_sub(1).map_or(0, |log| 10u64.pow(log));
        for band in [band, &mut all] {
            band.add(count, first.best(token), second.best(token));
        }
    }
    bands.retain(|band| band.tokens > 0);
    Ok(Agreement { all, bands })
}
