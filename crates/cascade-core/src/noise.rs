//! Noise that does not depend on what is drafted: one exponential variable for each position of a
//! text and each token.
//!
//! A token with distribution p is drawn by a **race**: token v arrives at the time E(v)/p(v), where
//! the E(v) are independent and exponential, and the first one wins. It is v with probability p(v).
//! With g = −ln E, which has the standard Gumbel distribution, that is the argmax of ln p(v) + g(v)
//! (the Gumbel-max trick). The noise of a position is a function of the seed, the position and the
//! token, so the winner is a function of the seed, the position and p, whoever asks and however
//! often; and two models whose distributions are alike mostly draw the same token.

use crate::distribution::Weights;
use crate::philox::{self, LANES};
use crate::vector::{BLOCK, Weight, blocks, vectorized};
use crate::{Distribution, TokenId};

/// A race among the tokens of distributions.
pub trait Noise {
    /// E(`position`, `token`): positive and finite; exponentially distributed with mean 1, and
    /// independent between tokens and positions.
    fn exponential(&self, position: u64, token: TokenId) -> f64;

    /// The first `count` tokens to arrive, in their order, ties by lower id; fewer if fewer have a
    /// positive probability.
    ///
    /// The order is that of w(v)/E(v), greatest first, where w(v) is the weight that the
    /// distribution was made from: p(v) before it is normalised.
    fn first(&self, position: u64, p: &Distribution, count: usize) -> Vec<TokenId> {
        let mut leaders = Leaders::new(count);
        p.for_each_weight(|token, weight| {
            leaders.enter(weight / self.exponential(position, token), token);
        });
        leaders.tokens()
    }

    /// The winner of the race: a token drawn from `p`.
    fn winner(&self, position: u64, p: &Distribution) -> TokenId {
        // A distribution has mass.
        self.first(position, p, 1).first().copied().unwrap_or(0)
    }

    /// By how much the token's probability would have to grow for it to draw level with the winner
    /// of the race; 1 for the winner itself, infinite for a token of probability 0.
    fn behind(&self, position: u64, p: &Distribution, token: TokenId, winner: TokenId) -> f64 {
        let speed = |token| p.weight(token) / self.exponential(position, token);
        speed(winner) / speed(token)
    }
}

/// The noise of a seed: the same on every machine and in every release.
///
/// # Definition
/// Let key = (seed mod 2³², ⌊seed / 2³²⌋) and, for h in {0, 1},
///
/// ```text
/// W(h) = word (token mod 4) of Philox4x32-10 with this key and
///        counter (⌊token / 4⌋, h, position mod 2³², ⌊position / 2³²⌋)
/// n    = 2³² · W(0) + W(1)                    64 bits
/// E    = −ln(1 − (n + ½) / 2⁶⁴)               exponential
/// ```
///
/// with −ln as [`exponential_of`] computes it, which rounds as documented there. The Gumbel
/// variable −ln E lies between −3.81 and 45.06.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeededNoise {
    key: [u32; 2],
}

impl SeededNoise {
    /// The noise of this seed.
    pub fn new(seed: u64) -> Self {
        Self { key: halves(seed) }
    }

    /// n of a token whose upper half is known.
    fn number(&self, upper: u32, position: [u32; 2], token: TokenId) -> u64 {
        let counter = [token / 4, 1, position[0], position[1]];
        let lower = philox::block(self.key, counter)[token as usize % 4];
        u64::from(upper) << 32 | u64::from(lower)
    }

    /// Lets a piece of the vocabulary enter the race, in ascending order of tokens: their weights
    /// and the upper halves of their n.
    ///
    /// Since E > ⌊n / 2⁴⁰⌋ / 2²⁴, a token whose weight is not above that share of the speed to
    /// beat cannot enter. All others are compared by E itself, for which the lower half is needed.
    #[inline(always)]
    fn enter<W: Weight>(
        &self,
        position: [u32; 2],
        upper: &[u32; BLOCK],
        weights: &[W; BLOCK],
        token: impl Fn(usize) -> TokenId,
        leaders: &mut Leaders,
    ) {
        let bound = leaders.to_beat() * SLACK / f64::from(1 << 24);
        let mut hits = [false; BLOCK];
        let mut any = false;
        for i in 0..BLOCK {
            let weight: f64 = weights[i].into();
            // 24 bits are exact in every type; as a signed integer they are converted faster.
            hits[i] = weight > bound * f64::from((upper[i] >> 8).cast_signed());
            any |= hits[i];
        }
        if !any {
            return;
        }
        for i in (0..BLOCK).filter(|&i| hits[i]) {
            let n = self.number(upper[i], position, token(i));
            leaders.enter(weights[i].into() / exponential_of(n), token(i));
        }
    }

    /// The race among the tokens with these weights, of which the sum of each block is known.
    fn race_dense<W: Weight>(
        &self,
        position: [u32; 2],
        weights: &[W],
        sums: &[f64],
        leaders: &mut Leaders,
    ) {
        let rest = [0, position[0], position[1]];
        vectorized(
            #[inline(always)]
            || {
                for (index, (block, &sum)) in blocks(weights, W::default()).zip(sums).enumerate() {
                    if sum <= leaders.to_beat() * SLACK * SHORTEST {
                        continue;
                    }
                    let first = (index * BLOCK) as TokenId;
                    let groups = std::array::from_fn(|i| first / 4 + i as u32);
                    let words = philox::blocks(self.key, groups, rest);
                    let mut upper = [0; BLOCK];
                    for i in 0..LANES {
                        for word in 0..4 {
                            upper[4 * i + word] = words[word][i];
                        }
                    }
                    let token = |i: usize| first + i as TokenId;
                    self.enter(position, &upper, &block, token, leaders);
                }
            },
        );
    }

    /// The race among some tokens.
    fn race_sparse(
        &self,
        position: [u32; 2],
        tokens: &[TokenId],
        weights: &[f64],
        leaders: &mut Leaders,
    ) {
        let rest = [0, position[0], position[1]];
        vectorized(
            #[inline(always)]
            || {
                for (tokens, weights) in blocks(tokens, 0).zip(blocks(weights, 0.0)) {
                    let mut upper = [0; BLOCK];
                    for start in (0..BLOCK).step_by(LANES) {
                        let groups = std::array::from_fn(|i| tokens[start + i] / 4);
                        let words = philox::blocks(self.key, groups, rest);
                        for i in 0..LANES {
                            upper[start + i] = words[tokens[start + i] as usize % 4][i];
                        }
                    }
                    self.enter(position, &upper, &weights, |i| tokens[i], leaders);
                }
            },
        );
    }
}

impl Noise for SeededNoise {
    fn exponential(&self, position: u64, token: TokenId) -> f64 {
        let position = halves(position);
        let counter = [token / 4, 0, position[0], position[1]];
        let upper = philox::block(self.key, counter)[token as usize % 4];
        exponential_of(self.number(upper, position, token))
    }

    /// The tokens that arrive first. Most tokens are found unable to win by half of their noise,
    /// without a logarithm, and blocks that cannot win by their weight alone. Cost: ten rounds of
    /// integer arithmetic for four tokens, in vector instructions.
    fn first(&self, position: u64, p: &Distribution, count: usize) -> Vec<TokenId> {
        let mut leaders = Leaders::new(count);
        let position = halves(position);
        match p.weights() {
            Weights::Single(dense) => {
                self.race_dense(position, &dense.weights, &dense.sums, &mut leaders);
            }
            Weights::Double(dense) => {
                self.race_dense(position, &dense.weights, &dense.sums, &mut leaders);
            }
            Weights::Sparse { tokens, weights } => {
                self.race_sparse(position, tokens, weights, &mut leaders);
            }
        }
        leaders.tokens()
    }
}

/// Less than 1 by more than all roundings of a comparison.
const SLACK: f64 = 1.0 - 1e-9;
/// Less than any E: half of 2⁻⁶⁴.
const SHORTEST: f64 = 1.0 / (1u128 << 65) as f64;

fn halves(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

/// The fastest tokens so far, fastest first.
struct Leaders {
    count: usize,
    entered: Vec<(f64, TokenId)>,
}

impl Leaders {
    fn new(count: usize) -> Self {
        Self {
            count,
            entered: Vec::with_capacity(count.min(64)),
        }
    }

    /// The speed that the next token has to exceed.
    #[inline(always)]
    fn to_beat(&self) -> f64 {
        match self.count {
            0 => f64::INFINITY,
            count => self.entered.get(count - 1).map_or(0.0, |last| last.0),
        }
    }

    /// Tokens come in ascending order, so that of equals the lower id stays ahead.
    fn enter(&mut self, speed: f64, token: TokenId) {
        if speed > self.to_beat() {
            self.entered.truncate(self.count - 1);
            let place = self.entered.partition_point(|&(other, _)| other >= speed);
            self.entered.insert(place, (speed, token));
        }
    }

    fn tokens(self) -> Vec<TokenId> {
        self.entered.into_iter().map(|(_, token)| token).collect()
    }
}

/// −ln(1 − x) for x = (n + ½) / 2⁶⁴, with a relative error below 2⁻⁵⁰.
///
/// Every operation is one of IEEE 754 in double precision, rounded to nearest, in this order and
/// without fused ones, so the result has the same bits everywhere (a library's logarithm has not).
/// With y = 1 − x, of which the smaller of x and y is computed from n or 2⁶⁴ − 1 − n without
/// cancellation: y is scaled to f · 2⁻ᵉ with √½ ≤ f < √2, and −ln y = e · ln 2 + ln((1 + s)/(1 −
/// s)) with s = (1 − f)/(1 + f), by the series of the area tangent up to s²³. If e is 0 and x < ½,
/// s is x/(2 − x).
pub fn exponential_of(n: u64) -> f64 {
    const UNIT: f64 = 1.0 / (1u128 << 64) as f64;
    let share = |n: u64| (n as f64 + 0.5) * UNIT;
    let (x, y) = match n >> 63 {
        0 => (share(n), 1.0 - share(n)),
        _ => (1.0 - share(!n), share(!n)),
    };
    if y >= std::f64::consts::FRAC_1_SQRT_2 {
        return twice_area_tangent(x / (2.0 - x));
    }
    // y is at least 2⁻⁶⁵, and normal.
    let bits = y.to_bits();
    let mut exponent = 1023 - (bits >> 52) as i32;
    let mut scaled = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    if scaled >= std::f64::consts::SQRT_2 {
        scaled *= 0.5;
        exponent -= 1;
    }
    let tangent = twice_area_tangent((1.0 - scaled) / (1.0 + scaled));
    f64::from(exponent) * std::f64::consts::LN_2 + tangent
}

/// 2 · artanh(s) = 2 (s + s³/3 + … + s²³/23) for |s| < 0.172.
fn twice_area_tangent(s: f64) -> f64 {
    let square = s * s;
    let mut sum = 0.0;
    for odd in [23.0, 21.0, 19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0] {
        sum = (sum + 1.0 / odd) * square;
    }
    2.0 * (s + s * sum)
}

/// The seed of sample `index` of a run that was given one `seed`: of the choices of a request, the
/// prompts of a run, the turns of a conversation.
///
/// The first has the seed itself, so one sample is the same through every door. The others have
/// m(m(`seed`) + `index`), all modulo 2⁶⁴, where m(z) is the output function of SplitMix64 (Steele,
/// Lea and Flood 2014): z + 0x9E3779B97F4A7C15, then z ⊕ ⌊z/2³⁰⌋ times 0xBF58476D1CE4E5B9, then
/// z ⊕ ⌊z/2²⁷⌋ times 0x94D049BB133111EB, then z ⊕ ⌊z/2³¹⌋. So samples of neighbouring seeds have
/// nothing in common.
pub fn seed_of(seed: u64, index: u64) -> u64 {
    match index {
        0 => seed,
        _ => mixed(mixed(seed).wrapping_add(index)),
    }
}

fn mixed(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}
