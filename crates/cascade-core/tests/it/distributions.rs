//! Properties of every distribution, in each of its forms: dense in f32 and f64, and sparse.

use cascade_core::{Distribution, Sampling, TokenId};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Logits with masked tokens, ties and a wide range, over several blocks or less than one.
fn logits() -> impl Strategy<Value = Vec<f32>> {
    let logit = prop_oneof![
        6 => -10f32..10.0,
        2 => (-3i8..4).prop_map(f32::from),
        1 => Just(f32::NEG_INFINITY),
        1 => -200f32..0.0,
    ];
    select(vec![1usize, 2, 7, 64, 65, 200, 700])
        .prop_flat_map(move |n| vec(logit.clone(), n))
        .prop_filter("a token to draw", |logits| {
            logits.iter().any(|l| l.is_finite())
        })
}

fn sampling() -> impl Strategy<Value = Sampling> {
    let top_k = prop::option::of(1usize..100);
    let top_p = prop::option::of(0.05f32..1.0);
    let min_p = prop::option::of(0f32..1.0);
    (0.1f32..2.0, top_k, top_p, min_p).prop_map(|(temperature, top_k, top_p, min_p)| {
        let mut sampling = Sampling::new(temperature).unwrap();
        if let Some(k) = top_k {
            sampling = sampling.with_top_k(k).unwrap();
        }
        if let Some(p) = top_p {
            sampling = sampling.with_top_p(p).unwrap();
        }
        min_p.map_or(sampling, |p| sampling.with_min_p(p).unwrap())
    })
}

/// Any form: weights in f64 with zeros, a few tokens of many, or a row of logits.
fn distribution(vocab_size: usize) -> impl Strategy<Value = Distribution> {
    let weight = prop_oneof![3 => 0f64..1.0, 1 => Just(0.0), 1 => (0u8..4).prop_map(f64::from)];
    let double =
        vec(weight, vocab_size).prop_filter_map("mass", |weights| Distribution::new(weights).ok());
    let few = prop::collection::btree_map(0..vocab_size as TokenId, 1e-3f64..1.0, 1..9);
    let sparse = few.prop_map(move |few| {
        Distribution::from_support(vocab_size, few.into_iter().collect()).unwrap()
    });
    let single = (vec(-10f32..10.0, vocab_size), sampling())
        .prop_map(|(logits, sampling)| sampling.distribution(&logits).unwrap());
    prop_oneof![double, sparse, single]
}

fn pair() -> impl Strategy<Value = (Distribution, Distribution)> {
    select(vec![1usize, 5, 64, 100, 300]).prop_flat_map(|n| (distribution(n), distribution(n)))
}

fn each(distribution: &Distribution) -> Vec<f64> {
    let tokens = 0..distribution.vocab_size() as TokenId;
    tokens.map(|t| distribution.probability(t)).collect()
}

/// The transforms by their definitions: a full sort, and sums from the top.
fn by_definition(
    logits: &[f32],
    temperature: f32,
    top_k: usize,
    top_p: f64,
    min_p: f64,
) -> Vec<f64> {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weigh = |l: f32| (f64::from(l - max) / f64::from(temperature)).exp();
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    order.truncate(top_k);
    let total: f64 = order.iter().map(|&t| weigh(logits[t])).sum();
    let mut kept = vec![0.0; logits.len()];
    let mut before = 0.0;
    for token in order {
        let weight = weigh(logits[token]);
        if before < top_p * total && weight >= min_p {
            kept[token] = weight;
        }
        before += weight;
    }
    let total: f64 = kept.iter().sum();
    kept.iter().map(|k| k / total).collect()
}

proptest! {
    #[test]
    fn probabilities_sum_to_one((p, _) in pair()) {
        let each = each(&p);
        prop_assert!((each.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        let support = p.support();
        prop_assert!(support.is_sorted_by_key(|s| s.0));
        prop_assert!(support.iter().all(|&(t, x)| x > 0.0 && x == each[t as usize]));
        prop_assert_eq!(support.len(), each.iter().filter(|&&x| x > 0.0).count());
    }

    #[test]
    fn quantiles_give_each_token_its_share((p, _) in pair()) {
        const GRID: u32 = 20_000;
        let mut counts = vec![0u32; p.vocab_size()];
        let mut last = 0;
        for i in 0..GRID {
            let token = p.at_quantile(f64::from(i) / f64::from(GRID));
            prop_assert!(token >= last);
            last = token;
            counts[token as usize] += 1;
        }
        for (token, (&count, share)) in counts.iter().zip(each(&p)).enumerate() {
            let expected = share * f64::from(GRID);
            prop_assert!((f64::from(count) - expected).abs() < 1.0 + 1e-6, "{}", token);
            prop_assert!(share > 0.0 || count == 0);
        }
        for quantile in [0.0, 1e-300, 1.0 - f64::EPSILON / 2.0, 1.0] {
            prop_assert!(p.probability(p.at_quantile(quantile)) > 0.0);
        }
    }

    #[test]
    fn what_overlaps_and_what_is_left_make_up_the_whole((p, q) in pair()) {
        let pairs: Vec<(f64, f64)> = each(&p).into_iter().zip(each(&q)).collect();
        let overlap: f64 = pairs.iter().map(|&(p, q)| p.min(q)).sum();
        let left: f64 = pairs.iter().map(|&(p, q)| (p - q).max(0.0)).sum();
        prop_assert!((p.overlap(&q) - overlap).abs() < 1e-12);
        prop_assert!((p.total_variation(&q) - left).abs() < 1e-12);
        prop_assert!((p.overlap(&q) + p.total_variation(&q) - 1.0).abs() < 1e-12);
        prop_assert!((p.overlap(&q) - q.overlap(&p)).abs() < 1e-12);
        if left > 1e-9 {
            let residual = p.residual(&q).unwrap();
            for (token, &(p, q)) in pairs.iter().enumerate() {
                let found = residual.probability(token as TokenId) * left;
                prop_assert!((found - (p - q).max(0.0)).abs() < 1e-12);
            }
        }
        prop_assert!(p.residual(&p).is_none());
    }

    #[test]
    fn zips_are_what_they_say((p, q) in pair()) {
        let f = |p: f64, q: f64| p * (1.0 + q);
        let expected: Vec<f64> = each(&p).into_iter().zip(each(&q)).map(|(p, q)| f(p, q)).collect();
        let sum: f64 = expected.iter().sum();
        prop_assert!((p.zip_sum(&q, f) - sum).abs() < 1e-12);
        let zipped = p.zip(&q, f).unwrap();
        for (found, expected) in each(&zipped).into_iter().zip(expected) {
            prop_assert!((found - expected / sum).abs() < 1e-12);
        }
    }

    #[test]
    fn removing_tokens_leaves_the_others((p, _) in pair(), tokens in vec(0u32..320, 0..5)) {
        let left = |t: TokenId| if tokens.contains(&t) { 0.0 } else { p.probability(t) };
        let mass: f64 = (0..p.vocab_size() as TokenId).map(left).sum();
        match p.without(&tokens) {
            None => prop_assert_eq!(mass, 0.0),
            Some(rest) => for t in 0..p.vocab_size() as TokenId {
                prop_assert!((rest.probability(t) * mass - left(t)).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn the_top_are_the_most_probable((p, _) in pair(), n in 0usize..350) {
        let mut support = p.support();
        support.sort_by(|a, b| b.1.total_cmp(&a.1));
        let expected: Vec<TokenId> = support.iter().map(|s| s.0).take(n).collect();
        prop_assert_eq!(p.top(n), expected);
    }

    #[test]
    fn truncations_follow_their_definitions(
        logits in logits(),
        temperature in 0.1f32..2.0,
        k in 1usize..100,
        top_p in 0.05f32..1.0,
        min_p in 0f32..1.0,
        which in 0u8..8,
    ) {
        let mut sampling = Sampling::new(temperature).unwrap();
        let (mut by_k, mut by_p, mut by_min) = (usize::MAX, f64::INFINITY, 0.0);
        if which & 1 != 0 {
            (sampling, by_k) = (sampling.with_top_k(k).unwrap(), k);
        }
        if which & 2 != 0 {
            (sampling, by_p) = (sampling.with_top_p(top_p).unwrap(), f64::from(top_p));
        }
        if which & 4 != 0 {
            (sampling, by_min) = (sampling.with_min_p(min_p).unwrap(), f64::from(min_p));
        }
        let found = sampling.distribution(&logits).unwrap();
        let expected = by_definition(&logits, temperature, by_k, by_p, by_min);
        for (found, expected) in each(&found).into_iter().zip(expected) {
            prop_assert!((found - expected).abs() < 2e-6, "{} {}", found, expected);
        }
    }

    #[test]
    fn truncations_are_nested(logits in logits(), k in 1usize..50, p in 0.05f32..0.9, m in 0.01f32..0.5) {
        let one = Sampling::new(1.0).unwrap();
        let tokens = |sampling: Sampling| {
            let support = sampling.distribution(&logits).unwrap().support();
            support.into_iter().map(|s| s.0).collect::<std::collections::BTreeSet<_>>()
        };
        let all = tokens(one);
        for (narrow, wide) in [
            (one.with_top_k(k), one.with_top_k(k + 3)),
            (one.with_top_p(p), one.with_top_p(p + 0.05)),
            (one.with_min_p(m * 1.5), one.with_min_p(m)),
        ] {
            let (narrow, wide) = (tokens(narrow.unwrap()), tokens(wide.unwrap()));
            prop_assert!(!narrow.is_empty());
            prop_assert!(narrow.is_subset(&wide) && wide.is_subset(&all));
        }
    }
}

#[test]
fn exactly_k_of_equals_are_kept_the_lower_ids_first() {
    let mut logits = vec![1.0; 300];
    logits[250] = 2.0;
    let of = |sampling: Sampling| sampling.distribution(&logits).unwrap().support();
    let one = Sampling::new(1.0).unwrap();
    for k in [1, 2, 3, 65, 200] {
        let support = of(one.with_top_k(k).unwrap());
        let mut expected: Vec<TokenId> = (0..k as TokenId - 1).collect();
        expected.push(250);
        assert_eq!(support.iter().map(|s| s.0).collect::<Vec<_>>(), expected);
    }
    // The most probable token has e of 299 + e in total; then come the lowest ids.
    let nucleus = of(one.with_top_p(0.5).unwrap());
    assert_eq!(nucleus.len(), 150);
    assert_eq!(nucleus[148].0, 148);
}

#[test]
fn a_flat_row_of_a_whole_vocabulary_is_cut_where_it_should_be() {
    let logits: Vec<f32> = (0..32_128u16).map(|t| f32::from(t) * 1e-6).collect();
    let sampling = Sampling::new(1.0).unwrap().with_top_p(0.9).unwrap();
    let support = sampling.distribution(&logits).unwrap().support();
    // The last tokens are the most probable ones, but by so little that the distribution is nearly
    // uniform.
    assert!(support.len().abs_diff(28_900) < 100, "{}", support.len());
    assert_eq!(support[support.len() - 1].0, 32_127);
    assert_eq!(support[0].0 as usize, 32_128 - support.len());
}

#[test]
fn extreme_temperatures_are_limits() {
    let logits = [1.0, f32::NEG_INFINITY, 3.0, 2.0];
    let of = |temperature| {
        let sampling = Sampling::new(temperature).unwrap();
        each(&sampling.distribution(&logits).unwrap())
    };
    assert_eq!(of(f32::MIN_POSITIVE), [0.0, 0.0, 1.0, 0.0]);
    assert_eq!(of(f32::from_bits(1)), [0.0, 0.0, 1.0, 0.0]);
    let flat = of(f32::MAX);
    assert!(
        flat.iter()
            .all(|&p| p == 0.0 || (p - 1.0 / 3.0).abs() < 1e-12)
    );
    assert_eq!(flat[1], 0.0);
}
