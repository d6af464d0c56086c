//! Negative controls: wrong rules, which the enumeration must detect.

use std::sync::Arc;

use cascade_core::{Distribution, Draft, NodeId, Proposal, RandomSource, TokenId, TokenTree};
use cascade_verify::Rule;

use crate::exact::cascade::{PassedOn, Reviewing, leniences};
use crate::exact::drafting::{Drafts, Shape, all_drafts};
use crate::exact::joint::{error_of, strict_error};
use crate::exact::language::{Cast, Family};
use crate::exact::{CAUGHT, TOLERANCE};

/// Languages in which every token is possible, so that every mistake is detectable.
fn casts() -> impl Iterator<Item = Cast> {
    (300..310).map(|seed| Cast::new(Family::Random, 4, seed))
}

fn drafts(cast: &Cast, shape: Shape, depth: usize) -> Drafts {
    all_drafts(|chance| shape.draft(&[&cast.small, &cast.base], &[], depth, chance))
}

/// Checks that a mistake is detected in most of the languages, though not necessarily in all.
fn assert_caught(mistake: &str, errors: &[f64]) {
    let caught = errors.iter().filter(|&&error| error > CAUGHT).count();
    assert!(2 * caught > errors.len(), "{mistake}: {errors:?}");
}

/// A token of p, given p and the draws.
type WrongRule =
    fn(&Distribution, &[(TokenId, Arc<Distribution>)], &mut dyn RandomSource) -> TokenId;

/// The walk of a review with a wrong rule.
fn walk(
    rule: WrongRule,
    draft: &Draft,
    rows: &[Arc<Distribution>],
    chance: &mut dyn RandomSource,
) -> Vec<TokenId> {
    let mut text = Vec::new();
    let mut at: Option<NodeId> = None;
    loop {
        let draws: Vec<_> = draft
            .sibling_candidates(at)
            .map(|draw| match &draw.proposal {
                Proposal::Sampled(q) => (draft.tree().token(draw.node), Arc::clone(q)),
                proposal => panic!("{proposal:?}"),
            })
            .collect();
        let token = rule(&rows[TokenTree::row(at)], &draws, chance);
        text.push(token);
        at = match draft.tree().child(at, token) {
            None => return text,
            child => child,
        };
    }
}

fn wrong_error(cast: &Cast, rule: WrongRule) -> f64 {
    let drafts = drafts(cast, Shape::CHAIN, 2);
    error_of(&cast.target, 3, &drafts, |draft, rows, chance| {
        walk(rule, draft, rows, chance)
    })
}

/// The walk of these controls is correct if the rule is.
#[test]
fn the_walk_is_exact_with_an_exact_rule() {
    for cast in casts() {
        let error = wrong_error(&cast, |p, draws, chance| match draws.first() {
            Some((token, q)) if chance.accept(p.probability(*token) / q.probability(*token)) => {
                *token
            }
            Some((_, q)) => chance.draw(&p.residual(q).unwrap()),
            None => chance.draw(p),
        });
        assert!(error < TOLERANCE, "{cast}: {error:e}");
    }
}

#[test]
fn accepting_everything_is_caught() {
    for cast in casts() {
        let error = wrong_error(&cast, |p, draws, chance| match draws.first() {
            Some((token, _)) => *token,
            None => chance.draw(p),
        });
        assert!(error > CAUGHT, "{cast}: {error:e}");
    }
}

#[test]
fn forgetting_the_residual_is_caught() {
    for cast in casts() {
        let error = wrong_error(&cast, |p, draws, chance| match draws.first() {
            Some((token, q)) if chance.accept(p.probability(*token) / q.probability(*token)) => {
                *token
            }
            _ => chance.draw(p),
        });
        assert!(error > CAUGHT, "{cast}: {error:e}");
    }
}

#[test]
fn passing_on_the_own_distribution_after_a_lenient_review_is_caught() {
    for shape in [Shape::CHAIN, Shape::Top(1), Shape::Distinct(2)] {
        let mut errors = Vec::new();
        for cast in casts() {
            let reviewing = |passed_on| Reviewing {
                passed_on,
                ..Reviewing::new(shape, leniences(3.0, 3.0))
            };
            let right = reviewing(PassedOn::Emitted).error(&cast, 2, Rule::Speculative);
            assert!(right < TOLERANCE, "{shape:?}, {cast}: {right:e}");
            errors.push(reviewing(PassedOn::OwnRows).error(&cast, 2, Rule::Speculative));
        }
        assert_caught(&format!("{shape:?}"), &errors);
    }
}

/// The error of the target's review of `drafts`, in which each draft was replaced by `spoil`.
fn spoilt_error(cast: &Cast, drafts: &Drafts, rule: Rule, spoil: fn(&Draft) -> Draft) -> f64 {
    let spoilt = drafts.iter().map(|(draft, p)| (spoil(draft), *p)).collect();
    strict_error(&cast.target, 2, &spoilt, rule)
}

/// Without the draws for which `drop` holds, given the draft so far.
fn rebuilt(draft: &Draft, drop: fn(&Draft, TokenId, &Proposal) -> bool) -> Draft {
    let mut rebuilt = Draft::new();
    for draw in draft.candidates() {
        let token = draft.tree().token(draw.node);
        if !drop(&rebuilt, token, &draw.proposal) {
            let proposed = cascade_core::Proposed {
                proposal: draw.proposal.clone(),
                proposer: draft.proposer(draw.node),
            };
            rebuilt.push(token, None, proposed);
        }
    }
    rebuilt
}

/// A random order is wrong for draws that depend on the ones before: they are exact in order only.
#[test]
fn shuffling_dependent_draws_is_caught() {
    for shape in [
        Shape::Distinct(2),
        Shape::Distinct(3),
        Shape::LeadAndOthers(2),
    ] {
        let mut errors = Vec::new();
        for cast in casts() {
            let drafts = drafts(&cast, shape, 1);
            let ordered = strict_error(&cast.target, 2, &drafts, Rule::Iterated);
            assert!(ordered < TOLERANCE, "{shape:?}, {cast}: {ordered:e}");
            errors.push(strict_error(&cast.target, 2, &drafts, Rule::SpecInfer));
        }
        assert_caught(&format!("{shape:?}"), &errors);
    }
}

#[test]
fn giving_merged_draws_one_chance_is_caught() {
    for (rule, width) in [
        (Rule::Iterated, 2),
        (Rule::SpecInfer, 2),
        (Rule::Iterated, 3),
    ] {
        let mut errors = Vec::new();
        for cast in casts() {
            let drafts = drafts(&cast, Shape::Replaced(width), 1);
            let whole = spoilt_error(&cast, &drafts, rule, |draft| {
                rebuilt(draft, |_, _, _| false)
            });
            assert!(whole < TOLERANCE, "{rule}, {cast}: {whole:e}");
            errors.push(spoilt_error(&cast, &drafts, rule, |draft| {
                rebuilt(draft, |so_far, token, _| {
                    so_far.tree().child(None, token).is_some()
                })
            }));
        }
        assert_caught(rule.name(), &errors);
    }
}

/// Ending a draft after an unlikely draw is exact ([`Shape::Confident`]); removing the draw is not.
#[test]
fn pruning_draws_by_their_own_probability_is_caught() {
    for shape in [Shape::CHAIN, Shape::Replaced(2)] {
        for rule in [Rule::Speculative, Rule::Iterated, Rule::SpecInfer] {
            let error = |cast: Cast| {
                spoilt_error(&cast, &drafts(&cast, shape, 1), rule, |draft| {
                    rebuilt(draft, |_, token, proposal| match proposal {
                        Proposal::Sampled(q) => q.top(1) != [token],
                        _ => false,
                    })
                })
            };
            assert_caught(rule.name(), &casts().map(error).collect::<Vec<_>>());
        }
    }
}
