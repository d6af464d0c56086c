//! Search for settings by predicted time.

use cascade_engine::{Convention, KMatrix, Lenience, Result};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Times;
use super::simulate::{Prediction, Recordings, Setting};

/// The search space.
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    /// The most tokens that a neural drafter adds, in any row.
    pub max_neural: usize,
    /// Token counts to try for statistical drafters.
    pub statistical: Vec<usize>,
    /// Numbers of nodes to try for trees, from the smallest.
    pub nodes: Vec<usize>,
    /// Leniences to try for drafters' reviews of neural drafts.
    pub leniences: Vec<Lenience>,
    /// Starting points; the first is plain decoding, the others are random.
    pub starts: usize,
    /// Seed of the random starting points.
    pub seed: u64,
}

impl Default for Space {
    fn default() -> Self {
        Self {
            max_neural: 20,
            statistical: vec![0, 1, 2, 3, 5, 7, 10, 16],
            nodes: vec![2, 4, 6, 8, 12, 16, 24, 32, 64],
            leniences: [1.0, 1.5, 2.0, 3.0, 4.0, 5.0]
                .into_iter()
                .filter_map(|value| Lenience::new(value).ok())
                .collect(),
            starts: 8,
            seed: 0,
        }
    }
}

/// A setting with its prediction.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The setting.
    pub setting: Setting,
    /// The prediction.
    pub prediction: Prediction,
    /// Predicted speedup over plain decoding, by time.
    pub speedup: f64,
    /// Predicted standardized walltime improvement, which counts forwards and not their rows.
    pub swi: f64,
}

impl Candidate {
    /// A setting that did this.
    pub(super) fn new(setting: Setting, prediction: Prediction, times: &Times) -> Self {
        Self {
            speedup: prediction.speedup(times),
            swi: prediction.swi(&times.of_one_row()),
            setting,
            prediction,
        }
    }

    /// Drafters that the K matrix never asks, directly or through a drafter that it does ask.
    pub fn unused(&self) -> Vec<usize> {
        unused(self.setting.k.rows())
    }

    /// The K matrix without the drafters that it never asks.
    pub fn k_of_used(&self) -> Vec<Vec<usize>> {
        let rows = self.setting.k.rows();
        without(rows, &unused(rows))
    }
}

fn unused(rows: &[Vec<usize>]) -> Vec<usize> {
    let mut used = vec![false; rows.len()];
    for drafter in 0..rows.len() {
        let asked_by = |reviewer: usize| rows[reviewer][drafter] > 0;
        used[drafter] = asked_by(0) || (0..drafter).any(|at| used[at] && asked_by(at + 1));
    }
    (0..rows.len()).filter(|&drafter| !used[drafter]).collect()
}

fn without(rows: &[Vec<usize>], drafters: &[usize]) -> Vec<Vec<usize>> {
    let kept: Vec<usize> = (0..rows.len())
        .filter(|drafter| !drafters.contains(drafter))
        .collect();
    // The smallest drafter reviews nothing.
    let reviewers = std::iter::once(0).chain(kept.iter().map(|drafter| drafter + 1));
    reviewers
        .take(kept.len())
        .map(|reviewer| {
            kept.iter()
                .map(|&drafter| rows[reviewer][drafter])
                .collect()
        })
        .collect()
}

/// Returns the promising settings, the best predicted speedup first: each further one has cheaper
/// drafting than all before it.
///
/// Coordinate ascent from several starting points: one entry at a time is set to its best value,
/// until no change improves the speedup. Plain decoding and each statistical drafter alone are
/// always among what is tried. Cost: some thousand predictions, each one pass over the recorded
/// texts.
///
/// # Errors
/// As [`Recordings::predict`].
pub(super) fn search(
    recordings: &Recordings,
    space: &Space,
    times: &Times,
) -> Result<Vec<Candidate>> {
    let mut searcher = Searcher {
        recordings,
        space,
        times,
        seen: Vec::new(),
    };
    let mut rng = ChaCha8Rng::seed_from_u64(space.seed);
    for start in 0..space.starts.max(1) {
        let point = searcher.start((start > 0).then_some(&mut rng));
        searcher.climb(point)?;
    }
    searcher.try_alone()?;
    let seen = searcher.seen.into_iter().map(|(_, candidate)| candidate);
    Ok(frontier(seen.collect(), times))
}

/// The best prediction of a drafter alone, with these numbers of tokens.
///
/// # Errors
/// As [`Recordings::predict`].
pub(super) fn best_alone(
    recordings: &Recordings,
    drafter: usize,
    tokens: &[usize],
    times: &Times,
) -> Result<Option<Candidate>> {
    let mut best: Option<Candidate> = None;
    for &tokens in tokens.iter().filter(|&&tokens| tokens > 0) {
        let setting = alone(recordings.drafters(), drafter, tokens)?;
        let candidate = predicted(recordings, setting, times)?;
        if best
            .as_ref()
            .is_none_or(|best| candidate.speedup > best.speedup)
        {
            best = Some(candidate);
        }
    }
    Ok(best)
}

/// The setting in which one of so many drafters drafts for the target, and nobody else.
pub(super) fn alone(drafters: usize, drafter: usize, tokens: usize) -> Result<Setting> {
    let mut rows = vec![vec![0; drafters]; drafters];
    rows[0][drafter] = tokens;
    Ok(Setting {
        k: KMatrix::new(rows, Convention::Added)?,
        lenience: Lenience::STRICT,
        nodes: None,
    })
}

fn predicted(recordings: &Recordings, setting: Setting, times: &Times) -> Result<Candidate> {
    let prediction = recordings.predict(&setting, times)?;
    Ok(Candidate::new(setting, prediction, times))
}

/// Entries of the upper triangle, row by row, and the index of the lenience.
#[derive(Clone, Debug, PartialEq)]
struct Point {
    entries: Vec<usize>,
    lenience: usize,
}

struct Searcher<'a> {
    recordings: &'a Recordings,
    space: &'a Space,
    times: &'a Times,
    seen: Vec<(Point, Candidate)>,
}

impl Searcher<'_> {
    /// Row and column of each entry. A statistical drafter's row is never used and stays empty.
    fn places(&self) -> Vec<(usize, usize)> {
        let n = self.recordings.drafters();
        let reviews = |row: usize| row == 0 || self.recordings.is_neural(row - 1);
        (0..n)
            .filter(|&row| reviews(row))
            .flat_map(|row| (row..n).map(move |column| (row, column)))
            .collect()
    }

    fn values(&self, column: usize) -> Vec<usize> {
        if self.recordings.is_neural(column) {
            (0..=self.space.max_neural).collect()
        } else {
            self.space.statistical.clone()
        }
    }

    fn start(&self, rng: Option<&mut ChaCha8Rng>) -> Point {
        let places = self.places();
        let Some(rng) = rng else {
            return Point {
                entries: vec![0; places.len()],
                lenience: 0,
            };
        };
        let mut value = |column| {
            let values = self.values(column);
            // Favours small values, which are more often good.
            let below = rng.random_range(0..values.len());
            values[rng.random_range(0..=below)]
        };
        Point {
            entries: places.iter().map(|&(_, column)| value(column)).collect(),
            lenience: rng.random_range(0..self.space.leniences.len()),
        }
    }

    fn climb(&mut self, mut point: Point) -> Result<()> {
        let places = self.places();
        let mut best = self.speedup(&point)?;
        loop {
            let before = best;
            for (i, &(_, column)) in places.iter().enumerate() {
                for value in self.values(column) {
                    let mut next = point.clone();
                    next.entries[i] = value;
                    self.take_if_better(next, &mut point, &mut best)?;
                }
            }
            for lenience in 0..self.space.leniences.len() {
                let next = Point {
                    lenience,
                    ..point.clone()
                };
                self.take_if_better(next, &mut point, &mut best)?;
            }
            if best <= before {
                return Ok(());
            }
        }
    }

    fn take_if_better(&mut self, next: Point, point: &mut Point, best: &mut f64) -> Result<()> {
        let speedup = self.speedup(&next)?;
        if speedup > *best {
            (*point, *best) = (next, speedup);
        }
        Ok(())
    }

    /// Tries each statistical drafter alone.
    fn try_alone(&mut self) -> Result<()> {
        let places = self.places();
        let first_row = places.iter().enumerate().filter(|(_, place)| place.0 == 0);
        for (entry, &(_, column)) in first_row {
            if self.recordings.is_neural(column) {
                continue;
            }
            for &tokens in &self.space.statistical {
                let mut point = self.start(None);
                point.entries[entry] = tokens;
                self.speedup(&point)?;
            }
        }
        Ok(())
    }

    fn speedup(&mut self, point: &Point) -> Result<f64> {
        if let Some((_, candidate)) = self.seen.iter().find(|(seen, _)| seen == point) {
            return Ok(candidate.speedup);
        }
        let candidate = predicted(self.recordings, self.setting(point)?, self.times)?;
        let speedup = candidate.speedup;
        self.seen.push((point.clone(), candidate));
        Ok(speedup)
    }

    fn setting(&self, point: &Point) -> Result<Setting> {
        let n = self.recordings.drafters();
        let mut rows = vec![vec![0; n]; n];
        for (&(row, column), &value) in self.places().iter().zip(&point.entries) {
            rows[row][column] = value;
        }
        Ok(Setting {
            k: KMatrix::new(rows, Convention::Added)?,
            lenience: self.space.leniences[point.lenience],
            nodes: None,
        })
    }
}

/// The best candidate, then the Pareto frontier of speedup and drafting cost.
pub(super) fn frontier(mut candidates: Vec<Candidate>, times: &Times) -> Vec<Candidate> {
    let costs = times.of_one_row();
    candidates.sort_by(|a, b| b.speedup.total_cmp(&a.speedup));
    let drafting = |candidate: &Candidate| candidate.prediction.drafting_per_token(&costs);
    let mut kept: Vec<Candidate> = Vec::new();
    for candidate in candidates {
        if kept
            .last()
            .is_none_or(|last| drafting(&candidate) < drafting(last))
        {
            kept.push(candidate);
        }
    }
    kept
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::tune::recording::Recording;
    use cascade_core::toy::ToyScorer;
    use cascade_core::{Architecture, Prompt, Scorer, TokenId, TokenTree, Want};

    fn toy(seed: u64, agreement: u64) -> ToyScorer {
        ToyScorer::drafter("toy", 12, 9, seed, agreement)
    }

    fn recordings() -> Recordings {
        let prompt = Prompt::new(Architecture::DecoderOnly, vec![1, 3]);
        let mut context = prompt.context.clone();
        for _ in 0..80 {
            let scores = toy(0, 256).score(&context, &TokenTree::new(), Want::ARGMAX);
            context.push(scores.expect("a toy does not fail").argmax[0]);
        }
        let tokens: Vec<TokenId> = context.split_off(2);
        let mut recording = Recording::new(tokens);
        recording
            .add_neural(&mut toy(2, 150), &prompt)
            .expect("a toy does not fail");
        recording
            .add_neural(&mut toy(1, 230), &prompt)
            .expect("a toy does not fail");
        Recordings::new(vec![recording])
    }

    #[test]
    fn dear_drafters_are_not_used_and_free_ones_are() {
        let recordings = recordings();
        let space = Space {
            starts: 3,
            ..Space::default()
        };
        let dear = search(&recordings, &space, &Times::linear(&[1.0, 2.0, 2.0], 0.0)).unwrap();
        assert_eq!(dear[0].swi, 1.0, "plain decoding");
        assert_eq!(dear[0].prediction.calls[1..], [0, 0]);
        let cheap = Times::linear(&[1.0, 0.001, 0.001], 0.0);
        let free = search(&recordings, &space, &cheap).unwrap();
        assert!(free[0].swi > 3.0, "{}", free[0].swi);
        let drafting = |c: &Candidate| c.prediction.drafting_per_token(&[1.0, 0.001, 0.001]);
        assert!(
            free.windows(2)
                .all(|pair| drafting(&pair[1]) < drafting(&pair[0]))
        );
        assert!(
            free.windows(2)
                .all(|pair| pair[1].speedup <= pair[0].speedup)
        );
    }

    #[test]
    fn drafters_that_nobody_asks_are_left_out() {
        let k = |rows: [[usize; 3]; 3]| rows.map(Vec::from).to_vec();
        for (rows, names, left) in [
            (
                k([[0, 1, 2], [0, 0, 2], [0, 0, 2]]),
                vec![0],
                vec![vec![1, 2], vec![0, 2]],
            ),
            (
                k([[0, 0, 5], [0, 4, 4], [0, 0, 0]]),
                vec![0, 1],
                vec![vec![5]],
            ),
            (
                k([[3, 0, 0], [0, 2, 0], [0, 0, 0]]),
                vec![2],
                vec![vec![3, 0], vec![0, 2]],
            ),
            (
                k([[3, 0, 0], [0, 0, 2], [0, 0, 0]]),
                vec![1],
                vec![vec![3, 0], vec![0, 2]],
            ),
            (k([[0; 3], [0; 3], [0; 3]]), vec![0, 1, 2], vec![]),
        ] {
            assert_eq!(unused(&rows), names, "{rows:?}");
            assert_eq!(without(&rows, &names), left, "{rows:?}");
        }
    }
}
