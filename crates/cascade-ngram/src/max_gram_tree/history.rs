//! The text so far, and what followed what in it.

use cascade_core::{TokenId, common_prefix};

use super::continuations::{Continuations, Undo};
use super::ranking::Ranking;

/// Lengths of the contexts that are counted.
pub(super) const ORDERS: [usize; 10] = [1, 2, 3, 4, 5, 6, 8, 12, 16, 24];
/// The longest of them.
pub(super) const LONGEST: usize = ORDERS[ORDERS.len() - 1];
/// Lengths 1 to this of contexts that leave out the last token.
pub(super) const SKIPS: usize = 5;

/// Hashes of the contexts at one place: those of [`ORDERS`] and those that leave out the last
/// token, as far as the text reaches back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys {
    orders: [u64; ORDERS.len()],
    skips: [u64; SKIPS],
    order_count: usize,
    skip_count: usize,
}

impl Keys {
    /// The contexts that end with a text, which is given newest token first.
    pub(super) fn new(newest_first: impl Iterator<Item = TokenId>) -> Self {
        let mut keys = Self {
            orders: [0; ORDERS.len()],
            skips: [0; SKIPS],
            order_count: 0,
            skip_count: 0,
        };
        let (mut hash, mut skip) = (0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f);
        for (age, token) in newest_first.take(LONGEST).enumerate() {
            hash = mix(hash, token);
            if ORDERS[keys.order_count] == age + 1 {
                keys.orders[keys.order_count] = hash;
                keys.order_count += 1;
            }
            if (1..=SKIPS).contains(&age) {
                skip = mix(skip, token);
                keys.skips[age - 1] = skip;
                keys.skip_count = age;
            }
        }
        keys
    }

    /// The contexts of at most `order` tokens alone.
    pub(super) fn short(newest_first: impl Iterator<Item = TokenId>, order: usize) -> Self {
        Self::new(newest_first.take(order))
    }

    /// Contexts of [`ORDERS`], shortest first.
    pub(super) fn orders(&self) -> &[u64] {
        &self.orders[..self.order_count]
    }

    /// Contexts that leave out the last token, shortest first.
    pub(super) fn skips(&self) -> &[u64] {
        &self.skips[..self.skip_count]
    }
}

/// A folded multiplication, which mixes well enough that its results are used as hashes.
fn mix(hash: u64, token: TokenId) -> u64 {
    let product = u128::from(hash ^ u64::from(token)) * 0x9fb2_1c65_1e98_df25_u128;
    (product as u64) ^ (product >> 64) as u64
}

/// Tokens that were read, and the continuations of all contexts in them.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    tokens: Vec<TokenId>,
    pub(super) contexts: Continuations,
    pub(super) unigrams: Ranking,
    /// How to take each token back.
    log: Vec<Step>,
}

/// Length and hash of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TextId {
    length: usize,
    hash: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Step {
    contexts: [Undo; ORDERS.len() + SKIPS],
    /// Where the token was among all.
    unigram: u32,
    /// The hash of the text up to the token.
    hash: u64,
}

impl History {
    /// The tokens, newest first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = TokenId> + '_ {
        self.tokens.iter().rev().copied()
    }

    /// Which text it is.
    pub(super) fn id(&self) -> TextId {
        TextId {
            length: self.tokens.len(),
            hash: self.log.last().map_or(0, |step| step.hash),
        }
    }

    /// Makes the text `source` and `context`, reusing the longest common prefix with what it is.
    pub(super) fn sync(&mut self, source: &[TokenId], context: &[TokenId]) {
        let (head, tail) = self.tokens.split_at(source.len().min(self.tokens.len()));
        let mut keep = common_prefix(head, source);
        if keep == source.len() {
            keep += common_prefix(tail, context);
        }
        if keep < self.tokens.len() / 2 {
            // Reading anew is cheaper than taking back.
            *self = Self::default();
            keep = 0;
        }
        while self.tokens.len() > keep {
            self.pop();
        }
        let in_source = keep.min(source.len());
        for &token in source[in_source..]
            .iter()
            .chain(&context[keep - in_source..])
        {
            self.push(token);
        }
    }

    /// Appends a token.
    pub(super) fn push(&mut self, token: TokenId) {
        let keys = self.keys();
        let mut step = Step::default();
        let contexts = keys.orders().iter().chain(keys.skips());
        for (&key, undo) in contexts.zip(&mut step.contexts) {
            *undo = self.contexts.add(key, token);
        }
        step.unigram = self.unigrams.add(token);
        step.hash = mix(self.id().hash, token);
        self.tokens.push(token);
        self.log.push(step);
    }

    fn pop(&mut self) {
        let (Some(token), Some(step)) = (self.tokens.pop(), self.log.pop()) else {
            return;
        };
        self.unigrams.undo(token, step.unigram);
        let keys = self.keys();
        let contexts = keys.orders().iter().chain(keys.skips());
        for (&key, &undo) in contexts.zip(&step.contexts) {
            self.contexts.undo(key, token, undo);
        }
    }

    fn keys(&self) -> Keys {
        Keys::new(self.newest_first())
    }
}
