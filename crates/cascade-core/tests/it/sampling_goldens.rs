//! Temperature, top-k, top-p and min-p, compared with Hugging Face transformers
//! (`tests/goldens/sampling_hf.py`).

use cascade_core::{Sampling, TokenId};
use serde_json::Value;

fn row(golden: &Value) -> Vec<f32> {
    let logits = golden["logits"].as_array().unwrap().iter();
    logits
        .map(|logit| logit.as_f64().map_or(f32::NEG_INFINITY, |l| l as f32))
        .collect()
}

fn sampling(case: &Value) -> Sampling {
    let number = |key: &str| case[key].as_f64().map(|number| number as f32);
    let mut sampling = Sampling::new(number("temperature").unwrap()).unwrap();
    if let Some(k) = case["top_k"].as_u64() {
        sampling = sampling.with_top_k(k as usize).unwrap();
    }
    if let Some(p) = number("top_p") {
        sampling = sampling.with_top_p(p).unwrap();
    }
    if let Some(p) = number("min_p") {
        sampling = sampling.with_min_p(p).unwrap();
    }
    sampling
}

#[test]
fn distributions_are_those_of_transformers() {
    let goldens = include_str!("../../../../tests/goldens/sampling.json");
    let goldens: Vec<Value> = serde_json::from_str(goldens).unwrap();
    let mut compared = 0;
    for golden in &goldens {
        let logits = row(golden);
        for case in golden["cases"].as_array().unwrap() {
            let sampling = sampling(case);
            let what = format!("{} of {}: {sampling:?}", golden["name"], logits.len());
            let found = sampling.distribution(&logits).unwrap().support();
            let tokens: Vec<TokenId> = case["tokens"]
                .as_array()
                .unwrap()
                .iter()
                .map(|t| t.as_u64().unwrap() as TokenId)
                .collect();
            assert_eq!(
                found.iter().map(|s| s.0).collect::<Vec<_>>(),
                tokens,
                "{what}"
            );
            let probabilities = case["probabilities"].as_array().unwrap();
            for ((token, found), expected) in found.iter().zip(probabilities) {
                let expected = expected.as_f64().unwrap();
                let error = (found - expected).abs();
                // Rounding of a logit over the temperature is magnified by the exponential.
                let bound = (expected * 1e-4).min(1e-6);
                assert!(error <= bound, "{what}: token {token}: {found} {expected}");
            }
            compared += 1;
        }
    }
    assert_eq!(compared, 5 * 18 + 4 * 8);
}
