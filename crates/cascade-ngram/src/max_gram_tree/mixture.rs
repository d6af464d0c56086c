//! The probability of each next token: what all matching contexts say, weighted.

use cascade_core::TokenId;

use super::continuations::{Continuations, Followers};
use super::hints::{Choice, HINT_ORDERS, Hints};
use super::history::{History, Keys, LONGEST, ORDERS, SKIPS};
use super::session::SESSION_ORDERS;
use super::weights::{Bucket, EvidenceKind, Factors, TABLE_ORDERS, Weights};
use crate::ngram_table::{self, NgramTable};

/// Most evidence that one context has.
const MOST: usize = ORDERS.len() + SKIPS + 2 + TABLE_ORDERS + SESSION_ORDERS + HINT_ORDERS + 1;
/// No token is certain.
const CERTAIN: f32 = 0.999;
/// The probability of a token that nothing speaks for, when weights learn.
const UNSEEN: f32 = 1e-4;

/// Everything that a context is looked up in.
#[derive(Clone, Copy)]
pub(super) struct Sources<'a> {
    pub(super) history: &'a History,
    pub(super) table: Option<&'a NgramTable>,
    pub(super) session: Option<&'a Continuations>,
    pub(super) hints: Option<&'a Hints>,
}

/// What one context of one source says.
#[derive(Clone)]
struct Evidence<'a> {
    factors: Factors,
    weight: f32,
    list: List<'a>,
}

#[derive(Clone)]
enum List<'a> {
    Followers(Followers<'a>),
    Table(ngram_table::Continuations<'a>),
    Unigrams(&'a [(TokenId, u64)], u64),
    Choices(&'a [Choice]),
}

impl List<'_> {
    /// Calls `take` with tokens and their shares, by falling share, until it returns `false`.
    fn each(&self, mut take: impl FnMut(TokenId, f32) -> bool) {
        let _ = match self {
            Self::Followers(Followers { total, pairs }) => {
                let scale = 1.0 / *total as f32;
                pairs.iter().all(|p| take(p.token, p.count as f32 * scale))
            }
            Self::Table(row) => {
                let scale = 1.0 / row.total() as f32;
                let mut row = row.clone();
                row.all(|(token, count)| take(token, count as f32 * scale))
            }
            Self::Unigrams(tokens, total) => {
                let scale = 1.0 / *total as f32;
                let mut tokens = tokens.iter();
                tokens.all(|&(token, count)| take(token, count as f32 * scale))
            }
            Self::Choices(choices) => choices.iter().all(|&(token, share)| take(token, share)),
        };
    }

    fn share(&self, wanted: TokenId) -> f32 {
        let mut found = 0.0;
        self.each(|token, share| {
            if token == wanted {
                found = share;
            }
            token != wanted
        });
        found
    }
}

/// All that is known of what follows one context.
pub(super) struct Mixture<'a> {
    evidence: [Option<Evidence<'a>>; MOST],
    count: usize,
    /// 1 / (1 + the sum of weights).
    scale: f32,
}

impl<'a> Mixture<'a> {
    /// Looks up a context, given newest token first. `advised` is what a neural drafter says of it;
    /// empty, if none does.
    pub(super) fn new(
        sources: Sources<'a>,
        weights: &Weights,
        newest_first: impl Iterator<Item = TokenId>,
        advised: &'a [Choice],
    ) -> Self {
        let (newest, length) = as_array(newest_first);
        let newest_first = &newest[..length];
        let mut mixture = Self {
            evidence: [const { None }; MOST],
            count: 0,
            scale: 1.0,
        };
        let keys = Keys::new(newest_first.iter().copied());
        let history = sources.history;
        mixture.add_contexts(
            weights,
            EvidenceKind::Context,
            &history.contexts,
            keys.orders(),
        );
        mixture.add_contexts(weights, EvidenceKind::Skip, &history.contexts, keys.skips());
        let short = |orders: usize| &keys.orders()[..keys.orders().len().min(orders)];
        if let Some(session) = sources.session {
            mixture.add_contexts(
                weights,
                EvidenceKind::Session,
                session,
                short(SESSION_ORDERS),
            );
        }
        if let Some(hints) = sources.hints {
            mixture.add_hints(weights, hints, short(HINT_ORDERS));
        }
        if let Some(&(_, best)) = advised.first() {
            let bucket = Bucket::of_share(1, best);
            mixture.add(
                weights,
                EvidenceKind::Neural,
                0,
                bucket,
                List::Choices(advised),
            );
        }
        let unigrams = history.unigrams.followers();
        if let Some(most) = unigrams.pairs.first() {
            let bucket = Bucket::of(unigrams.total.into(), most.count.into());
            mixture.add(
                weights,
                EvidenceKind::Unigram,
                0,
                bucket,
                List::Followers(unigrams),
            );
        }
        if let Some(table) = sources.table {
            mixture.add_table(weights, table, newest_first);
        }
        let sum: f32 = mixture.evidence().map(|evidence| evidence.weight).sum();
        mixture.scale = 1.0 / (1.0 + sum);
        mixture
    }

    /// Adds what followed contexts of rising length, up to the first that never occurred: longer
    /// ones have not occurred either.
    fn add_contexts(
        &mut self,
        weights: &Weights,
        kind: EvidenceKind,
        contexts: &'a Continuations,
        keys: &[u64],
    ) {
        for (order, &key) in keys.iter().enumerate() {
            let Some(followers) = contexts.get(key) else {
                return;
            };
            let bucket = Bucket::of(followers.total.into(), followers.pairs[0].count.into());
            self.add(weights, kind, order, bucket, List::Followers(followers));
        }
    }

    /// Adds what the target said after contexts of rising length.
    fn add_hints(&mut self, weights: &Weights, hints: &'a Hints, keys: &[u64]) {
        for (order, &key) in keys.iter().enumerate() {
            let Some(hint) = hints.get(key) else {
                return;
            };
            if let Some(&(_, best)) = hint.choices().first() {
                let bucket = Bucket::of_share(hint.times.into(), best);
                let list = List::Choices(hint.choices());
                self.add(weights, EvidenceKind::Hint, order, bucket, list);
            }
        }
    }

    fn add_table(&mut self, weights: &Weights, table: &'a NgramTable, newest_first: &[TokenId]) {
        let rows = match *newest_first {
            [] => [None, None],
            [last] => [table.after(&[last]), None],
            [last, before, ..] => [table.after(&[last]), table.after(&[before, last])],
        };
        for (order, row) in rows.into_iter().enumerate() {
            let Some(row) = row else { continue };
            if let Some((_, most)) = row.clone().next() {
                let bucket = Bucket::of(row.total(), most);
                self.add(
                    weights,
                    EvidenceKind::Table,
                    order,
                    bucket,
                    List::Table(row),
                );
            }
        }
        let (tokens, total) = (table.unigrams(), table.total_tokens());
        if let Some(&(_, most)) = tokens.first() {
            let bucket = Bucket::of(total, most);
            let list = List::Unigrams(tokens, total);
            self.add(weights, EvidenceKind::Unigram, 1, bucket, list);
        }
    }

    fn add(
        &mut self,
        weights: &Weights,
        kind: EvidenceKind,
        order: usize,
        bucket: Bucket,
        list: List<'a>,
    ) {
        let factors = Factors::new(kind, order, bucket);
        self.evidence[self.count] = Some(Evidence {
            factors,
            weight: weights.of(factors),
            list,
        });
        self.count += 1;
    }

    fn evidence(&self) -> impl Iterator<Item = &Evidence<'a>> {
        self.evidence[..self.count].iter().flatten()
    }

    /// Puts tokens and their probabilities into `candidates`, in the order in which they are first
    /// met. Evidence of less than `cut` is left out, which makes a probability that much smaller at
    /// most for each evidence.
    pub(super) fn candidates(&self, cut: f32, candidates: &mut Candidates) {
        candidates.clear();
        for evidence in self.evidence() {
            let weight = evidence.weight * self.scale;
            evidence.list.each(|token, share| {
                let term = weight * share;
                let counts = term >= cut;
                if counts {
                    candidates.add(token, term);
                }
                counts
            });
        }
    }

    /// The probability of `token`, and the gradient of its logarithm by each parameter of the
    /// weights.
    pub(super) fn gradient(&self, token: TokenId) -> Gradient {
        let mut shares = [0.0; MOST];
        for (share, evidence) in shares.iter_mut().zip(self.evidence()) {
            *share = evidence.list.share(token);
        }
        let terms = self.evidence().zip(&shares);
        let sum: f32 = terms.map(|(evidence, share)| evidence.weight * share).sum();
        let mut gradient = Gradient {
            probability: (sum * self.scale).min(CERTAIN),
            slopes: [None; MOST],
        };
        let slopes = gradient.slopes.iter_mut().zip(self.evidence());
        for ((slope, evidence), share) in slopes.zip(shares) {
            let spoken = evidence.weight * share / (sum + UNSEEN);
            *slope = Some((evidence.factors, spoken - evidence.weight * self.scale));
        }
        gradient
    }
}

/// The newest tokens, as many as contexts have, and their number.
fn as_array(newest_first: impl Iterator<Item = TokenId>) -> ([TokenId; LONGEST], usize) {
    let mut newest = [0; LONGEST];
    let places = newest.iter_mut().zip(newest_first);
    let length = places.map(|(place, token)| *place = token).count();
    (newest, length)
}

/// The slope of the logarithm of a probability by each weight that it depends on.
pub(super) struct Gradient {
    /// The probability.
    pub(super) probability: f32,
    slopes: [Option<(Factors, f32)>; MOST],
}

impl Gradient {
    /// Parameters and slopes by them; a parameter may come more than once, and the sum counts.
    pub(super) fn slopes(&self) -> impl Iterator<Item = (usize, f32)> + '_ {
        let slopes = self.slopes.iter().map_while(|slope| *slope);
        slopes.flat_map(|(factors, slope)| factors.both().map(|parameter| (parameter, slope)))
    }

    /// Moves the weights one step up.
    pub(super) fn climb(&self, rate: f32, weights: &mut Weights) {
        for (parameter, slope) in self.slopes() {
            weights.adjust(parameter, rate * slope);
        }
    }
}

/// Tokens with probabilities, found by token. Reused from one context to the next.
#[derive(Clone, Debug)]
pub(super) struct Candidates {
    tokens: Vec<(TokenId, f32)>,
    /// Open addressing: indexes into `tokens` plus 1; 0 is free.
    slots: Vec<u32>,
    /// Probabilities, and indexes into `tokens`.
    ranked: Vec<(f32, u32)>,
}

impl Default for Candidates {
    fn default() -> Self {
        Self {
            tokens: Vec::new(),
            slots: vec![0; 64],
            ranked: Vec::new(),
        }
    }
}

impl Candidates {
    fn clear(&mut self) {
        self.slots.fill(0);
        self.tokens.clear();
    }

    /// Where the token is, or would be.
    fn slot(&self, token: TokenId) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = (token.wrapping_mul(0x9e37_79b9) >> 7) as usize & mask;
        loop {
            match self.slots[slot] {
                0 => return slot,
                index if self.tokens[index as usize - 1].0 == token => return slot,
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    fn add(&mut self, token: TokenId, probability: f32) {
        let slot = self.slot(token);
        match self.slots[slot] {
            0 => {
                self.tokens.push((token, probability));
                self.slots[slot] = self.tokens.len() as u32;
                if self.tokens.len() * 2 > self.slots.len() {
                    self.grow();
                }
            }
            index => self.tokens[index as usize - 1].1 += probability,
        }
    }

    fn grow(&mut self) {
        self.slots = vec![0; self.slots.len() * 2];
        for at in 0..self.tokens.len() {
            let slot = self.slot(self.tokens[at].0);
            self.slots[slot] = at as u32 + 1;
        }
    }

    /// The `count` most probable tokens, by falling probability; of equal ones, the one met first.
    pub(super) fn best(&mut self, count: usize) -> impl Iterator<Item = (TokenId, f32)> + '_ {
        for (_, probability) in &mut self.tokens {
            *probability = probability.min(CERTAIN);
        }
        // Sorting all is slower: most are never drafted. Equal ones stay in order by their places.
        let places = self.tokens.iter().zip(0u32..);
        self.ranked.clear();
        let ranked = places.map(|(&(_, probability), at)| (probability, at));
        self.ranked.extend(ranked);
        let better = |a: &(f32, u32), b: &(f32, u32)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        if count < self.ranked.len() {
            self.ranked.select_nth_unstable_by(count, better);
            self.ranked.truncate(count);
        }
        self.ranked.sort_unstable_by(better);
        let tokens = &self.tokens;
        self.ranked.iter().map(|&(_, at)| tokens[at as usize])
    }
}
