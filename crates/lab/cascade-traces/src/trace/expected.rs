//! Expected acceptance of first drafted tokens, from recorded probabilities of the target.
//!
//! A replay counts which drafts a sample kept: one draw for each. Where the target's distribution
//! is known, the probability of keeping them is known too, and has no noise of the sample.

use std::iter::Sum;
use std::ops::Add;

use cascade_core::{Distribution, Result, Sampling, Scorer, TokenId, Want};
use cascade_engine::{Cascade, GenerationOutput, Options, Role};
use cascade_eval::Bootstrap;

use super::along::{along, at_once, logits};
use super::{Record, replay_with};

/// Bounds of a figure: equal where it is known exactly, which it is up to the tokens that were not
/// recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounds {
    /// At least this.
    pub low: f64,
    /// At most this.
    pub high: f64,
}

impl Bounds {
    /// Whether the figure is known, to `digits` decimal places.
    pub fn is_known(self, digits: i32) -> bool {
        self.high - self.low < 0.5 * 10f64.powi(-digits)
    }

    fn over(self, count: f64) -> Self {
        Self {
            low: self.low / count,
            high: self.high / count,
        }
    }
}

impl std::fmt::Display for Bounds {
    /// With four digits: `0.6132`, or `0.6100 to 0.6150` where that does not say it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_known(4) {
            write!(f, "{:.4}", self.low)
        } else {
            write!(f, "{:.4} to {:.4}", self.low, self.high)
        }
    }
}

impl Add for Bounds {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            low: self.low + other.low,
            high: self.high + other.high,
        }
    }
}

impl Sum for Bounds {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

/// What was recorded of a distribution p: its most probable tokens, and how much the others have
/// together.
#[derive(Clone, Copy, Debug)]
pub struct RecordedRow<'r> {
    top: &'r [(TokenId, f32)],
    rest: f64,
}

impl<'r> RecordedRow<'r> {
    /// A row of a record whose lists hold at most `most` tokens: a shorter one holds all.
    pub fn new(top: &'r [(TokenId, f32)], most: usize) -> Self {
        let sum: f64 = top.iter().map(|&(_, p)| f64::from(p)).sum();
        let rest = if top.len() < most {
            0.0
        } else {
            (1.0 - sum).max(0.0)
        };
        Self { top, rest }
    }

    /// The greatest probability that a token outside the list can have.
    fn unknown(&self) -> f64 {
        self.top
            .last()
            .map_or(1.0, |&(_, p)| f64::from(p).min(self.rest))
    }

    /// The probability that one of these tokens, all different, is the next one: that any exact
    /// rule keeps a deterministic draft that begins with them.
    pub fn of_tokens(&self, tokens: impl IntoIterator<Item = TokenId>) -> Bounds {
        let (mut known, mut unknown) = (0.0, 0.0);
        for token in tokens {
            match self.top.iter().find(|&&(id, _)| id == token) {
                Some(&(_, p)) => known += f64::from(p),
                None => unknown += self.unknown(),
            }
        }
        Bounds {
            low: known,
            high: known + unknown.min(self.rest),
        }
    }

    /// Σ min(p, q): how often the rules that draw keep a token of q.
    pub fn overlap(&self, q: &Distribution) -> Bounds {
        let (low, rest_of_q) = self.over_top(q, |p, q| p.min(q));
        Bounds {
            low,
            high: low + self.rest.min(rest_of_q),
        }
    }

    /// Σᵥ 1 / Σᵤ max(p(u)/p(v), q(u)/q(v)): how often `coupled` keeps a token of q.
    pub fn race(&self, q: &Distribution) -> Bounds {
        let pairs: Vec<(f64, f64)> = self
            .top
            .iter()
            .map(|&(v, p)| (f64::from(p), q.probability(v)))
            .collect();
        let (_, rest_of_q) = self.over_top(q, |_, _| 0.0);
        let mut bounds = Bounds {
            low: 0.0,
            high: self.rest.min(rest_of_q),
        };
        for &(p, q) in pairs.iter().filter(|(p, q)| *p > 0.0 && *q > 0.0) {
            let known: f64 = pairs.iter().map(|&(pu, qu)| (pu / p).max(qu / q)).sum();
            let (of_p, of_q) = (self.rest / p, rest_of_q / q);
            bounds.low += 1.0 / (known + of_p + of_q);
            bounds.high += 1.0 / (known + of_p.max(of_q));
        }
        bounds
    }

    /// A sum over the list, and the probability that q has outside it.
    fn over_top(&self, q: &Distribution, f: impl Fn(f64, f64) -> f64) -> (f64, f64) {
        let (mut sum, mut of_q) = (0.0, 0.0);
        for &(token, p) in self.top {
            let q = q.probability(token);
            sum += f(f64::from(p), q);
            of_q += q;
        }
        (sum, (1.0 - of_q).max(0.0))
    }
}

/// How often the target of a sampled recording keeps a token that a neural drafter draws after the
/// prompt and the recorded tokens before it, by record.
#[derive(Clone, Debug, Default)]
pub struct ExpectedAcceptance {
    records: Vec<Sums>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    tokens: usize,
    overlap: Bounds,
    race: Bounds,
}

impl ExpectedAcceptance {
    /// Adds what a drafter would draw along a record whose lists hold at most `most` tokens, with
    /// the same `sampling` as the target. A record without probabilities adds nothing.
    ///
    /// Takes a forward for every 128 tokens.
    ///
    /// # Errors
    /// As [`Scorer::score`].
    pub fn add(
        &mut self,
        drafter: &mut dyn Scorer,
        record: &Record,
        (sampling, most): (&Sampling, usize),
    ) -> Result<()> {
        let Some(top) = &record.top else {
            return Ok(());
        };
        let mut sums = Sums {
            tokens: record.output.len(),
            ..Sums::default()
        };
        let mut rows = top.iter();
        let how = (at_once(drafter), Want::LOGITS);
        along(
            drafter,
            &record.prompt(),
            &record.output,
            how,
            |_, scores| {
                for (logits, row) in logits(scores)?.zip(rows.by_ref()) {
                    let (p, q) = (RecordedRow::new(row, most), sampling.distribution(logits)?);
                    sums.overlap = sums.overlap + p.overlap(&q);
                    sums.race = sums.race + p.race(&q);
                }
                Result::Ok(())
            },
        )?;
        self.records.push(sums);
        Ok(())
    }

    /// By the rules that draw: 1 − TV(p, q), on average over the tokens; `None` without tokens.
    pub fn drawn(&self) -> Option<Bounds> {
        self.mean(|sums| sums.overlap)
    }

    /// By the rule `coupled`.
    pub fn coupled(&self) -> Option<Bounds> {
        self.mean(|sums| sums.race)
    }

    /// A 95% interval of [`coupled`](Self::coupled), by resampling records: from that of the lower
    /// bound to that of the upper one.
    pub fn interval(&self) -> Option<(f64, f64)> {
        let of = |side: fn(Bounds) -> f64| {
            Bootstrap::default().interval(self.records.len(), |chosen| {
                side(self.mean_of(chosen.iter().map(|&i| &self.records[i]), |s| s.race))
            })
        };
        Some((of(|bounds| bounds.low)?.0, of(|bounds| bounds.high)?.1))
    }

    fn mean(&self, figure: impl Fn(&Sums) -> Bounds) -> Option<Bounds> {
        let some = self.records.iter().any(|sums| sums.tokens > 0);
        some.then(|| self.mean_of(self.records.iter(), figure))
    }

    fn mean_of<'s>(
        &self,
        records: impl Iterator<Item = &'s Sums> + Clone,
        figure: impl Fn(&Sums) -> Bounds,
    ) -> Bounds {
        let tokens: usize = records.clone().map(|sums| sums.tokens).sum();
        records.map(figure).sum::<Bounds>().over(tokens as f64)
    }
}

/// How often the target keeps the first token of drafts that begin with tokens of statistical
/// drafters alone, which are not drawn: the probability of each, and what became of it in the
/// sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FirstPicks {
    /// Drafts of that kind.
    pub drafts: usize,
    /// Drafts whose first token was kept.
    pub kept: usize,
    expected: Bounds,
}

impl FirstPicks {
    /// Replays a record whose lists hold at most `most` tokens, as [`replay`](fn@super::replay),
    /// and adds its drafts. Drafts that a neural drafter begins are left out: they are drawn with
    /// the noise of the sample.
    ///
    /// # Errors
    /// As [`replay`](fn@super::replay).
    pub fn add(
        &mut self,
        cascade: &mut Cascade,
        record: &Record,
        (options, most): (&Options, usize),
    ) -> crate::Result<GenerationOutput> {
        let (mut begun, mut position) = (Vec::new(), 0);
        let options = options.clone().with_drafts_reported(true);
        let generation = replay_with(cascade, record, &options, |report| {
            let roots: Vec<_> = report
                .draft
                .iter()
                .filter(|node| node.parent.is_none())
                .map(|node| (node.token, node.proposer, node.accepted))
                .collect();
            begun.push((position, roots));
            position += report.tokens.len();
        })?;
        let rows: Vec<_> = record
            .top
            .iter()
            .flatten()
            .map(|top| RecordedRow::new(top, most))
            .collect();
        let statistical = |level: usize| generation.models[level].role == Role::Statistical;
        for (position, roots) in begun {
            let of_statistical = roots.iter().all(|(_, level, _)| statistical(level.0));
            let Some(row) = rows
                .get(position)
                .filter(|_| of_statistical && !roots.is_empty())
            else {
                continue;
            };
            let expected = row.of_tokens(roots.iter().map(|&(token, ..)| token));
            self.expected = self.expected + expected;
            self.drafts += 1;
            self.kept += usize::from(roots.iter().any(|&(.., accepted)| accepted));
        }
        Ok(generation)
    }

    /// The mean probability that a draft's first token is kept; `None` without drafts.
    pub fn expected(&self) -> Option<Bounds> {
        (self.drafts > 0).then(|| self.expected.over(self.drafts as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: [f64; 4] = [0.5, 0.3, 0.15, 0.05];

    fn row(tokens: usize, most: usize) -> Vec<(TokenId, f32)> {
        assert!(tokens <= most);
        (0..).zip(P.map(|p| p as f32)).take(tokens).collect()
    }

    fn q(weights: [f64; 4]) -> Distribution {
        Distribution::new(weights.to_vec()).unwrap()
    }

    /// By the definitions, over the whole vocabulary.
    fn exact(q: &Distribution) -> (f64, f64) {
        let q: Vec<f64> = (0..4).map(|v| q.probability(v)).collect();
        let overlap = (0..4).map(|v| P[v].min(q[v])).sum();
        let race = (0..4).filter(|&v| q[v] > 0.0).map(|v| {
            let sum: f64 = (0..4).map(|u| (P[u] / P[v]).max(q[u] / q[v])).sum();
            1.0 / sum
        });
        (overlap, race.sum())
    }

    #[test]
    fn whole_rows_give_the_definitions_and_parts_bound_them() {
        for weights in [
            [1.0, 2.0, 3.0, 4.0],
            [5.0, 3.0, 1.5, 0.5],
            [0.0, 1.0, 0.0, 9.0],
        ] {
            let q = q(weights);
            let (overlap, race) = exact(&q);
            for tokens in 1..=4 {
                let top = row(tokens, tokens);
                let row = RecordedRow::new(&top, tokens);
                for (found, exact) in [(row.overlap(&q), overlap), (row.race(&q), race)] {
                    let inside = found.low <= exact + 1e-6 && exact <= found.high + 1e-6;
                    assert!(inside, "{tokens} tokens: {found:?}, {exact}");
                    assert!(tokens < 4 || found.high - found.low < 1e-6, "{found:?}");
                }
            }
        }
        // The drafter that is the target: nothing is lost.
        let top = row(4, 8);
        let same = RecordedRow::new(&top, 8).race(&q(P));
        assert!(
            (same.low - 1.0).abs() < 1e-6 && same.is_known(5),
            "{same:?}"
        );
    }

    #[test]
    fn tokens_outside_the_list_have_what_is_left_at_most() {
        let top = row(2, 2);
        let row = RecordedRow::new(&top, 2);
        let bounds = |low: f64, high: f64, found: Bounds| {
            assert!((found.low - low).abs() < 1e-6 && (found.high - high).abs() < 1e-6);
        };
        bounds(0.3, 0.3, row.of_tokens([1]));
        bounds(0.0, 0.2, row.of_tokens([3]));
        bounds(0.5, 0.7, row.of_tokens([0, 2, 3]));
        // A list that is shorter than it may be holds all.
        bounds(0.0, 0.0, RecordedRow::new(&top, 3).of_tokens([3]));
    }
}
