//! The lengths that make a system fastest.

use super::systems::{Drafter, Horizontal, Segment, Speculative, System, Vertical};

/// The fastest system that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Best<S> {
    /// The system; of equally fast ones, the one that drafts least. It drafts nothing if drafting
    /// never pays.
    pub system: S,
    /// Its EWIF.
    pub ewif: f64,
    /// Whether it uses all that the limit allows, so that a longer draft may be faster still. With
    /// a drafter that costs nothing, longer is always faster.
    pub at_limit: bool,
}

impl<S: System> Best<S> {
    /// The fastest of `plain` and some other systems; of equally fast ones the first.
    fn of(plain: S, others: impl IntoIterator<Item = S>, is_at_limit: impl Fn(&S) -> bool) -> Self {
        let (mut ewif, mut system) = (plain.ewif(), plain);
        for other in others {
            let faster = other.ewif();
            if faster > ewif {
                (ewif, system) = (faster, other);
            }
        }
        Self {
            ewif,
            at_limit: is_at_limit(&system),
            system,
        }
    }
}

/// The best k of speculative decoding, from 0 to `limit`.
pub fn best_speculative(drafter: Drafter, limit: usize) -> Best<Speculative> {
    let of_length = |tokens| Speculative { drafter, tokens };
    let others = (1..=limit).map(of_length);
    Best::of(of_length(0), others, |best| best.tokens == limit)
}

/// The best n and k of a vertical cascade, each from 0 to `limit`. With k = 0 the drafter below is
/// not used.
///
/// # Cost
/// (`limit` + 1)² formulas.
pub fn best_vertical(drafter: Drafter, below: Drafter, limit: usize) -> Best<Vertical> {
    let of_lengths = |rounds, tokens| Vertical {
        drafter,
        below,
        rounds,
        tokens,
    };
    let others = (1..=limit).flat_map(|n| (0..=limit).map(move |k| (n, k)));
    let others = others.map(|(rounds, tokens)| of_lengths(rounds, tokens));
    Best::of(of_lengths(0, 0), others, |best| {
        best.rounds == limit || best.tokens == limit
    })
}

/// The best lengths of a horizontal cascade of `drafters`, each from 0 to `limit`.
///
/// The segments of the result are the drafters by falling acceptance rate (of equal ones, the
/// cheaper first), which is the best order: a draft costs the same in any order, and whoever is
/// reached should be the likeliest to be accepted. Drafters that are not used have 0 tokens.
///
/// # Cost
/// Not that of trying all lengths: of the ends that a draft may have, only those are kept that are
/// best for some beginning, and they are passed over `limit` times per drafter. Milliseconds for
/// drafts of up to a hundred tokens each.
pub fn best_horizontal(drafters: &[Drafter], limit: usize) -> Best<Horizontal> {
    let mut drafters = drafters.to_vec();
    drafters.sort_by(|a, b| {
        let by_rate = b.acceptance.get().total_cmp(&a.acceptance.get());
        by_rate.then(a.cost.get().total_cmp(&b.cost.get()))
    });
    let mut endings = vec![Ending::default()];
    for &drafter in drafters.iter().rev() {
        endings = endings_from(drafter, endings, limit);
    }
    let of_lengths = |lengths: Vec<usize>| {
        let tokens = lengths.into_iter().rev();
        let segments = drafters.iter().zip(tokens);
        Horizontal {
            segments: segments
                .map(|(&drafter, tokens)| Segment { drafter, tokens })
                .collect(),
        }
    };
    let unused = of_lengths(vec![0; drafters.len()]);
    let others = endings.into_iter().map(|ending| of_lengths(ending.lengths));
    Best::of(unused, others, |best| {
        best.segments.iter().any(|s| s.tokens == limit)
    })
}

/// The end of a draft, by the last drafters.
///
/// After a beginning that is accepted with probability P, it adds P·`gain` tokens for `cost`. A
/// draft is fastest, with EWIF λ, if no other adds more to tokens − λ·time; so only endings that
/// maximise P·gain − λ·cost for some P and λ matter, which are the corners of the upper hull of all
/// (cost, gain).
#[derive(Clone, Default, PartialEq)]
struct Ending {
    /// Expected number of its tokens that are accepted, if all before them are.
    gain: f64,
    /// Their walltime.
    cost: f64,
    /// Tokens of each drafter, last drafter first.
    lengths: Vec<usize>,
}

impl Ending {
    /// The ending with one more token, of the first of its drafters, before it.
    fn after_one_more(&self, drafter: Drafter) -> Self {
        let mut lengths = self.lengths.clone();
        if let Some(first) = lengths.last_mut() {
            *first += 1;
        }
        Self {
            gain: drafter.acceptance.get() * (1.0 + self.gain),
            cost: drafter.cost.get() + self.cost,
            lengths,
        }
    }
}

/// The endings that begin with up to `limit` tokens of `drafter`, followed by one of `later`.
fn endings_from(drafter: Drafter, mut later: Vec<Ending>, limit: usize) -> Vec<Ending> {
    for ending in &mut later {
        ending.lengths.push(0);
    }
    let mut endings = later.clone();
    for _ in 0..limit {
        let longer = endings.iter().map(|e| e.after_one_more(drafter));
        let longer = upper_hull(later.iter().cloned().chain(longer).collect());
        if longer == endings {
            break;
        }
        endings = longer;
    }
    endings
}

/// The endings that are corners of the upper hull, by rising cost and gain.
fn upper_hull(mut endings: Vec<Ending>) -> Vec<Ending> {
    endings.sort_by(|a, b| a.cost.total_cmp(&b.cost).then(b.gain.total_cmp(&a.gain)));
    let mut hull: Vec<Ending> = vec![];
    for ending in endings {
        if hull.last().is_some_and(|last| last.gain >= ending.gain) {
            continue;
        }
        while let [.., before, last] = hull.as_slice() {
            let rise = (last.gain - before.gain) * (ending.cost - last.cost);
            let next_rise = (ending.gain - last.gain) * (last.cost - before.cost);
            if next_rise < rise {
                break;
            }
            hull.pop();
        }
        hull.push(ending);
    }
    hull
}
