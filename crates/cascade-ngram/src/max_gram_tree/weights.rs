//! How much each kind of evidence counts: fitted numbers, and how they are read and written.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::hints::HINT_ORDERS;
use super::history::{ORDERS, SKIPS};
use super::session::SESSION_ORDERS;

/// Contexts of 1 to this many tokens are looked up in a static table.
pub(super) const TABLE_ORDERS: usize = 2;

/// A kind of evidence for a next token: where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EvidenceKind {
    /// What followed the last tokens earlier in the text; the longer the context, the higher its
    /// index in [`ORDERS`].
    Context,
    /// What followed the tokens before the last one, whatever the last one was.
    Skip,
    /// How often tokens occur at all: in the text (0), in the table's (1).
    Unigram,
    /// A static table, by the length of its contexts less 1.
    Table,
    /// Answers to earlier requests, by the length of contexts less 1.
    Session,
    /// What the target's own distributions were, by the length of contexts less 1.
    Hint,
    /// What a neural drafter says of this very context.
    Neural,
}

/// Counts of a context, in buckets: 1, 2, 3 to 4, 5 to 9, more.
const COUNT_BUCKETS: usize = 5;
/// The share of its most frequent follower: all, 0.6 or more, 0.3 or more, less.
const SHARE_BUCKETS: usize = 4;
const BUCKETS: usize = COUNT_BUCKETS * SHARE_BUCKETS;

/// The name of each kind in files, and the number of its orders.
const KINDS: [(&str, usize); 7] = [
    ("context", ORDERS.len()),
    ("skip", SKIPS),
    ("unigram", 2),
    ("table", TABLE_ORDERS),
    ("session", SESSION_ORDERS),
    ("hint", HINT_ORDERS),
    ("neural", 1),
];

/// The first parameter of each kind: its orders, then its buckets.
const STARTS: [usize; KINDS.len() + 1] = {
    let mut starts = [0; KINDS.len() + 1];
    let mut kind = 0;
    while kind < KINDS.len() {
        starts[kind + 1] = starts[kind] + KINDS[kind].1 + BUCKETS;
        kind += 1;
    }
    starts
};
/// Numbers that weights are made of.
pub(super) const PARAMETERS: usize = STARTS[KINDS.len()];

/// The bucket of a context: how often it was seen, and the share of its most frequent follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bucket(u8);

impl Bucket {
    /// The bucket of a context that was seen `total` times, `most` of them with the same follower.
    pub(super) fn of(total: u64, most: u64) -> Self {
        let share = match most {
            most if most >= total => 0,
            most if most * 10 >= total * 6 => 1,
            most if most * 10 >= total * 3 => 2,
            _ => 3,
        };
        Self::new(total, share)
    }

    /// The bucket of a distribution that was given `times` times, and gives its best token `share`
    /// last.
    pub(super) fn of_share(times: u64, share: f32) -> Self {
        let share = match share {
            share if share >= 0.95 => 0,
            share if share >= 0.6 => 1,
            share if share >= 0.3 => 2,
            _ => 3,
        };
        Self::new(times, share)
    }

    fn new(total: u64, share: u8) -> Self {
        let count = match total {
            0 | 1 => 0,
            2 => 1,
            3..=4 => 2,
            5..=9 => 3,
            _ => 4,
        };
        Self(count * SHARE_BUCKETS as u8 + share)
    }
}

/// What the weight of one context's evidence is made of: a parameter for its order and one for its
/// bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Factors {
    order: u16,
    bucket: u16,
}

impl Factors {
    pub(super) fn new(kind: EvidenceKind, order: usize, bucket: Bucket) -> Self {
        let (start, orders) = (STARTS[kind as usize], KINDS[kind as usize].1);
        debug_assert!(order < orders, "{kind:?} has no order {order}");
        Self {
            order: (start + order) as u16,
            bucket: (start + orders) as u16 + u16::from(bucket.0),
        }
    }

    /// The parameters.
    pub(super) fn both(self) -> [usize; 2] {
        [self.order.into(), self.bucket.into()]
    }
}

/// The weights of a mixture: logarithms, relative to a weight of 1 for "none of these".
///
/// The probability of a token w after a context is Σ_e w_e·p_e(w) / (1 + Σ_e w_e) over all evidence
/// e that the context has, where p_e(w) is the share of w in what followed there, and w_e is e to
/// the power of the parameter of its kind and order plus that of its kind, count and unanimity.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Weights {
    logarithms: [f32; PARAMETERS],
    /// The exponentials of `logarithms`, which are needed far more often than they change.
    factors: [f32; PARAMETERS],
}

/// [`Weights`] as they are written.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Written {
    context: WrittenKind,
    skip: WrittenKind,
    unigram: WrittenKind,
    table: WrittenKind,
    session: WrittenKind,
    hint: WrittenKind,
    neural: WrittenKind,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct WrittenKind {
    orders: Vec<f32>,
    buckets: [[f32; SHARE_BUCKETS]; COUNT_BUCKETS],
}

impl TryFrom<Written> for Weights {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let mut weights = Self {
            logarithms: [0.0; PARAMETERS],
            factors: [1.0; PARAMETERS],
        };
        let kinds = [
            written.context,
            written.skip,
            written.unigram,
            written.table,
            written.session,
            written.hint,
            written.neural,
        ];
        for (kind, (name, orders)) in kinds.iter().zip(KINDS) {
            if kind.orders.len() != orders {
                let found = kind.orders.len();
                return Err(format!("`{name}` has {found} orders, and needs {orders}"));
            }
        }
        let all = kinds.iter().flat_map(|kind| {
            let buckets = kind.buckets.iter().flatten();
            kind.orders.iter().chain(buckets)
        });
        for (parameter, &value) in all.enumerate() {
            if !(-Self::LARGEST..=Self::LARGEST).contains(&value) {
                let name = Self::kind_of(parameter);
                let most = Self::LARGEST;
                return Err(format!("`{name}` has the weight {value}, beyond ±{most}"));
            }
            weights.set(parameter, value);
        }
        Ok(weights)
    }
}

impl From<Weights> for Written {
    fn from(weights: Weights) -> Self {
        let kind = |kind: EvidenceKind| {
            let values = &weights.logarithms[STARTS[kind as usize]..STARTS[kind as usize + 1]];
            let (orders, buckets) = values.split_at(KINDS[kind as usize].1);
            let bucket = |count: usize, share: usize| buckets[count * SHARE_BUCKETS + share];
            WrittenKind {
                orders: orders.to_vec(),
                buckets: std::array::from_fn(|count| {
                    std::array::from_fn(|share| bucket(count, share))
                }),
            }
        };
        Self {
            context: kind(EvidenceKind::Context),
            skip: kind(EvidenceKind::Skip),
            unigram: kind(EvidenceKind::Unigram),
            table: kind(EvidenceKind::Table),
            session: kind(EvidenceKind::Session),
            hint: kind(EvidenceKind::Hint),
            neural: kind(EvidenceKind::Neural),
        }
    }
}

/// Weights that were fitted with different sources at hand.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shipped {
    text: Weights,
    table: Weights,
    session: Weights,
}

impl Weights {
    /// The greatest logarithm, and the smallest less its sign: beyond, sums would overflow.
    const LARGEST: f32 = 20.0;

    /// The weights that this crate ships: fitted on recorded outputs of a chat model other than
    /// those that its benchmarks replay, for drafts from the text alone, with a static table, or
    /// with a session store as well.
    pub fn shipped(table: bool, session: bool) -> Self {
        // The file is part of the program, so no input gets here.
        let shipped: Shipped =
            serde_json::from_str(include_str!("weights.json")).expect("a test reads them");
        match (table, session) {
            (_, true) => shipped.session,
            (true, false) => shipped.table,
            (false, false) => shipped.text,
        }
    }

    /// Reads a file as [`to_json`](Self::to_json) writes it.
    ///
    /// # Errors
    /// A file that cannot be read or is larger than 1 MiB, and those of
    /// [`from_json`](Self::from_json). All name the file, and what writes such files.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, String> {
        let path = path.as_ref();
        let text = cascade_core::fs::read_text(path, 1 << 20)
            .map_err(|source| format!("cannot read {}: {source}", path.display()))?;
        Self::from_json(&text).map_err(|problem| {
            let file = path.display();
            format!("{file}: {problem}; `cascade-lab ngram fit` writes files of weights")
        })
    }

    /// Reads weights as [`to_json`](Self::to_json) writes them.
    ///
    /// # Errors
    /// Text that is no JSON, unknown or missing keys, numbers of orders that are not this
    /// version's, values that are not finite or beyond ±20.
    pub fn from_json(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// The weights as JSON.
    ///
    /// # Errors
    /// Weights that cannot be written.
    pub fn to_json(&self) -> Result<String, String> {
        serde_json::to_string_pretty(self).map_err(|error| error.to_string())
    }

    fn kind_of(parameter: usize) -> &'static str {
        let after = STARTS.iter().position(|&start| start > parameter);
        KINDS[after.unwrap_or(KINDS.len()) - 1].0
    }

    fn set(&mut self, parameter: usize, value: f32) {
        self.logarithms[parameter] = value;
        self.factors[parameter] = value.exp();
    }

    /// The weight of evidence.
    pub(super) fn of(&self, factors: Factors) -> f32 {
        let [order, bucket] = factors.both();
        self.factors[order] * self.factors[bucket]
    }

    /// Adds `step` to a parameter, as far as its bounds allow.
    pub(super) fn adjust(&mut self, parameter: usize, step: f32) {
        let value = self.logarithms[parameter] + step;
        self.set(parameter, value.clamp(-Self::LARGEST, Self::LARGEST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_weights_are_valid_and_survive_a_round_trip() {
        for (table, session) in [(false, false), (true, false), (true, true)] {
            let weights = Weights::shipped(table, session);
            assert_eq!(
                Weights::from_json(&weights.to_json().unwrap()).unwrap(),
                weights
            );
        }
    }

    #[test]
    fn weights_of_another_version_are_refused() {
        let text = Weights::shipped(true, true).to_json().unwrap();
        for (from, to, says) in [
            ("\"hint\"", "\"hnt\"", "hnt"),
            (
                "0.64",
                "1e9",
                "`context` has the weight 1000000000, beyond ±20",
            ),
            ("1.34", "1e9", "`table` has the weight"),
            ("1.48,", "", "`context` has 9 orders, and needs 10"),
        ] {
            let weights = Weights::shipped(true, false).to_json().unwrap();
            let message = Weights::from_json(&weights.replacen(from, to, 1)).unwrap_err();
            assert!(message.contains(says), "{message}");
        }
        assert!(Weights::from_json(&text[1..]).is_err());
    }

    #[test]
    fn buckets_are_those_of_the_fit() {
        let bucket = |total, most| {
            let Bucket(index) = Bucket::of(total, most);
            (
                index as usize / SHARE_BUCKETS,
                index as usize % SHARE_BUCKETS,
            )
        };
        assert_eq!(bucket(1, 1), (0, 0));
        assert_eq!(bucket(2, 1), (1, 2));
        assert_eq!(bucket(4, 4), (2, 0));
        assert_eq!(bucket(5, 3), (3, 1));
        assert_eq!(bucket(10, 2), (4, 3));
    }

    #[test]
    fn a_parameter_belongs_to_one_kind() {
        assert_eq!(Weights::kind_of(0), "context");
        assert_eq!(Weights::kind_of(STARTS[1]), "skip");
        assert_eq!(Weights::kind_of(PARAMETERS - 1), "neural");
    }
}
