//! What forwards of a model cost and earn, for all texts whose rows share them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cascade_core::SharedForward;

use super::costs::Costs;

/// How much of the rate before a forward counts after it.
const KEEP: f64 = 0.9;
/// Steps of plain decoding that the rate begins with.
const RATE_PRIOR: f64 = 8.0;
/// How far the last forward counts for who else has rows in the next.
const COMPANY: f64 = 0.25;
/// The share by which a row of a statistical drafter has to earn more than it seems to cost, beside
/// many texts, as a share.
const CAUTION: f64 = 0.15;
/// Depths of drafts that are distinguished; all beyond count as the last.
const DEPTHS: usize = 8;

/// What forwards of one model cost and earn, known to all texts that share them: the price of a
/// row follows from all of their rows and tokens, and each weighs its drafts against it. Clones are
/// the same.
#[derive(Clone, Debug, Default)]
pub struct SharedPrices(Arc<Mutex<Option<Prices>>>);

impl SharedPrices {
    /// What is known; `new` before the first text.
    pub(super) fn get(&self, new: impl FnOnce() -> Prices) -> Prices {
        self.lock().get_or_insert_with(new).clone()
    }

    /// Changes what is known, and returns it.
    pub(super) fn change(&self, known: &mut Prices, change: impl FnOnce(&mut Prices)) {
        let mut shared = self.lock();
        let shared = shared.get_or_insert_with(|| known.clone());
        change(shared);
        known.clone_from(shared);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Prices>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is known of a model's forwards.
#[derive(Clone, Debug)]
pub(super) struct Prices {
    /// Costs of the model's forwards by their rows, those of all texts included.
    pub(super) costs: Costs,
    pub(super) rate: Rate,
    /// The last forward that texts shared.
    last: Option<u64>,
}

impl Prices {
    pub(super) fn new(costs: Costs) -> Self {
        Self {
            costs,
            rate: Rate {
                tokens: RATE_PRIOR,
                time: RATE_PRIOR,
            },
            last: None,
        }
    }

    /// Learns from a forward. One that several texts tell of, by its number, counts once.
    pub(super) fn learn(&mut self, number: Option<u64>, rows: usize, seconds: f64) {
        if number.is_none() || number != self.last {
            self.costs.learn(rows, seconds);
        }
        self.last = number;
    }
}

/// Tokens of late, in units of plain decoding of as many texts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    tokens: f64,
    time: f64,
}

impl Rate {
    /// How many times the tokens of plain decoding.
    pub(super) fn gain(self) -> f64 {
        (self.tokens / self.time).max(1.0)
    }

    /// Begins with another gain.
    pub(super) fn begin_with(&mut self, gain: f64) {
        self.tokens *= gain;
    }

    /// Learns the tokens of a step of one of so many texts, and its time in steps of plain
    /// decoding.
    pub(super) fn learn(&mut self, tokens: f64, time: f64, texts: f64) {
        let keep = KEEP.powf(texts.recip());
        self.tokens = keep * self.tokens + tokens;
        self.time = keep * self.time + time;
    }
}

/// Who else has rows in a model's forwards, of late.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Company {
    /// All texts, this one included.
    pub(super) texts: f64,
    /// Rows of the others.
    pub(super) rows: f64,
}

impl Company {
    /// The company in a forward of so many texts without drafts.
    fn of_texts(texts: usize) -> Self {
        Self {
            texts: texts as f64,
            rows: texts as f64 - 1.0,
        }
    }

    /// The company in the last forward of a call for `own` rows, which are more than the forward's
    /// if it took several to read a prompt.
    fn new(shared: SharedForward, own: usize) -> Self {
        let texts = shared.texts.max(1);
        match shared.rows.checked_sub(own) {
            Some(rows) => Self {
                texts: texts as f64,
                rows: rows as f64,
            },
            None => Self::of_texts(texts),
        }
    }

    /// How many times as dear as it seems a row of a statistical drafter is taken to be. The more
    /// texts, the closer is what a row costs to what a token is worth, and then the drafts that
    /// seem to pay are those whose probability was estimated too high, or their cost too low.
    pub(super) fn caution(&self) -> f64 {
        1.0 + CAUTION * (1.0 - self.texts.recip())
    }

    fn follow(&mut self, last: Self) {
        self.texts += COMPANY * (last.texts - self.texts);
        self.rows += COMPANY * (last.rows - self.rows);
    }
}

/// The company of a model's forwards by the depth that they draft at: texts that draft further than
/// others are alone. Those of the target are all at depth 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Companies([Option<Company>; DEPTHS]);

impl Companies {
    /// The company of recent forwards at this depth, or above it where nothing was drafted yet.
    pub(super) fn at(&self, depth: usize) -> Company {
        let known = self
            .0
            .iter()
            .take(depth + 1)
            .rev()
            .flatten()
            .next()
            .copied();
        known.unwrap_or_else(|| Company::of_texts(1))
    }

    /// Whether there was no forward yet.
    pub(super) fn are_new(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// Learns from a forward in which the text had `own` rows.
    pub(super) fn learn(&mut self, depth: usize, shared: SharedForward, own: usize) {
        let last = Company::new(shared, own);
        match &mut self.0[depth.min(DEPTHS - 1)] {
            Some(known) => known.follow(last),
            unknown => *unknown = Some(last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_company_of_a_prompt_that_took_several_forwards_is_known() {
        let mut companies = Companies::default();
        let last = SharedForward {
            texts: 8,
            rows: 44,
            reads_prompt: true,
            ..SharedForward::default()
        };
        companies.learn(0, last, 106);
        let expected = Company {
            texts: 8.0,
            rows: 7.0,
        };
        assert_eq!(companies.at(0), expected);
    }

    #[test]
    fn a_text_that_is_alone_needs_no_caution() {
        let caution = [1, 2, 8].map(|texts| Company::of_texts(texts).caution());
        assert_eq!(caution[0], 1.0);
        assert!(
            caution[0] < caution[1] && caution[1] < caution[2],
            "{caution:?}"
        );
        assert!(caution[2] < 1.0 + CAUTION, "{caution:?}");
    }
}
