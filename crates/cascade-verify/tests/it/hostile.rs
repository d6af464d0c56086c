//! Invalid probabilities, and drafters that do not draw from their proposals.

use std::sync::Arc;

use cascade_core::toy::outcomes;
use cascade_core::{
    Distribution, Draft, Error, LevelId, Matrix, Proposal, Proposed, Result, Sampling,
    SeededRandom, TokenId,
};
use cascade_verify::{Lenience, LeniencePolicy, RowDistributions, Rule, SampledRows, sampled};

fn distribution(weights: &[f64]) -> Arc<Distribution> {
    Arc::new(Distribution::new(weights.to_vec()).unwrap())
}

fn push(draft: &mut Draft, token: TokenId, parent: Option<usize>, proposal: Proposal) -> usize {
    let proposer = LevelId::drafter(0);
    draft.push(token, parent, Proposed { proposal, proposer })
}

fn both(lenience: f32) -> LeniencePolicy {
    let lenience = Lenience::new(lenience).unwrap();
    LeniencePolicy {
        neural: lenience,
        statistical: lenience,
    }
}

/// Probability of each of three tokens to be the first that a review emits.
fn first_tokens(
    draft: &Draft,
    p: &Arc<Distribution>,
    rule: Rule,
    leniences: LeniencePolicy,
) -> [f64; 3] {
    let mut rows = vec![Arc::clone(p); draft.len() + 1];
    let mut mass = [0.0; 3];
    for (verdict, probability) in outcomes(|chance| {
        sampled::review(draft, None, &mut rows[..], &rule, leniences, chance).unwrap()
    }) {
        let kept = verdict.kept.first().map(|&node| draft.tree().token(node));
        mass[kept.unwrap_or(verdict.next) as usize] += probability;
    }
    mass
}

fn assert_is(p: &Distribution, mass: [f64; 3], case: &str) {
    for (token, mass) in mass.iter().enumerate() {
        let p = p.probability(token as TokenId);
        assert!(
            (mass - p).abs() < 1e-15,
            "{case}: {token} has {mass}, not {p}"
        );
    }
}

#[test]
fn logits_that_are_no_numbers_are_an_error_of_the_review() {
    let sampling = Sampling::new(1.0).unwrap();
    let chain = |token| {
        let mut draft = Draft::new();
        push(&mut draft, token, None, Proposal::PointMass);
        draft
    };
    for bad in [f32::NAN, f32::INFINITY] {
        // The reviewer draws 1; the row after it is invalid.
        let logits = Matrix::new(2, vec![f32::NEG_INFINITY, 0.0, 0.0, bad]);
        for rule in Rule::DRAWN {
            for leniences in [LeniencePolicy::STRICT, both(2.0)] {
                let review = |draft: &Draft| {
                    let mut rows = SampledRows::new(&logits, &sampling);
                    let mut chance = SeededRandom::new(7);
                    sampled::review(draft, None, &mut rows, &rule, leniences, &mut chance)
                };
                let error = review(&chain(1)).unwrap_err();
                assert!(
                    matches!(error, Error::ImproperLogits { token: 1, .. }),
                    "{rule}: {error}"
                );
                let verdict = review(&chain(0)).unwrap();
                assert_eq!(verdict.next, 1, "{rule}: the bad row is off the path");
            }
        }
    }
}

#[test]
fn rows_without_any_token_are_an_error() {
    let logits = Matrix::new(2, vec![f32::NEG_INFINITY; 2]);
    let sampling = Sampling::new(1.0).unwrap();
    let error = SampledRows::new(&logits, &sampling)
        .distribution(0)
        .unwrap_err();
    assert!(error.to_string().contains("-inf"), "{error}");
}

/// A draw with a probability of 0 was not drawn from its proposal: it is skipped, and the review is
/// as exact as without it.
#[test]
fn a_draw_that_its_own_proposal_excludes_is_passed_over() {
    let q = distribution(&[0.0, 0.4, 0.6]);
    for p in [
        distribution(&[0.2, 0.5, 0.3]),
        distribution(&[0.0, 0.5, 0.5]),
        distribution(&[1.0, 0.0, 0.0]),
    ] {
        let mut draft = Draft::new();
        push(&mut draft, 0, None, Proposal::Sampled(Arc::clone(&q)));
        for rule in Rule::DRAWN {
            for leniences in [LeniencePolicy::STRICT, both(3.0)] {
                let mass = first_tokens(&draft, &p, rule, leniences);
                assert_is(&p, mass, rule.name());
            }
        }
    }
}

/// Its sibling draws are reviewed normally.
#[test]
fn an_excluded_draw_does_not_spoil_its_siblings() {
    let (p, q) = (
        distribution(&[0.2, 0.5, 0.3]),
        distribution(&[0.0, 0.4, 0.6]),
    );
    for rule in Rule::DRAWN {
        let mut mass = [0.0; 3];
        for (token, drawn) in q.support() {
            let mut draft = Draft::new();
            push(&mut draft, 0, None, Proposal::Sampled(Arc::clone(&q)));
            push(&mut draft, token, None, Proposal::Sampled(Arc::clone(&q)));
            let emitted = first_tokens(&draft, &p, rule, LeniencePolicy::STRICT);
            for (sum, emitted) in mass.iter_mut().zip(emitted) {
                *sum += drawn * emitted;
            }
        }
        assert_is(&p, mass, rule.name());
    }
}

#[test]
fn tokens_and_proposals_of_another_vocabulary_are_rejected() {
    let p = distribution(&[0.2, 0.5, 0.3]);
    let wide = distribution(&[0.0, 0.0, 0.0, 0.0, 1.0]);
    for proposal in [Proposal::PointMass, Proposal::Sampled(wide)] {
        let mut draft = Draft::new();
        push(&mut draft, 4, None, proposal);
        for rule in Rule::DRAWN {
            for leniences in [LeniencePolicy::STRICT, both(3.0)] {
                let mass = first_tokens(&draft, &p, rule, leniences);
                assert_is(&p, mass, rule.name());
            }
        }
    }
}

/// Two distributions that are the same but for rounding: the residual after a rejection is noise,
/// and has no effect.
#[test]
fn rounding_does_not_multiply() {
    let p = distribution(&[0.1, 0.2, 0.7]);
    let q = distribution(&[0.1 * (1.0 + 1e-15), 0.2, 0.7 * (1.0 - 1e-15)]);
    for rule in Rule::DRAWN {
        for leniences in [LeniencePolicy::STRICT, both(1.0 + f32::EPSILON)] {
            let mut mass = [0.0; 3];
            for (token, drawn) in q.support() {
                let mut draft = Draft::new();
                push(&mut draft, token, None, Proposal::Sampled(Arc::clone(&q)));
                let emitted = first_tokens(&draft, &p, rule, leniences);
                for (sum, emitted) in mass.iter_mut().zip(emitted) {
                    *sum += drawn * emitted;
                }
            }
            for (token, mass) in mass.iter().enumerate() {
                let p = p.probability(token as TokenId);
                assert!((mass - p).abs() < 1e-14, "{rule}: {token} has {mass}");
            }
        }
    }
}

/// A very improbable rejection is not treated as impossible: the tokens emitted after it have a
/// positive probability in r.
#[test]
fn what_a_lenient_review_emits_is_never_called_impossible() {
    let p = distribution(&[0.0, 0.5, 0.5]);
    let q = distribution(&[1e-30, 1.0, 0.0]);
    let mut draft = Draft::new();
    push(&mut draft, 0, None, Proposal::Sampled(q));
    let mut rows = [Arc::clone(&p), p];
    for rule in Rule::DRAWN {
        let mut chance = SeededRandom::new(1);
        let verdict =
            sampled::review(&draft, None, &mut rows[..], &rule, both(3.0), &mut chance).unwrap();
        assert_eq!(verdict.next, 2);
        let Proposal::Sampled(r) = &verdict.emitted[0] else {
            panic!("{:?}", verdict.emitted);
        };
        assert!(
            (r.probability(2) / 1e-30 - 1.0).abs() < 1e-9,
            "{rule}: {r:?}"
        );
    }
}

/// Counts the requested rows.
struct Counting<'a> {
    rows: SampledRows<'a>,
    asked: Vec<usize>,
}

impl RowDistributions for Counting<'_> {
    fn distribution(&mut self, row: usize) -> Result<Arc<Distribution>> {
        self.asked.push(row);
        self.rows.distribution(row)
    }
}

/// A tree of 13 nodes, all of whose rows are NaN except those along one path.
#[test]
fn a_review_looks_at_the_rows_along_its_path() {
    let mut draft = Draft::new();
    let mut path = vec![None];
    for _ in 0..4 {
        let parent = path[path.len() - 1];
        let siblings = [0, 1, 2].map(|token| push(&mut draft, token, parent, Proposal::PointMass));
        path.push(Some(siblings[1]));
    }
    let mut logits = vec![f32::NAN; (draft.len() + 1) * 3];
    for node in &path {
        let row = node.map_or(0, |node| node + 1);
        logits[row * 3..][..3].copy_from_slice(&[f32::NEG_INFINITY, 0.0, f32::NEG_INFINITY]);
    }
    let logits = Matrix::new(3, logits);
    let sampling = Sampling::new(1.0).unwrap();
    for rule in Rule::DRAWN {
        let mut rows = Counting {
            rows: SampledRows::new(&logits, &sampling),
            asked: Vec::new(),
        };
        let mut chance = SeededRandom::new(3);
        let verdict =
            sampled::review(&draft, None, &mut rows, &rule, both(2.0), &mut chance).unwrap();
        assert_eq!(verdict.kept, [1, 4, 7, 10], "{rule}");
        assert_eq!(rows.asked, [0, 2, 5, 8, 11], "{rule}");
    }
}

#[test]
fn a_row_is_computed_once() {
    let logits = Matrix::new(3, vec![0.0; 6]);
    let sampling = Sampling::new(1.0).unwrap();
    let mut rows = SampledRows::new(&logits, &sampling);
    let first = rows.distribution(1).unwrap();
    assert!(Arc::ptr_eq(&first, &rows.distribution(1).unwrap()));
}
