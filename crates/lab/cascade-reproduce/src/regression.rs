//! Times of forwards from counted forwards and measured times (SpecDec++, §5.2 and Appendix D.2).

use nalgebra::{DMatrix, DVector};

/// What one generation counted and took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ForwardCounts {
    /// N_draft: forwards of the drafter.
    pub drafter: f64,
    /// N_target: forwards of the target.
    pub target: f64,
    /// T, in seconds.
    pub seconds: f64,
}

/// T = prompt + t_draft · N_draft + t_target · N_target by least squares, in seconds.
///
/// The paper's equation (3.1) has no constant; reading the prompt, which it leaves out, is one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ForwardTimes {
    /// What does not depend on the number of forwards.
    pub prompt: f64,
    /// t_draft; `None` where nothing was drafted.
    pub drafter: Option<f64>,
    /// t_target.
    pub target: f64,
    /// The share of the variance of T that is explained.
    pub r2: f64,
    /// Generations.
    pub generations: usize,
}

impl ForwardTimes {
    /// Fits them to generations; `None` if these do not determine them: too few, or numbers of
    /// forwards that depend on each other.
    pub(crate) fn fit(generations: &[ForwardCounts]) -> Option<Self> {
        let drafts = generations.iter().any(|counted| counted.drafter > 0.0);
        let columns = if drafts { 3 } else { 2 };
        if generations.len() <= columns {
            return None;
        }
        let counts = DMatrix::from_fn(generations.len(), columns, |row, column| {
            let counted = &generations[row];
            [1.0, counted.target, counted.drafter][column]
        });
        let seconds = DVector::from_iterator(
            generations.len(),
            generations.iter().map(|counted| counted.seconds),
        );
        let decomposed = counts.clone().svd(true, true);
        // Below this share of the largest singular value two columns are one.
        let least = 1e-9 * decomposed.singular_values.max();
        if decomposed.rank(least) < columns {
            return None;
        }
        let times = decomposed.solve(&seconds, least).ok()?;
        let unexplained = (&seconds - &counts * &times).norm_squared();
        let variance = seconds.add_scalar(-seconds.mean()).norm_squared();
        let r2 = 1.0 - unexplained / variance;
        let are_finite = times.iter().chain([&r2]).all(|number| number.is_finite());
        are_finite.then(|| Self {
            prompt: times[0],
            drafter: drafts.then(|| times[2]),
            target: times[1],
            r2,
            generations: generations.len(),
        })
    }

    /// Both times, if they can be the times of forwards.
    pub(crate) fn of_both(&self) -> Option<(f64, f64)> {
        let drafter = self.drafter.filter(|&seconds| seconds > 0.0)?;
        (self.target > 0.0).then_some((drafter, self.target))
    }
}

/// Lemma 3.1: where the time of each emitted token goes, in the unit of the forwards' times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decomposition {
    /// T₀ / N: what one forward of the drafter for each token takes.
    pub base: f64,
    /// t_draft · N_discarded / N.
    pub discarded: f64,
    /// (t_target − t_draft) · N_target / N.
    pub verified: f64,
}

impl Decomposition {
    /// The decomposition of a discard rate N_discarded / N and a verification rate N_target / N
    /// (equation 5.1).
    pub fn of(discard_rate: f64, verification_rate: f64, drafter: f64, target: f64) -> Self {
        Self {
            base: drafter,
            discarded: drafter * discard_rate,
            verified: (target - drafter) * verification_rate,
        }
    }

    /// The time of a token.
    pub fn total(&self) -> f64 {
        self.base + self.discarded + self.verified
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fixed sequence between 0 and 1.
    fn noise(at: usize) -> f64 {
        (at as f64 * 0.618_033_988_75).fract()
    }

    fn generations(noisy: f64) -> Vec<ForwardCounts> {
        let counted = |at: usize| {
            let (drafter, target) = ((30 + 7 * at % 60) as f64, (10 + 11 * at % 40) as f64);
            ForwardCounts {
                drafter,
                target,
                seconds: 0.05 + 0.0234 * drafter + 0.112 * target + noisy * (noise(at) - 0.5),
            }
        };
        (0..80).map(counted).collect()
    }

    #[test]
    fn known_times_are_recovered() {
        let fit = ForwardTimes::fit(&generations(0.0)).unwrap();
        assert!((fit.prompt - 0.05).abs() < 1e-9, "{fit:?}");
        assert!((fit.drafter.unwrap() - 0.0234).abs() < 1e-11, "{fit:?}");
        assert!((fit.target - 0.112).abs() < 1e-11, "{fit:?}");
        assert!((fit.r2 - 1.0).abs() < 1e-12 && fit.generations == 80);
        let fit = ForwardTimes::fit(&generations(0.2)).unwrap();
        assert!((fit.target - 0.112).abs() < 0.002 && (0.99..1.0).contains(&fit.r2));
    }

    #[test]
    fn r2_is_as_computed_by_hand() {
        // T = 1, 3, 2 over N_target = 0, 1, 2, and the mean of the residuals 0:
        // slope 1/2, constant 3/2, residuals −1/2, 1, −1/2 (1.5 of 2): R² = 1/4.
        let counted = |target: usize, seconds| ForwardCounts {
            drafter: 0.0,
            target: target as f64,
            seconds,
        };
        let fit = ForwardTimes::fit(&[counted(0, 1.0), counted(1, 3.0), counted(2, 2.0)]).unwrap();
        assert_eq!(fit.drafter, None);
        assert!((fit.target - 0.5).abs() < 1e-12 && (fit.prompt - 1.5).abs() < 1e-12);
        assert!((fit.r2 - 0.25).abs() < 1e-12, "{fit:?}");
        assert_eq!(fit.of_both(), None);
    }

    #[test]
    fn what_determines_nothing_gives_nothing() {
        assert_eq!(ForwardTimes::fit(&[]), None);
        assert_eq!(ForwardTimes::fit(&generations(0.0)[..3]), None);
        let twice = |counted: ForwardCounts| ForwardCounts {
            drafter: 2.0 * counted.target,
            ..counted
        };
        let dependent: Vec<_> = generations(0.1).into_iter().map(twice).collect();
        assert_eq!(ForwardTimes::fit(&dependent), None);
        let constant = |counted: ForwardCounts| ForwardCounts {
            seconds: 1.0,
            ..counted
        };
        let constant: Vec<_> = generations(0.0).into_iter().map(constant).collect();
        assert_eq!(ForwardTimes::fit(&constant), None);
    }

    #[test]
    fn the_lemma_adds_up_to_the_forwards() {
        // 100 tokens: 30 forwards of the target, 90 of the drafter, 70 of whose tokens were kept.
        let (tokens, target, drafter, kept) = (100.0, 30.0, 90.0, 70.0);
        let (slow, fast) = (0.112, 0.0234);
        let lemma = Decomposition::of((drafter - kept) / tokens, target / tokens, fast, slow);
        assert_eq!(lemma.base, 0.0234);
        assert!((lemma.discarded - 0.0234 * 0.2).abs() < 1e-15);
        assert!((lemma.verified - 0.0886 * 0.3).abs() < 1e-15);
        let forwards = (target * slow + drafter * fast) / tokens;
        assert!((lemma.total() - forwards).abs() < 1e-15);
    }
}
