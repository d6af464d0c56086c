//! What forwards of a model cost and earn, for all texts whose rows share them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cascade_core::SharedForward;

use super::row_costs::RowCosts;

/// How much of the rate before a forward counts after it.
const KEEP: f64 = 0.9;
/// Steps of plain decoding that the rate begins with.
const RATE_PRIOR: f64 = 8.0;
/// Forwards between two checks of what a forward without drafts costs, at least, and forwards after
/// which a check is given up.
const CHECKS_APART: u64 = 16;
const CHECKS: u64 = 5;
/// Rate, in units of plain decoding, below which it matters what exactly several texts would earn
/// without drafts, and the forwards after which that is measured again.
const LITTLE: f64 = 1.1;
const PLAIN_APART: u32 = 32;
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
    pub(super) costs: RowCosts,
    pub(super) rate: Rate,
    forwards: u64,
    /// The last one that texts shared, and how many they were.
    last: Option<u64>,
    texts: usize,
    /// The forward from which costs may be checked again.
    checks_from: u64,
    /// Forwards of the check that goes on.
    checks: u64,
}

impl Prices {
    pub(super) fn new(costs: RowCosts) -> Self {
        Self {
            costs,
            rate: Rate {
                tokens: RATE_PRIOR,
                time: RATE_PRIOR,
            },
            forwards: 0,
            last: None,
            texts: 1,
            checks_from: 0,
            checks: 0,
        }
    }

    /// Whether the next forward is to measure what one without drafts costs: the first ones, one
    /// now and then when times change, and where drafts of several texts earn little more than
    /// plain decoding, if it is known what that earns.
    pub(super) fn are_checked(&self) -> bool {
        self.forwards >= self.checks_from && (self.costs.needs_check() || self.is_plain_unknown())
    }

    /// Whether nothing was computed yet.
    pub(super) const fn are_new(&self) -> bool {
        self.forwards == 0
    }

    fn is_plain_unknown(&self) -> bool {
        let little = self.texts > 1 && self.rate.gain() < LITTLE;
        little && !self.costs.is_measured(self.texts, PLAIN_APART)
    }

    /// Learns from a forward; `rows` and `seconds` where they say what rows cost. One that several
    /// texts tell of counts once.
    pub(super) fn learn(&mut self, shared: Option<SharedForward>, usual: Option<(usize, f64)>) {
        let number = shared.map(|forward| forward.number);
        if number.is_some() && number == self.last {
            return;
        }
        self.last = number;
        self.texts = shared.map_or(1, |forward| forward.texts.max(1));
        if self.are_checked() {
            self.checks += 1;
        }
        if let Some((rows, seconds)) = usual {
            let texts = shared.map_or(1, |forward| forward.texts);
            self.costs.learn_shared(rows, texts, seconds);
        }
        if self.checks >= CHECKS || self.checks > 0 && !self.are_checked() {
            self.checks = 0;
            self.checks_from = if self.forwards < CHECKS_APART {
                self.forwards
            } else {
                self.forwards + CHECKS_APART
            };
        }
        self.forwards += 1;
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
    use std::time::Duration;

    use super::*;

    /// A forward of eight texts with so many rows, of which each takes 10 ms.
    fn forward(prices: &mut Prices, rows: usize) {
        let shared = SharedForward {
            number: prices.forwards,
            texts: 8,
            rows,
            time: Duration::from_millis(10 * rows as u64),
            reads_prompt: false,
        };
        let usual = Some((rows, shared.time.as_secs_f64()));
        prices.learn(Some(shared), usual);
    }

    #[test]
    fn plain_decoding_of_several_texts_is_measured_where_drafts_earn_little() {
        for (tokens, earns_little) in [(1.0, true), (1.5, false)] {
            let mut prices = Prices::new(RowCosts::assumed(0.02));
            (0..8).for_each(|_| forward(&mut prices, 8));
            assert!(!prices.are_checked());
            let mut checks = 0;
            for _ in 0..200 {
                prices.rate.learn(tokens, 1.0, 1.0);
                checks += u64::from(prices.are_checked());
                forward(&mut prices, 12);
            }
            // Others draft anyway: it is given up for a while each time.
            assert_eq!(checks > 0, earns_little, "{prices:?}");
            assert!(checks <= 200 * CHECKS / CHECKS_APART, "{checks}");
            while earns_little && !prices.are_checked() {
                forward(&mut prices, 12);
            }
            forward(&mut prices, 8);
            assert!(!prices.are_checked());
        }
    }

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
