//! The statistical check is calibrated: of samples that have the distribution, its p-values are
//! uniformly distributed, however few samples fall into a cell.

use cascade_core::toy::ToyScorer;
use cascade_core::{Architecture, Decoding, Prompt, Sampling, seed_of};
use cascade_engine::{Cascade, Options, Rule};
use cascade_eval::lossless::{Cells, agreement};

/// Seeds of checks.
const SEEDS: u64 = 500;
const LENGTH: usize = 2;

fn target(vocab_size: usize) -> ToyScorer {
    ToyScorer::target("target", vocab_size, 3)
}

/// The p-value of one check each, of plain decoding; `seed` gives that of each sample.
fn p_values(
    (vocab_size, sampling): (usize, Sampling),
    samples: u64,
    rule: Rule,
    seed: impl Fn(u64, u64) -> u64,
) -> Vec<f64> {
    let prompt = Prompt::new(Architecture::DecoderOnly, vec![1, 2]);
    let cells = Cells::new(
        &mut target(vocab_size),
        &prompt,
        &sampling,
        &[],
        LENGTH,
        samples,
    )
    .unwrap();
    assert!(cells.len() > 1);
    let builder = Cascade::builder();
    let mut cascade = builder
        .target_with("target", target(vocab_size), rule)
        .build()
        .unwrap();
    let options = Options::default()
        .with_decoding(Decoding::Sampled(sampling))
        .with_max_new_tokens(LENGTH);
    let check = |check: u64| {
        let texts: Vec<_> = (0..samples)
            .map(|sample| {
                let options = options.clone().with_seed(seed(check, sample));
                cascade.generate_tokens(&prompt, &options).unwrap().tokens
            })
            .collect();
        agreement(&cells, texts.iter().map(Vec::as_slice))
            .p_value
            .unwrap()
    };
    (0..SEEDS).map(check).collect()
}

/// Kolmogorov and Smirnov's distance from uniform numbers, by what one in a hundred exceeds.
fn distance(mut p_values: Vec<f64>) -> f64 {
    p_values.sort_unstable_by(f64::total_cmp);
    let n = p_values.len() as f64;
    let gaps = p_values.iter().enumerate().map(|(i, p)| {
        let (below, above) = (i as f64 / n, (i + 1) as f64 / n);
        (p - below).abs().max((above - p).abs())
    });
    gaps.fold(0.0, f64::max) * n.sqrt() / 1.628
}

fn hashed(check: u64, sample: u64) -> u64 {
    seed_of(seed_of(77, check), sample)
}

#[test]
#[ignore = "500 checks of up to 400 samples each: a minute in release"]
fn p_values_of_plain_decoding_are_uniform() {
    let plain = Sampling::PLAIN;
    let narrow = Sampling::new(2.0).unwrap().with_top_k(2).unwrap();
    for rule in [Rule::Coupled, Rule::Iterated] {
        for (model, samples) in [
            ((6, plain), 40),
            ((6, plain), 100),
            ((6, plain), 400),
            ((3, narrow), 60),
            ((3, narrow), 200),
        ] {
            let found = distance(p_values(model, samples, rule, hashed));
            assert!(found < 1.0, "{rule}, {model:?}, {samples} samples: {found}");
        }
    }
}

/// Checks with neighbouring seeds would share nearly all samples if seeds were counted up.
#[test]
#[ignore = "500 checks of 300 samples: seconds in release"]
fn seeds_that_are_added_are_noticed() {
    let model = (6, Sampling::PLAIN);
    let added = |check: u64, sample: u64| check + sample;
    let found = distance(p_values(model, 300, Rule::Coupled, added));
    assert!(found > 1.5, "{found}");
}
