//! Acceptance probabilities equal the theory, which is computed here from plain vectors,
//! independently of the code under test.

use cascade_core::toy::outcomes;
use cascade_core::{Distribution, Proposal, TokenId};
use cascade_verify::{LeniencePolicy, Rule, sampled};

use crate::exact::TOLERANCE;
use crate::exact::cascade::leniences;
use crate::exact::drafting::{Drafts, Shape, all_drafts};
use crate::exact::language::{Cast, Language};

const STRICT: LeniencePolicy = LeniencePolicy::STRICT;

/// Mean number of accepted tokens.
fn kept(reviewer: &Language, drafts: &Drafts, rule: Rule, leniences: LeniencePolicy) -> f64 {
    let mut mean = 0.0;
    for (draft, drafted) in drafts {
        let mut rows = reviewer.rows(&[], draft);
        let reviewed = outcomes(|chance| {
            sampled::review(draft, None, &mut rows[..], &rule, leniences, chance).unwrap()
        });
        for (verdict, probability) in reviewed {
            mean += drafted * probability * verdict.kept.len() as f64;
        }
    }
    mean
}

/// Mean number of accepted tokens if `shape` drafts from the small model.
fn kept_of(cast: &Cast, shape: Shape, depth: usize, rule: Rule, leniences: LeniencePolicy) -> f64 {
    let drafts = all_drafts(|chance| shape.draft(&[&cast.small, &cast.base], &[], depth, chance));
    kept(&cast.target, &drafts, rule, leniences)
}

fn plain(distribution: &Distribution) -> Vec<f64> {
    let vocabulary = 0..distribution.vocab_size() as TokenId;
    vocabulary
        .map(|token| distribution.probability(token))
        .collect()
}

/// p, q and q' of the first token.
fn first_rows(cast: &Cast) -> [Vec<f64>; 3] {
    [&cast.target, &cast.small, &cast.base].map(|language| plain(language.after(&[])))
}

fn sum(p: &[f64], q: &[f64], term: impl Fn(f64, f64) -> f64) -> f64 {
    p.iter().zip(q).map(|(&p, &q)| term(p, q)).sum()
}

fn normalised(weights: Vec<f64>) -> Vec<f64> {
    let total: f64 = weights.iter().sum();
    weights
        .iter()
        .map(|w| w / total.max(f64::MIN_POSITIVE))
        .collect()
}

fn residual(p: &[f64], q: &[f64]) -> Vec<f64> {
    normalised(p.iter().zip(q).map(|(p, q)| (p - q).max(0.0)).collect())
}

/// Probability that one of the draws, from `proposals` in turn, is accepted.
fn accepted_in_turn(p: &[f64], proposals: &[&[f64]]) -> f64 {
    let Some((q, others)) = proposals.split_first() else {
        return 0.0;
    };
    let accepted = sum(p, q, f64::min);
    accepted + (1.0 - accepted) * accepted_in_turn(&residual(p, q), others)
}

/// Probability that one of `width` draws from `q` without replacement is accepted.
fn accepted_without_replacement(p: &[f64], q: &[f64], width: usize) -> f64 {
    if width == 0 {
        return 0.0;
    }
    let left = residual(p, q);
    let after = |token: usize| {
        let others: Vec<f64> = q
            .iter()
            .enumerate()
            .map(|(t, &q)| if t == token { 0.0 } else { q })
            .collect();
        let none_left = others.iter().sum::<f64>() == 0.0;
        let width = if none_left { 0 } else { width - 1 };
        accepted_without_replacement(&left, &normalised(others), width)
    };
    let terms = p.iter().zip(q).enumerate().filter(|&(_, (_, &q))| q > 0.0);
    terms
        .map(|(token, (&p, &q))| p.min(q) + (q - p).max(0.0) * after(token))
        .sum()
}

#[track_caller]
fn assert_close(found: f64, theory: f64, case: &dyn std::fmt::Display) {
    assert!(
        (found - theory).abs() < TOLERANCE,
        "{case}: {found}, not {theory}"
    );
}

fn casts() -> Vec<Cast> {
    let mut casts = Cast::all(3, 400..420);
    casts.extend(Cast::all(5, 420..425));
    casts
}

#[test]
fn of_one_draw_is_the_overlap() {
    for cast in casts() {
        let [p, q, _] = first_rows(&cast);
        let rejected = sum(&p, &q, |p, q| (p - q).abs()) / 2.0;
        for rule in [Rule::Speculative, Rule::Iterated, Rule::SpecInfer] {
            let found = kept_of(&cast, Shape::CHAIN, 1, rule, STRICT);
            assert_close(found, sum(&p, &q, f64::min), &cast);
            assert_close(found, 1.0 - rejected, &cast);
        }
        let found = kept_of(&cast, Shape::CHAIN, 1, Rule::Match, STRICT);
        assert_close(found, sum(&p, &q, |p, q| p * q), &cast);
    }
}

#[test]
fn of_one_draw_grows_with_lenience() {
    for cast in casts() {
        let [p, q, _] = first_rows(&cast);
        for lenience in [1.5f32, 3.0] {
            let loosely = sum(&p, &q, |p, q| q.min(f64::from(lenience) * p));
            let loose = leniences(lenience, 1.0);
            for rule in Rule::DRAWN {
                assert_close(kept_of(&cast, Shape::CHAIN, 1, rule, loose), loosely, &cast);
            }
            let favourite = cast.small.after(&[]).top(1)[0] as usize;
            let point = (f64::from(lenience) * p[favourite]).min(1.0);
            let loose = leniences(1.0, lenience);
            for rule in Rule::DRAWN {
                assert_close(kept_of(&cast, Shape::Top(1), 1, rule, loose), point, &cast);
            }
        }
    }
}

/// No exact rule can do better, and none does worse.
#[test]
fn of_fixed_tokens_is_their_probability() {
    for cast in casts() {
        let p = cast.target.after(&[]);
        for width in 1..=3 {
            let fixed = cast.small.after(&[]).top(width);
            let theory: f64 = fixed.iter().map(|&token| p.probability(token)).sum();
            for rule in Rule::DRAWN {
                let found = kept_of(&cast, Shape::Top(width), 1, rule, STRICT);
                assert_close(found, theory, &cast);
            }
        }
    }
}

#[test]
fn of_several_draws_with_replacement() {
    for cast in Cast::all(3, 430..440) {
        let [p, q, _] = first_rows(&cast);
        for width in 1..=3 {
            let shape = Shape::Replaced(width);
            let in_turn = accepted_in_turn(&p, &vec![&q[..]; width]);
            for rule in [Rule::Iterated, Rule::SpecInfer] {
                assert_close(kept_of(&cast, shape, 1, rule, STRICT), in_turn, &cast);
            }
            let missed = |q: f64, draws: usize| (1.0 - q).powi(draws as i32);
            let matched = sum(&p, &q, |p, q| p * (1.0 - missed(q, width)));
            assert_close(
                kept_of(&cast, shape, 1, Rule::Match, STRICT),
                matched,
                &cast,
            );
            // The first draw, or a token of the residual that is among the others.
            let others = sum(&p, &q, |p, q| {
                (p - q).max(0.0) * (1.0 - missed(q, width - 1))
            });
            let found = kept_of(&cast, shape, 1, Rule::Speculative, STRICT);
            assert_close(found, sum(&p, &q, f64::min) + others, &cast);
        }
    }
}

#[test]
fn of_several_draws_without_replacement() {
    for cast in Cast::all(4, 440..445) {
        let [p, q, _] = first_rows(&cast);
        for width in 1..=4 {
            let theory = accepted_without_replacement(&p, &q, width);
            let found = kept_of(&cast, Shape::Distinct(width), 1, Rule::Iterated, STRICT);
            assert_close(found, theory, &cast);
        }
    }
}

/// The draw, or a token of the residual that is among its siblings.
#[test]
fn of_a_draw_and_fixed_tokens_beside_it() {
    for cast in casts() {
        let [p, q, _] = first_rows(&cast);
        let left = |token: &TokenId| (p[*token as usize] - q[*token as usize]).max(0.0);
        let one = sum(&p, &q, f64::min);
        for width in 1..=3 {
            let fixed = cast.small.after(&[]).top(width);
            let theory = one + fixed.iter().map(left).sum::<f64>();
            for rule in [Rule::Speculative, Rule::Iterated] {
                let found = kept_of(&cast, Shape::LeadAndTop(width), 1, rule, STRICT);
                assert_close(found, theory, &cast);
            }
        }
    }
}

/// The siblings depend on the draw, but the residual does not.
#[test]
fn of_a_draw_and_the_best_of_the_others() {
    for cast in casts() {
        let [p, q, _] = first_rows(&cast);
        let left = residual(&p, &q);
        for width in 1..=2 {
            let mut theory = 0.0;
            for (lead, (&p, &q)) in p.iter().zip(&q).enumerate() {
                let top = cast.small.after(&[]).top(width + 1);
                let others = top.iter().filter(|&&token| token as usize != lead);
                let hit: f64 = others.take(width).map(|&token| left[token as usize]).sum();
                theory += p.min(q) + (q - p).max(0.0) * hit;
            }
            let found = kept_of(
                &cast,
                Shape::LeadAndOthers(width),
                1,
                Rule::Iterated,
                STRICT,
            );
            assert_close(found, theory, &cast);
        }
    }
}

#[test]
fn of_several_models_draws() {
    for cast in Cast::all(4, 450..460) {
        let [p, q, other] = first_rows(&cast);
        let one = accepted_in_turn(&p, &[&q, &other]);
        let two = accepted_in_turn(&p, &[&other, &q]);
        let found = kept_of(&cast, Shape::Sequences, 1, Rule::Iterated, STRICT);
        assert_close(found, one, &cast);
        let found = kept_of(&cast, Shape::Sequences, 1, Rule::SpecInfer, STRICT);
        assert_close(found, (one + two) / 2.0, &cast);
    }
}

/// Mean number of accepted tokens of a chain after `context`.
fn mean_kept(cast: &Cast, context: &[TokenId], depth: usize) -> f64 {
    if depth == 0 {
        return 0.0;
    }
    let p = plain(cast.target.after(context));
    let q = plain(cast.small.after(context));
    let kept = |token: usize| {
        let kept = p[token].min(q[token]);
        let context = [context, &[token as TokenId]].concat();
        kept * (1.0 + mean_kept(cast, &context, depth - 1))
    };
    (0..p.len()).map(kept).sum()
}

#[test]
fn of_chains_is_a_product_of_overlaps() {
    for cast in Cast::all(3, 460..465) {
        for depth in 1..=3 {
            let found = kept_of(&cast, Shape::CHAIN, depth, Rule::Iterated, STRICT);
            assert_close(found, mean_kept(&cast, &[], depth), &cast);
        }
    }
}

/// Mean number of rejections until three tokens are emitted, each draft reaching that length.
fn rejections(cast: &Cast, context: &[TokenId]) -> f64 {
    let depth = 3usize.saturating_sub(context.len());
    if depth == 0 {
        return 0.0;
    }
    let said = outcomes(|chance| {
        let draft = Shape::CHAIN.draft(&[&cast.small], context, depth, chance);
        let mut rows = cast.target.rows(context, &draft);
        let verdict = sampled::review(
            &draft,
            None,
            &mut rows[..],
            &Rule::Speculative,
            STRICT,
            chance,
        );
        crate::exact::joint::emitted(&draft, &verdict.unwrap())
    });
    let after = |(text, probability): (Vec<TokenId>, f64)| {
        if text.len() > depth {
            return 0.0;
        }
        probability * (1.0 + rejections(cast, &[context, &text].concat()))
    };
    said.into_iter().map(after).sum()
}

/// Σ E[TV(p, q)] over the texts of the target.
fn expected_distance(cast: &Cast, context: &[TokenId]) -> f64 {
    if context.len() == 3 {
        return 0.0;
    }
    let p = plain(cast.target.after(context));
    let q = plain(cast.small.after(context));
    let after =
        |token: usize| p[token] * expected_distance(cast, &[context, &[token as TokenId]].concat());
    sum(&p, &q, |p, q| (p - q).abs()) / 2.0 + (0..p.len()).map(after).sum::<f64>()
}

/// Expected rejections are Σ_t E[TV(p_t, q_t)] over the target's texts (theory of rejections).
#[test]
fn rejections_are_the_expected_distance() {
    for cast in Cast::all(2, 470..475) {
        assert_close(rejections(&cast, &[]), expected_distance(&cast, &[]), &cast);
    }
}

/// A verdict of a strict review reports the rows as its proposals.
#[test]
fn strict_reviews_emit_the_rows() {
    let cast = &Cast::all(3, 480..481)[0];
    let drafts = all_drafts(|chance| Shape::Distinct(2).draft(&[&cast.small], &[], 2, chance));
    for (draft, _) in &drafts {
        let rows = cast.target.rows(&[], draft);
        for (verdict, _) in outcomes(|chance| {
            let rows = &mut rows.clone()[..];
            sampled::review(draft, None, rows, &Rule::Iterated, STRICT, chance).unwrap()
        }) {
            let nodes = std::iter::once(0).chain(verdict.kept.iter().map(|node| node + 1));
            let expected: Vec<_> = nodes.map(|i| Proposal::Sampled(rows[i].clone())).collect();
            assert_eq!(verdict.emitted, expected);
        }
    }
}
