//! A strict review emits the target's own joint distribution, whatever was drafted and however.

use cascade_core::TokenId;
use cascade_core::toy::outcomes;
use cascade_verify::{LeniencePolicy, ReviewRule, Rule, sampled};

use crate::exact::TOLERANCE;
use crate::exact::drafting::{Shape, all_drafts};
use crate::exact::joint::{Joint, emitted, strict_error};
use crate::exact::language::Cast;

/// Whether a rule is exact for drafts of a shape.
pub(crate) fn fits(rule: Rule, shape: Shape) -> bool {
    shape.independent() || !rule.reorders()
}

fn check(cast: &Cast, shape: Shape, depth: usize) {
    let languages = [&cast.small, &cast.base];
    let drafts = all_drafts(|chance| shape.draft(&languages, &[], depth, chance));
    for rule in Rule::DRAWN.into_iter().filter(|&rule| fits(rule, shape)) {
        let error = strict_error(&cast.target, depth + 1, &drafts, rule);
        assert!(error < TOLERANCE, "{rule}, {shape:?}, {cast}: {error:e}");
    }
}

fn check_all(shapes: &[Shape], depth: usize, casts: &[Cast]) {
    for cast in casts {
        for &shape in shapes {
            check(cast, shape, depth);
        }
    }
}

#[test]
fn chains() {
    let shapes = [
        Shape::CHAIN,
        Shape::Top(1),
        Shape::GatheredProbs,
        Shape::Mixed,
        Shape::Confident,
    ];
    check_all(&shapes, 1, &Cast::all(5, 0..30));
    check_all(&shapes, 2, &Cast::all(4, 30..40));
    check_all(&shapes, 3, &Cast::all(3, 40..46));
    check_all(&shapes, 3, &Cast::all(5, 46..47));
}

#[test]
fn siblings() {
    let shapes = [
        Shape::Replaced(2),
        Shape::Replaced(3),
        Shape::Distinct(2),
        Shape::Distinct(3),
        Shape::Distinct(5),
        Shape::Top(3),
        Shape::LeadAndTop(2),
        Shape::LeadAndOthers(2),
        Shape::Sequences,
    ];
    check_all(&shapes, 1, &Cast::all(3, 50..65));
    check_all(&shapes, 1, &Cast::all(4, 65..68));
}

#[test]
fn trees_of_depth_two() {
    let shapes = [
        Shape::Replaced(2),
        Shape::Distinct(2),
        Shape::Top(2),
        Shape::LeadAndTop(2),
        Shape::LeadAndOthers(2),
        Shape::Sequences,
    ];
    check_all(&shapes, 2, &Cast::all(3, 70..75));
    check_all(&[Shape::Replaced(3)], 2, &Cast::all(2, 75..78));
}

#[test]
fn trees_of_depth_three() {
    let shapes = [Shape::Top(2), Shape::LeadAndTop(1), Shape::LeadAndOthers(2)];
    check_all(&shapes, 3, &Cast::all(3, 80..84));
    check_all(
        &[Shape::Replaced(2), Shape::Distinct(2), Shape::Sequences],
        3,
        &Cast::all(2, 84..87),
    );
}

/// Every text that `steps` of drafting and reviewing can generate, up to three tokens.
fn generate(cast: &Cast, shape: Shape, rule: Rule) -> f64 {
    let mut joint = Joint::new(&cast.target, 3);
    let mut open: Vec<(Vec<TokenId>, f64)> = vec![(Vec::new(), 1.0)];
    while let Some((context, probability)) = open.pop() {
        if context.len() >= 3 {
            joint.add(&context, probability);
            continue;
        }
        let depth = 3 - context.len();
        let said = outcomes(|chance| {
            let draft = shape.draft(&[&cast.small, &cast.base], &context, depth, chance);
            let mut rows = cast.target.rows(&context, &draft);
            let strict = LeniencePolicy::STRICT;
            let verdict = sampled::review(&draft, None, &mut rows[..], &rule, strict, chance);
            emitted(&draft, &verdict.unwrap())
        });
        for (text, conditional) in said {
            open.push(([&context[..], &text].concat(), probability * conditional));
        }
    }
    joint.error()
}

#[test]
fn step_after_step() {
    for cast in Cast::all(2, 90..92) {
        for shape in [Shape::CHAIN, Shape::Distinct(2), Shape::LeadAndTop(1)] {
            for rule in Rule::DRAWN.into_iter().filter(|&rule| fits(rule, shape)) {
                let error = generate(&cast, shape, rule);
                assert!(error < TOLERANCE, "{rule}, {shape:?}, {cast}: {error:e}");
            }
        }
    }
}
