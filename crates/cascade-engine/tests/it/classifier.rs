//! DISCO's classifier: when it stops, and that the output remains the target's.

use std::sync::Arc;

use cascade_core::toy::ToyScorer;
use cascade_core::{Decoding, Prompt, Sampling, Scorer, TokenId, TokenTree, Want};
use cascade_engine::{
    CLASSIFIER_FEATURES, Cascade, Classifier, ClassifierWeights, InvalidNetwork, Options,
    classifier_features,
};
use statrs::distribution::{ChiSquared, ContinuousCDF};

use crate::common::matrix;

const VOCABULARY: usize = 4;

/// Weights that read one feature: p = σ(scale·relu(feature − from) + bias).
fn reading(feature: usize, from: f32, scale: f32, bias: f32) -> ClassifierWeights {
    let mut hidden = vec![0.0; CLASSIFIER_FEATURES];
    hidden[feature] = 1.0;
    ClassifierWeights {
        mean: vec![0.0; CLASSIFIER_FEATURES],
        deviation: vec![1.0; CLASSIFIER_FEATURES],
        hidden,
        hidden_bias: vec![-from],
        output: vec![scale],
        output_bias: bias,
    }
}

fn cascade(rule: Option<Classifier>) -> Cascade {
    let builder = Cascade::builder()
        .target("target", ToyScorer::target("target", VOCABULARY, 7))
        .neural(
            "drafter",
            ToyScorer::drafter("drafter", VOCABULARY, 7, 1, 200),
        )
        .k_matrix(matrix(&[&[8]]));
    match rule {
        Some(rule) => builder.stop_rule(rule).build().unwrap(),
        None => builder.build().unwrap(),
    }
}

fn prompt() -> Prompt {
    Prompt {
        context: vec![1, 2, 3],
        ..Prompt::default()
    }
}

fn rule(weights: ClassifierWeights, threshold: f32, longest: usize) -> Classifier {
    Classifier::new(Arc::new(weights), threshold, longest).unwrap()
}

/// The drafted tokens of each step.
fn drafted(rule: Option<Classifier>, tokens: usize) -> Vec<usize> {
    let options = Options::default().with_max_new_tokens(tokens);
    let mut with = cascade(rule);
    let output = with.generate_tokens(&prompt(), &options).unwrap();
    let plain = options.with_speculation(false);
    let plain = with.generate_tokens(&prompt(), &plain).unwrap();
    assert_eq!(output.tokens, plain.tokens);
    output.steps.iter().map(|step| step.drafted).collect()
}

#[test]
fn a_draft_ends_after_the_first_token_that_is_found_to_be_rejected() {
    // Up to position 9 of the generation p = 0.73; from there on it falls.
    let by_position = || reading(CLASSIFIER_FEATURES - 1, 9.0, -3.0, 1.0);
    let steps = drafted(Some(rule(by_position(), 0.5, 99)), 60);
    let free = drafted(None, 60);
    assert!(free.contains(&8), "{free:?}");
    // The first draft is as long as without the rule. Behind position 9 each ends with its first
    // token, so from the tenth step on at the latest.
    assert_eq!(steps[0], free[0]);
    assert!(steps[10..].iter().all(|&tokens| tokens <= 1), "{steps:?}");
    assert!(steps.len() > 25, "{steps:?}");
}

#[test]
fn the_longest_draft_is_the_longest() {
    let certain = || reading(0, 0.0, 0.0, 5.0);
    let steps = drafted(Some(rule(certain(), 0.5, 3)), 40);
    assert!(
        steps[..steps.len() - 3].iter().all(|&tokens| tokens == 3),
        "{steps:?}"
    );
    let never = drafted(Some(rule(certain(), 1.0, 99)), 40);
    assert!(
        never[..never.len() - 1].iter().all(|&tokens| tokens == 1),
        "{never:?}"
    );
}

#[test]
fn features_are_probabilities_entropy_and_position() {
    let features = classifier_features(&[(7, 0.6), (3, 0.3)], 0.9, 12);
    assert_eq!(features[..3], [0.6, 0.3, 0.0]);
    assert_eq!(features[CLASSIFIER_FEATURES - 2..], [0.9, 12.0]);
    // σ(2·relu(0.6 − 0.1) − 1) = σ(0).
    assert!((reading(0, 0.1, 2.0, -1.0).probability(&features) - 0.5).abs() < 1e-6);
}

#[test]
fn weights_that_are_none_are_refused_by_part() {
    let good = reading(0, 0.0, 1.0, 0.0);
    let refused = |weights: ClassifierWeights, threshold, longest| {
        Classifier::new(Arc::new(weights), threshold, longest)
            .unwrap_err()
            .to_string()
    };
    let mut bad = good.clone();
    bad.deviation[4] = 0.0;
    assert!(refused(bad, 0.5, 4).contains("`deviation` has the number 0"));
    let mut bad = good.clone();
    bad.hidden.pop();
    assert!(refused(bad, 0.5, 4).contains("`hidden.weight` has 11 numbers, and 12"));
    let mut bad = good.clone();
    bad.output_bias = f32::NAN;
    assert!(refused(bad, 0.5, 4).contains("`output.bias`"));
    assert!(refused(good.clone(), 1.5, 4).contains("not 1.5"));
    let none = Classifier::new(Arc::new(good), 0.5, 0).unwrap_err();
    assert_eq!(none, InvalidNetwork::NoTokens);
}

/// The target's probabilities after a text.
fn target_row(text: &[TokenId]) -> Vec<f64> {
    let mut target = ToyScorer::target("target", VOCABULARY, 7);
    let context = [&prompt().context[..], text].concat();
    let scores = target
        .score(&context, &TokenTree::new(), Want::LOGITS)
        .unwrap();
    let logits = scores.logits.unwrap();
    let row = logits.row(0);
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights: Vec<f64> = row.iter().map(|z| f64::from(z - most).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|w| w / sum).collect()
}

/// The greatest probability of the drafter after a text.
fn greatest_probability(text: &[TokenId]) -> f32 {
    let mut drafter = ToyScorer::drafter("drafter", VOCABULARY, 7, 1, 200);
    let context = [&prompt().context[..], text].concat();
    let want = Want::ARGMAX.with_top(1);
    let scores = drafter.score(&context, &TokenTree::new(), want).unwrap();
    scores.top.unwrap().row(0)[0].1
}

#[test]
fn samples_are_the_targets_whatever_the_classifier_says() {
    const RUNS: usize = 8_000;
    // Stops depending on what was drawn before: on the drafter's greatest probability after it.
    let greatest: Vec<f32> = (0..VOCABULARY as TokenId)
        .map(|token| greatest_probability(&[token]))
        .collect();
    let most = greatest.iter().copied().fold(0.0, f32::max);
    let least = greatest.iter().copied().fold(1.0, f32::min);
    assert!(least < most);
    let middle = (least + most) / 2.0;
    // Whichever side of the middle the first row is on, it is not the one that stops.
    let side = if greatest_probability(&[]) >= middle {
        40.0
    } else {
        -40.0
    };
    let by_confidence = reading(0, 0.0, side, -side * middle);
    let mut cascade = cascade(Some(rule(by_confidence, 0.5, 5)));
    let mut counts = [0usize; VOCABULARY * VOCABULARY];
    let mut shapes = std::collections::BTreeSet::new();
    for seed in 0..RUNS {
        let options = Options::default()
            .with_max_new_tokens(4)
            .with_decoding(Decoding::Sampled(Sampling::new(1.0).unwrap()))
            .with_seed(seed as u64);
        let output = cascade.generate_tokens(&prompt(), &options).unwrap();
        counts[output.tokens[0] as usize * VOCABULARY + output.tokens[1] as usize] += 1;
        shapes.insert(output.steps[0].drafted);
    }
    assert!(shapes.len() > 1, "all first drafts have {shapes:?} tokens");
    let mut statistic = 0.0;
    for (first, p) in target_row(&[]).into_iter().enumerate() {
        for (second, q) in target_row(&[first as TokenId]).into_iter().enumerate() {
            let expected = RUNS as f64 * p * q;
            let found = counts[first * VOCABULARY + second] as f64;
            assert!(expected > 0.0);
            statistic += (found - expected).powi(2) / expected;
        }
    }
    let degrees = (VOCABULARY * VOCABULARY - 1) as f64;
    let p = 1.0 - ChiSquared::new(degrees).unwrap().cdf(statistic);
    assert!(p > 1e-4, "χ² = {statistic}, p = {p}");
}
